//! The edits that put the computation graph of a model into its file.

use std::path::{Path, PathBuf};

use ggmill_arch::graph::{OPERATION_SET, STEPS_KEY, VERSION_KEY};
use ggmill_core::ToValue;
use ggmill_edit::{Edit, EditValue, TypedValue};

use crate::outcome::Failure;
use crate::paths::shown;
use crate::run_model::described_program;
use crate::source::open_whole;

/// The graph of a model, by the description of its architecture, as edits of the file that has its
/// metadata.
pub(super) fn edits(path: &Path, arch_file: &[PathBuf]) -> Result<[Edit; 2], Failure> {
    let model = open_whole(path)?;
    let program = described_program(path, &model, arch_file)?;
    let steps = program
        .graph()
        .steps()
        .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?;
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    Ok([set(VERSION_KEY, &OPERATION_SET), set(STEPS_KEY, &steps.as_slice())])
}

fn set(key: &str, value: &impl ToValue) -> Edit {
    let value = EditValue::Typed(TypedValue::new(value));
    Edit::Set { key: key.to_owned(), key_type: None, value }
}
