//! The operations of a description, undone.
//!
//! A tensor of the file says something about each tensor of the checkpoint that it was made of:
//! everything, or a slice. [`undo`] finds these pieces, and [`whole`](super::pieces::whole) makes a
//! tensor of all pieces of it.

use ggmill_arch::{Operation, Rest, Source};
use ggmill_core::Shape;
use ggmill_pipeline::{Error, ErrorKind, Expression, Result};

use super::pieces::{Cut, Piece};
use super::steps::{between, fitted, refused, shape_error, undo_one};

/// The pieces of the tensors of an alternative, in the order of its names, from the tensor of the
/// file.
pub(super) fn undo(source: &Source, value: &Expression) -> Result<Vec<Piece>> {
    let mut pieces = undone(source, value)?;
    for piece in &mut pieces {
        piece.rest = source.rest;
    }
    Ok(pieces)
}

fn undone(source: &Source, value: &Expression) -> Result<Vec<Piece>> {
    let file = *value.shape();
    if source.parts.is_empty() {
        return undo_all(&source.operations, source.names.len(), source.shape, value, file);
    }
    let rank = file.dimensions().len();
    let shapes: Vec<Option<Shape>> = source
        .parts
        .iter()
        .map(|part| {
            let shape = part.shape.or_else(|| guessed(&part.operations, file));
            let known: Option<Vec<u64>> =
                extents(&part.operations, shape, rank).into_iter().collect();
            Shape::new(&known?).ok()
        })
        .collect();
    let joined = match undo_until_join(&source.operations, &shapes, value)? {
        Joined::Value(value) if source.parts.len() == 1 => vec![value],
        Joined::Concat(dimension, value) => {
            let lens = lens(source, dimension, &value)?;
            split(&value, dimension, &lens)?
        }
        Joined::Stack(value) => unstack(&value, source.parts.len())?,
        Joined::Value(_) => {
            return Err(Error::new(ErrorKind::Misuse, "several parts are not joined"));
        }
    };
    let mut pieces = Vec::new();
    for (part, value) in source.parts.iter().zip(joined) {
        pieces.extend(undo_all(&part.operations, part.names, part.shape, &value, file)?);
    }
    Ok(pieces)
}

/// A tensor, or one that several become at this step.
enum Joined {
    Value(Expression),
    Concat(usize, Expression),
    Stack(Expression),
}

/// Undoes all operations but the first, if that joins tensors of these shapes.
fn undo_until_join(
    operations: &[Operation],
    inputs: &[Option<Shape>],
    value: &Expression,
) -> Result<Joined> {
    let [first, rest @ ..] = operations else { return Ok(Joined::Value(value.clone())) };
    if !first.joins() {
        return Err(refused(first, "its inputs are several tensors"));
    }
    let inputs: Option<Vec<Shape>> = inputs.iter().copied().collect();
    let shapes = between(inputs.and_then(|inputs| first.shape(&inputs).ok()), rest);
    let mut value = value.clone();
    for (place, operation) in rest.iter().enumerate().rev() {
        value = undo_one(operation, &value, shapes[place])?;
    }
    match first {
        Operation::Concat { dimension } => {
            let slowest = value.shape().dimensions().len().saturating_sub(1);
            Ok(Joined::Concat(dimension.unwrap_or(slowest), value))
        }
        Operation::Stack => Ok(Joined::Stack(value)),
        other => Err(refused(other, "its inputs cannot be distinguished")),
    }
}

/// The shape in a checkpoint of a tensor that is given another one to begin with, where the
/// description says nothing: that of the tensor of the file, as far as it has as many dimensions
/// as that, with another extent of the slowest; else the other one.
fn guessed(operations: &[Operation], file: Shape) -> Option<Shape> {
    let first = operations.iter().find(|operation| {
        !matches!(
            operation,
            Operation::Float | Operation::Exp | Operation::NegExp | Operation::Add(_)
        )
    })?;
    let Operation::Reshape(shape) = first else { return None };
    let dimensions = file.dimensions();
    if shape.dimensions().len() == dimensions.len() {
        return Some(*shape);
    }
    let (_, faster) = dimensions.split_last()?;
    let run = faster.iter().try_fold(1u64, |run, extent| run.checked_mul(*extent))?;
    let rows = shape
        .elements()
        .checked_div(run)
        .filter(|rows| rows.checked_mul(run) == Some(shape.elements()))?;
    Shape::new(&[faster, &[rows]].concat()).ok()
}

