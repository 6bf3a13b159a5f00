//! The tensors of a file as numbers: those that have a factor beside them, times that factor.

use std::collections::BTreeMap;

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Checkpoint as _, Error, ErrorKind, Expression, GgufCheckpoint, Result};

/// What the names of NVFP4 weights end with.
const WEIGHT: &[u8] = b".weight";
/// The factor of the whole matrix, or of each of several.
const SCALE: &[u8] = b".scale";
/// The same of what the matrix is multiplied with, which is none of the weights' business.
const INPUT_SCALE: &[u8] = b".input_scale";

/// The tensors of a file by their names.
pub(super) struct FileTensors<'a> {
    checkpoint: &'a GgufCheckpoint,
    numbers: BTreeMap<&'a [u8], usize>,
}

impl<'a> FileTensors<'a> {
    pub(super) fn of(checkpoint: &'a GgufCheckpoint) -> Self {
        let tensors = checkpoint.tensors().iter().enumerate();
        let numbers = tensors.map(|(number, tensor)| (&*tensor.name, number)).collect();
        Self { checkpoint, numbers }
    }

    /// Whether there is a tensor of this name.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.numbers.contains_key(name)
    }

    /// Whether a tensor is a factor of another.
    pub(super) fn is_factor(&self, name: &[u8]) -> bool {
        [SCALE, INPUT_SCALE]
            .into_iter()
            .any(|ending| name.strip_suffix(ending).is_some_and(|base| self.blocks(base).is_some()))
    }

    /// The NVFP4 weights of a layer.
    fn blocks(&self, base: &[u8]) -> Option<usize> {
        let number = *self.numbers.get(&*[base, WEIGHT].concat())?;
        let tensor = self.checkpoint.tensors().get(number)?;
        (tensor.ggml_type == GgmlType::NVFP4).then_some(number)
    }

    /// The elements of a tensor.
    pub(super) fn value(&self, number: usize) -> Result<Expression> {
        let value = Expression::tensor(self.checkpoint, number)?;
        let name = &*self.checkpoint.tensors()[number].name;
        let base = name.strip_suffix(WEIGHT).filter(|_| value.ggml_type() == GgmlType::NVFP4);
        let factor = base.and_then(|base| self.numbers.get(&*[base, SCALE].concat()));
        let Some(&factor) = factor else { return Ok(value) };
        let factor = Expression::tensor(self.checkpoint, factor)?;
        multiplied(&value, &factor).map_err(|error| error.tensor(name))
    }
}

/// Blocks as numbers, times one factor for all or one for each matrix.
fn multiplied(blocks: &Expression, factor: &Expression) -> Result<Expression> {
    let dimensions = blocks.shape().dimensions();
    let count = factor.shape().elements();
    let matrices = dimensions.get(2).copied().unwrap_or(1);
    if count != matrices && count != 1 {
        let message = format!(
            "has {matrices} matrices, but its scale tensor has {count} elements, expected 1 or \
             {matrices}"
        );
        return Err(Error::new(ErrorKind::Checkpoint, message));
    }
    let mut shape = vec![1; dimensions.len()];
    if let Some(slowest) = shape.get_mut(2) {
        *slowest = count;
    }
    let shape = Shape::new(&shape).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let mut factors = factor.to_f32()?.reshape(shape)?;
    for (dimension, &extent) in dimensions.iter().enumerate() {
        if factors.shape().dimensions().get(dimension) != Some(&extent) {
            factors = factors.repeat(dimension, extent)?;
        }
    }
    blocks.to_f32()?.product(&factors)
}
