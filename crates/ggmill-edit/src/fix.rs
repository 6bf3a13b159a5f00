//! The fixes that checking proposes, applied: as edits of the metadata, with a rewrite of the file
//! where one is asked for.

use std::path::Path;

use ggmill_check::{Fix, FixValue};
use ggmill_pipeline::{Error, ErrorKind, Report, Result};
use ggmill_text::Glob;

use crate::{Edit, EditValue, Editor, KeyType};

impl Edit {
    /// The edit that a fix stands for; `None` for one that rewrites the file.
    ///
    /// ```
    /// use ggmill_check::Fix;
    /// use ggmill_edit::Edit;
    /// let fix = Fix::Rename { from: "general.naem".into(), to: "general.name".into() };
    /// assert_eq!(Edit::from_fix(&fix)?, Some(Edit::Rename { from: "general.naem".into(), to: "general.name".into() }));
    /// assert_eq!(Edit::from_fix(&Fix::Rewrite)?, None);
    /// # Ok::<(), ggmill_pipeline::Error>(())
    /// ```
    ///
    /// Fails for a value of a type that no edit sets.
    pub fn from_fix(fix: &Fix) -> Result<Option<Self>> {
        Ok(match fix {
            Fix::Set { key, value_type, value } => {
                let key_type: KeyType = value_type.to_string().parse().map_err(|error| {
                    Error::caused(ErrorKind::Edit, crate::EditSyntaxError::KeyType(error))
                })?;
                Some(Self::Set {
                    key: key.clone(),
                    key_type: Some(key_type),
                    value: edit_value(value),
                })
            }
            Fix::Rename { from, to } => Some(Self::Rename { from: from.clone(), to: to.clone() }),
            Fix::Unset { key } => Some(Self::Unset(Glob::literal(key))),
            _ => None,
        })
    }
}

/// The value as an edit that says its type has it.
fn edit_value(value: &FixValue) -> EditValue {
    match value {
        FixValue::String(text) => EditValue::Text(text.clone()),
        other => EditValue::Text(other.to_string()),
    }
}

/// Applies fixes to a file: its metadata is edited, in place where that is safe, or the file is
/// rewritten as version 3 with the edits where a fix asks for it. It is locked meanwhile, and the
/// old file stays until the new one is whole. Gives what a person should know of the edits.
///
/// Fails as [`Editor::apply`] does, for one shard of a set that would have to be rewritten, and
/// when `progress` stops it. Nothing has been changed then.
pub fn apply_fixes<'a>(
    path: &Path,
    fixes: impl IntoIterator<Item = &'a Fix>,
    progress: &mut Report<'_>,
) -> Result<Vec<String>> {
    let (mut edits, mut rewrites) = (Vec::new(), false);
    for fix in fixes {
        rewrites |= *fix == Fix::Rewrite;
        edits.extend(Edit::from_fix(fix)?);
    }
    if edits.is_empty() && !rewrites {
        return Ok(Vec::new());
    }
    let mut editor = Editor::open(path)?;
    let edited = if edits.is_empty() { editor.unchanged()? } else { editor.edit(&edits)? };
    let plan = if rewrites { editor.plan_rewrite(edited)? } else { editor.plan(edited)? };
    let notes = plan.edited().notes().to_vec();
    editor.apply(plan, progress)?;
    Ok(notes)
}