fn undo_all(
    operations: &[Operation],
    names: usize,
    shape: Option<Shape>,
    value: &Expression,
    file: Shape,
) -> Result<Vec<Piece>> {
    let whole = |value: Expression, shape: Option<Shape>| Piece {
        prefix: Vec::new(),
        cut: None,
        value,
        shape,
        rest: Rest::Needed,
    };
    if operations.first().is_some_and(Operation::joins) {
        let values = match undo_until_join(operations, &vec![shape; names], value)? {
            Joined::Stack(value) => unstack(&value, names)?,
            Joined::Concat(dimension, value) => {
                let shape = shape.filter(|_| names > 1);
                let len = shape.and_then(|shape| shape.dimensions().get(dimension).copied());
                let len = len.or_else(|| {
                    let extent = value.shape().dimensions().get(dimension).copied()?;
                    (names == 1).then_some(extent)
                });
                let len = len.ok_or_else(|| {
                    refused(
                        &operations[0],
                        "the description does not specify the length of each part",
                    )
                })?;
                split(&value, dimension, &vec![len; names])?
            }
            Joined::Value(value) => vec![value],
        };
        return values.into_iter().map(|value| Ok(whole(fitted(value, shape)?, shape))).collect();
    }
    let shape = shape.or_else(|| guessed(operations, file));
    // The shapes between the steps, as far as the description says them.
    let shapes = between(shape, operations);
    let mut value = value.clone();
    for (place, operation) in operations.iter().enumerate().rev() {
        if let Operation::Slice { dimension, start, count, step } = *operation {
            let slowest = value.shape().dimensions().len().saturating_sub(1);
            let cut = Cut { dimension: dimension.unwrap_or(slowest), start, count, step };
            let prefix = operations[..place].to_vec();
            return Ok(vec![Piece { prefix, cut: Some(cut), value, shape, rest: Rest::Needed }]);
        }
        value = undo_one(operation, &value, shapes[place])?;
    }
    Ok(vec![whole(fitted(value, shape)?, shape)])
}

/// How long each part is along a dimension: one at most may be left open.
fn lens(source: &Source, dimension: usize, value: &Expression) -> Result<Vec<u64>> {
    let rank = value.shape().dimensions().len();
    let open = || {
        let concat = Operation::Concat { dimension: Some(dimension) };
        refused(&concat, "the description does not specify the length of each part")
    };
    let total = value.shape().dimensions().get(dimension).copied().ok_or_else(open)?;
    let known: Vec<Option<u64>> = source
        .parts
        .iter()
        .map(|part| extents(&part.operations, part.shape, rank).get(dimension).copied().flatten())
        .collect();
    let sum = known.iter().flatten().try_fold(0u64, |sum, len| sum.checked_add(*len));
    let rest = sum.and_then(|sum| total.checked_sub(sum)).ok_or_else(open)?;
    match known.iter().filter(|len| len.is_none()).count() {
        0 if rest == 0 => {}
        1 => {}
        _ => return Err(open()),
    }
    Ok(known.into_iter().map(|len| len.unwrap_or(rest)).collect())
}

