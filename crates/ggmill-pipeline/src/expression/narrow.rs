//! Integers of 64 bits in 32.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// Integers of 64 bits become the same integers in 32: the input is I64, the output I32. Fails at a
/// number that 32 bits do not hold, and names its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Narrow;

impl Narrow {
    /// The decoder.
    pub fn new() -> Self {
        Self
    }
}

impl Decode for Narrow {
    fn name(&self) -> &'static str {
        "narrow"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        match inputs {
            &[(GgmlType::I64, shape)] => Ok((GgmlType::I32, shape)),
            _ => Err(Error::new(ErrorKind::Checkpoint, "expected 64-bit integers")),
        }
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let bytes = inputs.bytes(0, rows.start * columns..rows.end * columns)?;
        let numbers = bytes.as_chunks().0.iter().map(|&number| i64::from_le_bytes(number));
        for ((place, number), out) in (0..).zip(numbers).zip(out.as_chunks_mut::<4>().0) {
            let narrow = i32::try_from(number).map_err(|_| {
                let (row, column) = (rows.start + place / columns.max(1), place % columns.max(1));
                let message =
                    format!("row {row}, column {column} is {number}, expected a 32-bit integer");
                Error::new(ErrorKind::Checkpoint, message)
            })?;
            *out = narrow.to_le_bytes();
        }
        Ok(())
    }
}
