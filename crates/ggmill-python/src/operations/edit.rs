//! Edits of metadata, in place or in a copy.

use std::path::PathBuf;

use ggmill::RawStr;
use ggmill::edit::{
    Edit, EditFindings, EditMethod, EditValue, Editor, TypedValue, broken_templates, edit_findings,
};
use pyo3::prelude::*;

use super::output::{json, start};
use crate::error::{Failure, Result};
use crate::progress::reporting;
use crate::value::Given;

/// A value to set: the key, its types from the outside in or none, and the value; without types, it
/// is JSON.
type Setting<'py> = (String, Option<Vec<u32>>, Bound<'py, PyAny>);

/// Edits the metadata of a file; returns what was done as JSON.
#[pyfunction]
#[pyo3(signature = (
    path, *, set = vec![], unset = vec![], rename = vec![], special_tokens = vec![],
    output = None, overwrite = false, check = true, dry_run = false, progress = None
))]
pub(crate) fn edit<'py>(
    py: Python<'py>,
    path: PathBuf,
    set: Vec<Setting<'py>>,
    unset: Vec<String>,
    rename: Vec<(String, String)>,
    special_tokens: Vec<(String, String)>,
    output: Option<PathBuf>,
    overwrite: bool,
    check: bool,
    dry_run: bool,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    let mut edits = Vec::new();
    for (key, types, value) in set {
        let value = match types {
            Some(types) => {
                let given = Given::new(&types, &value);
                EditValue::Typed(TypedValue::new(
                    &given.map_err(|failure| failure.about_key(key.as_bytes()))?,
                ))
            }
            None => EditValue::Json(parsed(&value.extract::<String>()?)?),
        };
        edits.push(Edit::Set { key, key_type: None, value });
    }
    for pattern in unset {
        let edit = Edit::parse_unset(&pattern);
        edits.push(edit.map_err(|error| Failure::misuse(error.to_string()))?);
    }
    edits.extend(rename.into_iter().map(|(from, to)| Edit::Rename { from, to }));
    let special = |(role, token)| Edit::SpecialToken { role, token };
    edits.extend(special_tokens.into_iter().map(special));
    if edits.is_empty() {
        return Err(Failure::misuse("no edits").at(&path));
    }

    let inputs = [path.clone()];
    if let Some(output) = output.as_ref().filter(|_| !dry_run) {
        drop(start(output, &inputs, overwrite, 0)?);
    }
    let mut editor =
        py.detach(
            || {
                if output.is_some() { Editor::open_source(&path) } else { Editor::open(&path) }
            },
        )?;
    let plan = editor.plan(editor.edit(&edits)?)?;
    if let Some((key, fault)) = broken_templates(plan.edited()).first().filter(|_| check) {
        let message = format!("does not parse: {fault}");
        return Err(Failure::misuse(message).about_key(key.as_bytes()).at(&path));
    }
    let findings =
        if check { edit_findings(&editor, &plan)? } else { EditFindings::default() };
    if let Some(why) = findings.refusal() {
        return Err(Failure::misuse(why).at(&path));
    }
    let new_len = editor.planned_len(&plan)?;
    let method = match output.as_ref().filter(|_| !dry_run) {
        _ if dry_run => plan.method().clone(),
        Some(output) => {
            let sink = start(output, &inputs, overwrite, new_len)?;
            reporting(py, progress, |report| {
                editor.write(&plan, sink, report)?.commit().map_err(Into::into)
            })?;
            plan.method().clone()
        }
        None => {
            let plan = plan.clone();
            reporting(py, progress, |report| editor.apply(plan, report))?
        }
    };
    let (method, reason) = match &method {
        EditMethod::Unchanged => ("unchanged", None),
        EditMethod::InPlace => ("in_place", None),
        EditMethod::Insert(_) => ("insert", None),
        EditMethod::Copy(why) => ("copy", Some(*why)),
        EditMethod::Rewrite(why) => ("rewrite", Some(*why)),
        _ => ("other", None),
    };
    let changes: Vec<_> = plan
        .edited()
        .changes()
        .iter()
        .map(|change| RawStr::new(&change.key).to_string_lossy().into_owned())
        .collect();
    let found = findings.diagnostics.iter().map(|diagnostic| {
        serde_json::json!({
            "code": diagnostic.rule.code,
            "message": diagnostic.message,
            "subject": diagnostic.subject.to_string(),
        })
    });
    json(&serde_json::json!({
        "written": !dry_run,
        "method": method,
        "reason": reason,
        "keys": changes,
        "file_size": new_len,
        "notes": plan.edited().notes(),
        "findings": found.collect::<Vec<_>>(),
    }))
}

fn parsed(text: &str) -> Result<serde_json::Value> {
    serde_json::from_str(text).map_err(|error| Failure::misuse(error.to_string()))
}
