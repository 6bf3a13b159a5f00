//! Weights of one byte (E4M3, the variant with NaN and no infinity) with a scale for each block of
//! rows and columns, as DeepSeek publishes them.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// `float8_e4m3fn` weights beside one scale for each block: inputs are the weights, as I8, and the
/// scales (`weight_scale_inv`). The output is F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fp8Blocks {
    /// Columns of a block.
    pub columns: u64,
    /// Rows of a block.
    pub rows: u64,
}

impl Fp8Blocks {
    /// Blocks of this size; the usual one is 128 by 128. Neither is 0.
    pub fn new(columns: u64, rows: u64) -> Self {
        Self { columns: columns.max(1), rows: rows.max(1) }
    }

    /// The value of one weight.
    fn value(byte: u8) -> f32 {
        let (exponent, mantissa) = ((byte >> 3) & 15, byte & 7);
        let magnitude = match (exponent, mantissa) {
            (15, 7) => f32::NAN,
            (0, _) => f32::from(mantissa) / 512.0,
            _ => f32::from(8 + mantissa) * f32::exp2(f32::from(exponent) - 10.0),
        };
        if byte & 128 == 0 { magnitude } else { -magnitude }
    }
}

impl Decode for Fp8Blocks {
    fn name(&self) -> &'static str {
        "fp8 blocks"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: String| Err(Error::new(ErrorKind::Checkpoint, message));
        let &[(GgmlType::I8, weights), (_, scales)] = inputs else {
            return fault("expected weights of one byte and scales".to_owned());
        };
        let &[columns, rows] = weights.dimensions() else {
            return fault(format!("shape {weights}, expected a matrix"));
        };
        let expected = [columns.div_ceil(self.columns), rows.div_ceil(self.rows)];
        if scales.dimensions() != expected {
            return fault(format!(
                "scales of shape {scales}, expected {} × {}",
                expected[0], expected[1]
            ));
        }
        Ok((GgmlType::F32, weights))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let blocks = inputs.shape(1).row_len();
        let weights = inputs.bytes(0, rows.start * columns..rows.end * columns)?;
        let first = rows.start / self.rows;
        let scales = inputs.floats(1, first * blocks..rows.end.div_ceil(self.rows) * blocks)?;
        let (width, block) = (super::copy::size(columns), super::copy::size(self.columns));
        let values: [f32; 256] =
            std::array::from_fn(|byte| Self::value(u8::try_from(byte).unwrap_or(0)));
        for ((row, weights), out) in
            rows.zip(weights.chunks_exact(width)).zip(out.chunks_exact_mut(4 * width))
        {
            let scales = &scales[super::copy::size((row / self.rows - first) * blocks)..];
            for ((weights, out), scale) in
                weights.chunks(block).zip(out.chunks_mut(4 * block)).zip(scales)
            {
                for (&weight, out) in weights.iter().zip(out.as_chunks_mut::<4>().0) {
                    *out = (values[usize::from(weight)] * scale).to_le_bytes();
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_format() {
        // From the table of OCP's specification of 8-bit floating point (E4M3).
        for (byte, value) in [
            (0x00, 0.0),
            (0x01, 0.001_953_125),
            (0x07, 0.013_671_875),
            (0x08, 0.015_625),
            (0x38, 1.0),
            (0x7e, 448.0),
            (0xfe, -448.0),
            (0xb8, -1.0),
        ] {
            assert_eq!(Fp8Blocks::value(byte).to_bits(), f32::to_bits(value), "{byte:#x}");
        }
        assert!(Fp8Blocks::value(0x7f).is_nan() && Fp8Blocks::value(0xff).is_nan());
    }
}
