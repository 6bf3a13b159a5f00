//! Applies the operations of a description to expressions.

use ggmill_arch::{Operation, Source};
use ggmill_pipeline::{AddPlaces, Bilinear, Error, ErrorKind, Expression, Mxfp4, Result};

/// Computes the tensor of the file from the source tensors, in the order of their names: first the
/// operations of each part, then those of the whole.
pub(crate) fn apply(source: &Source, tensors: Vec<Expression>) -> Result<Expression> {
    apply_with(source, tensors, &apply_one)
}

/// Applies the operations of a source to values of any type, where `one` applies a single
/// operation.
pub(crate) fn apply_with<T>(
    source: &Source,
    tensors: Vec<T>,
    one: &dyn Fn(&Operation, &[T]) -> Result<T>,
) -> Result<T> {
    if source.parts.is_empty() {
        return apply_in_order(&source.operations, tensors, one);
    }
    let mut tensors = tensors.into_iter();
    let part = |part: &ggmill_arch::SourcePart| {
        apply_in_order(&part.operations, tensors.by_ref().take(part.names).collect(), one)
    };
    let parts = source.parts.iter().map(part).collect::<Result<_>>()?;
    apply_in_order(&source.operations, parts, one)
}

/// Applies operations in order.
fn apply_in_order<T>(
    operations: &[Operation],
    mut tensors: Vec<T>,
    one: &dyn Fn(&Operation, &[T]) -> Result<T>,
) -> Result<T> {
    for operation in operations {
        tensors = vec![one(operation, &tensors)?];
    }
    match <[T; 1]>::try_from(tensors) {
        Ok([tensor]) => Ok(tensor),
        Err(tensors) => {
            Err(Error::new(ErrorKind::Misuse, format!("{} tensors, expected one", tensors.len())))
        }
    }
}

fn apply_one(operation: &Operation, tensors: &[Expression]) -> Result<Expression> {
    let wrong_count = || {
        Error::new(
            ErrorKind::Misuse,
            format!("{} cannot be applied to {} tensors", operation.name(), tensors.len()),
        )
    };
    let first = tensors
        .first()
        .filter(|_| operation.joins() || tensors.len() == 1)
        .ok_or_else(wrong_count)?;
    let slowest = first.shape().dimensions().len().saturating_sub(1);
    let second = || tensors.get(1).filter(|_| tensors.len() == 2).ok_or_else(wrong_count);
    match operation {
        Operation::Stack => Expression::stack(tensors),
        Operation::StackPadded => padded(tensors).and_then(|tensors| Expression::stack(&tensors)),
        Operation::Concat { dimension } => {
            Expression::concat(dimension.unwrap_or(slowest), tensors)
        }
        Operation::Product => first.product(second()?),
        Operation::Sum => first.sum(second()?),
        Operation::Permute { heads } => first.permute(*heads),
        Operation::Axes(order) => first.axes(order),
        Operation::Transpose => first.transpose(),
        Operation::Reshape(shape) => first.reshape(*shape),
        Operation::Slice { dimension, start, count, step } => {
            first.slice(dimension.unwrap_or(slowest), *start, *count, *step)
        }
        Operation::Resize { dimension, before, after } => first.resize(*dimension, *before, *after),
        Operation::Repeat { dimension, times } => first.repeat(*dimension, *times),
        Operation::Add(number) => first.add(*number),
        Operation::Multiply(number) => first.mul(*number),
        Operation::Within { dimension, start, count, change } => {
            first.within(*dimension, *start, *count, |part| {
                apply_one(change, std::slice::from_ref(part))
            })
        }
        Operation::Float => first.to_f32(),
        Operation::Exp => first.exp(),
        Operation::NegExp => first.neg_exp(),
        Operation::Center => first.center(),
        Operation::NormalizeColumns => first.normalize_columns(),
        Operation::Ternarize => first.ternarize(),
        Operation::Softplus => first.softplus(),
        Operation::BatchNormWeight { epsilon } => factor(first, second()?, *epsilon),
        Operation::BatchNormBias { epsilon } => match tensors {
            [bias, mean, weight, variance] => {
                bias.difference(&mean.product(&factor(weight, variance, *epsilon)?)?)
            }
            _ => Err(wrong_count()),
        },
        Operation::Bilinear { columns, rows } => {
            Expression::decode(Bilinear::new(*columns, *rows), tensors)
        }
        Operation::Mxfp4 => Expression::decode(Mxfp4::new(), tensors),
        Operation::AddPlaces { limit } => Expression::decode(AddPlaces::new(*limit), tensors),
        _ => Err(Error::new(
            ErrorKind::Unsupported,
            format!("the operation {} is not supported", operation.name()),
        )),
    }
}

