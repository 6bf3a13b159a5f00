//! Result shapes of operations.

use ggmill_core::Shape;

use super::Operation;
use crate::error::{Error, Result};

impl Operation {
    /// Returns the result shape for these input shapes. Fails if the operation does not accept them.
    ///
    /// ```
    /// use ggmill_arch::Operation;
    /// use ggmill_core::Shape;
    /// let expert = Shape::new(&[4096, 14336])?;
    /// assert_eq!(Operation::Stack.shape(&[expert; 8])?, Shape::new(&[4096, 14336, 8])?);
    /// assert!(Operation::Permute { heads: 3 }.shape(&[expert]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        self.shape_or_fault(inputs)
            .map_err(|fault| Error::configuration(format!("{}: {fault}", self.name())))
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each operation")]
    fn shape_or_fault(&self, inputs: &[Shape]) -> Result<Shape, String> {
        let (first, rest) = inputs.split_first().ok_or("there is no input tensor")?;
        if !self.joins() && !rest.is_empty() {
            return Err(format!("takes one tensor, found {}", inputs.len()));
        }
        let dimensions = first.dimensions();
        let slowest = dimensions.last().copied();
        let new = |dimensions: &[u64]| Shape::new(dimensions).map_err(|error| error.to_string());
        let extent = |dimension: usize| {
            let extent = dimensions.get(dimension).copied();
            extent.ok_or_else(|| {
                format!("there is no dimension {dimension}, as there are {}", dimensions.len())
            })
        };
        let with = |dimension: usize, extent: u64| {
            let new_extent = |(number, &old)| if number == dimension { extent } else { old };
            new(&dimensions.iter().enumerate().map(new_extent).collect::<Vec<_>>())
        };
        let slowest_number = dimensions.len().checked_sub(1).ok_or("a scalar has no dimensions");
        match *self {
            Self::Permute { heads } => {
                let pairs = heads
                    .checked_mul(2)
                    .filter(|&pairs| pairs > 0)
                    .ok_or("needs at least one head")?;
                let rows = slowest.ok_or("a scalar has no rows")?;
                if rows.is_multiple_of(pairs) {
                    Ok(*first)
                } else {
                    Err(format!(
                        "{rows} rows cannot be divided into {heads} heads with an even number of \
                         rows each"
                    ))
                }
            }
            Self::Stack => match rest.iter().find(|shape| *shape != first) {
                Some(other) => Err(format!("shapes differ: {first} and {other}")),
                None => new(&[dimensions, &[inputs.len() as u64]].concat()),
            },
            Self::StackPadded => stack_of_padded(first, rest),
            Self::Concat { dimension } => {
                let dimension = dimension.map_or(slowest_number, Ok)?;
                extent(dimension)?;
                let mut total = 0u64;
                for shape in inputs {
                    let differs = || format!("shapes differ: {first} and {shape}");
                    let is_same = |(number, (one, other)): (usize, (&u64, &u64))| {
                        number == dimension || one == other
                    };
                    let fits = shape.dimensions().len() == dimensions.len()
                        && dimensions.iter().zip(shape.dimensions()).enumerate().all(is_same);
                    let rows =
                        shape.dimensions().get(dimension).filter(|_| fits).ok_or_else(differs)?;
                    total = total.checked_add(*rows).ok_or("too many rows")?;
                }
                with(dimension, total)
            }
            Self::Product
            | Self::Sum
            | Self::BatchNormWeight { .. }
            | Self::BatchNormBias { .. } => {
                let wanted = if matches!(self, Self::BatchNormBias { .. }) { 4 } else { 2 };
                match rest.iter().find(|shape| *shape != first) {
                    _ if inputs.len() != wanted => {
                        Err(format!("takes {wanted} tensors, found {}", inputs.len()))
                    }
                    Some(other) => Err(format!("shapes differ: {first} and {other}")),
                    None => Ok(*first),
                }
            }
            Self::Mxfp4 => mxfp4(first, rest),
            Self::Bilinear { columns, rows } => grid(first, columns, rows),
            Self::Axes(ref order) => {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if !sorted.into_iter().eq(0..dimensions.len()) {
                    return Err(format!(
                        "expected each of the {} dimensions exactly once",
                        dimensions.len()
                    ));
                }
                let turned = order
                    .iter()
                    .map(|&dimension| extent(dimension))
                    .collect::<Result<Vec<_>, _>>()?;
                new(&turned)
            }
            Self::Transpose => match dimensions {
                [fastest, second, others @ ..] => new(&[&[*second, *fastest], others].concat()),
                _ => Err(format!("needs two dimensions, found {first}")),
            },
            Self::Reshape(shape) if shape.elements() == first.elements() => Ok(shape),
            Self::Reshape(shape) => Err(format!(
                "{first} has {} elements, but {shape} has {}",
                first.elements(),
                shape.elements()
            )),
            Self::Slice { dimension, start, count, step } => {
                let dimension = dimension.map_or(slowest_number, Ok)?;
                let extent = extent(dimension)?;
                let last = count
                    .saturating_sub(1)
                    .checked_mul(step)
                    .and_then(|reach| reach.checked_add(start));
                let fits = if count == 0 {
                    start <= extent
                } else {
                    last.is_some_and(|last| last < extent)
                };
                if !fits || step == 0 {
                    return Err(format!(
                        "a slice of {count} from {start} in steps of {step} does not fit into \
                         {extent}"
                    ));
                }
                with(dimension, count)
            }
            Self::Resize { dimension, before, after } => {
                let extent = extent(dimension)?;
                let cut = |by: i64| if by < 0 { by.unsigned_abs() } else { 0 };
                let kept =
                    extent.checked_sub(cut(before)).and_then(|left| left.checked_sub(cut(after)));
                let added = |by: i64| u64::try_from(by).unwrap_or(0);
                let resized = kept
                    .and_then(|kept| kept.checked_add(added(before)))
                    .and_then(|size| size.checked_add(added(after)));
                with(
                    dimension,
                    resized.ok_or_else(|| {
                        format!(
                            "cannot change an extent of {extent} by {before} at the start and \
                             {after} at the end"
                        )
                    })?,
                )
            }
            Self::Repeat { dimension, times } => {
                with(dimension, extent(dimension)?.checked_mul(times).ok_or("too many elements")?)
            }
            Self::Within { dimension, start, count, .. } => {
                let extent = extent(dimension)?;
                if start.checked_add(count).is_none_or(|end| end > extent) {
                    return Err(format!(
                        "a range of {count} from {start} does not fit into {extent}"
                    ));
                }
                Ok(*first)
            }
            Self::Add(_)
            | Self::Multiply(_)
            | Self::Float
            | Self::Exp
            | Self::NegExp
            | Self::Softplus
            | Self::Center
            | Self::NormalizeColumns
            | Self::Ternarize
            | Self::AddPlaces { .. } => Ok(*first),
        }
    }
}

