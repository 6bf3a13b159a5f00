//! The tensors of a recipe as a source: computed when they are read.

use std::fmt;

use ggmill_core::GgmlType;

use super::{Checkpoint, SourceTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::expression::{Evaluator, Expression};
use crate::recipe::Recipe;

/// Buffers that are kept for the next read.
const BUFFERS: usize = 32;

/// What a recipe would write, as a source of its own: tensors with the names, types and shapes that
/// they get, and bytes that are computed when they are read. A file that is yet to be written is
/// measured or compared by it.
///
/// ```
/// use ggmill_core::{GgmlType, MetadataBuf, Shape};
/// use ggmill_pipeline::{Checkpoint, Encoding, Expression, MemorySource, Planned, Recipe, RecipeTensor};
/// let mut source = MemorySource::new();
/// source.add("w", GgmlType::I8, Shape::new(&[2, 2])?, vec![1, 2, 3, 4])?;
/// let turned = Expression::named(&source, "w")?.transpose()?;
/// let recipe = Recipe::new(MetadataBuf::new(), vec![RecipeTensor::new("turned", turned)]);
/// let planned = Planned::new(&recipe, &source);
/// let mut bytes = [0; 3];
/// planned.read(0, 1, &mut bytes)?;
/// assert_eq!(bytes, [3, 2, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Planned<'a> {
    source: &'a dyn Checkpoint,
    expressions: Vec<Expression>,
    tensors: Vec<SourceTensor>,
    evaluator: Evaluator<'a>,
}

impl<'a> Planned<'a> {
    /// The tensors of a recipe whose expressions read this source.
    pub fn new(recipe: &Recipe, source: &'a dyn Checkpoint) -> Self {
        Self {
            source,
            expressions: recipe.tensors.iter().map(|tensor| tensor.expression.clone()).collect(),
            tensors: recipe.source_tensors(),
            evaluator: Evaluator::new(source, BUFFERS),
        }
    }
}

impl fmt::Debug for Planned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

impl Checkpoint for Planned<'_> {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let outside = || Error::new(ErrorKind::Misuse, "bytes outside of a tensor were asked for");
        let expression = self.expressions.get(number).ok_or_else(outside)?;
        let layout = GgmlType::layout(expression.ggml_type()).ok_or_else(outside)?;
        let (elements, size) = (u64::from(layout.elements), u64::from(layout.bytes));
        let end = offset.checked_add(out.len() as u64).ok_or_else(outside)?;
        // Whole blocks are computed, of which the bytes are taken.
        let first = offset / size;
        let bytes = self.evaluator.bytes(
            expression,
            first * elements,
            end.div_ceil(size).checked_mul(elements).ok_or_else(outside)?,
        )?;
        let skipped = usize::try_from(offset - first * size).map_err(|_| outside())?;
        let taken = bytes.get(skipped..).and_then(|bytes| bytes.get(..out.len()));
        out.copy_from_slice(taken.ok_or_else(outside)?);
        self.evaluator.buffers.give(bytes);
        Ok(())
    }

    fn verify(&self) -> Result<()> {
        self.source.verify()
    }
}
