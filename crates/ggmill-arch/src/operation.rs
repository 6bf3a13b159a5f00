//! What happens to checkpoint tensors on their way into the file: a small algebra.

use ggmill_core::Shape;

use crate::error::{Error, ErrorKind, Result, quoted};
use crate::expression::{Expression, Invocation, Scope};

/// One step from a checkpoint tensor to the tensor of the file, with its numbers resolved.
///
/// Dimensions are named by speed: the *fastest* is `ne[0]`, the last one PyTorch lists; *rows* are what the fastest dimension holds, the *slowest* is the first
/// one PyTorch lists.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Undoes the order in which Hugging Face stores the rows of rotary heads. In each of `heads` equal runs of `n` rows, row `2 i + j` of the result is row
    /// `j n / 2 + i` of the source (`j` is 0 or 1): the halves of the source become neighbours.
    Permute {
        /// Number of runs: attention heads, or key-value heads.
        heads: u64,
    },
    /// Joins tensors of one shape along a new slowest dimension.
    Stack,
    /// Joins tensors along their slowest dimension.
    Concat,
    /// Exchanges the two fastest dimensions.
    Transpose,
    /// Reads the same elements, in the same order, as this shape.
    Reshape(Shape),
    /// Keeps a run of the slowest dimension.
    Slice {
        /// The first index kept.
        start: u64,
        /// How many are kept.
        len: u64,
    },
    /// Adds a number to every element.
    Add(f64),
    /// Replaces every element `x` by `-exp(x)`.
    NegExp,
}

impl Operation {
    /// The name a description writes.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Permute { .. } => "permute",
            Self::Stack => "stack",
            Self::Concat => "concat",
            Self::Transpose => "transpose",
            Self::Reshape(_) => "reshape",
            Self::Slice { .. } => "slice",
            Self::Add(_) => "add",
            Self::NegExp => "neg_exp",
        }
    }

    /// The shape that comes out when tensors of these shapes go in. Fails when the operation cannot take them.
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
        self.shape_or_fault(inputs).map_err(|fault| Error::configuration(format!("{}: {fault}", self.name())))
    }

    fn shape_or_fault(&self, inputs: &[Shape]) -> Result<Shape, String> {
        let (first, rest) = inputs.split_first().ok_or("nothing to work on")?;
        let joins = matches!(self, Self::Stack | Self::Concat);
        if !joins && !rest.is_empty() {
            return Err(format!("takes one tensor, found {}", inputs.len()));
        }
        let dimensions = first.dimensions();
        let slowest = dimensions.last().copied();
        let new = |dimensions: &[u64]| Shape::new(dimensions).map_err(|error| error.to_string());
        match *self {
            Self::Permute { heads } => {
                let pairs = heads.checked_mul(2).filter(|&pairs| pairs > 0).ok_or("needs at least one head")?;
                let rows = slowest.ok_or("a scalar has no rows")?;
                if rows.is_multiple_of(pairs) { Ok(*first) } else { Err(format!("{rows} rows do not split into {heads} heads of an even number of rows")) }
            }
            Self::Stack => match rest.iter().find(|shape| *shape != first) {
                Some(other) => Err(format!("shapes differ: {first} and {other}")),
                None => new(&[dimensions, &[inputs.len() as u64]].concat()),
            },
            Self::Concat => {
                let (_, faster) = dimensions.split_last().ok_or("a scalar has no rows")?;
                let mut total = 0u64;
                for shape in inputs {
                    let joined = shape.dimensions().split_last().filter(|(_, others)| *others == faster);
                    let (rows, _) = joined.ok_or_else(|| format!("shapes differ: {first} and {shape}"))?;
                    total = total.checked_add(*rows).ok_or("too many rows")?;
                }
                new(&[faster, &[total]].concat())
            }
            Self::Transpose => match dimensions {
                [fastest, second, others @ ..] => new(&[&[*second, *fastest], others].concat()),
                _ => Err(format!("needs two dimensions, found {first}")),
            },
            Self::Reshape(shape) if shape.elements() == first.elements() => Ok(shape),
            Self::Reshape(shape) => Err(format!("{first} has {} elements, {shape} has {}", first.elements(), shape.elements())),
            Self::Slice { start, len } => {
                let (rows, faster) = dimensions.split_last().ok_or("a scalar has no rows")?;
                if start.checked_add(len).is_none_or(|end| end > *rows) {
                    return Err(format!("{len} from {start} on, there are {rows}"));
                }
                new(&[faster, &[len]].concat())
            }
            Self::Add(_) | Self::NegExp => Ok(*first),
        }
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
    Concat,
    Transpose,
    Reshape,
    Slice,
    Add,
    NegExp,
}

