//! The summary of a model.

use ggmill::Model;
use ggmill::inspect::Selection;
use ggmill::inspect::json::{self, Arrays};

use crate::failure::Failure;
use crate::record::Record;

/// Writes what `ggmill inspect --json` does, without metadata entries and tensors.
pub(crate) fn inspect(model: &Model) -> Result<Record, Failure> {
    let mut out = Vec::new();
    json::write(&mut out, model, &Selection::summary(), Arrays::Shortened)
        .map_err(|error| Failure::new("io", error))?;
    Ok(out.into())
}
