//! File names by the naming convention.

use ggmill_core::{Header, Model, Split, size_label, suggested_file_name};

use crate::failure::Failure;
use crate::record::Record;

/// Returns the file name that the naming convention prescribes for a file of a model; for a shard, with
/// its number.
pub(crate) fn name(model: &Model, part: &Header<'_>) -> Result<Record, Failure> {
    let label = size_label(model.tensors().iter().map(|tensor| (tensor.name(), tensor.shape())));
    let split = part.split()?.filter(Split::is_part);
    let name = suggested_file_name(&model.metadata(), label, split)
        .map_err(|error| Failure::new("naming", error))?;
    let mut record = Record::default();
    record.rest(name.as_bytes());
    Ok(record)
}
