//! `check_range` finds values outside the range of a type.

use ggmill_core::GgmlType;
use ggmill_quant::{BlockCodec, ErrorKind, codec};

use crate::inputs::{hash, values};

fn encoders() -> impl Iterator<Item = &'static dyn BlockCodec> {
    let codecs = GgmlType::all().filter_map(|ggml_type| codec(ggml_type).ok());
    codecs.filter(|codec| codec.quantize(&[], 0, Some(&[]), &mut []).is_ok())
}

/// Encodes values and returns the blocks and the result of `check_range`.
fn check(
    codec: &dyn BlockCodec,
    values: &[f32],
    row_len: usize,
) -> (Vec<u8>, Result<(), (ErrorKind, String)>) {
    let layout = codec.ggml_type().layout().unwrap();
    let mut blocks = vec![0; layout.bytes_for(values.len() as u64).unwrap() as usize];
    let weights = vec![1.0; row_len];
    codec
        .quantize(values, row_len, codec.needs_weights().then_some(&*weights), &mut blocks)
        .unwrap();
    let checked = codec.check_range(values, row_len, &blocks);
    (blocks, checked.map_err(|error| (error.kind(), error.to_string())))
}

/// Encodes values and returns the result of `check_range`.
fn verdict(ggml_type: GgmlType, values: &[f32], row_len: usize) -> Result<(), (ErrorKind, String)> {
    check(codec(ggml_type).unwrap(), values, row_len).1
}

#[test]
fn nvfp4_magnitudes_above_2688_are_out_of_range() {
    for wrong in [2689.0, 1e6, -1e38] {
        let mut values = vec![2688.0; 64 * 6];
        assert_eq!(verdict(GgmlType::NVFP4, &values, 128), Ok(()));
        values[300] = wrong;
        let message = format!(
            "row 2, column 44 is {wrong:e}, in a block with numbers that are too large for NVFP4"
        );
        assert_eq!(
            verdict(GgmlType::NVFP4, &values, 128),
            Err((ErrorKind::OutOfRange { row: 2, column: 44 }, message))
        );
    }
}

#[test]
fn mxfp4_blocks_below_the_least_exponent_are_out_of_range() {
    let least = 2.0_f32.powi(-125);
    for small in [f32::from_bits(1), 1e-40, -1e-38, 2.0_f32.powi(-126)] {
        let mut values = vec![0.5; 32 * 6];
        values[96..128].fill(0.0);
        assert_eq!(verdict(GgmlType::MXFP4, &values, 64), Ok(()), "zeros are in range");
        values[96..128].fill(small / 8.0);
        values[99] = small;
        let message = format!(
            "row 1, column 35 is {small:e}, in a block with numbers that are too small for MXFP4"
        );
        assert_eq!(
            verdict(GgmlType::MXFP4, &values, 64),
            Err((ErrorKind::OutOfRange { row: 1, column: 35 }, message))
        );
        values[99] = least;
        assert_eq!(verdict(GgmlType::MXFP4, &values, 64), Ok(()));
    }
    // A small number in a block with an ordinary one rounds to zero, as in every type.
    let mut values = vec![1e-40; 32];
    values[0] = 1.0;
    assert_eq!(verdict(GgmlType::MXFP4, &values, 32), Ok(()));
}

#[test]
fn half_precision_overflow_is_out_of_range() {
    let message = "row 0, column 2 is 6.552e4, which is too large for F16".to_owned();
    assert_eq!(
        verdict(GgmlType::F16, &[1.0, 65_519.0, 65_520.0], 3),
        Err((ErrorKind::OutOfRange { row: 0, column: 2 }, message))
    );
    assert!(verdict(GgmlType::BF16, &[f32::MAX], 1).is_err());
    assert_eq!(verdict(GgmlType::F32, &[f32::MAX], 1), Ok(()));
    let mut values = [1.0; 96];
    values[70] = 1e38;
    let (kind, message) = verdict(GgmlType::Q4_0, &values, 32).unwrap_err();
    assert!(matches!(kind, ErrorKind::OutOfRange { row: 2, .. }), "{kind:?}");
    assert!(message.contains(", in a block with numbers that are too large for Q4_0"), "{message}");
}

/// The squares of such values overflow, and the search ends with a scale of zero.
#[test]
fn overflow_in_the_search_is_out_of_range() {
    for ggml_type in
        [GgmlType::Q3_K, GgmlType::Q6_K, GgmlType::IQ1_M, GgmlType::IQ3_S, GgmlType::IQ4_XS]
    {
        let mut values = vec![0.25; 256];
        values[200] = 1e20;
        let message = format!(
            "row 0, column 200 is 1e20, in a block with numbers that are too large for {ggml_type}"
        );
        assert_eq!(
            verdict(ggml_type, &values, 256),
            Err((ErrorKind::OutOfRange { row: 0, column: 200 }, message))
        );
    }
}

/// Values of one magnitude decode to about that magnitude, or are out of range.
#[test]
fn values_in_range_keep_their_magnitude() {
    for codec in encoders() {
        let elements = codec.ggml_type().layout().unwrap().elements as usize;
        let row_len = elements.max(64);
        for exponent in -2..=38 {
            let magnitude = 10_f32.powi(exponent);
            let values: Vec<f32> = (0..2 * row_len)
                .map(|index| if hash(7, index) & 1 == 0 { magnitude } else { -magnitude })
                .collect();
            let (blocks, checked) = check(codec, &values, row_len);
            let mut back = vec![0.0; values.len()];
            codec.dequantize(&blocks, &mut back).unwrap();
            let greatest = back.iter().fold(0.0_f32, |greatest, value| {
                if value.abs() <= greatest { greatest } else { value.abs() }
            });
            let in_range = greatest >= magnitude / 3.0 && greatest / 3.0 <= magnitude;
            assert_eq!(
                checked.is_ok(),
                in_range,
                "{codec:?} {magnitude:e}: {checked:?} {greatest}"
            );
        }
    }
}

#[test]
fn ordinary_weights_are_in_range() {
    for codec in encoders() {
        for pattern in
            ["gaussian", "heavy", "zero", "signed-zero", "tiny", "one-hot", "outlier", "ternary"]
        {
            assert_eq!(
                check(codec, &values(pattern, 3, 1024), 1024).1,
                Ok(()),
                "{codec:?} {pattern}"
            );
        }
    }
}

#[test]
fn wrong_lengths_are_errors() {
    for codec in encoders() {
        let layout = codec.ggml_type().layout().unwrap();
        let (elements, bytes) = (layout.elements as usize, layout.bytes as usize);
        let values = vec![1.0; 2 * elements];
        assert!(codec.check_range(&values, elements, &vec![0; 2 * bytes]).is_ok());
        assert!(codec.check_range(&[], elements, &[]).is_ok());
        for (row_len, len) in [(elements, bytes), (0, 2 * bytes), (3 * elements, 2 * bytes)] {
            assert_eq!(
                codec.check_range(&values, row_len, &vec![0; len]).unwrap_err().kind(),
                ErrorKind::Misuse
            );
        }
    }
    assert_eq!(
        codec(GgmlType::I8).unwrap().check_range(&[1.0], 1, &[1]).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}
