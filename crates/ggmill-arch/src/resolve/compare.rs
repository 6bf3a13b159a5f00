//! Compares the tensors of a file with the tensors of its description.

use ggmill_core::{Shape, Tensor};

use crate::description::tensor::TensorSpec;
use crate::resolve::Resolved;

/// A difference between the tensors of a file and of its description.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Difference<'a> {
    /// A required tensor is missing.
    Missing(&'a TensorSpec),
    /// The tensor with this index is not in the description, or not for these hyperparameters.
    Unexpected(usize),
    /// The file has two mutually exclusive tensors; this one is redundant.
    Excluded {
        /// The description of the tensor.
        spec: &'a TensorSpec,
        /// Its index among the compared tensors.
        place: usize,
    },
    /// The shape contradicts the hyperparameters.
    Shape {
        /// The description of the tensor, with the expected shape.
        expected: &'a TensorSpec,
        /// Its index among the compared tensors.
        place: usize,
    },
}

impl Resolved<'_> {
    /// Returns the differences between the tensors of a file (or of all shards of a set) and the
    /// tensors of this model: first those of tensors in the description, in its order, then unexpected
    /// tensors.
    ///
    /// Trailing dimensions of 1 are ignored. Takes O(*n* log *n*) time for *n* tensors.
    pub fn compare<'a>(&'a self, tensors: &[Tensor<'_>]) -> Vec<Difference<'a>> {
        let mut by_name: Vec<(&[u8], usize)> = tensors
            .iter()
            .enumerate()
            .map(|(place, tensor)| (tensor.name().as_bytes(), place))
            .collect();
        by_name.sort_unstable();
        let find = |name: &str| {
            let at = by_name.partition_point(|(known, _)| *known < name.as_bytes());
            let &(found, place) = by_name.get(at)?;
            (found == name.as_bytes()).then_some(place)
        };
        let has = |name: &Option<String>| name.as_ref().is_some_and(|name| find(name).is_some());
        let differs = |place: usize, spec: &TensorSpec| {
            tensors.get(place).is_some_and(|tensor| {
                let (found, said) = (significant(tensor.shape()), significant(&spec.shape));
                !spec.free_shape && found != said && !(spec.more_rows && is_longer(found, said))
            })
        };
        let mut differences = Vec::new();
        for spec in self.tensors() {
            match find(&spec.name) {
                Some(place) if has(&spec.unless) => {
                    differences.push(Difference::Excluded { spec, place });
                }
                Some(place) if differs(place, spec) => {
                    differences.push(Difference::Shape { expected: spec, place });
                }
                None if spec.required && !has(&spec.unless) && !has(&spec.tied) => {
                    differences.push(Difference::Missing(spec));
                }
                _ => {}
            }
        }
        for (place, tensor) in tensors.iter().enumerate() {
            let known = tensor
                .name()
                .to_str()
                .is_ok_and(|name| self.tensor(name).is_some() || self.scales(name));
            if !known {
                differences.push(Difference::Unexpected(place));
            }
        }
        differences
    }

    /// Returns `true` for the scale of a weight, which some quantization types store as separate
    /// tensors. They are not part of descriptions.
    fn scales(&self, name: &str) -> bool {
        let weight = [".input_scale", ".scale"].iter().find_map(|suffix| name.strip_suffix(suffix));
        weight.is_some_and(|weight| self.tensor(&format!("{weight}.weight")).is_some())
    }
}

/// Returns `true` if the last dimension is greater and all others are equal.
fn is_longer(found: &[u64], said: &[u64]) -> bool {
    match (found, said) {
        ([found @ .., rows], [said @ .., least]) => found == said && rows > least,
        _ => false,
    }
}

/// Returns the dimensions without trailing ones.
fn significant(shape: &Shape) -> &[u64] {
    let dimensions = shape.dimensions();
    let len = dimensions
        .iter()
        .rposition(|&dimension| dimension != 1)
        .map_or(0, |last| last.saturating_add(1));
    dimensions.get(..len).unwrap_or(dimensions)
}
