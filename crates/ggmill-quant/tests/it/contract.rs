//! The contract of every codec besides its bytes: lengths are checked, nothing is written on error,
//! rows are independent.

use ggmill_core::GgmlType;
use ggmill_quant::{BlockCodec, ErrorKind, codec};

use crate::inputs::values;

fn codecs() -> impl Iterator<Item = &'static dyn BlockCodec> {
    GgmlType::all().filter_map(|ggml_type| codec(ggml_type).ok())
}

fn encoders() -> impl Iterator<Item = &'static dyn BlockCodec> {
    codecs().filter(|codec| codec.quantize(&[], 0, Some(&[]), &mut []).is_ok())
}

/// Returns the elements and bytes of a block.
fn layout(codec: &dyn BlockCodec) -> (usize, usize) {
    let layout = codec.ggml_type().layout().unwrap();
    (layout.elements as usize, layout.bytes as usize)
}

#[test]
fn codecs_know_their_type() {
    for ggml_type in GgmlType::all() {
        if let Ok(codec) = codec(ggml_type) {
            assert_eq!(codec.ggml_type(), ggml_type);
            assert!(format!("{codec:?}").contains(ggml_type.name().unwrap()));
        }
    }
    assert_eq!(codecs().count(), 35);
    assert_eq!(encoders().count(), 31);
}

/// Returns the weights if the codec requires them.
fn if_needed<'a>(codec: &dyn BlockCodec, weights: &'a [f32]) -> Option<&'a [f32]> {
    codec.needs_weights().then_some(weights)
}

#[test]
fn three_types_need_weights() {
    let needy: Vec<GgmlType> =
        codecs().filter(|codec| codec.needs_weights()).map(BlockCodec::ggml_type).collect();
    assert_eq!(needy, [GgmlType::IQ2_XXS, GgmlType::IQ2_XS, GgmlType::IQ1_S]);
    for ggml_type in needy {
        let mut out = vec![0xa5; ggml_type.layout().unwrap().bytes as usize];
        let error =
            ggmill_quant::quantize(ggml_type, &[1.0; 256], 256, None, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NeedsWeights);
        assert_eq!(
            error.to_string(),
            format!("{ggml_type} requires importance weights, but there are none")
        );
        assert!(out.iter().all(|&byte| byte == 0xa5));
        ggmill_quant::quantize(ggml_type, &[1.0; 256], 256, Some(&[1.0; 256]), &mut out).unwrap();
    }
}

