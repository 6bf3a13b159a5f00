//! Inverts the operations of a description.
//!
//! A tensor of the file determines each checkpoint tensor that it was made from, completely or in a
//! slice. [`undo`] returns these pieces, and [`whole`] joins all pieces of a checkpoint tensor.

use ggmill_arch::{Operation, Source, UnusedElements};
use ggmill_core::Shape;
use ggmill_pipeline::{Error, ErrorKind, Expression, Result};

/// Returns the pieces of the source tensors, in the order of their names, that a tensor of the file
/// determines.
pub(super) fn undo_source(source: &Source, value: &Expression) -> Result<Vec<Piece>> {
    let mut pieces = undo_parts(source, value)?;
    for piece in &mut pieces {
        piece.rest = source.rest;
    }
    Ok(pieces)
}

fn undo_parts(source: &Source, value: &Expression) -> Result<Vec<Piece>> {
    let file = *value.shape();
    if source.parts.is_empty() {
        return undo_all(&source.operations, source.names.len(), source.shape, value, file);
    }
    let rank = file.dimensions().len();
    let shapes: Vec<Option<Shape>> = source
        .parts
        .iter()
        .map(|part| {
            let shape = part.shape.or_else(|| guess_shape(&part.operations, file));
            let known: Option<Vec<u64>> =
                known_extents(&part.operations, shape, rank).into_iter().collect();
            Shape::new(&known?).ok()
        })
        .collect();
    let joined = match undo_until_join(&source.operations, &shapes, value)? {
        Joined::Value(value) if source.parts.len() == 1 => vec![value],
        Joined::Concat(dimension, value) => {
            let lens = part_lengths(source, dimension, &value)?;
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

/// The input of the first operation: one tensor, or the result of joining several.
enum Joined {
    Value(Expression),
    Concat(usize, Expression),
    Stack(Expression),
}

/// Inverts all operations except the first, which joins tensors of these shapes.
fn undo_until_join(
    operations: &[Operation],
    inputs: &[Option<Shape>],
    value: &Expression,
) -> Result<Joined> {
    let [first, rest @ ..] = operations else { return Ok(Joined::Value(value.clone())) };
    if !first.joins() {
        return Err(irreversible(first, "its inputs are several tensors"));
    }
    let inputs: Option<Vec<Shape>> = inputs.iter().copied().collect();
    let shapes = intermediate_shapes(inputs.and_then(|inputs| first.shape(&inputs).ok()), rest);
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
        other => Err(irreversible(other, "its inputs cannot be distinguished")),
    }
}

/// Guesses the checkpoint shape of a tensor whose first operation is a reshape, if the description
/// does not specify it: the shape of the tensor of the file, with another extent in the slowest
/// dimension, if the number of dimensions differs; otherwise the reshaped one.
fn guess_shape(operations: &[Operation], file: Shape) -> Option<Shape> {
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
        rest: UnusedElements::Needed,
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
                    irreversible(
                        &operations[0],
                        "the description does not specify the length of each part",
                    )
                })?;
                split(&value, dimension, &vec![len; names])?
            }
            Joined::Value(value) => vec![value],
        };
        return values.into_iter().map(|value| Ok(whole(reshaped(value, shape)?, shape))).collect();
    }
    let shape = shape.or_else(|| guess_shape(operations, file));
    // The shapes between the operations, if the description specifies them.
    let shapes = intermediate_shapes(shape, operations);
    let mut value = value.clone();
    for (place, operation) in operations.iter().enumerate().rev() {
        if let Operation::Slice { dimension, start, count, step } = *operation {
            let slowest = value.shape().dimensions().len().saturating_sub(1);
            let cut = Cut { dimension: dimension.unwrap_or(slowest), start, count, step };
            let prefix = operations[..place].to_vec();
            return Ok(vec![Piece {
                prefix,
                cut: Some(cut),
                value,
                shape,
                rest: UnusedElements::Needed,
            }]);
        }
        value = undo_one(operation, &value, shapes[place])?;
    }
    Ok(vec![whole(reshaped(value, shape)?, shape)])
}

