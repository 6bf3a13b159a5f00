//! Any floats are quantized to any type or refused: every instruction set writes the same bytes,
//! which can be decoded.

use ggmill_core::GgmlType;
use ggmill_quant::{Isa, codec_with};

/// Longer inputs are truncated, because the reference's searches are slow, and so is our scalar
/// code.
const MOST: usize = 512;

/// Quantizes. The first byte selects the type, the second whether the rest is values or values and
/// importance weights.
pub fn quantize(data: &[u8]) {
    let [chosen, weighted, numbers @ ..] = data else { return };
    let ggml_type = GgmlType(u32::from(*chosen));
    let Ok(codec) = codec_with(ggml_type, Isa::SCALAR) else { return };
    let layout = ggml_type.layout().expect("a type with a codec has a layout");
    let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
    let mut values: Vec<f32> = numbers
        .chunks_exact(4)
        .map(|number| f32::from_le_bytes([number[0], number[1], number[2], number[3]]))
        .take(MOST)
        .collect();
    // Short inputs repeat, so that a fuzzer need not find the length of a block.
    let given = values.len().max(1);
    values.resize(values.len().next_multiple_of(elements).max(elements), 0.5);
    for place in given..values.len() {
        values[place] = values[place % given];
    }
    let row_len = values.len();
    // The sign has no meaning for importance.
    let weights: Option<Vec<f32>> =
        (weighted % 2 == 1).then(|| values.iter().rev().map(|value| value.abs()).collect());
    let mut expected = vec![0; row_len / elements * bytes];
    let result = codec.quantize(&values, row_len, weights.as_deref(), &mut expected);
    let plain = elements == 1;
    let finite = values.iter().all(|value| value.is_finite());
    if result.is_ok() {
        assert!(plain || finite, "{ggml_type} takes what is not finite");
        codec.dequantize(&expected, &mut values.clone()).expect("what was written is whole blocks");
    }
    for isa in Isa::available() {
        let mut found = vec![0; expected.len()];
        let again = codec_with(ggml_type, isa).expect("a type that one has").quantize(
            &values,
            row_len,
            weights.as_deref(),
            &mut found,
        );
        assert_eq!(again.is_ok(), result.is_ok(), "{ggml_type} {isa}");
        assert_eq!(found, expected, "{ggml_type} {isa}");
    }
}
