//! Operations on checkpoint tensors during conversion: a small algebra.

use ggmill_core::Shape;

use crate::error::{Error, ErrorKind, Result, quoted};
use crate::expression::{Expression, Invocation, Scope};

/// One step from a checkpoint tensor to the tensor of the file, with its numbers resolved.
///
/// Dimensions are in stored order, as everywhere: number 0 is `ne[0]`, the *fastest*, the last one
/// PyTorch lists; the *slowest* is the first one PyTorch lists. Where a dimension is `None`, it is
/// the slowest.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Undoes the order in which Hugging Face stores the rows of rotary heads. In each of `heads`
    /// equal runs of `n` rows, row `2 i + j` of the result is row `j n / 2 + i` of the source (`j`
    /// is 0 or 1): the halves of the source become neighbors.
    Permute {
        /// Number of runs: attention heads, or key-value heads.
        heads: u64,
    },
    /// Joins tensors of one shape along a new slowest dimension.
    Stack,
    /// The same of tensors whose slowest dimensions differ: behind a shorter one are zeros.
    StackPadded,
    /// Joins tensors along a dimension.
    Concat {
        /// Which dimension.
        dimension: Option<usize>,
    },
    /// Multiplies two tensors of one shape, element by element.
    Product,
    /// Adds two tensors of one shape, element by element.
    Sum,
    /// Reorders dimensions: dimension `i` of the result is the one of this number.
    Axes(Vec<usize>),
    /// Exchanges the two fastest dimensions.
    Transpose,
    /// Reads the same elements, in the same order, as this shape.
    Reshape(Shape),
    /// Keeps some indices of a dimension.
    Slice {
        /// Which dimension.
        dimension: Option<usize>,
        /// The first index kept.
        start: u64,
        /// How many are kept.
        count: u64,
        /// From one that is kept to the next.
        step: u64,
    },
    /// Adds zeros before and after a dimension, or cuts as many indices off where a number is
    /// negative.
    Resize {
        /// Which dimension.
        dimension: usize,
        /// How many before.
        before: i64,
        /// How many after.
        after: i64,
    },
    /// Puts the tensor after itself along a dimension, so many times in all.
    Repeat {
        /// Which dimension.
        dimension: usize,
        /// How many times.
        times: u64,
    },
    /// Adds a number to every element.
    Add(f64),
    /// Multiplies every element by a number.
    Multiply(f64),
    /// Does so within a part of a dimension only.
    Within {
        /// Which dimension.
        dimension: usize,
        /// The first index of the part.
        start: u64,
        /// How many indices the part has.
        count: u64,
        /// The operation: [`Add`](Self::Add) or [`Multiply`](Self::Multiply).
        change: Box<Operation>,
    },
    /// Makes every element F32, for what comes after: half floats are calculated with as half floats
    /// otherwise.
    Float,
    /// Replaces every element `x` by `exp(x)`.
    Exp,
    /// Subtracts the mean of all elements.
    Center,
    /// Divides each column, the elements with one index in the fastest dimension, by its Euclidean
    /// length.
    NormalizeColumns,
    /// Makes every element minus the mean magnitude, 0, or the mean magnitude.
    Ternarize,
    /// Replaces every element `x` by `-exp(x)`.
    NegExp,
    /// Replaces every element `x` by `ln(1 + exp(x))`.
    Softplus,
    /// Joins the weight of a batch normalization with its running variance into the factor that
    /// both come to: `weight / sqrt(variance + epsilon)`.
    BatchNormWeight {
        /// What is added to the variance.
        epsilon: f64,
    },
    /// Joins the bias of a batch normalization with its running mean, its weight and its running
    /// variance into what is added after the factor: `bias - mean * factor`.
    BatchNormBias {
        /// What is added to the variance.
        epsilon: f64,
    },
    /// Gives the values of a grid, of shape (length, columns, rows), at the places of another one
    /// with the same corners, by linear interpolation.
    Bilinear {
        /// Columns of the other grid.
        columns: u64,
        /// Rows of the other grid.
        rows: u64,
    },
    /// Joins MXFP4 weights, of shape (16, blocks of a row, …), with their scales, of shape (blocks
    /// of a row, …), into a tensor of type MXFP4.
    Mxfp4,
    /// Adds to every whole number of a list its place there. The sums are IDs: all different, and
    /// below the limit.
    AddPlaces {
        /// How many IDs there are.
        limit: u64,
    },
}

