//! Operations in descriptions.

use ggmill_core::Shape;

use super::Operation;
use crate::error::{Error, ErrorKind, Result, quoted};
use crate::language::expression::{Expression, Invocation, Scope};

/// An operation in a description, whose parameters are expressions.
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

/// The operations by name, with the minimum and maximum number of arguments.
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
    /// Returns the names of all operations.
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
        // A range of a dimension needs all of its parameters.
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

    pub(crate) fn check_names(&self, is_declared: &dyn Fn(&str) -> bool) -> Result<()> {
        self.arguments.iter().try_for_each(|argument| argument.check_names(is_declared))
    }

    /// Returns `true` if the operation combines several tensors.
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
            value.as_i64().ok_or_else(|| argument.wrong(&value, "an integer"))
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
            _ => return Err(Error::description("an operation has the wrong number of arguments")),
        })
    }
}

/// Returns the number of arguments of an operation, for messages.
fn arguments_of(least: usize, most: usize) -> String {
    if least == most {
        format!("{least} arguments")
    } else {
        format!("{least} to {most} arguments")
    }
}

/// Evaluates a shape from expressions in stored order. Fails for a dimension of 0.
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
