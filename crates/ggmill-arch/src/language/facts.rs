//! Facts about a checkpoint, other than its configuration, that a description can use.

use ggmill_core::Shape;

use crate::value::ParameterValue;

/// A checkpoint as expressions see it: the shapes of its tensors, the elements of small ones, and
/// which files are beside the weights. What is not implemented is not known of it.
pub trait CheckpointFacts {
    /// The shape of the tensor with this name, in stored order; `None` where there is none.
    fn shape(&self, _name: &str) -> Option<Shape> {
        None
    }

    /// The shape of a tensor with this name that only says how others are packed, such as scales.
    fn packing_shape(&self, _name: &str) -> Option<Shape> {
        None
    }

    /// The elements of a small tensor, in stored order. The error says why there are none, such as
    /// that the tensor is too large.
    fn values(&self, _name: &str) -> Result<Vec<ParameterValue>, String> {
        Err(NO_TENSORS.to_owned())
    }

    /// The numbers of the rows of a matrix that have zeros alone.
    fn zero_rows(&self, _name: &str) -> Result<Vec<u64>, String> {
        Err(NO_TENSORS.to_owned())
    }

    /// Whether there is a file with this name beside the weights.
    fn has_file(&self, _name: &str) -> bool {
        false
    }

    /// The text of a file beside the weights; `None` where there is none.
    fn text(&self, _name: &str) -> Option<String> {
        None
    }

    /// The number of a token, by its text.
    fn token(&self, _text: &str) -> Option<u64> {
        None
    }

    /// The name of the checkpoint: that of its directory. `None` where it has none.
    fn name(&self) -> Option<&str> {
        None
    }

    /// The chat template of this name that comes with the program, for checkpoints without one.
    fn chat_template(&self, _name: &str) -> Option<&str> {
        None
    }
}

const NO_TENSORS: &str = "there are no tensors yet";
