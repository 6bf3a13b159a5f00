//! Elementwise arithmetic, reductions and the matrix product.

use std::fmt;
use std::sync::{Arc, PoisonError};

use ggmill_core::GgmlType;

use crate::buffers::zeroed;
use crate::error::{Error, ErrorKind, Result};
use crate::expression::evaluate::Evaluator;
use crate::expression::region::{Region, size};
use crate::expression::{CHUNK, Encoding, Expression, Kind, shape_of};

/// An operation on each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Map {
    Add(f32),
    Multiply(f32),
    Exp,
    NegExp,
    Log,
    Softplus,
    Sqrt,
}

/// An operation on two elements at the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// `round(a * b)` clamped to `[-1, 1]`, divided by `b`.
    Ternarize,
}

impl Map {
    pub(super) fn apply(self, values: &mut [f32]) {
        match self {
            Self::Add(number) => values.iter_mut().for_each(|value| *value += number),
            Self::Multiply(number) => values.iter_mut().for_each(|value| *value *= number),
            Self::Exp => values.iter_mut().for_each(|value| *value = exp(*value)),
            Self::NegExp => values.iter_mut().for_each(|value| *value = -exp(*value)),
            Self::Log => values.iter_mut().for_each(|value| *value = log(*value)),
            Self::Softplus => values.iter_mut().for_each(|value| *value = softplus(*value)),
            Self::Sqrt => values.iter_mut().for_each(|value| *value = value.sqrt()),
        }
    }
}

impl Pair {
    /// Stores the result in `values`.
    pub(super) fn apply(self, values: &mut [f32], others: &[f32]) {
        let both = values.iter_mut().zip(others);
        match self {
            Self::Add => both.for_each(|(value, other)| *value += other),
            Self::Subtract => both.for_each(|(value, other)| *value -= other),
            Self::Multiply => both.for_each(|(value, other)| *value *= other),
            Self::Divide => both.for_each(|(value, other)| *value /= other),
            Self::Ternarize => both.for_each(|(value, other)| {
                *value = (*value * other).round_ties_even().clamp(-1.0, 1.0) / other;
            }),
        }
    }
}

/// The exponential, rounded once from `f64`, because `f32::exp` differs between platforms.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
fn exp(value: f32) -> f32 {
    f64::from(value).exp() as f32
}

/// The natural logarithm, rounded once from `f64`.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
fn log(value: f32) -> f32 {
    f64::from(value).ln() as f32
}

