//! Decoders of 8-bit and 4-bit floats: FP8, FP8 with block scales, MXFP4 and NVFP4.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use crate::error::{Error, ErrorKind, Result};
use crate::expression::decode::{Decode, Inputs};
use crate::expression::region::size;
use crate::expression::shape_of;

/// An 8-bit floating-point type. As a decoder, it converts a tensor stored as I8 to F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fp8 {
    /// Four exponent and three mantissa bits, with NaN and without infinity (`float8_e4m3fn`).
    E4M3,
    /// Five exponent and two mantissa bits (`float8_e5m2`).
    E5M2,
    /// Eight exponent bits: powers of two (`float8_e8m0fnu`).
    E8M0,
}

impl Fp8 {
    /// Returns the type with this name in safetensors.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "F8_E4M3" => Some(Self::E4M3),
            "F8_E5M2" => Some(Self::E5M2),
            "F8_E8M0" => Some(Self::E8M0),
            _ => None,
        }
    }

    /// Returns the value of a byte.
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

/// Weights with one scale for each block of rows and columns. Inputs are the weights, as I8 of an
/// [`Fp8`] type or of any numeric type, and the scales (`weight_scale_inv`), one for each block in
/// each dimension. The output is weight × scale in F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fp8Blocks {
    /// Columns of a block.
    pub columns: u64,
    /// Rows of a block.
    pub rows: u64,
    /// The type of weights stored as I8; `None` if they are integers.
    pub format: Option<Fp8>,
}

impl Fp8Blocks {
    /// Creates a decoder for blocks of this size, usually 128 by 128, not 0. Weights are
    /// [`Fp8::E4M3`].
    pub fn new(columns: u64, rows: u64) -> Self {
        Self { columns: columns.max(1), rows: rows.max(1), format: Some(Fp8::E4M3) }
    }

    /// Sets the type of the weights.
    #[must_use]
    pub fn with_format(self, format: Fp8) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Takes the weights as stored numbers, so that I8 means integers.
    #[must_use]
    pub fn with_stored_numbers(self) -> Self {
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
        // Blocks end at the last row of each matrix.
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
        let (width, block) = (size(columns).max(1), size(self.columns));
        for ((row, weights), out) in
            rows.zip(weights.chunks_exact(width)).zip(out.chunks_exact_mut(4 * width))
        {
            let scales = &scales[size((row_of_scales(row) - first) * blocks)..];
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

/// Groups of 16 weights in a block of GGUF's NVFP4.
const GROUPS: usize = 4;

/// Repacks NVFP4 from two tensors into GGUF's NVFP4, without changing any value. Checkpoints store
/// two adjacent weights in a byte, the first in the low nibble, and a scale (E4M3, whose sign is
/// ignored) for every 16 weights. Inputs are the weights, of shape (row length / 2, …), and the
/// scales, of shape (row length / 16, …), both as I8. The per-tensor factor of a checkpoint is not
/// part of the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nvfp4;

impl Nvfp4 {
    /// Creates the decoder.
    pub fn new() -> Self {
        Self
    }
}

impl Decode for Nvfp4 {
    fn name(&self) -> &'static str {
        "nvfp4"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let &[(GgmlType::I8, weights), (GgmlType::I8, scales)] = inputs else {
            return Err(fault("expected weights and scales as bytes".to_owned()));
        };
        let [pairs, others @ ..] = weights.dimensions() else {
            return Err(fault("expected rows of weights".to_owned()));
        };
        let row_len = pairs.checked_mul(2).ok_or_else(|| fault("too many elements".to_owned()))?;
        if row_len % 64 != 0 {
            let message = format!(
                "the row length {row_len} is not a multiple of the block size of NVFP4, 64"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let expected = [&[row_len / 16], others].concat();
        if scales.dimensions() != expected {
            return Err(fault(format!(
                "scales of shape {scales} for weights of row length {row_len}, expected \
                 {expected:?}"
            )));
        }
        Ok((GgmlType::NVFP4, shape_of(&[&[row_len], others].concat())?))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let groups = inputs.shape(1).row_len();
        let (start, end) = (rows.start * groups, rows.end * groups);
        let weights = inputs.bytes(0, start * 8..end * 8)?;
        let scales = inputs.bytes(1, start..end)?;
        for ((weights, scales), out) in weights
            .as_chunks::<8>()
            .0
            .chunks_exact(GROUPS)
            .zip(scales.as_chunks::<GROUPS>().0)
            .zip(out.as_chunks_mut::<36>().0)
        {
            let (head, body) = out.split_at_mut(GROUPS);
            for (scale, out) in scales.iter().zip(head) {
                *out = scale & 0x7f;
            }
            for (weights, out) in weights.iter().zip(body.as_chunks_mut::<8>().0) {
                // Weight `i` is the low nibble of byte `i`, weight `8 + i` the high one.
                let weight = |number: usize| (weights[number / 2] >> (number % 2 * 4)) & 15;
                for (number, out) in out.iter_mut().enumerate() {
                    *out = weight(number) | weight(8 + number) << 4;
                }
            }
        }
        Ok(())
    }
}

/// Bytes of the weights of an MXFP4 block.
const MXFP4_BYTES: usize = 16;

/// Repacks MXFP4 from two tensors into GGUF's MXFP4, without changing any value. Checkpoints store
/// for each block 16 bytes of two adjacent weights, the first in the low nibble, and a scale
/// (E8M0). Inputs are the weights, of shape (16, blocks per row, …), and the scales, of shape
/// (blocks per row, …), both as I8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mxfp4;

impl Mxfp4 {
    /// Creates the decoder.
    pub fn new() -> Self {
        Self
    }
}

impl Decode for Mxfp4 {
    fn name(&self) -> &'static str {
        "mxfp4"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: &str| Error::new(ErrorKind::Checkpoint, message);
        let &[(GgmlType::I8, weights), (GgmlType::I8, scales)] = inputs else {
            return Err(fault("expected weights and scales as bytes"));
        };
        let [16, blocks, others @ ..] = weights.dimensions() else {
            return Err(fault("expected blocks of 16 bytes"));
        };
        if scales.dimensions() != &weights.dimensions()[1..] {
            return Err(fault("expected a scale for each block"));
        }
        let row_len = blocks.checked_mul(32).ok_or_else(|| fault("too many elements"))?;
        Ok((GgmlType::MXFP4, shape_of(&[&[row_len], others].concat())?))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let blocks = inputs.shape(1).row_len();
        let (start, end) = (rows.start * blocks, rows.end * blocks);
        let weights = inputs.bytes(0, start * MXFP4_BYTES as u64..end * MXFP4_BYTES as u64)?;
        let scales = inputs.bytes(1, start..end)?;
        for ((weights, scale), out) in
            weights.as_chunks::<MXFP4_BYTES>().0.iter().zip(scales).zip(out.as_chunks_mut::<17>().0)
        {
            // Weight `i` is the low nibble of byte `i`, weight `16 + i` the high one.
            let weight = |number: usize| (weights[number / 2] >> (number % 2 * 4)) & 15;
            out[0] = scale;
            for (number, out) in out[1..].iter_mut().enumerate() {
                *out = weight(number) | weight(MXFP4_BYTES + number) << 4;
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

    /// E5M2 is the high byte of an F16, E8M0 the exponent of an F32.
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