/// Pads tensors with zeros in the slowest dimension to the length of the longest.
fn padded(tensors: &[Expression]) -> Result<Vec<Expression>> {
    let rows = |tensor: &Expression| tensor.shape().dimensions().last().copied().unwrap_or(0);
    let longest = tensors.iter().map(rows).max().unwrap_or(0);
    let pad = |tensor: &Expression| {
        let slowest = tensor.shape().dimensions().len().saturating_sub(1);
        let after = longest.saturating_sub(rows(tensor));
        tensor.resize(slowest, 0, i64::try_from(after).unwrap_or(i64::MAX))
    };
    tensors.iter().map(pad).collect()
}

/// Returns the scale of a batch normalization, weight / sqrt(variance + epsilon).
fn factor(weight: &Expression, variance: &Expression, epsilon: f64) -> Result<Expression> {
    weight.quotient(&variance.add(epsilon)?.sqrt()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ggmill_core::{GgmlType, Shape};
    use ggmill_pipeline::MemorySource;

    use super::*;

    /// Every operation that a description can name is implemented, and results in the shape that
    /// `ggmill-arch` predicts.
    #[test]
    fn every_operation_is_implemented() {
        let shape = |dimensions: &[u64]| Shape::new(dimensions).unwrap();
        let samples = [
            Operation::Permute { heads: 2 },
            Operation::Stack,
            Operation::StackPadded,
            Operation::Concat { dimension: None },
            Operation::Concat { dimension: Some(0) },
            Operation::Product,
            Operation::Sum,
            Operation::Axes(vec![2, 0, 1]),
            Operation::Transpose,
            Operation::Reshape(shape(&[24, 4])),
            Operation::Slice { dimension: None, start: 1, count: 2, step: 2 },
            Operation::Slice { dimension: Some(0), start: 1, count: 2, step: 1 },
            Operation::Resize { dimension: 1, before: 2, after: -1 },
            Operation::Repeat { dimension: 1, times: 3 },
            Operation::Add(1.0),
            Operation::Multiply(0.5),
            Operation::Within {
                dimension: 2,
                start: 1,
                count: 2,
                change: Box::new(Operation::Multiply(2.0)),
            },
            Operation::Float,
            Operation::Exp,
            Operation::NegExp,
            Operation::Center,
            Operation::NormalizeColumns,
            Operation::Ternarize,
            Operation::Softplus,
            Operation::BatchNormWeight { epsilon: 1e-5 },
            Operation::BatchNormBias { epsilon: 1e-5 },
            Operation::Bilinear { columns: 3, rows: 5 },
            Operation::Mxfp4,
            Operation::AddPlaces { limit: 9 },
        ];
        let mut source = MemorySource::new();
        for (name, dimensions, len) in [("blocks", &[16, 2, 3][..], 96), ("scales", &[2, 3], 6)] {
            source.add(name, GgmlType::I8, shape(dimensions), vec![0x77; len]).unwrap();
        }
        source.add("ids", GgmlType::I64, shape(&[2]), vec![0; 16]).unwrap();
        let tensor = Expression::computed(shape(&[6, 4, 4]), |place| {
            f32::from(u8::try_from(place).unwrap())
        })
        .unwrap();
        for operation in &samples {
            let tensors = match operation {
                Operation::Mxfp4 => vec![0, 1]
                    .into_iter()
                    .map(|n| Expression::tensor(&source, n).unwrap())
                    .collect(),
                Operation::AddPlaces { .. } => vec![Expression::tensor(&source, 2).unwrap()],
                Operation::BatchNormBias { .. } => vec![tensor.clone(); 4],
                _ => vec![tensor.clone(); if operation.joins() { 2 } else { 1 }],
            };
            let shapes: Vec<Shape> = tensors.iter().map(|tensor| *tensor.shape()).collect();
            let made =
                apply_in_order(std::slice::from_ref(operation), tensors, &apply_one).unwrap();
            assert_eq!(*made.shape(), operation.shape(&shapes).unwrap(), "{operation:?}");
            let size = made.evaluate(&source, 0..made.shape().elements()).unwrap().len();
            assert_eq!(size as u64, made.size(), "{operation:?}");
        }
        let tried: BTreeSet<&str> = samples.iter().map(Operation::name).collect();
        assert_eq!(tried, Operation::names().collect());
    }
}
