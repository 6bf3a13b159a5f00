use std::fmt;

use ggmill_io::RandomAccess;

use crate::error::{Error, ErrorKind, Result};
use crate::expression::{Evaluator, Expression, read_by};
use crate::recipe::RecipeTensor;
use crate::source::{Checkpoint, SourceTensor};

/// Buffers that are kept for the next read.
const BUFFERS: usize = 32;

/// Tensors that are computed from those of another checkpoint, as a checkpoint: what takes one,
/// such as a writer of another format, or what measures a file that is yet to be written, takes the
/// tensors of a recipe.
///
/// ```
/// use ggmill_core::{GgmlType, Shape};
/// use ggmill_pipeline::{Checkpoint as _, Derived, Expression, MemorySource, RecipeTensor};
/// let mut source = MemorySource::new();
/// source.add("a", GgmlType::I8, Shape::new(&[2, 2])?, vec![1, 2, 3, 4])?;
/// let turned = Expression::named(&source, "a")?.transpose()?;
/// let derived = Derived::new(&source, vec![RecipeTensor::new("turned", turned)])?;
/// let mut bytes = [0; 3];
/// derived.read(0, 1, &mut bytes)?;
/// assert_eq!(bytes, [3, 2, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Derived<'a> {
    source: &'a dyn Checkpoint,
    tensors: Vec<SourceTensor>,
    expressions: Vec<Expression>,
    evaluator: Evaluator<'a>,
}

impl<'a> Derived<'a> {
    /// These tensors. Fails for one that is not of this source.
    pub fn new(source: &'a dyn Checkpoint, tensors: Vec<RecipeTensor>) -> Result<Self> {
        let mut derived = Self {
            source,
            tensors: Vec::new(),
            expressions: Vec::new(),
            evaluator: Evaluator::new(source, BUFFERS),
        };
        for tensor in tensors {
            tensor
                .expression
                .check(source.tensors())
                .map_err(|error| error.tensor(&tensor.name))?;
            let (ggml_type, shape) = (tensor.ggml_type(), *tensor.shape());
            derived.tensors.push(SourceTensor::new(tensor.name, ggml_type, shape));
            derived.expressions.push(tensor.expression);
        }
        Ok(derived)
    }
}

impl fmt::Debug for Derived<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Derived").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

impl Checkpoint for Derived<'_> {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let no_tensor = || Error::new(ErrorKind::Misuse, "no tensor has this number");
        let expression = self.expressions.get(number).ok_or_else(no_tensor)?;
        let (elements, bytes) = expression.block();
        let bytes = bytes as u64;
        let end = offset.checked_add(out.len() as u64).filter(|&end| end <= expression.size());
        let end = end
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor"))?;
        // Whole blocks, of which the first and the last may be wanted in part.
        let first = offset / bytes;
        let (start, end) = (first * elements, end.div_ceil(bytes) * elements);
        let made = self.evaluator.bytes(expression, start, end)?;
        let skipped = usize::try_from(offset - first * bytes).unwrap_or(usize::MAX);
        let wanted = made.get(skipped..).and_then(|made| made.get(..out.len()));
        out.copy_from_slice(wanted.ok_or_else(no_tensor)?);
        self.evaluator.buffers.give(made);
        Ok(())
    }

    fn prefetch(&self, numbers: &[usize]) {
        let expressions = numbers.iter().filter_map(|&number| self.expressions.get(number));
        self.source.prefetch(&read_by(expressions));
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.source.sources()
    }

    fn verify(&self) -> Result<()> {
        self.source.verify()
    }
}
