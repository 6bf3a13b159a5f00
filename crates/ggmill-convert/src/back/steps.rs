//! One operation of a description, undone.

use ggmill_arch::Operation;
use ggmill_core::Shape;
use ggmill_pipeline::{Error, ErrorKind, Expression, Result};

pub(super) fn refused(operation: &Operation, why: &str) -> Error {
    let message = format!("the step {} cannot be reversed: {why}", operation.name());
    Error::new(ErrorKind::Unsupported, message)
}

pub(super) fn shape_error(error: ggmill_core::Error) -> Error {
    Error::caused(ErrorKind::Unsupported, error)
}

/// What went into one step, of this shape where it is known.
pub(super) fn undo_one(
    operation: &Operation,
    value: &Expression,
    shape: Option<Shape>,
) -> Result<Expression> {
    let refused = |why: &str| Err(refused(operation, why));
    match operation {
        Operation::Permute { heads } => {
            let dimensions = value.shape().dimensions();
            let Some((&rows, faster)) = dimensions.split_last() else {
                return refused("a scalar has no rows");
            };
            let pairs = heads.checked_mul(2).filter(|pairs| *pairs > 0 && rows % pairs == 0);
            let Some(pairs) = pairs else {
                return refused(
                    "the rows cannot be divided into heads with an even number of rows each",
                );
            };
            let run: u64 = faster.iter().product();
            let halves = Shape::new(&[run, 2, rows / pairs, *heads]).map_err(shape_error)?;
            value.reshape(halves)?.axes(&[0, 2, 1, 3])?.reshape(*value.shape())
        }
        Operation::Axes(order) => {
            let mut back = vec![0; order.len()];
            for (to, &from) in order.iter().enumerate() {
                match back.get_mut(from) {
                    Some(place) => *place = to,
                    None => return refused("a dimension does not exist"),
                }
            }
            value.axes(&back)
        }
        Operation::Transpose => value.transpose(),
        Operation::Reshape(_) => match shape {
            Some(shape) => value.reshape(shape),
            None => refused("the description does not specify the shape in the checkpoint"),
        },
        Operation::Resize { dimension, before, after } if *before >= 0 && *after >= 0 => {
            value.resize(*dimension, before.saturating_neg(), after.saturating_neg())
        }
        Operation::Resize { .. } => refused("it removes elements that the file does not contain"),
        Operation::Repeat { dimension, times } => {
            let extent = value.shape().dimensions().get(*dimension).copied().unwrap_or(0);
            match extent.checked_div(*times) {
                Some(count) => value.slice(*dimension, 0, count, 1),
                None => refused("the number of repetitions is 0"),
            }
        }
        Operation::Add(number) => value.to_f32()?.add(-number),
        Operation::Multiply(number) if *number != 0.0 && number.is_finite() => {
            value.to_f32()?.mul(1.0 / number)
        }
        Operation::Within { dimension, start, count, change } => {
            value.to_f32()?.within(*dimension, *start, *count, |part| undo_one(change, part, None))
        }
        Operation::Float => value.to_f32(),
        Operation::Exp => value.to_f32()?.log(),
        Operation::NegExp => value.to_f32()?.mul(-1.0)?.log(),
        Operation::Center => refused("the file does not contain the mean that it subtracts"),
        Operation::NormalizeColumns => {
            refused("the file does not contain the lengths that it divides by")
        }
        Operation::Ternarize => refused("the file does not contain the numbers that it rounds"),
        _ => refused("its inputs cannot be distinguished"),
    }
}

/// The shapes before each operation and after the last, as far as they are known.
pub(super) fn between(first: Option<Shape>, operations: &[Operation]) -> Vec<Option<Shape>> {
    let mut shapes = vec![first];
    for operation in operations {
        let before = shapes.last().copied().flatten();
        shapes.push(match operation {
            Operation::Reshape(shape) => Some(*shape),
            _ => before.and_then(|before| operation.shape(&[before]).ok()),
        });
    }
    shapes
}

/// In the shape of the checkpoint, where it is said.
pub(super) fn fitted(value: Expression, shape: Option<Shape>) -> Result<Expression> {
    match shape {
        Some(shape) if shape != *value.shape() => value.reshape(shape),
        _ => Ok(value),
    }
}