/// `ln(1 + exp(x))` with each of the two steps rounded once; the identity for large `x`, as in
/// PyTorch.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
fn softplus(value: f32) -> f32 {
    /// PyTorch's threshold for the identity.
    const THRESHOLD: f32 = 20.0;
    if value > THRESHOLD { value } else { f64::from(exp(value)).ln_1p() as f32 }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(number) => write!(f, "add({number})"),
            Self::Multiply(number) => write!(f, "mul({number})"),
            Self::Exp => f.write_str("exp"),
            Self::NegExp => f.write_str("neg_exp"),
            Self::Log => f.write_str("log"),
            Self::Softplus => f.write_str("softplus"),
            Self::Sqrt => f.write_str("sqrt"),
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "sum",
            Self::Subtract => "difference",
            Self::Multiply => "product",
            Self::Divide => "quotient",
            Self::Ternarize => "ternarize",
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a number of a configuration is rounded once")]
fn single(number: f64) -> f32 {
    number as f32
}

/// Rounds a number to F16.
fn half(number: f32) -> ggmill_quant::Result<f32> {
    let (mut bits, mut rounded) = ([0; 2], [0.0]);
    ggmill_quant::quantize(GgmlType::F16, &[number], 1, None, &mut bits)?;
    ggmill_quant::dequantize(GgmlType::F16, &bits, &mut rounded)?;
    Ok(rounded[0])
}

impl Expression {
    /// Converts the elements to F32. Fails for a type without a codec.
    pub fn to_f32(&self) -> Result<Self> {
        if self.ggml_type() == GgmlType::F32 {
            return Ok(self.clone());
        }
        ggmill_quant::codec(self.ggml_type())
            .map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
        Self::new(*self.shape(), GgmlType::F32, Kind::Float { child: self.clone() })
    }

    /// Converts to a type for arithmetic: F16 stays, everything else becomes F32.
    fn to_arithmetic_type(&self) -> Result<Self> {
        if self.ggml_type() == GgmlType::F16 { Ok(self.clone()) } else { self.to_f32() }
    }

    fn map(&self, map: Map) -> Result<Self> {
        let child = self.to_arithmetic_type()?;
        Self::new(*child.shape(), child.ggml_type(), Kind::Map { child, map })
    }

    /// Adds a number to every element. For F16 the number is rounded to F16 first, as PyTorch does;
    /// PyTorch does not round the factor of [`mul`](Self::mul).
    pub fn add(&self, number: f64) -> Result<Self> {
        let number = single(number);
        let is_half = self.ggml_type() == GgmlType::F16;
        self.map(Map::Add(if is_half {
            half(number).map_err(|error| self.fault("add", error))?
        } else {
            number
        }))
    }

    /// Multiplies every element by a number.
    pub fn mul(&self, number: f64) -> Result<Self> {
        self.map(Map::Multiply(single(number)))
    }

    /// Computes `exp(x)` for every element.
    pub fn exp(&self) -> Result<Self> {
        self.map(Map::Exp)
    }

    /// Computes `-exp(x)` for every element.
    pub fn neg_exp(&self) -> Result<Self> {
        self.map(Map::NegExp)
    }

    /// Computes the natural logarithm of every element, the inverse of [`exp`](Self::exp).
    pub fn log(&self) -> Result<Self> {
        self.map(Map::Log)
    }

    /// Computes `ln(1 + exp(x))` for every element.
    pub fn softplus(&self) -> Result<Self> {
        self.map(Map::Softplus)
    }

    /// Computes the square root of every element.
    pub fn sqrt(&self) -> Result<Self> {
        self.map(Map::Sqrt)
    }

    fn pair(&self, other: &Self, pair: Pair) -> Result<Self> {
        if self.shape() != other.shape() {
            return Err(self.fault(
                pair,
                format_args!("the second operand is {other}, which has a different shape"),
            ));
        }
        let mut operands = [self.to_arithmetic_type()?, other.to_arithmetic_type()?];
        if operands[0].ggml_type() != operands[1].ggml_type() {
            operands = [operands[0].to_f32()?, operands[1].to_f32()?];
        }
        Self::new(*self.shape(), operands[0].ggml_type(), Kind::Pair { operands, pair })
    }

    /// Returns the elementwise product. Fails if the shapes differ.
    pub fn product(&self, other: &Self) -> Result<Self> {
        self.pair(other, Pair::Multiply)
    }

    /// Returns the elementwise sum. Fails if the shapes differ.
    pub fn sum(&self, other: &Self) -> Result<Self> {
        self.pair(other, Pair::Add)
    }

    /// Returns the elementwise difference. Fails if the shapes differ.
    pub fn difference(&self, other: &Self) -> Result<Self> {
        self.pair(other, Pair::Subtract)
    }

    /// Returns the elementwise quotient. Fails if the shapes differ.
    pub fn quotient(&self, other: &Self) -> Result<Self> {
        self.pair(other, Pair::Divide)
    }

    /// Subtracts the mean of all elements. The mean is summed in double precision and rounded once;
    /// the reference's sum depends on the platform.
    pub fn center(&self) -> Result<Self> {
        let values = self.to_arithmetic_type()?;
        values.pair(&values.reduce(Reduction::Mean)?, Pair::Subtract)
    }

    /// Divides each column (the elements with the same index in the first dimension) by its
    /// Euclidean length plus 1e-7, in F32.
    pub fn normalize_columns(&self) -> Result<Self> {
        let values = self.to_f32()?;
        values.pair(&values.reduce(Reduction::ColumnLength)?, Pair::Divide)
    }

    /// Quantizes each element to `-m`, 0 or `m` like BitNet, where `m` is the mean magnitude of all
    /// elements, at least 1e-5: `round(x / m)` clamped to `[-1, 1]`, times `m`. F16 stays F16.
    pub fn ternarize(&self) -> Result<Self> {
        let values = self.to_f32()?;
        let ternary = values.pair(&values.reduce(Reduction::InverseMagnitude)?, Pair::Ternarize)?;
        if self.ggml_type() == GgmlType::F16 {
            ternary.encode(GgmlType::F16, Encoding::default())
        } else {
            Ok(ternary)
        }
    }

    /// Returns the matrix product in F32: element `(i, j)` is the sum over `k`, in order, of
    /// element `(i, k)` of `self` times element `(k, j)` of `other`. In PyTorch's row-first order
    /// it is `other @ self`. Fails unless both are matrices with matching dimensions.
    ///
    /// ```
    /// # use ggmill_core::Shape;
    /// # use ggmill_pipeline::{Expression, Result};
    /// /// A weight with a low-rank adapter merged into it: `a` has shape (columns, rank), `b` (rank, rows).
    /// fn merged(weight: &Expression, a: &Expression, b: &Expression, scale: f64) -> Result<Expression> {
    ///     weight.to_f32()?.sum(&a.matmul(b)?.mul(scale)?)
    /// }
    /// ```
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        let (&[columns, inner], &[others, rows]) =
            (self.shape().dimensions(), other.shape().dimensions())
        else {
            return Err(self.fault(
                "matmul",
                format_args!("expected two matrices; the second operand is {other}"),
            ));
        };
        if inner != others {
            return Err(self.fault(
                "matmul",
                format_args!("the second operand is {other}: {inner} and {others} should be equal"),
            ));
        }
        let factors = [self.to_f32()?, other.to_f32()?];
        Self::new(shape_of(&[columns, rows])?, GgmlType::F32, Kind::MatrixProduct { factors })
    }
}

