//! What a description may ask about a checkpoint besides its configuration.

use ggmill_core::Shape;

use crate::value::ParameterValue;

/// A checkpoint as expressions see it: the shapes of its tensors, the elements of small ones, and
/// which files are beside the weights.
pub trait CheckpointFacts {
    /// The shape of the tensor with this name, in stored order; `None` where there is none.
    fn shape(&self, name: &str) -> Option<Shape>;

    /// The elements of a small tensor, in stored order. The error says why there are none, such as
    /// that the tensor is too large.
    fn values(&self, name: &str) -> Result<Vec<ParameterValue>, String>;

    /// The numbers of the rows of a matrix that have zeros alone.
    fn zero_rows(&self, name: &str) -> Result<Vec<u64>, String>;

    /// Whether there is a file with this name beside the weights.
    fn has_file(&self, name: &str) -> bool;

    /// The text of a file beside the weights; `None` where there is none.
    fn text(&self, name: &str) -> Option<String>;

    /// The number of a token, by its text.
    fn token(&self, text: &str) -> Option<u64>;

    /// The name of the checkpoint: that of its directory.
    fn name(&self) -> Option<&str>;
}
