//! The part of checkpoint tensors that a tensor of the file determines: everything, or a slice.

use ggmill_arch::{Operation, Rest};
use ggmill_core::Shape;
use ggmill_pipeline::{Error, ErrorKind, Expression, Result};

use super::steps::{between, fitted, refused, shape_error, undo_one};

/// What a tensor of the file says about one tensor of the checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The operations on the tensor before it was cut; none where it was not.
    pub(super) prefix: Vec<Operation>,
    /// Where it was cut.
    pub(super) cut: Option<Cut>,
    /// What was cut out, or all of it.
    pub(super) value: Expression,
    /// The shape of the tensor in the checkpoint, where the description says it.
    pub(super) shape: Option<Shape>,
    /// What is cut off.
    pub(super) rest: Rest,
}

impl Piece {
    /// The run of the tensor that it is; `None` for all of it.
    pub(super) fn run(&self) -> Option<Cut> {
        self.cut
    }
}

/// A run of the indices of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    pub(super) dimension: usize,
    pub(super) start: u64,
    pub(super) count: u64,
    pub(super) step: u64,
}

/// The tensor of the checkpoint from its pieces, each with the name of the tensor of the file that
/// it comes from.
pub(super) fn whole(mut pieces: Vec<Piece>) -> Result<Expression> {
    let [first, rest @ ..] = &*pieces else {
        return Err(Error::new(ErrorKind::Misuse, "a tensor has no pieces"));
    };
    let Some(cut) = first.cut else {
        if rest.iter().any(|piece| piece.cut.is_some()) {
            let message = "several tensors of the file are made from it, and one of them from all \
                           of it";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // Each of the tensors says everything; whether they say the same is looked at later.
        return Ok(first.value.clone());
    };
    let (prefix, shape, rest_is) = (first.prefix.clone(), first.shape, first.rest);
    let zero_rest = rest_is == Rest::Zero;
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
        return Err(refused(&step, "the tensors of the file are sliced in different ways"));
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
            return Err(refused(&step, "the file does not contain the remaining elements"));
        };
        // As many as the step is long, side by side, are one run.
        let count = usize::try_from(cut.step).unwrap_or(usize::MAX);
        let (these, others) = pieces
            .split_at_checked(count)
            .ok_or_else(|| refused(&step, "the file does not contain the elements in between"))?;
        let mut values = Vec::new();
        for (place, other) in (0u64..).zip(these) {
            let expected = Cut { start: cut.start.saturating_add(place), ..cut };
            if other.cut != Some(expected) {
                return Err(refused(&step, "the file does not contain the elements in between"));
            }
            values.push(other.value.clone());
        }
        joined.push(interleaved(cut.dimension, values)?);
        end = cut
            .count
            .checked_mul(cut.step)
            .and_then(|len| end.checked_add(len))
            .ok_or_else(|| refused(&step, "too many elements"))?;
        pieces = others;
    }
    let mut value = Expression::concat(cut.dimension, &joined)?;
    let shapes = between(shape, &prefix);
    // Rows after the last that the file has are not in it.
    let expected = shapes.last().copied().flatten();
    if let (Some(expected), true) = (expected, zero_rest)
        && expected != *value.shape()
    {
        let total = expected.dimensions().get(cut.dimension).copied();
        let after = total.and_then(|total| total.checked_sub(end)).map(i64::try_from);
        let (Ok(before), Some(Ok(after))) = (i64::try_from(before), after) else {
            return Err(refused(&step, "the slices exceed the tensor"));
        };
        value = value.resize(cut.dimension, before, after)?;
    }
    if let (Some(expected), Rest::Same) = (expected, rest_is) {
        let extents = (expected, *value.shape());
        let extent = |shape: Shape| shape.dimensions().get(cut.dimension).copied();
        let times = extent(extents.0).zip(extent(extents.1));
        let times = times.and_then(|(all, kept)| all.checked_div(kept));
        value = value.repeat(cut.dimension, times.unwrap_or(1))?;
    }
    if expected.is_some_and(|expected| expected != *value.shape()) {
        return Err(refused(&step, "the file does not contain the remaining elements"));
    }
    for (place, operation) in prefix.iter().enumerate().rev() {
        value = undo_one(operation, &value, shapes[place])?;
    }
    fitted(value, shape)
}

/// Index `i` of part `j` becomes index `i · n + j`, with `n` parts.
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
