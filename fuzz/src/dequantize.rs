//! Any bytes as blocks of any type: every instruction set decodes the same values.

use ggmill_core::GgmlType;
use ggmill_quant::{Isa, codec_with};

/// Decodes blocks. The first byte selects the type; an incomplete block at the end is refused.
pub fn dequantize(data: &[u8]) {
    let Some((&chosen, data)) = data.split_first() else { return };
    let ggml_type = GgmlType(u32::from(chosen));
    let Ok(codec) = codec_with(ggml_type, Isa::SCALAR) else { return };
    let layout = ggml_type.layout().expect("a type with a codec has a layout");
    let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
    let blocks = data.len() / bytes;
    let mut expected = vec![0.0; blocks * elements];
    if data.len() % bytes != 0 {
        codec.dequantize(data, &mut expected).expect_err("part of a block");
    }
    let data = &data[..blocks * bytes];
    codec.dequantize(data, &mut expected).expect("whole blocks");
    for isa in Isa::available() {
        let mut found = vec![1.0; blocks * elements];
        codec_with(ggml_type, isa)
            .expect("a type that one has")
            .dequantize(data, &mut found)
            .expect("whole blocks");
        let same = found.iter().zip(&expected).all(|(found, expected)| {
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
        });
        assert!(same, "{ggml_type} {isa}");
    }
}
