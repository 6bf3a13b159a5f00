//! The edits that put the computation graph of a model into its file.

use std::path::{Path, PathBuf};

use ggmill_core::MetadataBuf;
use ggmill_edit::{Edit, EditValue, TypedValue};

use crate::outcome::Failure;
use crate::paths::shown;
use crate::run_model::described_program;
use crate::source::open_whole;

/// The graph of a model, by the description of its architecture, as edits of the file that has its
/// metadata.
pub(super) fn edits(path: &Path, arch_file: &[PathBuf]) -> Result<Vec<Edit>, Failure> {
    let model = open_whole(path)?;
    let program = described_program(path, &model, arch_file)?;
    let mut entries = MetadataBuf::new();
    program
        .graph()
        .write(&mut entries)
        .map_err(|error| Failure::new(format_args!("{}: {error}", shown(path))))?;
    let edits = entries.iter().map(|(key, value)| Edit::Set {
        key: key.to_string(),
        key_type: None,
        value: EditValue::Typed(TypedValue::new(&value)),
    });
    Ok(edits.collect())
}
