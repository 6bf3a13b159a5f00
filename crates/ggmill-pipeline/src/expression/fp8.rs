//! Weights of one byte, and weights with a scale for each block of rows and columns.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// A floating-point type of one byte; as a decoder, tensors of it, stored as I8, become F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fp8 {
    /// Four bits of exponent, three of mantissa: with NaN and without infinity (`float8_e4m3fn`).
    E4M3,
    /// Five bits of exponent, two of mantissa (`float8_e5m2`).
    E5M2,
    /// Eight bits of exponent alone: powers of two (`float8_e8m0fnu`).
    E8M0,
}

impl Fp8 {
    /// The type of this name in safetensors.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "F8_E4M3" => Some(Self::E4M3),
            "F8_E5M2" => Some(Self::E5M2),
            "F8_E8M0" => Some(Self::E8M0),
            _ => None,
        }
    }

    /// The value of a byte.
    fn value(self, byte: u8) -> f32 {
        let (exponent_bits, mantissa_bits) = match self {
            Self::E4M3 => (4, 3),
            Self::E5M2 => (5, 2),
            Self::E8M0 if byte == 255 => return f32::NAN,
            Self::E8M0 => return f32::exp2(f32::from(byte) - 127.0),
        };
        let last = (1u8 << exponent_bits) - 1;
        let exponent = (byte >> mantissa_bits) & last;
        let mantissa = byte & ((1 << mantissa_bits) - 1);
        let one = f32::from(1u8 << mantissa_bits);
        let lowest = 2.0 - f32::from(1u8 << (exponent_bits - 1));
        let magnitude = match (exponent, mantissa) {
            (15, 7) if self == Self::E4M3 => f32::NAN,
            (31, 0) if self == Self::E5M2 => f32::INFINITY,
            (31, _) if self == Self::E5M2 => f32::NAN,
            (0, _) => f32::from(mantissa) / one * f32::exp2(lowest),
            _ => (1.0 + f32::from(mantissa) / one) * f32::exp2(f32::from(exponent) - 1.0 + lowest),
        };
        if byte & 128 == 0 { magnitude } else { -magnitude }
    }

    fn values(self) -> [f32; 256] {
        std::array::from_fn(|byte| self.value(u8::try_from(byte).unwrap_or(0)))
    }
}

impl Decode for Fp8 {
    fn name(&self) -> &'static str {
        "fp8"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        match inputs {
            &[(GgmlType::I8, weights)] => Ok((GgmlType::F32, weights)),
            _ => Err(Error::new(ErrorKind::Checkpoint, "expected elements of one byte")),
        }
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let bytes = inputs.bytes(0, rows.start * columns..rows.end * columns)?;
        let values = self.values();
        for (&byte, out) in bytes.iter().zip(out.as_chunks_mut::<4>().0) {
            *out = values[usize::from(byte)].to_le_bytes();
        }
        Ok(())
    }
}

/// Weights with one scale for each block of rows and columns: inputs are the weights, as I8 of an
/// [`Fp8`] type or of any type of numbers, and the scales (`weight_scale_inv`), as many in each
/// dimension as there are blocks. The output is weight × scale, in F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fp8Blocks {
    /// Columns of a block.
    pub columns: u64,
    /// Rows of a block.
    pub rows: u64,
    /// The type of weights that are stored as I8; `None` where they are integers.
    pub format: Option<Fp8>,
}

impl Fp8Blocks {
    /// Blocks of this size; the usual one is 128 by 128. Neither is 0. Weights are
    /// [`Fp8::E4M3`].
    pub fn new(columns: u64, rows: u64) -> Self {
        Self { columns: columns.max(1), rows: rows.max(1), format: Some(Fp8::E4M3) }
    }

    /// The same for weights of this type.
    #[must_use]
    pub fn of(self, format: Fp8) -> Self {
        Self { format: Some(format), ..self }
    }

    /// The same for weights that are numbers as they are stored, integers of one byte too.
    #[must_use]
    pub fn of_numbers(self) -> Self {
        Self { format: None, ..self }
    }
}

impl Decode for Fp8Blocks {
    fn name(&self) -> &'static str {
        "fp8 blocks"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: String| Err(Error::new(ErrorKind::Checkpoint, message));
        let &[(_, weights), (_, scales)] = inputs else {
            return fault("expected weights and scales".to_owned());
        };
        let blocks = |(dimension, &extent): (usize, &u64)| match dimension {
            0 => extent.div_ceil(self.columns),
            1 => extent.div_ceil(self.rows),
            _ => extent,
        };
        let expected: Vec<u64> = weights.dimensions().iter().enumerate().map(blocks).collect();
        if expected.is_empty() || scales.dimensions() != expected {
            return fault(format!(
                "scales of shape {scales} for weights of shape {weights}, expected {expected:?}"
            ));
        }
        Ok((GgmlType::F32, weights))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let blocks = inputs.shape(1).row_len();
        let height = inputs.shape(0).dimensions().get(1).copied().unwrap_or(1).max(1);
        // Blocks do not reach from one matrix into the next.
        let row_of_scales =
            |row: u64| row / height * height.div_ceil(self.rows) + row % height / self.rows;
        let elements = rows.start * columns..rows.end * columns;
        let weights = match self.format.filter(|_| inputs.ggml_type(0) == GgmlType::I8) {
            Some(format) => {
                let values = format.values();
                let bytes = inputs.bytes(0, elements)?;
                bytes.into_iter().map(|byte| values[usize::from(byte)]).collect()
            }
            None => inputs.floats(0, elements)?,
        };
        let first = row_of_scales(rows.start);
        let end = rows.end.checked_sub(1).map_or(first, |last| row_of_scales(last) + 1);
        let scales = inputs.floats(1, first * blocks..end * blocks)?;
        let (width, block) = (super::copy::size(columns).max(1), super::copy::size(self.columns));
        for ((row, weights), out) in
            rows.zip(weights.chunks_exact(width)).zip(out.chunks_exact_mut(4 * width))
        {
            let scales = &scales[super::copy::size((row_of_scales(row) - first) * blocks)..];
            for ((weights, out), scale) in
                weights.chunks(block).zip(out.chunks_mut(block.saturating_mul(4))).zip(scales)
            {
                for (weight, out) in weights.iter().zip(out.as_chunks_mut::<4>().0) {
                    *out = (weight * scale).to_le_bytes();
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
            assert_eq!(Fp8::E4M3.value(byte).to_bits(), f32::to_bits(value), "{byte:#x}");
        }
        assert!(Fp8::E4M3.value(0x7f).is_nan() && Fp8::E4M3.value(0xff).is_nan());
    }
    /// E5M2 is the first byte of a half float, E8M0 the exponent of a single one.
    #[test]
    fn values_are_those_of_wider_types() {
        for byte in 0..=255u8 {
            let mut half = [0.0];
            ggmill_quant::dequantize(GgmlType::F16, &[0, byte], &mut half).unwrap();
            let found = Fp8::E5M2.value(byte);
            assert!(found.to_bits() == half[0].to_bits() || found.is_nan() && half[0].is_nan());
            if (1..255).contains(&byte) {
                let single = f32::from_bits(u32::from(byte) << 23);
                assert_eq!(Fp8::E8M0.value(byte).to_bits(), single.to_bits());
            }
        }
        assert_eq!(Fp8::E8M0.value(0).to_bits(), 0x0040_0000);
        assert!(Fp8::E8M0.value(255).is_nan());
    }
}
