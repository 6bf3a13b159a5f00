//! Arithmetic, element by element.

use std::fmt;

use ggmill_core::GgmlType;

use super::reduce::Reduction;
use super::{Expression, Kind, shape_of};
use crate::error::{Error, ErrorKind, Result};

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
    /// The first times the second, rounded to -1, 0 or 1, and divided by the second again.
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
    /// Leaves the result in the first.
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

/// The exponential, rounded once: that of the machine differs from one to the next.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
pub(super) fn exp(value: f32) -> f32 {
    f64::from(value).exp() as f32
}

/// The natural logarithm, rounded once.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
pub(super) fn log(value: f32) -> f32 {
    f64::from(value).ln() as f32
}

/// `ln(1 + exp(x))`, each of the two steps rounded once; large numbers are themselves, as in PyTorch.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
fn softplus(value: f32) -> f32 {
    /// Beyond this, PyTorch takes the function to be the identity.
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

/// The number as a half float has it.
fn half(number: f32) -> ggmill_quant::Result<f32> {
    let (mut bits, mut rounded) = ([0; 2], [0.0]);
    ggmill_quant::quantize(GgmlType::F16, &[number], 1, None, &mut bits)?;
    ggmill_quant::dequantize(GgmlType::F16, &bits, &mut rounded)?;
    Ok(rounded[0])
}

impl Expression {
    /// The elements as F32. Fails for a type that is not decoded.
    pub fn to_f32(&self) -> Result<Self> {
        if self.ggml_type() == GgmlType::F32 {
            return Ok(self.clone());
        }
        ggmill_quant::codec(self.ggml_type())
            .map_err(|error| Error::caused(ErrorKind::Unsupported, error))?;
        Self::new(*self.shape(), GgmlType::F32, Kind::Float { child: self.clone() })
    }

    /// As something to calculate with: half floats stay, all else becomes F32.
    fn numbers(&self) -> Result<Self> {
        if self.ggml_type() == GgmlType::F16 { Ok(self.clone()) } else { self.to_f32() }
    }

    fn map(&self, map: Map) -> Result<Self> {
        let child = self.numbers()?;
        Self::new(*child.shape(), child.ggml_type(), Kind::Map { child, map })
    }

    /// Adds a number to every element. To half floats it is added as a half float, as PyTorch does
    /// with a tensor and a number; a factor of [`mul`](Self::mul) it does not round.
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

    /// Replaces every element `x` by `exp(x)`.
    pub fn exp(&self) -> Result<Self> {
        self.map(Map::Exp)
    }

    /// Replaces every element `x` by `-exp(x)`.
    pub fn neg_exp(&self) -> Result<Self> {
        self.map(Map::NegExp)
    }

    /// Replaces every element `x` by its natural logarithm: the way back from
    /// [`exp`](Self::exp).
    pub fn log(&self) -> Result<Self> {
        self.map(Map::Log)
    }

    /// Replaces every element `x` by `ln(1 + exp(x))`.
    pub fn softplus(&self) -> Result<Self> {
        self.map(Map::Softplus)
    }

    /// Replaces every element by its square root.
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
        let mut operands = [self.numbers()?, other.numbers()?];
        if operands[0].ggml_type() != operands[1].ggml_type() {
            operands = [operands[0].to_f32()?, operands[1].to_f32()?];
        }
        Self::new(*self.shape(), operands[0].ggml_type(), Kind::Pair { operands, pair })
    }

    /// The product, element by element. Fails when the shapes differ.
    pub fn product(&self, other: &Self) -> Result<Self> {
        self.pair(other, Pair::Multiply)
    }

    /// The sum, element by element. Fails when the shapes differ.
    pub fn sum(&self, other: &Self) -> Result<Self> {
        self.pair(other, Pair::Add)
    }

    /// The difference, element by element. Fails when the shapes differ.
    pub fn difference(&self, other: &Self) -> Result<Self> {
        self.pair(other, Pair::Subtract)
    }

    /// The quotient, element by element. Fails when the shapes differ.
    pub fn quotient(&self, other: &Self) -> Result<Self> {
        self.pair(other, Pair::Divide)
    }

    /// Subtracts the mean of all elements. It is summed in double precision and rounded once, where
    /// the reference's sum depends on the machine.
    pub fn center(&self) -> Result<Self> {
        let values = self.numbers()?;
        values.pair(&values.reduce(Reduction::Mean)?, Pair::Subtract)
    }

    /// Divides each column (the elements with the same index in the first dimension) by its
    /// Euclidean length plus 1e-7, in F32.
    pub fn normalize_columns(&self) -> Result<Self> {
        let values = self.to_f32()?;
        values.pair(&values.reduce(Reduction::ColumnLength)?, Pair::Divide)
    }

    /// Makes each element `-m`, 0 or `m`, with `m` the mean magnitude of all (at least 1e-5), as
    /// BitNet does: `round(x / m)`, cut to -1 and 1, times `m`. Half floats stay half.
    pub fn ternarize(&self) -> Result<Self> {
        let values = self.to_f32()?;
        let ternary = values.pair(&values.reduce(Reduction::InverseMagnitude)?, Pair::Ternarize)?;
        if self.ggml_type() == GgmlType::F16 {
            ternary.encode(GgmlType::F16, super::Encoding::default())
        } else {
            Ok(ternary)
        }
    }

    /// The matrix product, in F32: element `(i, j)` is the sum over `k`, in order, of element `(i,
    /// k)` of this times element `(k, j)` of the other. In PyTorch's order, where a matrix has its
    /// rows first, it is `other @ this`. Fails for shapes that are not matrices that fit.
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