/// The extents that come out of operations on one tensor, as far as they say so.
fn extents(operations: &[Operation], shape: Option<Shape>, rank: usize) -> Vec<Option<u64>> {
    let of = |shape: &Shape| shape.dimensions().iter().copied().map(Some).collect::<Vec<_>>();
    let mut known = shape.as_ref().map_or_else(|| vec![None; rank], of);
    for operation in operations {
        let slowest = known.len().saturating_sub(1);
        match operation {
            Operation::Reshape(shape) => known = of(shape),
            Operation::Slice { dimension, count, .. } => {
                if let Some(extent) = known.get_mut(dimension.unwrap_or(slowest)) {
                    *extent = Some(*count);
                }
            }
            Operation::Transpose if known.len() > 1 => known.swap(0, 1),
            Operation::Axes(order) => {
                known = order.iter().map(|&from| known.get(from).copied().flatten()).collect();
            }
            Operation::Resize { dimension, .. } | Operation::Repeat { dimension, .. } => {
                if let Some(extent) = known.get_mut(*dimension) {
                    *extent = None;
                }
            }
            _ => {}
        }
    }
    known
}

/// Runs of a dimension, one after the other.
fn split(value: &Expression, dimension: usize, lens: &[u64]) -> Result<Vec<Expression>> {
    let mut start = 0u64;
    let mut parts = Vec::with_capacity(lens.len());
    for &len in lens {
        parts.push(value.slice(dimension, start, len, 1)?);
        start = start.saturating_add(len);
    }
    Ok(parts)
}

/// The tensors that were stacked along the slowest dimension.
fn unstack(value: &Expression, count: usize) -> Result<Vec<Expression>> {
    let dimensions = value.shape().dimensions();
    let stacked = dimensions.split_last().filter(|(last, _)| **last == count as u64);
    // One by itself may be without the dimension.
    if count == 1 && stacked.is_none() {
        return Ok(vec![value.clone()]);
    }
    let Some((_, one)) = stacked else {
        return Err(refused(&Operation::Stack, "the file has a different number of tensors"));
    };
    let shape = Shape::new(one).map_err(shape_error)?;
    let slowest = one.len();
    (0..count as u64).map(|place| value.slice(slowest, place, 1, 1)?.reshape(shape)).collect()
}

#[cfg(test)]
mod tests {
    use ggmill_pipeline::MemorySource;

    use super::*;
    use crate::back::pieces::whole;
    use crate::operations::apply;

    fn shape(dimensions: &[u64]) -> Shape {
        Shape::new(dimensions).unwrap()
    }

    fn tensor(dimensions: &[u64], start: u8) -> Expression {
        Expression::computed(shape(dimensions), move |place| {
            f32::from(u8::try_from(place).unwrap().wrapping_add(start))
        })
        .unwrap()
    }

    fn bytes(tensor: &Expression) -> Vec<u8> {
        tensor.evaluate(&MemorySource::new(), 0..tensor.shape().elements()).unwrap()
    }

    fn source(names: usize, operations: &[Operation]) -> Source {
        let mut source = Source::default();
        let names = (0..names).map(|name| name.to_string()).collect();
        (source.names, source.operations) = (names, operations.to_vec());
        source
    }

    fn slice(dimension: Option<usize>, start: u64, count: u64, step: u64) -> Operation {
        Operation::Slice { dimension, start, count, step }
    }

    #[test]
    fn what_one_tensor_becomes_is_undone() {
        let within = |change| Operation::Within {
            dimension: 1,
            start: 1,
            count: 2,
            change: Box::new(change),
        };
        for operations in [
            &[][..],
            &[Operation::Permute { heads: 2 }],
            &[Operation::Axes(vec![2, 0, 1])],
            &[Operation::Transpose, Operation::Permute { heads: 1 }],
            &[Operation::Resize { dimension: 1, before: 2, after: 3 }],
            &[Operation::Repeat { dimension: 2, times: 3 }, Operation::Transpose],
            &[Operation::Add(1.0), Operation::Multiply(0.5)],
            &[within(Operation::Multiply(-1.0)), within(Operation::Add(4.0))],
            &[Operation::Stack, Operation::Transpose],
        ] {
            let original = tensor(&[4, 6, 4], 1);
            let source = source(1, operations);
            let made = apply(&source, vec![original.clone()]).unwrap();
            let pieces = undo(&source, &made).unwrap();
            let back = whole(pieces).unwrap();
            assert_eq!(*back.shape(), *original.shape(), "{operations:?}");
            assert!(bytes(&back) == bytes(&original), "{operations:?}");
        }
    }