/// A reduction over all elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    Mean,
    /// The inverse of the mean magnitude, which is at least 1e-5.
    InverseMagnitude,
    /// The Euclidean length of each column, plus 1e-7.
    ColumnLength,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::InverseMagnitude => "mean magnitude",
            Self::ColumnLength => "lengths of columns",
        })
    }
}

impl Expression {
    /// Returns the reduction, broadcast to the shape of `self`.
    pub(super) fn reduce(&self, reduction: Reduction) -> Result<Self> {
        let shape = *self.shape();
        let (len, times) = match reduction {
            Reduction::Mean | Reduction::InverseMagnitude => (1, shape.elements()),
            Reduction::ColumnLength => (shape.row_len(), shape.rows()),
        };
        let numbers = Self::new(
            shape_of(&[len])?,
            self.ggml_type(),
            Kind::Reduce { child: self.clone(), reduction },
        )?;
        numbers.broadcast(len, times, 1)?.reshape(shape)
    }
}

impl Evaluator<'_> {
    /// Returns the cached result of a reduction. Concurrent callers wait for the first to compute
    /// it.
    pub(super) fn reduced(
        &self,
        this: &Expression,
        child: &Expression,
        reduction: Reduction,
    ) -> Result<Arc<[f32]>> {
        let slot = Arc::clone(
            self.reduced
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(std::ptr::from_ref(&*this.0).addr())
                .or_default(),
        );
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = &*slot {
            return Ok(Arc::clone(numbers));
        }
        let numbers: Arc<[f32]> = self.reduce(child, reduction)?.into();
        *slot = Some(Arc::clone(&numbers));
        Ok(numbers)
    }

    fn reduce(&self, child: &Expression, reduction: Reduction) -> Result<Vec<f32>> {
        let elements = child.shape().elements();
        let row_len = child.shape().row_len().max(1);
        let mut sum = 0.0f64;
        let mut squares = if reduction == Reduction::ColumnLength {
            zeroed::<f32>(size(row_len))?
        } else {
            Vec::new()
        };
        let mut values = Vec::new();
        let mut start = 0;
        while start < elements {
            let end = elements.min(start + CHUNK);
            values.resize(size(end - start), 0.0);
            Region::each(&child.0.extents, start, end, &mut |region| {
                self.floats(child, region, &mut values)
            })?;
            match reduction {
                Reduction::Mean => {
                    sum = values.iter().fold(sum, |sum, &value| sum + f64::from(value));
                }
                Reduction::InverseMagnitude => {
                    sum = values.iter().fold(sum, |sum, &value| sum + f64::from(value.abs()));
                }
                Reduction::ColumnLength => {
                    let mut column = size(start % row_len);
                    for &value in &values {
                        squares[column] += value * value;
                        column = if column + 1 == squares.len() { 0 } else { column + 1 };
                    }
                }
            }
            start = end;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "a mean is rounded once"
        )]
        let mean = (sum / elements as f64) as f32;
        Ok(match reduction {
            Reduction::Mean => vec![mean],
            Reduction::InverseMagnitude => vec![1.0 / mean.max(1e-5)],
            Reduction::ColumnLength => squares.into_iter().map(|sum| sum.sqrt() + 1e-7).collect(),
        })
    }
}
