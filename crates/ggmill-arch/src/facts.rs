//! What a description may ask about a checkpoint besides its configuration.

use ggmill_core::Shape;

/// A checkpoint as expressions see it: the shapes of its tensors, the elements of small ones, and
/// which files are beside the weights.
pub trait CheckpointFacts {
    /// The shape of the tensor with this name, in stored order; `None` where there is none.
    fn shape(&self, name: &str) -> Option<Shape>;

    /// The elements of a small tensor, in stored order. The error says why there are none, such as
    /// that the tensor is too large.
    fn values(&self, name: &str) -> Result<Vec<f32>, String>;

    /// Whether there is a file with this name beside the weights.
    fn has_file(&self, name: &str) -> bool;
}