    #[test]
    fn what_is_joined_is_told_apart() {
        let originals = vec![tensor(&[4, 6], 0), tensor(&[4, 6], 30), tensor(&[4, 6], 90)];
        let mut concat = source(3, &[Operation::Concat { dimension: None }]);
        concat.shape = Some(shape(&[4, 6]));
        for source in [source(3, &[Operation::Stack]), concat] {
            let made = apply(&source, originals.clone()).unwrap();
            let pieces = undo(&source, &made).unwrap();
            for (piece, original) in pieces.into_iter().zip(&originals) {
                assert!(bytes(&whole(vec![piece]).unwrap()) == bytes(original));
            }
        }
        // How long the parts are is not said.
        let source = source(3, &[Operation::Concat { dimension: None }]);
        let made = apply(&source, originals).unwrap();
        assert!(undo(&source, &made).is_err());
    }

    #[test]
    fn slices_are_put_together_again() {
        let original = tensor(&[3, 10], 0);
        let cuts: [&[(u64, u64, u64)]; 4] = [
            &[(0, 4, 1), (4, 6, 1)],
            &[(4, 6, 1), (0, 4, 1)],
            &[(0, 3, 2), (1, 3, 2), (6, 4, 1)],
            &[(0, 1, 1), (1, 3, 3), (2, 3, 3), (3, 3, 3)],
        ];
        for cuts in cuts {
            let pieces = cuts.iter().flat_map(|&(start, count, step)| {
                let operations = [slice(None, start, count, step), Operation::Multiply(2.0)];
                let source = source(1, &operations);
                let made = apply(&source, vec![original.clone()]).unwrap();
                undo(&source, &made).unwrap()
            });
            let back = whole(pieces.collect()).unwrap();
            assert!(bytes(&back) == bytes(&original), "{cuts:?}");
        }
        // What the file does not have is zero, where the description says that it is not used.
        let mut part = source(1, &[slice(None, 2, 5, 1)]);
        (part.shape, part.rest) = (Some(shape(&[3, 10])), Rest::Zero);
        let made = apply(&part, vec![original.clone()]).unwrap();
        let back = whole(undo(&part, &made).unwrap()).unwrap();
        let mut expected = bytes(&original);
        expected[..2 * 3 * 4].fill(0);
        expected[7 * 3 * 4..].fill(0);
        assert!(bytes(&back) == expected);
        // Or it repeats what the file has.
        let mut part = source(1, &[slice(None, 0, 2, 1)]);
        (part.shape, part.rest) = (Some(shape(&[3, 10])), Rest::Same);
        let made = apply(&part, vec![original.clone()]).unwrap();
        let back = whole(undo(&part, &made).unwrap()).unwrap();
        assert!(bytes(&back) == bytes(&original)[..2 * 3 * 4].repeat(5));
        // What the file does not have is missed.
        for cuts in [&[(1, 9, 1)][..], &[(0, 2, 1), (3, 7, 1)], &[(0, 5, 2)]] {
            let pieces = cuts.iter().flat_map(|&(start, count, step)| {
                let source = source(1, &[slice(None, start, count, step)]);
                let made = apply(&source, vec![original.clone()]).unwrap();
                undo(&source, &made).unwrap()
            });
            assert!(whole(pieces.collect()).is_err(), "{cuts:?}");
        }
    }

    #[test]
    fn what_is_lost_is_refused_by_its_step() {
        for (operation, names) in [
            (Operation::Center, 1),
            (Operation::NormalizeColumns, 1),
            (Operation::Ternarize, 1),
            (Operation::Resize { dimension: 1, before: -1, after: 0 }, 1),
            (Operation::Multiply(0.0), 1),
            (Operation::Product, 2),
            (Operation::Sum, 2),
        ] {
            let name = operation.name();
            let source = source(names, &[operation]);
            let made = apply(&source, vec![tensor(&[4, 6], 1); names]).unwrap();
            let error = undo(&source, &made).unwrap_err().to_string();
            assert!(error.contains(&format!("the step {name} cannot be reversed")), "{error}");
        }
    }
}