/// Returns the length of each part along a dimension. At most one part may have no specified
/// length.
fn part_lengths(source: &Source, dimension: usize, value: &Expression) -> Result<Vec<u64>> {
    let rank = value.shape().dimensions().len();
    let open = || {
        let concat = Operation::Concat { dimension: Some(dimension) };
        irreversible(&concat, "the description does not specify the length of each part")
    };
    let total = value.shape().dimensions().get(dimension).copied().ok_or_else(open)?;
    let known: Vec<Option<u64>> = source
        .parts
        .iter()
        .map(|part| {
            known_extents(&part.operations, part.shape, rank).get(dimension).copied().flatten()
        })
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

/// Returns the extents after the operations on one tensor, as far as they are specified.
fn known_extents(operations: &[Operation], shape: Option<Shape>, rank: usize) -> Vec<Option<u64>> {
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

/// Splits a tensor along a dimension.
fn split(value: &Expression, dimension: usize, lens: &[u64]) -> Result<Vec<Expression>> {
    let mut start = 0u64;
    let mut parts = Vec::with_capacity(lens.len());
    for &len in lens {
        parts.push(value.slice(dimension, start, len, 1)?);
        start = start.saturating_add(len);
    }
    Ok(parts)
}

/// Splits a stack along the slowest dimension.
fn unstack(value: &Expression, count: usize) -> Result<Vec<Expression>> {
    let dimensions = value.shape().dimensions();
    let stacked = dimensions.split_last().filter(|(last, _)| **last == count as u64);
    // A stack of one tensor can lack the dimension.
    if count == 1 && stacked.is_none() {
        return Ok(vec![value.clone()]);
    }
    let Some((_, one)) = stacked else {
        return Err(irreversible(&Operation::Stack, "the file has a different number of tensors"));
    };
    let shape = Shape::new(one).map_err(shape_error)?;
    let slowest = one.len();
    (0..count as u64).map(|place| value.slice(slowest, place, 1, 1)?.reshape(shape)).collect()
}

/// The part of a checkpoint tensor that a tensor of the file determines: everything, or a slice.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Operations before the slice; empty without a slice.
    pub(super) prefix: Vec<Operation>,
    /// The slice; `None` for the whole tensor.
    pub(super) cut: Option<Cut>,
    /// The elements of the slice or of the whole tensor.
    pub(super) value: Expression,
    /// The shape of the tensor in the checkpoint, if the description specifies it.
    pub(super) shape: Option<Shape>,
    /// How the elements outside of the slices are restored.
    pub(super) rest: UnusedElements,
}

impl Piece {
    /// Returns the slice; `None` for the whole tensor.
    pub(super) fn run(&self) -> Option<Cut> {
        self.cut
    }
}

/// A strided slice of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    pub(super) dimension: usize,
    pub(super) start: u64,
    pub(super) count: u64,
    pub(super) step: u64,
}

