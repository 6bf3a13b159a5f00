//! Decoding of tensors.

use ggmill_core::{GgmlType, swap_bytes};
use ggmill_quant as quant;

use crate::failure::Failure;
use crate::record::Record;

/// Decodes the blocks in the input to F32 in little-endian order. The lower half of the argument is the
/// type; the upper half is nonzero for big-endian blocks.
pub(crate) fn decode(argument: u64, input: &[u8]) -> Result<Record, Failure> {
    let ggml_type = GgmlType(u32::try_from(argument & u64::from(u32::MAX)).unwrap_or(u32::MAX));
    let failed = |error: &dyn std::fmt::Display| Failure::new("unsupported", error);
    let layout =
        ggml_type.layout().ok_or_else(|| failed(&"the block layout of the type is unknown"))?;
    let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
    let out_of_memory = || Failure::new("limit", "not enough memory for the values");
    let len = (input.len() / bytes).checked_mul(elements).ok_or_else(out_of_memory)?;
    let mut values: Vec<f32> = Vec::new();
    values.try_reserve_exact(len).map_err(|_| out_of_memory())?;
    values.resize(len, 0.0);
    if argument >> 32 == 0 {
        quant::dequantize(ggml_type, input, &mut values).map_err(|error| failed(&error))?;
    } else {
        let mut blocks = input.to_vec();
        swap_bytes(ggml_type, &mut blocks)?;
        quant::dequantize(ggml_type, &blocks, &mut values).map_err(|error| failed(&error))?;
    }
    let mut out = Vec::new();
    out.try_reserve_exact(len.saturating_mul(4)).map_err(|_| out_of_memory())?;
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    Ok(out.into())
}
