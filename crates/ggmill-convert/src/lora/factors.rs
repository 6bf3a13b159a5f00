//! A weight as the product of two factors, and the operations of a description on this product.
//!
//! The product of `a` and `b` has element (*i*, *j*, …) = Σ over *k* of `a`(*i*, *k*, …) · `b`(*k*,
//! *j*, …). A view along the first dimension of the product is a view of `a`; a view along another
//! dimension is a view of `b`, and also of `a` if `a` has that dimension. A scalar is multiplied
//! into `b`. Operations that mix the first dimension with others, or are not views, cannot be
//! applied to a product.

use ggmill_arch::Operation;
use ggmill_core::Shape;
use ggmill_pipeline::{Checkpoint, Error, ErrorKind, Expression, Result};

/// Elements that are compared at once.
const CHUNK: u64 = 1 << 20;

/// A weight of shape (*columns*, *rows*, …) as two factors.
#[derive(Clone, Debug)]
pub(super) struct Factors {
    /// The factor A, of shape (*columns*, *rank*, …): each further dimension is that of the weight, or
    /// 1 if all its indices share the factor.
    pub(super) a: Expression,
    /// The factor B, of shape (*rank*, *rows*, …).
    pub(super) b: Expression,
}

impl Factors {
    /// Creates a product. Fails if the factors are not matrices with the same inner dimension.
    pub(super) fn new(a: Expression, b: Expression) -> Result<Self> {
        if let ([_, inner], [other, _]) = (dimensions(&a), dimensions(&b))
            && inner == other
        {
            // As in the reference, factors of different types are both converted to F32.
            if a.ggml_type() != b.ggml_type() {
                return Ok(Self { a: a.to_f32()?, b: b.to_f32()? });
            }
            return Ok(Self { a, b });
        }
        let message = format!(
            "factors of shape {} and {}, expected two matrices with the same inner dimension",
            a.shape(),
            b.shape()
        );
        Err(Error::new(ErrorKind::Checkpoint, message))
    }

    /// Returns the factors of the transposed weight.
    pub(super) fn transposed(&self) -> Result<Self> {
        Ok(Self { a: self.b.transpose()?, b: self.a.transpose()? })
    }

    /// Returns the dimensions of the weight.
    pub(super) fn dimensions(&self) -> Vec<u64> {
        let mut dimensions = dimensions(&self.b).to_vec();
        dimensions[0] = extent(&self.a, 0);
        dimensions
    }

    /// Returns the product multiplied by a number, which is a factor of `b`.
    pub(super) fn scaled(&self, number: f64) -> Result<Self> {
        Ok(Self { a: self.a.clone(), b: self.b.mul(number)? })
    }

    /// Returns the inner dimension of the product.
    pub(super) fn rank(&self) -> u64 {
        extent(&self.a, 1)
    }

    /// Returns `true` if `a` has this dimension, `false` if it is broadcast along it.
    fn has(&self, dimension: usize) -> bool {
        dimension >= 2 && extent(&self.a, dimension) != 1
    }

    /// Applies a view along one dimension.
    fn along(
        &self,
        dimension: usize,
        view: impl Fn(&Expression) -> Result<Expression>,
    ) -> Result<Self> {
        let of_a = dimension == 0 || self.has(dimension);
        let a = if of_a { view(&self.a)? } else { self.a.clone() };
        let b = if dimension == 0 { self.b.clone() } else { view(&self.b)? };
        Ok(Self { a, b })
    }

    fn axes(&self, order: &[usize], operation: &Operation) -> Result<Self> {
        if order == [1, 0] {
            return self.transposed();
        }
        if order.first() != Some(&0) {
            return Err(unsupported_operation(operation));
        }
        let b = self.b.axes(order)?;
        if (2..order.len()).all(|dimension| !self.has(dimension)) {
            return Ok(Self { a: self.a.clone(), b });
        }
        if order.get(1) == Some(&1) {
            return Ok(Self { a: self.a.axes(order)?, b });
        }
        Err(unsupported_operation(operation))
    }

    fn reshape(&self, shape: &Shape, operation: &Operation) -> Result<Self> {
        let (columns, rank) = (extent(&self.a, 0), self.rank());
        let is_shared = (2..dimensions(&self.a).len()).all(|dimension| !self.has(dimension));
        let [first, rest @ ..] = shape.dimensions() else {
            return Err(unsupported_operation(operation));
        };
        if *first != columns || rest.is_empty() || !is_shared {
            return Err(unsupported_operation(operation));
        }
        let mut of_a = vec![1; shape.dimensions().len()];
        of_a[..2].copy_from_slice(&[columns, rank]);
        let of_b = [&[rank], rest].concat();
        Ok(Self { a: self.a.reshape(shape_of(&of_a)?)?, b: self.b.reshape(shape_of(&of_b)?)? })
    }