impl OperationTemplate {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let Invocation { name, arguments } = Invocation::parse(text)?;
        let (kind, least, most) = match &*name {
            "permute" => (Kind::Permute, 1, 1),
            "stack" => (Kind::Stack, 0, 0),
            "concat" => (Kind::Concat, 0, 0),
            "transpose" => (Kind::Transpose, 0, 0),
            "reshape" => (Kind::Reshape, 1, Shape::MAX_DIMENSIONS),
            "slice" => (Kind::Slice, 2, 2),
            "add" => (Kind::Add, 1, 1),
            "neg_exp" => (Kind::NegExp, 0, 0),
            _ => return Err(Error::description(format!("there is no operation {}", quoted(&name)))),
        };
        if arguments.len() < least || arguments.len() > most {
            return Err(Error::description(format!("operation {}: {name} takes {least} arguments, found {}", quoted(text), arguments.len())));
        }
        Ok(Self { kind, arguments })
    }

    pub(crate) fn check_names(&self, known: &dyn Fn(&str) -> bool) -> Result<()> {
        self.arguments.iter().try_for_each(|argument| argument.check_names(known))
    }

    /// Whether several tensors become one.
    pub(crate) fn joins(&self) -> bool {
        matches!(self.kind, Kind::Stack | Kind::Concat)
    }

    pub(crate) fn resolve(&self, scope: &Scope<'_>) -> Result<Operation> {
        Ok(match (self.kind, &*self.arguments) {
            (Kind::Permute, [heads]) => Operation::Permute { heads: heads.evaluate_u64(scope)? },
            (Kind::Stack, _) => Operation::Stack,
            (Kind::Concat, _) => Operation::Concat,
            (Kind::Transpose, _) => Operation::Transpose,
            (Kind::Reshape, dimensions) => Operation::Reshape(resolve_shape(dimensions, scope)?),
            (Kind::Slice, [start, len]) => Operation::Slice { start: start.evaluate_u64(scope)?, len: len.evaluate_u64(scope)? },
            (Kind::Add, [number]) => {
                let value = number.evaluate(scope)?;
                Operation::Add(value.as_f64().ok_or_else(|| number.wrong(&value, "a number"))?)
            }
            (Kind::NegExp, _) => Operation::NegExp,
            // The number of arguments was checked when the description was loaded.
            _ => return Err(Error::description("an operation with the wrong number of arguments")),
        })
    }
}

/// A shape from expressions in stored order. Every dimension must be at least 1.
pub(crate) fn resolve_shape(dimensions: &[Expression], scope: &Scope<'_>) -> Result<Shape> {
    let mut sizes = Vec::with_capacity(dimensions.len());
    for dimension in dimensions {
        let size = dimension.evaluate_u64(scope)?;
        if size == 0 {
            return Err(Error::configuration(format!("{} is 0, expected at least 1", dimension.text())));
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
            (Operation::Concat, vec![matrix, shape(&[64, 3])], Some(shape(&[64, 35]))),
            (Operation::Concat, vec![matrix, shape(&[63, 3])], None),
            (Operation::Transpose, vec![shape(&[2, 3, 4])], Some(shape(&[3, 2, 4]))),
            (Operation::Transpose, vec![shape(&[2])], None),
            (Operation::Reshape(shape(&[2048])), vec![matrix], Some(shape(&[2048]))),
            (Operation::Reshape(shape(&[2047])), vec![matrix], None),
            (Operation::Slice { start: 30, len: 2 }, vec![matrix], Some(shape(&[64, 2]))),
            (Operation::Slice { start: 30, len: 3 }, vec![matrix], None),
            (Operation::Slice { start: u64::MAX, len: 1 }, vec![matrix], None),
            (Operation::NegExp, vec![matrix, matrix], None),
            (Operation::Add(1.0), vec![matrix], Some(matrix)),
        ] {
            assert_eq!(operation.shape(&inputs).ok(), expected, "{operation:?} {inputs:?}");
        }
    }
}
