//! Every codec in lanes beside the scalar code, over the patterns of the golden vectors and blocks of
//! random bytes: with the SIMD instructions of WebAssembly where they are compiled in, and with
//! arrays of numbers.
//!
//! There is nothing to print to: the exit status is 0, or one more than the number of the first
//! type that differs; 255 says that the instruction sets are not those that were compiled in.

use std::process::ExitCode;

use ggmill_core::GgmlType;
use ggmill_quant::{BlockCodec, Isa, codec_with};

#[path = "../../../../crates/ggmill-quant/tests/it/inputs.rs"]
#[expect(dead_code, reason = "the golden vectors take more of it")]
mod inputs;

fn main() -> ExitCode {
    let lanes = || Isa::available().filter(|&isa| isa != Isa::SCALAR);
    let simd = lanes().any(|isa| isa.to_string() == "SIMD128");
    if lanes().next().is_none() || simd != cfg!(target_feature = "simd128") {
        return ExitCode::from(255);
    }
    let different = GgmlType::all().find(|&ggml_type| {
        lanes().any(|isa| match (codec_with(ggml_type, Isa::SCALAR), codec_with(ggml_type, isa)) {
            (Ok(scalar), Ok(lanes)) => !agree(ggml_type, scalar, lanes),
            _ => false,
        })
    });
    ExitCode::from(different.map_or(0, |ggml_type| ggml_type.0 as u8 + 1))
}

fn agree(ggml_type: GgmlType, scalar: &dyn BlockCodec, lanes: &dyn BlockCodec) -> bool {
    let Some(layout) = ggml_type.layout() else { return false };
    let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
    let slow = ggml_type.name().is_some_and(|name| name.starts_with("IQ"));
    (0..5).all(|seed| {
        let blocks = inputs::random_bytes(seed, 67 * bytes);
        let values = |codec: &dyn BlockCodec| {
            let mut out = vec![0.0; 67 * elements];
            codec
                .dequantize(&blocks, &mut out)
                .map(|()| out.into_iter().map(bits).collect::<Vec<u32>>())
                .ok()
        };
        values(scalar) == values(lanes)
    }) && inputs::PATTERNS.iter().all(|pattern| {
        inputs::WEIGHTS.iter().all(|kind| {
            let row_len = (if slow { 256 } else { 256 * 19 }).max(elements);
            let values = inputs::values(pattern, 77, row_len);
            let weights = inputs::weights(kind, 5, row_len);
            if scalar.needs_weights() && weights.is_none()
                || scalar.quantize(&[], 0, Some(&[]), &mut []).is_err()
            {
                return true;
            }
            let blocks = |codec: &dyn BlockCodec| {
                let mut out = vec![0xa5; row_len / elements * bytes];
                codec.quantize(&values, row_len, weights.as_deref(), &mut out).map(|()| out).ok()
            };
            let expected = blocks(scalar);
            expected.is_some() && blocks(lanes) == expected
        })
    })
}

/// Which NaN it is may differ.
fn bits(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}
