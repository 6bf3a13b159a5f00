//! Numbers that take a pass over all of an array: made once in a run, and remembered.

use std::fmt;
use std::sync::{Arc, PoisonError};

use super::CHUNK;
use super::evaluate::Evaluator;
use super::region::Region;
use super::{Expression, Kind, shape_of};
use crate::buffers::zeroed;
use crate::error::Result;

/// A reduction of all elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    /// Their mean.
    Mean,
    /// One over their mean magnitude, which is at least 1e-5.
    InverseMagnitude,
    /// For each column the square root of the sum of its squares, plus 1e-7.
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
    /// The numbers, each repeated to where it is used.
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
    /// The numbers of a reduction. Others that want them meanwhile wait.
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
            zeroed::<f32>(super::copy::size(row_len))?
        } else {
            Vec::new()
        };
        let mut values = Vec::new();
        let mut start = 0;
        while start < elements {
            let end = elements.min(start + CHUNK);
            values.resize(super::copy::size(end - start), 0.0);
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
                    let mut column = super::copy::size(start % row_len);
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
