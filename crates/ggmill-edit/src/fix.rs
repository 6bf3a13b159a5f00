//! The fixes that checking proposes, applied: as edits of the metadata, and as one rewrite of the
//! file.

use std::path::Path;

use ggmill_check::Fix;
use ggmill_io::{FileSink, Overwrite};
use ggmill_pipeline::{Error, ErrorKind, GgufCheckpoint, Report, Result, RunOptions, run};
use ggmill_text::Glob;

use crate::{Edit, EditValue, Editor, KeyType, RepackOptions, repack};

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
                    value: EditValue::Json(value.clone()),
                })
            }
            Fix::Rename { from, to } => Some(Self::Rename { from: from.clone(), to: to.clone() }),
            Fix::Unset { key } => Some(Self::Unset(Glob::literal(key))),
            _ => None,
        })
    }
}

/// Applies fixes to a file: its metadata are edited, in place where that is safe, and then the file
/// is rewritten as version 3 where a fix asks for it. The old file stays until the new one is
/// whole. Gives what a person should know of the edits.
///
/// Fails as [`Editor::apply`] does, and when `progress` stops it; what was done until then is a
/// whole file.
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
    let mut notes = Vec::new();
    if !edits.is_empty() {
        let mut editor = Editor::open(path)?;
        let edited = editor.edit(&edits)?;
        let plan = editor.plan(&edited)?;
        editor.apply(plan, &edited, progress)?;
        notes.extend_from_slice(edited.notes());
    }
    if rewrites {
        rewrite(path, progress)?;
    }
    Ok(notes)
}

/// Lays the file out again as version 3.
fn rewrite(path: &Path, progress: &mut Report<'_>) -> Result<()> {
    let checkpoint = GgufCheckpoint::open(path)?;
    let options = RepackOptions { version: Some(3), ..RepackOptions::default() };
    let plan = repack(&checkpoint, &options)?.plan(&checkpoint)?;
    let mut sink = FileSink::create(path, Overwrite::Replace)?;
    sink.reserve(plan.layout().total_len())?;
    run(&plan, &checkpoint, sink, &RunOptions::default(), progress)?.commit()?;
    Ok(())
}