/// Returns the shape of a grid of vectors with this number of columns and rows.
fn grid(shape: &Shape, columns: u64, rows: u64) -> Result<Shape, String> {
    match shape.dimensions() {
        &[length, _, _] => Shape::new(&[length, columns, rows]).map_err(|error| error.to_string()),
        _ => Err(format!("needs a grid of vectors, found {shape}")),
    }
}

/// Returns the shape of padded tensors along a new dimension.
fn stack_of_padded(first: &Shape, rest: &[Shape]) -> Result<Shape, String> {
    let (&longest, faster) = first.dimensions().split_last().ok_or("scalars have no rows")?;
    let mut longest = longest;
    for shape in rest {
        match shape.dimensions().split_last() {
            Some((rows, others)) if others == faster => longest = longest.max(*rows),
            _ => return Err(format!("shapes differ: {first} and {shape}")),
        }
    }
    let count = (rest.len() as u64).saturating_add(1);
    Shape::new(&[faster, &[longest, count]].concat()).map_err(|error| error.to_string())
}

/// Returns the shape of blocks of 32 elements with their scales.
fn mxfp4(blocks: &Shape, rest: &[Shape]) -> Result<Shape, String> {
    match (blocks.dimensions(), rest) {
        ([16, count, others @ ..], [scales])
            if scales.dimensions().split_first() == Some((count, others)) =>
        {
            let row_len = count.checked_mul(32).ok_or("too many elements")?;
            Shape::new(&[&[row_len], others].concat()).map_err(|error| error.to_string())
        }
        (_, [scales]) => {
            Err(format!("blocks of shape {blocks} do not match scales of shape {scales}"))
        }
        _ => Err(format!("takes two tensors, found {}", rest.len().saturating_add(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dimensions: &[u64]) -> Shape {
        Shape::new(dimensions).unwrap()
    }

    #[test]
    fn shapes_follow_operations() {
        let matrix = shape(&[64, 32]);
        for (operation, inputs, expected) in [
            (Operation::Permute { heads: 4 }, vec![matrix], Some(matrix)),
            (Operation::Permute { heads: 0 }, vec![matrix], None),
            (Operation::Permute { heads: u64::MAX }, vec![matrix], None),
            (Operation::Permute { heads: 32 }, vec![matrix], None),
            (Operation::Permute { heads: 4 }, vec![shape(&[32])], Some(shape(&[32]))),
            (Operation::Stack, vec![matrix, matrix], Some(shape(&[64, 32, 2]))),
            (Operation::Stack, vec![matrix, shape(&[64, 31])], None),
            (Operation::Stack, vec![], None),
            (
                Operation::Concat { dimension: None },
                vec![matrix, shape(&[64, 3])],
                Some(shape(&[64, 35])),
            ),
            (Operation::Concat { dimension: None }, vec![matrix, shape(&[63, 3])], None),
            (Operation::Transpose, vec![shape(&[2, 3, 4])], Some(shape(&[3, 2, 4]))),
            (Operation::Transpose, vec![shape(&[2])], None),
            (Operation::Reshape(shape(&[2048])), vec![matrix], Some(shape(&[2048]))),
            (Operation::Reshape(shape(&[2047])), vec![matrix], None),
            (
                Operation::Slice { dimension: None, start: 30, count: 2, step: 1 },
                vec![matrix],
                Some(shape(&[64, 2])),
            ),
            (
                Operation::Slice { dimension: None, start: 30, count: 3, step: 1 },
                vec![matrix],
                None,
            ),
            (
                Operation::Slice { dimension: None, start: u64::MAX, count: 1, step: 1 },
                vec![matrix],
                None,
            ),
            (
                Operation::Concat { dimension: Some(0) },
                vec![matrix, shape(&[4, 32])],
                Some(shape(&[68, 32])),
            ),
            (Operation::Concat { dimension: Some(2) }, vec![matrix, matrix], None),
            (Operation::Axes(vec![1, 2, 0]), vec![shape(&[2, 3, 4])], Some(shape(&[3, 4, 2]))),
            (Operation::Axes(vec![1, 1]), vec![matrix], None),
            (
                Operation::Slice { dimension: Some(0), start: 1, count: 32, step: 2 },
                vec![matrix],
                Some(shape(&[32, 32])),
            ),
            (
                Operation::Slice { dimension: Some(0), start: 2, count: 32, step: 2 },
                vec![matrix],
                None,
            ),
            (
                Operation::Slice { dimension: None, start: 0, count: u64::MAX, step: u64::MAX },
                vec![matrix],
                None,
            ),
            (
                Operation::Resize { dimension: 1, before: 3, after: -5 },
                vec![matrix],
                Some(shape(&[64, 30])),
            ),
            (Operation::Resize { dimension: 1, before: -3, after: -30 }, vec![matrix], None),
            (
                Operation::Resize { dimension: 1, before: i64::MIN, after: i64::MAX },
                vec![matrix],
                None,
            ),
            (Operation::Repeat { dimension: 0, times: 3 }, vec![matrix], Some(shape(&[192, 32]))),
            (Operation::Repeat { dimension: 0, times: u64::MAX }, vec![matrix], None),
            (Operation::Product, vec![matrix, matrix], Some(matrix)),
            (
                Operation::Mxfp4,
                vec![shape(&[16, 3, 5, 7]), shape(&[3, 5, 7])],
                Some(shape(&[96, 5, 7])),
            ),
            (Operation::StackPadded, vec![shape(&[4, 2]), shape(&[4, 5])], Some(shape(&[4, 5, 2]))),
            (Operation::StackPadded, vec![shape(&[4, 2]), shape(&[5, 2])], None),
            (Operation::AddPlaces { limit: 9 }, vec![shape(&[4])], Some(shape(&[4]))),
            (Operation::Mxfp4, vec![shape(&[16, 3, 5]), shape(&[3, 6])], None),
            (Operation::Mxfp4, vec![shape(&[15, 3]), shape(&[3])], None),
            (Operation::Mxfp4, vec![shape(&[16, 3])], None),
            (Operation::Product, vec![matrix], None),
            (
                Operation::Within {
                    dimension: 1,
                    start: 30,
                    count: 3,
                    change: Box::new(Operation::Add(1.0)),
                },
                vec![matrix],
                None,
            ),
            (Operation::NegExp, vec![matrix, matrix], None),
            (Operation::Add(1.0), vec![matrix], Some(matrix)),
        ] {
            assert_eq!(operation.shape(&inputs).ok(), expected, "{operation:?} {inputs:?}");
        }
    }
}