/// Joins the pieces of a checkpoint tensor. Fails if they do not cover it.
pub(super) fn join_pieces(mut pieces: Vec<Piece>) -> Result<Expression> {
    let [first, rest @ ..] = &*pieces else {
        return Err(Error::new(ErrorKind::Misuse, "a tensor has no pieces"));
    };
    let Some(cut) = first.cut else {
        if rest.iter().any(|piece| piece.cut.is_some()) {
            let message = "several tensors of the file are made from it, and one of them from all \
                           of it";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // Every piece is the whole tensor. `refuse_loss` checks later that they are equal.
        return Ok(first.value.clone());
    };
    let (prefix, shape, rest_is) = (first.prefix.clone(), first.shape, first.rest);
    let zero_rest = rest_is == UnusedElements::Zero;
    let step = Operation::Slice {
        dimension: Some(cut.dimension),
        start: cut.start,
        count: cut.count,
        step: cut.step,
    };
    let is_like = |other: &Piece| {
        other.prefix == prefix && other.cut.is_some_and(|other| other.dimension == cut.dimension)
    };
    if !rest.iter().all(is_like) {
        return Err(irreversible(&step, "the tensors of the file are sliced in different ways"));
    }
    pieces.retain(|piece| piece.cut.is_some_and(|cut| cut.count > 0));
    pieces.sort_by_key(|piece| piece.cut.map_or(0, |cut| cut.start));
    pieces.dedup_by(|a, b| a.cut == b.cut);
    let mut joined: Vec<Expression> = Vec::new();
    let before = pieces.first().and_then(|piece| piece.cut).map_or(0, |cut| cut.start);
    let mut end = if zero_rest { before } else { 0 };
    let mut pieces = pieces.as_slice();
    while let [piece, ..] = pieces {
        let Some(cut) = piece.cut.filter(|cut| cut.start == end) else {
            return Err(irreversible(&step, "the file does not contain the remaining elements"));
        };
        // With a step of n, n interleaved slices form one contiguous run.
        let count = usize::try_from(cut.step).unwrap_or(usize::MAX);
        let (these, others) = pieces.split_at_checked(count).ok_or_else(|| {
            irreversible(&step, "the file does not contain the elements in intermediate_shapes")
        })?;
        let mut values = Vec::new();
        for (place, other) in (0u64..).zip(these) {
            let expected = Cut { start: cut.start.saturating_add(place), ..cut };
            if other.cut != Some(expected) {
                return Err(irreversible(
                    &step,
                    "the file does not contain the elements in intermediate_shapes",
                ));
            }
            values.push(other.value.clone());
        }
        joined.push(interleaved(cut.dimension, values)?);
        end = cut
            .count
            .checked_mul(cut.step)
            .and_then(|len| end.checked_add(len))
            .ok_or_else(|| irreversible(&step, "too many elements"))?;
        pieces = others;
    }
    let mut value = Expression::concat(cut.dimension, &joined)?;
    let shapes = intermediate_shapes(shape, &prefix);
    // Zero rows before the first and after the last slice are not in the file.
    let expected = shapes.last().copied().flatten();
    if let (Some(expected), true) = (expected, zero_rest)
        && expected != *value.shape()
    {
        let total = expected.dimensions().get(cut.dimension).copied();
        let after = total.and_then(|total| total.checked_sub(end)).map(i64::try_from);
        let (Ok(before), Some(Ok(after))) = (i64::try_from(before), after) else {
            return Err(irreversible(&step, "the slices exceed the tensor"));
        };
        value = value.resize(cut.dimension, before, after)?;
    }
    if let (Some(expected), UnusedElements::Same) = (expected, rest_is) {
        let extents = (expected, *value.shape());
        let extent = |shape: Shape| shape.dimensions().get(cut.dimension).copied();
        let times = extent(extents.0).zip(extent(extents.1));
        let times = times.and_then(|(all, kept)| all.checked_div(kept));
        value = value.repeat(cut.dimension, times.unwrap_or(1))?;
    }
    if expected.is_some_and(|expected| expected != *value.shape()) {
        return Err(irreversible(&step, "the file does not contain the remaining elements"));
    }
    for (place, operation) in prefix.iter().enumerate().rev() {
        value = undo_one(operation, &value, shapes[place])?;
    }
    reshaped(value, shape)
}

/// Interleaves parts: index `i` of part `j` becomes index `i · n + j`, with `n` parts.
fn interleaved(dimension: usize, values: Vec<Expression>) -> Result<Expression> {
    let (Some(first), true) = (values.first(), values.len() > 1) else {
        return values
            .into_iter()
            .next()
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "there is nothing to join"));
    };
    let mut dimensions = first.shape().dimensions().to_vec();
    let mut raised = dimensions.clone();
    raised.insert(dimension.min(raised.len()), 1);
    let raised = Shape::new(&raised).map_err(shape_error)?;
    let values: Vec<Expression> =
        values.iter().map(|value| value.reshape(raised)).collect::<Result<_>>()?;
    let count = values.len() as u64;
    if let Some(extent) = dimensions.get_mut(dimension) {
        *extent = extent.saturating_mul(count);
    }
    Expression::concat(dimension, &values)?.reshape(Shape::new(&dimensions).map_err(shape_error)?)
}

pub(super) fn irreversible(operation: &Operation, why: &str) -> Error {
    let message = format!("the step {} cannot be reversed: {why}", operation.name());
    Error::new(ErrorKind::Unsupported, message)
}

pub(super) fn shape_error(error: ggmill_core::Error) -> Error {
    Error::caused(ErrorKind::Unsupported, error)
}

