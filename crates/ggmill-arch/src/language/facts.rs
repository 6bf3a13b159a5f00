//! Facts about a checkpoint, in addition to its configuration, that expressions can query.

use ggmill_core::Shape;

use crate::value::ParameterValue;

/// A checkpoint as expressions see it: tensor shapes, elements of small tensors, and files. The default
/// implementations return that nothing is known.
pub trait CheckpointFacts {
    /// Returns the shape of a tensor in stored order, if it exists.
    fn shape(&self, _name: &str) -> Option<Shape> {
        None
    }

    /// Returns the shape of a tensor that describes the packing of others, such as quantization scales,
    /// if it exists.
    fn packing_shape(&self, _name: &str) -> Option<Shape> {
        None
    }

    /// Returns the elements of a small tensor in stored order. The error is the reason, such as that
    /// the tensor is too large.
    fn values(&self, _name: &str) -> Result<Vec<ParameterValue>, String> {
        Err(NO_TENSORS.to_owned())
    }

    /// Returns the indices of the rows of a matrix that contain only zeros.
    fn zero_rows(&self, _name: &str) -> Result<Vec<u64>, String> {
        Err(NO_TENSORS.to_owned())
    }

    /// Returns `true` if the checkpoint directory has a file with this name.
    fn has_file(&self, _name: &str) -> bool {
        false
    }

    /// Returns the text of a file in the checkpoint directory, if it exists.
    fn text(&self, _name: &str) -> Option<String> {
        None
    }

    /// Returns the ID of a token by its text.
    fn token(&self, _text: &str) -> Option<u64> {
        None
    }

    /// Returns the name of the checkpoint directory, if it has one.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Returns a built-in chat template by name, for checkpoints without one.
    fn chat_template(&self, _name: &str) -> Option<&str> {
        None
    }
}

const NO_TENSORS: &str = "there are no tensors yet";
