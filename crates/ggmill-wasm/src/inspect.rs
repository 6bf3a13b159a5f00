//! The summary of a model.

use ggmill_core::Model;
use ggmill_inspect::Selection;
use ggmill_inspect::json::{self, Arrays};

use crate::failure::Failure;
use crate::record::Record;

/// Writes the JSON of `ggmill inspect --json`, without metadata entries and tensors.
pub(crate) fn inspect(model: &Model) -> Result<Record, Failure> {
    let mut out = Vec::new();
    json::write(&mut out, model, &Selection::summary(), Arrays::Shortened)
        .map_err(|error| Failure::new("io", error))?;
    Ok(out.into())
}
