//! The tensors of a file against those its architecture has.

use ggmill_core::{RawStr, Shape, Tensors};

use crate::resolve::Resolved;
use crate::tensor::TensorSpec;

/// Where the tensors of a file are not those of its architecture.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Difference<'a> {
    /// The model is incomplete without it.
    Missing(&'a TensorSpec),
    /// The architecture has no such tensor, or not with these numbers.
    Unexpected(RawStr<'a>),
    /// The file has one of two tensors that exclude each other, and has both: this one is too many.
    Excluded(&'a TensorSpec),
    /// The shape is not what the hyper-parameters say.
    Shape {
        /// What the tensor should be.
        expected: &'a TensorSpec,
        /// The shape in the file.
        found: &'a Shape,
    },
}

impl Resolved<'_> {
    /// Every difference between the tensors of a file, or of all files of a set of shards, and those of this model: of the description's tensors in its order,
    /// then those it does not have.
    ///
    /// Dimensions of 1 at the end of a shape are no difference. Time grows with the number of tensors and its logarithm, and with the number of files.
    pub fn compare<'a>(&'a self, files: &[Tensors<'a>]) -> Vec<Difference<'a>> {
        let find = |name: &str| files.iter().find_map(|tensors| tensors.get(name));
        let has = |name: &Option<String>| name.as_ref().is_some_and(|name| find(name).is_some());
        let mut differences = Vec::new();
        for spec in self.tensors() {
            match find(&spec.name) {
                Some(_) if has(&spec.unless) => differences.push(Difference::Excluded(spec)),
                Some(tensor) if significant(tensor.shape()) != significant(&spec.shape) => {
                    differences.push(Difference::Shape { expected: spec, found: tensor.shape() });
                }
                None if spec.required && !has(&spec.unless) && !has(&spec.tied) => differences.push(Difference::Missing(spec)),
                _ => {}
            }
        }
        for tensor in files.iter().flat_map(Tensors::iter) {
            let known = tensor.name().to_str().is_ok_and(|name| self.tensor(name).is_some() || self.scales(name));
            if !known {
                differences.push(Difference::Unexpected(tensor.name()));
            }
        }
        differences
    }

    /// Whether a tensor is the scale of a weight, which the types with scales of their own beside the blocks have: not part of any description.
    fn scales(&self, name: &str) -> bool {
        let weight = [".input_scale", ".scale"].iter().find_map(|suffix| name.strip_suffix(suffix));
        weight.is_some_and(|weight| self.tensor(&format!("{weight}.weight")).is_some())
    }
}

/// The dimensions up to the last that is not 1.
fn significant(shape: &Shape) -> &[u64] {
    let dimensions = shape.dimensions();
    let len = dimensions.iter().rposition(|&dimension| dimension != 1).map_or(0, |last| last.saturating_add(1));
    dimensions.get(..len).unwrap_or(dimensions)
}
