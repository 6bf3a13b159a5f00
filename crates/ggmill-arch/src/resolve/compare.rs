//! The tensors of a file against those its architecture has.

use ggmill_core::{Shape, Tensor};

use crate::description::tensor::TensorSpec;
use crate::resolve::Resolved;

/// Where the tensors of a file are not those of its architecture.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Difference<'a> {
    /// The model is incomplete without it.
    Missing(&'a TensorSpec),
    /// The architecture has no tensor like the one with this place in what was compared, or not
    /// with these numbers.
    Unexpected(usize),
    /// The file has one of two tensors that exclude each other, and has both: this one is too many.
    Excluded {
        /// The description of the tensor.
        spec: &'a TensorSpec,
        /// Its place in what was compared.
        place: usize,
    },
    /// The shape is not what the hyperparameters say.
    Shape {
        /// The description of the tensor, with the expected shape.
        expected: &'a TensorSpec,
        /// Its place in what was compared.
        place: usize,
    },
}

impl Resolved<'_> {
    /// Every difference between some tensors, of one file or of all shards of a set, and those of
    /// this model: of the description's tensors in its order, then those it does not have.
    ///
    /// Dimensions of 1 at the end of a shape are not a difference. Time grows with the number of
    /// tensors and its logarithm.
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

    /// Whether a tensor is the scale of a weight, which the types with scales of their own beside
    /// the blocks have: not part of any description.
    fn scales(&self, name: &str) -> bool {
        let weight = [".input_scale", ".scale"].iter().find_map(|suffix| name.strip_suffix(suffix));
        weight.is_some_and(|weight| self.tensor(&format!("{weight}.weight")).is_some())
    }
}

/// Whether the last of two equal numbers of dimensions is greater, and all others are the same.
fn is_longer(found: &[u64], said: &[u64]) -> bool {
    match (found, said) {
        ([found @ .., rows], [said @ .., least]) => found == said && rows > least,
        _ => false,
    }
}

/// The dimensions up to the last that is not 1.
fn significant(shape: &Shape) -> &[u64] {
    let dimensions = shape.dimensions();
    let len = dimensions
        .iter()
        .rposition(|&dimension| dimension != 1)
        .map_or(0, |last| last.saturating_add(1));
    dimensions.get(..len).unwrap_or(dimensions)
}
