//! A file without tensors.

use core::fmt;

use crate::keys;
use crate::model::Model;

/// A file has no tensors, and so there is nothing to run or to load.
///
/// ```
/// # let mut metadata = ggmill_core::MetadataBuf::new();
/// # metadata.set("tokenizer.ggml.tokens", ["a", "b"].as_slice());
/// # let file = ggmill_core::Builder::new().metadata(metadata).plan()?.header().to_vec();
/// let model = ggmill_core::Model::open(file)?;
/// let found = ggmill_core::NoTensors::of(&model).ok_or("has none")?;
/// assert_eq!(found.to_string(), "the file has no tensors, only a vocabulary");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoTensors {
    /// Whether it has a vocabulary instead.
    pub has_vocabulary: bool,
}

impl NoTensors {
    /// The fact about a model without tensors; `None` for a model that has some.
    pub fn of(model: &Model) -> Option<Self> {
        let has_vocabulary = model.metadata().get(keys::TOKENIZER_TOKENS).is_some();
        model.tensors().is_empty().then_some(Self { has_vocabulary })
    }
}

impl fmt::Display for NoTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file has no tensors")?;
        if self.has_vocabulary { f.write_str(", only a vocabulary") } else { Ok(()) }
    }
}
