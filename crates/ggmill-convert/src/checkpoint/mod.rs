//! Where weights come from: anything that lists tensors and hands out their bytes.
//!
//! Each kind of source is a file of this folder. What they have in common is the [`Checkpoint`] trait; a recipe and a run know nothing else of them.

mod safetensors;

use std::fmt::Debug;

use ggmill_core::{GgmlType, Shape};

use crate::error::Result;

pub use self::safetensors::Safetensors;

/// A set of tensors with their bytes, and the hyper-parameters that came with them.
pub trait Checkpoint: Debug + Sync {
    /// The tensors, in the order in which they are converted.
    fn tensors(&self) -> &[SourceTensor];

    /// The hyper-parameters: the content of `config.json` for a Hugging Face checkpoint.
    fn config(&self) -> &serde_json::Value;

    /// The name people know the checkpoint by, where it has one: that of its folder.
    fn name(&self) -> Option<&str>;

    /// Whether files of a tokenizer lie beside the weights.
    fn has_tokenizer(&self) -> bool;

    /// Fills `out` with the bytes of tensor `number` from byte `offset` of its data on. May be called from several threads at once.
    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()>;
}

/// A tensor of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceTensor {
    /// The name the checkpoint gives it.
    pub name: String,
    /// The type of its elements.
    pub ggml_type: GgmlType,
    /// Its dimensions in stored order, fastest first: the reverse of what PyTorch prints.
    pub shape: Shape,
}

impl SourceTensor {
    /// A tensor with this name, element type and shape.
    pub fn new(name: impl Into<String>, ggml_type: GgmlType, shape: Shape) -> Self {
        Self { name: name.into(), ggml_type, shape }
    }
}
