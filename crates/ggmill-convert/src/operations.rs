//! What a description says happens to the tensors of a checkpoint, as expressions.

use ggmill_arch::Operation;
use ggmill_pipeline::{Error, ErrorKind, Expression, Result};

/// One tensor from those of an alternative, first operation first.
pub(crate) fn apply(operations: &[Operation], mut tensors: Vec<Expression>) -> Result<Expression> {
    for operation in operations {
        tensors = vec![one(operation, &tensors)?];
    }
    match <[Expression; 1]>::try_from(tensors) {
        Ok([tensor]) => Ok(tensor),
        Err(tensors) => Err(Error::new(ErrorKind::Misuse, format!("{} tensors, expected one", tensors.len()))),
    }
}

fn one(operation: &Operation, tensors: &[Expression]) -> Result<Expression> {
    let [first, others @ ..] = tensors else { return Err(Error::new(ErrorKind::Misuse, format!("{}: nothing to work on", operation.name()))) };
    let last = first.shape().dimensions().len().saturating_sub(1);
    match *operation {
        Operation::Stack => return Expression::stack(tensors),
        Operation::Concat => return Expression::concat(last, tensors),
        _ if !others.is_empty() => return Err(Error::new(ErrorKind::Misuse, format!("{} takes one tensor, found {}", operation.name(), tensors.len()))),
        _ => {}
    }
    match *operation {
        Operation::Permute { heads } => first.permute(heads),
        Operation::Transpose => first.transpose(),
        Operation::Reshape(shape) => first.reshape(shape),
        Operation::Slice { start, len } => first.slice(last, start, len, 1),
        Operation::Add(number) => first.add(number),
        Operation::NegExp => first.neg_exp(),
        _ => Err(Error::new(ErrorKind::Unsupported, format!("the operation {} is not there yet", operation.name()))),
    }
}