impl Operation {
    /// The name a description writes.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Permute { .. } => "permute",
            Self::Stack => "stack",
            Self::StackPadded => "stack_padded",
            Self::Concat { .. } => "concat",
            Self::Product => "product",
            Self::Sum => "sum",
            Self::Axes(_) => "axes",
            Self::Transpose => "transpose",
            Self::Reshape(_) => "reshape",
            Self::Slice { .. } => "slice",
            Self::Resize { .. } => "resize",
            Self::Repeat { .. } => "repeat",
            Self::Add(_) => "add",
            Self::Multiply(_) => "mul",
            Self::Within { change, .. } => change.name(),
            Self::Float => "f32",
            Self::Exp => "exp",
            Self::Center => "center",
            Self::NormalizeColumns => "normalize_columns",
            Self::Ternarize => "ternarize",
            Self::NegExp => "neg_exp",
            Self::Softplus => "softplus",
            Self::BatchNormWeight { .. } => "batch_norm_weight",
            Self::BatchNormBias { .. } => "batch_norm_bias",
            Self::Bilinear { .. } => "bilinear",
            Self::Mxfp4 => "mxfp4",
            Self::AddPlaces { .. } => "add_places",
        }
    }

    /// Whether several tensors become one.
    pub fn joins(&self) -> bool {
        matches!(
            self,
            Self::Stack
                | Self::StackPadded
                | Self::Concat { .. }
                | Self::Product
                | Self::Sum
                | Self::BatchNormWeight { .. }
                | Self::BatchNormBias { .. }
                | Self::Mxfp4
        )
    }

    /// The shape that comes out when tensors of these shapes go in. Fails when the operation cannot
    /// take them.
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

    fn shape_or_fault(&self, inputs: &[Shape]) -> Result<Shape, String> {
        let (first, rest) = inputs.split_first().ok_or("nothing to work on")?;
        if !self.joins() && !rest.is_empty() {
            return Err(format!("takes one tensor, found {}", inputs.len()));
        }
        let dimensions = first.dimensions();
        let slowest = dimensions.last().copied();
        let new = |dimensions: &[u64]| Shape::new(dimensions).map_err(|error| error.to_string());
        let extent = |dimension: usize| {
            let extent = dimensions.get(dimension).copied();
            extent.ok_or_else(|| format!("dimension {dimension}, there are {}", dimensions.len()))
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
                        "{rows} rows do not split into {heads} heads of an even number of rows"
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
                    return Err(format!("expected each of {} dimensions once", dimensions.len()));
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
                "{first} has {} elements, {shape} has {}",
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
                        "{count} from {start} on in steps of {step}, there are {extent}"
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
                with(dimension, resized.ok_or_else(|| format!("{before} and {after} of {extent}"))?)
            }
            Self::Repeat { dimension, times } => {
                with(dimension, extent(dimension)?.checked_mul(times).ok_or("too many elements")?)
            }
            Self::Within { dimension, start, count, .. } => {
                let extent = extent(dimension)?;
                if start.checked_add(count).is_none_or(|end| end > extent) {
                    return Err(format!("{count} from {start} on, there are {extent}"));
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

/// The shape of a grid of as many columns and rows, with the vectors of this one.
fn grid(shape: &Shape, columns: u64, rows: u64) -> Result<Shape, String> {
    match shape.dimensions() {
        &[length, _, _] => Shape::new(&[length, columns, rows]).map_err(|error| error.to_string()),
        _ => Err(format!("needs a grid of vectors, found {shape}")),
    }
}

/// Tensors as long as the longest, along a new dimension.
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

/// Blocks of 32 elements, with their scales.
fn mxfp4(blocks: &Shape, rest: &[Shape]) -> Result<Shape, String> {
    match (blocks.dimensions(), rest) {
        ([16, count, others @ ..], [scales])
            if scales.dimensions().split_first() == Some((count, others)) =>
        {
            let row_len = count.checked_mul(32).ok_or("too many elements")?;
            Shape::new(&[&[row_len], others].concat()).map_err(|error| error.to_string())
        }
        (_, [scales]) => Err(format!("blocks of shape {blocks}, scales of {scales}")),
        _ => Err(format!("takes two tensors, found {}", rest.len().saturating_add(1))),
    }
}

/// An operation as a description writes it, its numbers still expressions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OperationTemplate {
    kind: Kind,
    arguments: Vec<Expression>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Permute,
    Stack,
    StackPadded,
    Concat,
    Product,
    Sum,
    Axes,
    Transpose,
    Reshape,
    Slice,
    Resize,
    Repeat,
    Add,
    Multiply,
    Float,
    Exp,
    NegExp,
    Center,
    NormalizeColumns,
    Ternarize,
    Softplus,
    BatchNormWeight,
    BatchNormBias,
    Bilinear,
    Mxfp4,
    AddPlaces,
}

/// The operations that a description may write, with the least and the most arguments each takes.
const OPERATIONS: [(&str, Kind, usize, usize); 26] = [
    ("permute", Kind::Permute, 1, 1),
    ("stack", Kind::Stack, 0, 0),
    ("stack_padded", Kind::StackPadded, 0, 0),
    ("concat", Kind::Concat, 0, 1),
    ("product", Kind::Product, 0, 0),
    ("sum", Kind::Sum, 0, 0),
    ("axes", Kind::Axes, 1, Shape::MAX_DIMENSIONS),
    ("transpose", Kind::Transpose, 0, 0),
    ("reshape", Kind::Reshape, 1, Shape::MAX_DIMENSIONS),
    ("slice", Kind::Slice, 2, 4),
    ("resize", Kind::Resize, 3, 3),
    ("repeat", Kind::Repeat, 2, 2),
    ("add", Kind::Add, 1, 4),
    ("mul", Kind::Multiply, 1, 4),
    ("f32", Kind::Float, 0, 0),
    ("exp", Kind::Exp, 0, 0),
    ("neg_exp", Kind::NegExp, 0, 0),
    ("center", Kind::Center, 0, 0),
    ("normalize_columns", Kind::NormalizeColumns, 0, 0),
    ("ternarize", Kind::Ternarize, 0, 0),
    ("softplus", Kind::Softplus, 0, 0),
    ("batch_norm_weight", Kind::BatchNormWeight, 1, 1),
    ("batch_norm_bias", Kind::BatchNormBias, 1, 1),
    ("bilinear", Kind::Bilinear, 2, 2),
    ("mxfp4", Kind::Mxfp4, 0, 0),
    ("add_places", Kind::AddPlaces, 1, 1),
];

impl Operation {
    /// The names of all operations.
    pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
        OPERATIONS.iter().map(|operation| operation.0)
    }
}

impl OperationTemplate {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let Invocation { name, arguments } = Invocation::parse(text)?;
        let known = OPERATIONS.iter().find(|operation| operation.0 == &*name);
        let &(_, kind, least, most) = known.ok_or_else(|| {
            Error::description(format!("there is no operation {}", quoted(&name)))
        })?;
        // A range of a dimension takes all of its numbers.
        let is_part =
            matches!(kind, Kind::Add | Kind::Multiply) && matches!(arguments.len(), 2 | 3);
        if arguments.len() < least || arguments.len() > most || is_part {
            return Err(Error::description(format!(
                "operation {}: {name} takes {}, found {}",
                quoted(text),
                arguments_of(least, most),
                arguments.len()
            )));
        }
        Ok(Self { kind, arguments })
    }

    pub(crate) fn check_names(&self, known: &dyn Fn(&str) -> bool) -> Result<()> {
        self.arguments.iter().try_for_each(|argument| argument.check_names(known))
    }

    /// Whether several tensors become one.
    pub(crate) fn joins(&self) -> bool {
        matches!(
            self.kind,
            Kind::Stack
                | Kind::StackPadded
                | Kind::Concat
                | Kind::Product
                | Kind::Sum
                | Kind::BatchNormWeight
                | Kind::BatchNormBias
                | Kind::Mxfp4
        )
    }

    pub(crate) fn resolve(&self, scope: &Scope<'_>) -> Result<Operation> {
        let number = |argument: &Expression| {
            let value = argument.evaluate(scope)?;
            value.as_f64().ok_or_else(|| argument.wrong(&value, "a number"))
        };
        let signed = |argument: &Expression| {
            let value = argument.evaluate(scope)?;
            value.as_i64().ok_or_else(|| argument.wrong(&value, "a whole number"))
        };
        let count = |argument: &Expression| argument.evaluate_u64(scope);
        let dimension = |argument: &Expression| {
            let number = count(argument)?;
            let number =
                usize::try_from(number).ok().filter(|&number| number < Shape::MAX_DIMENSIONS);
            number.ok_or_else(|| {
                Error::configuration(format!("{} is not a dimension", argument.text()))
            })
        };
        let change = |value: f64| {
            if self.kind == Kind::Add { Operation::Add(value) } else { Operation::Multiply(value) }
        };
        Ok(match (self.kind, &*self.arguments) {
            (Kind::Permute, [heads]) => Operation::Permute { heads: count(heads)? },
            (Kind::Stack, _) => Operation::Stack,
            (Kind::StackPadded, _) => Operation::StackPadded,
            (Kind::Concat, []) => Operation::Concat { dimension: None },
            (Kind::Concat, [along]) => Operation::Concat { dimension: Some(dimension(along)?) },
            (Kind::Product, _) => Operation::Product,
            (Kind::Sum, _) => Operation::Sum,
            (Kind::Axes, order) => {
                Operation::Axes(order.iter().map(dimension).collect::<Result<_>>()?)
            }
            (Kind::Transpose, _) => Operation::Transpose,
            (Kind::Reshape, dimensions) => Operation::Reshape(resolve_shape(dimensions, scope)?),
            (Kind::Slice, [start, len]) => Operation::Slice {
                dimension: None,
                start: count(start)?,
                count: count(len)?,
                step: 1,
            },
            (Kind::Slice, [along, start, len, step @ ..]) => {
                let step = step.first().map_or(Ok(1), count)?;
                Operation::Slice {
                    dimension: Some(dimension(along)?),
                    start: count(start)?,
                    count: count(len)?,
                    step,
                }
            }
            (Kind::Resize, [along, before, after]) => Operation::Resize {
                dimension: dimension(along)?,
                before: signed(before)?,
                after: signed(after)?,
            },
            (Kind::Repeat, [along, times]) => {
                Operation::Repeat { dimension: dimension(along)?, times: count(times)? }
            }
            (Kind::Add | Kind::Multiply, [value]) => change(number(value)?),
            (Kind::Add | Kind::Multiply, [value, along, start, len]) => {
                let change = Box::new(change(number(value)?));
                Operation::Within {
                    dimension: dimension(along)?,
                    start: count(start)?,
                    count: count(len)?,
                    change,
                }
            }
            (Kind::Float, _) => Operation::Float,
            (Kind::Exp, _) => Operation::Exp,
            (Kind::NegExp, _) => Operation::NegExp,
            (Kind::Center, _) => Operation::Center,
            (Kind::NormalizeColumns, _) => Operation::NormalizeColumns,
            (Kind::Ternarize, _) => Operation::Ternarize,
            (Kind::Softplus, _) => Operation::Softplus,
            (Kind::BatchNormWeight, [epsilon]) => {
                Operation::BatchNormWeight { epsilon: number(epsilon)? }
            }
            (Kind::BatchNormBias, [epsilon]) => {
                Operation::BatchNormBias { epsilon: number(epsilon)? }
            }
            (Kind::Bilinear, [columns, rows]) => {
                Operation::Bilinear { columns: count(columns)?, rows: count(rows)? }
            }
            (Kind::Mxfp4, _) => Operation::Mxfp4,
            (Kind::AddPlaces, [limit]) => Operation::AddPlaces { limit: count(limit)? },
            // The number of arguments was checked when the description was loaded.
            _ => return Err(Error::description("an operation with the wrong number of arguments")),
        })
    }
}

/// How many arguments an operation takes, in words.
fn arguments_of(least: usize, most: usize) -> String {
    if least == most {
        format!("{least} arguments")
    } else {
        format!("{least} to {most} arguments")
    }
}

/// A shape from expressions in stored order. Every dimension must be at least 1.
pub(crate) fn resolve_shape(dimensions: &[Expression], scope: &Scope<'_>) -> Result<Shape> {
    let mut sizes = Vec::with_capacity(dimensions.len());
    for dimension in dimensions {
        let size = dimension.evaluate_u64(scope)?;
        if size == 0 {
            return Err(Error::configuration(format!(
                "{} is 0, expected at least 1",
                dimension.text()
            )));
        }
        sizes.push(size);
    }
    Shape::new(&sizes).map_err(|error| Error::new(ErrorKind::Limit, error.to_string()))
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