    /// Concatenates weights along a dimension. This is a single product only if the weights share a
    /// factor.
    fn concat(
        dimension: usize,
        parts: &[Self],
        operation: &Operation,
        source: &dyn Checkpoint,
    ) -> Result<Self> {
        let of =
            |half: fn(&Self) -> &Expression| parts.iter().map(half).cloned().collect::<Vec<_>>();
        let (of_a, of_b) = (of(|part| &part.a), of(|part| &part.b));
        let first = parts.first().ok_or_else(|| unsupported_operation(operation))?;
        if dimension == 0 {
            if !all_equal(&of_b, source)? {
                return Err(no_shared_factor(operation));
            }
            return Ok(Self { a: Expression::concat(0, &of_a)?, b: first.b.clone() });
        }
        let is_stack = dimension >= 2
            && parts.iter().all(|part| extent(&part.a, dimension) == extent(&part.b, dimension));
        if is_stack {
            return Ok(Self {
                a: Expression::concat(dimension, &of_a)?,
                b: Expression::concat(dimension, &of_b)?,
            });
        }
        if first.has(dimension) || !all_equal(&of_a, source)? {
            return Err(no_shared_factor(operation));
        }
        Ok(Self { a: first.a.clone(), b: Expression::concat(dimension, &of_b)? })
    }

    /// Applies an operation to weights. `source` provides their elements, which are compared if
    /// weights are concatenated.
    pub(super) fn apply(
        operation: &Operation,
        factors: &[Self],
        source: &dyn Checkpoint,
    ) -> Result<Self> {
        let first =
            factors.first().filter(|_| operation.joins() || factors.len() == 1).ok_or_else(
                || Error::new(ErrorKind::Misuse, "the operation combines several tensors"),
            )?;
        let slowest = dimensions(&first.b).len().saturating_sub(1);
        match operation {
            Operation::Stack => {
                let of = |half: fn(&Self) -> &Expression| {
                    Expression::stack(&factors.iter().map(half).cloned().collect::<Vec<_>>())
                };
                Ok(Self { a: of(|one| &one.a)?, b: of(|one| &one.b)? })
            }
            Operation::Concat { dimension } => {
                Self::concat(dimension.unwrap_or(slowest), factors, operation, source)
            }
            Operation::Permute { heads } => first.along(slowest, |factor| factor.permute(*heads)),
            Operation::Axes(order) => first.axes(order, operation),
            Operation::Transpose => {
                let mut order: Vec<usize> = (0..=slowest).collect();
                order.swap(0, 1);
                first.axes(&order, operation)
            }
            Operation::Reshape(shape) => first.reshape(shape, operation),
            Operation::Slice { dimension, start, count, step } => {
                let dimension = dimension.unwrap_or(slowest);
                first.along(dimension, |factor| factor.slice(dimension, *start, *count, *step))
            }
            Operation::Resize { dimension, before, after } => {
                first.along(*dimension, |factor| factor.resize(*dimension, *before, *after))
            }
            Operation::Repeat { dimension, times } => {
                first.along(*dimension, |factor| factor.repeat(*dimension, *times))
            }
            Operation::Multiply(number) => first.scaled(*number),
            Operation::Within { dimension, start, count, change } => match **change {
                Operation::Multiply(number) => {
                    let within = |factor: &Expression| {
                        factor.within(*dimension, *start, *count, |part| part.mul(number))
                    };
                    Ok(if *dimension == 0 {
                        Self { a: within(&first.a)?, b: first.b.clone() }
                    } else {
                        Self { a: first.a.clone(), b: within(&first.b)? }
                    })
                }
                _ => Err(unsupported_operation(operation)),
            },
            _ => Err(unsupported_operation(operation)),
        }
    }
}

fn dimensions(factor: &Expression) -> &[u64] {
    factor.shape().dimensions()
}

fn extent(factor: &Expression, dimension: usize) -> u64 {
    dimensions(factor).get(dimension).copied().unwrap_or(1)
}

fn shape_of(dimensions: &[u64]) -> Result<Shape> {
    Shape::new(dimensions).map_err(|error| Error::caused(ErrorKind::Misuse, error))
}

/// Returns `true` if all arrays have the same shape and elements.
fn all_equal(arrays: &[Expression], source: &dyn Checkpoint) -> Result<bool> {
    let Some((first, rest)) = arrays.split_first() else { return Ok(true) };
    for other in rest {
        let is_alike = other.shape() == first.shape() && other.ggml_type() == first.ggml_type();
        if !is_alike {
            return Ok(false);
        }
        let elements = first.shape().elements();
        let mut start = 0;
        while start < elements {
            let end = elements.min(start.saturating_add(CHUNK));
            if first.evaluate(source, start..end)? != other.evaluate(source, start..end)? {
                return Ok(false);
            }
            start = end;
        }
    }
    Ok(true)
}

fn unsupported_operation(operation: &Operation) -> Error {
    let message = format!(
        "the file contains this weight after an operation ({}) that cannot be applied to a product \
         of two factors",
        operation.name()
    );
    Error::new(ErrorKind::Unsupported, message)
}

fn no_shared_factor(operation: &Operation) -> Error {
    let message = format!(
        "the file contains these weights in one tensor ({}), which adapters without a shared \
         factor cannot change",
        operation.name()
    );
    Error::new(ErrorKind::Unsupported, message)
}