/// Returns the input of an operation, which has this shape if it is known.
pub(super) fn undo_one(
    operation: &Operation,
    value: &Expression,
    shape: Option<Shape>,
) -> Result<Expression> {
    let refuse = |why: &str| Err(irreversible(operation, why));
    match operation {
        Operation::Permute { heads } => {
            let dimensions = value.shape().dimensions();
            let Some((&rows, faster)) = dimensions.split_last() else {
                return refuse("a scalar has no rows");
            };
            let pairs = heads.checked_mul(2).filter(|pairs| *pairs > 0 && rows % pairs == 0);
            let Some(pairs) = pairs else {
                return refuse(
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
                    None => return refuse("a dimension does not exist"),
                }
            }
            value.axes(&back)
        }
        Operation::Transpose => value.transpose(),
        Operation::Reshape(_) => match shape {
            Some(shape) => value.reshape(shape),
            None => refuse("the description does not specify the shape in the checkpoint"),
        },
        Operation::Resize { dimension, before, after } if *before >= 0 && *after >= 0 => {
            value.resize(*dimension, before.saturating_neg(), after.saturating_neg())
        }
        Operation::Resize { .. } => refuse("it removes elements that the file does not contain"),
        Operation::Repeat { dimension, times } => {
            let extent = value.shape().dimensions().get(*dimension).copied().unwrap_or(0);
            match extent.checked_div(*times) {
                Some(count) => value.slice(*dimension, 0, count, 1),
                None => refuse("the number of repetitions is 0"),
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
        Operation::Center => refuse("the file does not contain the mean that it subtracts"),
        Operation::NormalizeColumns => {
            refuse("the file does not contain the lengths that it divides by")
        }
        Operation::Ternarize => refuse("the file does not contain the numbers that it rounds"),
        _ => refuse("its inputs cannot be distinguished"),
    }
}

/// Returns the shapes before each operation and after the last, if known.
pub(super) fn intermediate_shapes(
    first: Option<Shape>,
    operations: &[Operation],
) -> Vec<Option<Shape>> {
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

/// Reshapes to the shape in the checkpoint, if it is specified.
pub(super) fn reshaped(value: Expression, shape: Option<Shape>) -> Result<Expression> {
    match shape {
        Some(shape) if shape != *value.shape() => value.reshape(shape),
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use ggmill_pipeline::MemorySource;

    use super::*;
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
    fn operations_on_one_tensor_are_inverted() {
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
            let pieces = undo_source(&source, &made).unwrap();
            let back = join_pieces(pieces).unwrap();
            assert_eq!(*back.shape(), *original.shape(), "{operations:?}");
            assert!(bytes(&back) == bytes(&original), "{operations:?}");
        }
    }

    #[test]
    fn joined_tensors_are_split() {
        let originals = vec![tensor(&[4, 6], 0), tensor(&[4, 6], 30), tensor(&[4, 6], 90)];
        let mut concat = source(3, &[Operation::Concat { dimension: None }]);
        concat.shape = Some(shape(&[4, 6]));
        for source in [source(3, &[Operation::Stack]), concat] {
            let made = apply(&source, originals.clone()).unwrap();
            let pieces = undo_source(&source, &made).unwrap();
            for (piece, original) in pieces.into_iter().zip(&originals) {
                assert!(bytes(&join_pieces(vec![piece]).unwrap()) == bytes(original));
            }
        }
        // The lengths of the parts are not specified.
        let source = source(3, &[Operation::Concat { dimension: None }]);
        let made = apply(&source, originals).unwrap();
        assert!(undo_source(&source, &made).is_err());
    }

    #[test]
    fn slices_are_joined() {
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
                undo_source(&source, &made).unwrap()
            });
            let back = join_pieces(pieces.collect()).unwrap();
            assert!(bytes(&back) == bytes(&original), "{cuts:?}");
        }
        // Elements that the file lacks are zero if the description says that they are unused.
        let mut part = source(1, &[slice(None, 2, 5, 1)]);
        (part.shape, part.rest) = (Some(shape(&[3, 10])), UnusedElements::Zero);
        let made = apply(&part, vec![original.clone()]).unwrap();
        let back = join_pieces(undo_source(&part, &made).unwrap()).unwrap();
        let mut expected = bytes(&original);
        expected[..2 * 3 * 4].fill(0);
        expected[7 * 3 * 4..].fill(0);
        assert!(bytes(&back) == expected);
        // Or they repeat those of the file.
        let mut part = source(1, &[slice(None, 0, 2, 1)]);
        (part.shape, part.rest) = (Some(shape(&[3, 10])), UnusedElements::Same);
        let made = apply(&part, vec![original.clone()]).unwrap();
        let back = join_pieces(undo_source(&part, &made).unwrap()).unwrap();
        assert!(bytes(&back) == bytes(&original)[..2 * 3 * 4].repeat(5));
        // Otherwise missing elements are an error.
        for cuts in [&[(1, 9, 1)][..], &[(0, 2, 1), (3, 7, 1)], &[(0, 5, 2)]] {
            let pieces = cuts.iter().flat_map(|&(start, count, step)| {
                let source = source(1, &[slice(None, start, count, step)]);
                let made = apply(&source, vec![original.clone()]).unwrap();
                undo_source(&source, &made).unwrap()
            });
            assert!(join_pieces(pieces.collect()).is_err(), "{cuts:?}");
        }
    }

    #[test]
    fn irreversible_operations_are_refused_by_name() {
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
            let error = undo_source(&source, &made).unwrap_err().to_string();
            assert!(error.contains(&format!("the step {name} cannot be reversed")), "{error}");
        }
    }
}