#[test]
fn retired_and_unknown_types_have_no_codec() {
    for (number, message) in [
        (4, "no codec for type Q4_2: it is retired"),
        (31, "no codec for type Q4_0_4_4: it is retired"),
        (57, "no codec for type 57: it is unknown"),
    ] {
        let error = codec(GgmlType(number)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn integers_are_decoded_but_not_encoded() {
    let mut out = [0.0; 2];
    ggmill_quant::dequantize(GgmlType::I16, &[0xff, 0xff, 0x00, 0x80], &mut out).unwrap();
    assert_eq!(out, [-1.0, -32768.0]);
    ggmill_quant::dequantize(GgmlType::I64, &i64::MIN.to_le_bytes(), &mut out[..1]).unwrap();
    assert_eq!(out[0], -9_223_372_036_854_775_808.0);
    let error = ggmill_quant::quantize(GgmlType::I8, &[1.0], 1, None, &mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn wrong_lengths_are_errors() {
    for codec in codecs() {
        let (elements, bytes) = layout(codec);
        let blocks = vec![0; 3 * bytes];
        let mut out = vec![0.0; 3 * elements];
        assert!(codec.dequantize(&blocks, &mut out).is_ok());
        assert!(codec.dequantize(&[], &mut []).is_ok());
        let misuse = |result: ggmill_quant::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Misuse, "{codec:?}");
        };
        misuse(codec.dequantize(&blocks[..2 * bytes], &mut out));
        misuse(codec.dequantize(&blocks, &mut out[1..]));
        if bytes > 1 {
            misuse(codec.dequantize(&blocks[1..], &mut out));
        }
    }
    for codec in encoders() {
        let (elements, bytes) = layout(codec);
        let values = vec![1.0; 4 * elements];
        let mut out = vec![0; 4 * bytes];
        let weights = if_needed(codec, &values[..2 * elements]);
        assert!(codec.quantize(&values, 2 * elements, weights, &mut out).is_ok());
        assert!(codec.quantize(&[], 2 * elements, weights, &mut []).is_ok());
        let misuse = |result: ggmill_quant::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Misuse, "{codec:?}");
        };
        misuse(codec.quantize(&values, 3 * elements, None, &mut out));
        misuse(codec.quantize(&values, 0, None, &mut out));
        misuse(codec.quantize(&values, 2 * elements, None, &mut out[1..]));
        misuse(codec.quantize(&values, 2 * elements, Some(&values), &mut out));
        if elements > 1 {
            misuse(codec.quantize(&values, elements / 2, None, &mut out));
        }
    }
}

#[test]
fn non_finite_values_are_errors_before_anything_is_written() {
    for codec in encoders() {
        let (elements, bytes) = layout(codec);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![1.0; 6 * elements];
            values[5 * elements - 1] = value;
            let mut out = vec![0xa5; 6 * bytes];
            let result = codec.quantize(
                &values,
                2 * elements,
                if_needed(codec, &values[..2 * elements]),
                &mut out,
            );
            if elements == 1 {
                result.unwrap();
                let mut back = vec![0.0; 6];
                codec.dequantize(&out, &mut back).unwrap();
                assert_eq!(back[4].is_nan(), value.is_nan());
                assert!(!back[4].is_finite());
            } else {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NonFinite { row: 2, column: elements - 1 });
                assert_eq!(
                    error.to_string(),
                    format!("row 2, column {}: {value}, expected a finite value", elements - 1)
                );
                assert!(out.iter().all(|&byte| byte == 0xa5));

                let good = vec![1.0; 6 * elements];
                let error = codec
                    .quantize(&good, 2 * elements, Some(&values[4 * elements..]), &mut out)
                    .unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NonFiniteWeight { column: elements - 1 });
                assert!(out.iter().all(|&byte| byte == 0xa5));
            }
        }
    }
}

#[test]
fn rows_are_independent() {
    for codec in encoders() {
        let (elements, bytes) = layout(codec);
        let row_len = 4 * elements;
        let values = values("heavy", 7, 3 * row_len);
        let weights = crate::inputs::weights("random", 7, row_len).unwrap();
        let mut together = vec![0; 12 * bytes];
        codec.quantize(&values, row_len, Some(&weights), &mut together).unwrap();
        for (values, together) in values.chunks_exact(row_len).zip(together.chunks_exact(4 * bytes))
        {
            let mut single = vec![0; 4 * bytes];
            codec.quantize(values, row_len, Some(&weights), &mut single).unwrap();
            assert_eq!(single, together, "{codec:?}");
        }
    }
}

#[test]
fn all_finite_values_are_encoded_deterministically() {
    for codec in encoders() {
        let (elements, bytes) = layout(codec);
        let row_len = 1024.max(elements);
        for pattern in ["wild", "limit", "brink", "subnormal", "huge"] {
            for (seed, weight) in
                ["wild", "limit", "zero", "negative", "subnormal"].into_iter().enumerate()
            {
                let values = values(pattern, seed as u64, row_len);
                let weights = crate::inputs::values(weight, seed as u64 ^ 0xd1ce, row_len);
                let mut out = vec![0xa5; row_len / elements * bytes];
                codec.quantize(&values, row_len, Some(&weights), &mut out).unwrap();
                let mut again = vec![0x5a; out.len()];
                codec.quantize(&values, row_len, Some(&weights), &mut again).unwrap();
                assert_eq!(out, again, "{codec:?}: {pattern} with {weight} weights");
            }
        }
    }
}
