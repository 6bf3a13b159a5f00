//! Every available instruction set gives the bytes of the scalar code.

use ggmill_core::GgmlType;
use ggmill_quant::{Isa, codec_with};
use proptest::prelude::*;

use crate::inputs::{PATTERNS, WEIGHTS, random_bytes, values, weights};

fn others() -> impl Iterator<Item = Isa> {
    Isa::available().filter(|&isa| isa != Isa::SCALAR)
}

/// Returns the types that have a codec, with the elements and bytes of their blocks.
fn types() -> Vec<(GgmlType, usize, usize)> {
    let all = GgmlType::all().filter(|&ggml_type| codec_with(ggml_type, Isa::SCALAR).is_ok());
    all.map(|ggml_type| (ggml_type, ggml_type.layout().unwrap()))
        .map(|(ggml_type, layout)| (ggml_type, layout.elements as usize, layout.bytes as usize))
        .collect()
}

/// Returns `true` if the lanes of a vector hold candidates of one block instead of several blocks.
fn encodes_one_block_at_a_time(ggml_type: GgmlType) -> bool {
    ggml_type.name().is_some_and(|name| {
        name.starts_with("IQ1") || name.starts_with("IQ2") || name.starts_with("IQ3")
    })
}

/// Quantizes with every instruction set and returns the first difference as an error.
fn agree(
    ggml_type: GgmlType,
    values: &[f32],
    row_len: usize,
    weights: Option<&[f32]>,
) -> Result<(), String> {
    let layout = ggml_type.layout().unwrap();
    let length = values.len() / layout.elements as usize * layout.bytes as usize;
    let scalar = codec_with(ggml_type, Isa::SCALAR).unwrap();
    if scalar.needs_weights() && weights.is_none()
        || scalar.quantize(&[], 0, Some(&[]), &mut []).is_err()
    {
        return Ok(());
    }
    let mut expected = vec![0xa5; length];
    scalar.quantize(values, row_len, weights, &mut expected).unwrap();
    for isa in others() {
        let mut found = vec![0x5a; length];
        codec_with(ggml_type, isa).unwrap().quantize(values, row_len, weights, &mut found).unwrap();
        if found != expected {
            let place = found.iter().zip(&expected).position(|(a, b)| a != b).unwrap();
            let (block, byte) = (place / layout.bytes as usize, place % layout.bytes as usize);
            return Err(format!(
                "{ggml_type} {isa}: block {block}, byte {byte}: {:#04x}, scalar {:#04x}",
                found[place], expected[place]
            ));
        }
    }
    Ok(())
}

#[test]
fn every_pattern_is_quantized_alike() {
    let mut differences = Vec::new();
    for (ggml_type, elements, _) in types() {
        // Fewer blocks than lanes, and more, but not a multiple.
        let shapes: &[(usize, usize)] = if encodes_one_block_at_a_time(ggml_type) {
            &[(1, 256)]
        } else {
            &[(1, 256), (3, 768), (1, 256 * 37)]
        };
        for pattern in PATTERNS {
            for kind in WEIGHTS {
                for &(rows, row_len) in shapes {
                    let row_len = row_len.next_multiple_of(elements);
                    let values: Vec<f32> = (0..rows)
                        .flat_map(|row| values(pattern, row as u64 + 77, row_len))
                        .collect();
                    if let Err(difference) =
                        agree(ggml_type, &values, row_len, weights(kind, 5, row_len).as_deref())
                    {
                        differences
                            .push(format!("{pattern} {kind} {rows}x{row_len}: {difference}"));
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differ\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn overflowing_sums_are_quantized_alike() {
    for (ggml_type, ..) in types() {
        let len = if encodes_one_block_at_a_time(ggml_type) { 256 } else { 256 * 37 };
        for kind in WEIGHTS {
            for exponent in [12, 15, 16, 17, 18, 19, 25, 37] {
                let huge: Vec<f32> = values(PATTERNS[0], exponent, len)
                    .into_iter()
                    .map(|value| (value % 4.0) * 10_f32.powi(exponent as i32))
                    .collect();
                agree(ggml_type, &huge, len, weights(kind, 5, len).as_deref()).unwrap();
            }
        }
    }
}

#[test]
fn non_finite_values_are_found_at_every_position() {
    let codec = |isa| codec_with(GgmlType::Q8_0, isa).unwrap();
    for place in 0..160 {
        for wrong in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = [1.0; 160];
            values[place] = wrong;
            values[159.min(place + 3)] = wrong;
            let found = |isa| {
                codec(isa).quantize(&values, 160, None, &mut [0; 170]).unwrap_err().to_string()
            };
            assert!(
                found(Isa::SCALAR).contains(&format!("column {place}: ")),
                "{}",
                found(Isa::SCALAR)
            );
            for isa in others() {
                assert_eq!(found(isa), found(Isa::SCALAR), "{isa}");
            }
        }
    }
}

#[test]
fn random_bytes_are_dequantized_alike() {
    for (ggml_type, elements, bytes) in types() {
        for blocks in [1, 5, 67] {
            let input = random_bytes(9, blocks * bytes);
            let values = |isa| {
                let mut out = vec![0.0; blocks * elements];
                codec_with(ggml_type, isa).unwrap().dequantize(&input, &mut out).unwrap();
                // The sign of a NaN depends on the instruction set.
                out.into_iter()
                    .map(|value: f32| if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() })
                    .collect::<Vec<u32>>()
            };
            let expected = values(Isa::SCALAR);
            for isa in others() {
                assert!(values(isa) == expected, "{ggml_type} {isa}");
            }
        }
    }
}

/// Rows in which every 32 values have another pattern, so that lanes differ as much as possible.
fn mixtures() -> impl Strategy<Value = Vec<f32>> {
    let part = (0..PATTERNS.len(), any::<u64>());
    prop::collection::vec(part, 8..=8 * 9).prop_map(|parts| {
        let mut all: Vec<f32> =
            parts.iter().flat_map(|&(pattern, seed)| values(PATTERNS[pattern], seed, 32)).collect();
        all.truncate(all.len() / 256 * 256);
        all
    })
}

/// Finite numbers with random bits, and numbers of similar magnitude.
fn anything() -> impl Strategy<Value = Vec<f32>> {
    let number = prop_oneof![
        prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO,
        -1.0_f32..1.0,
        (-8_i32..8).prop_map(|number| number as f32 * 0.25),
    ];
    prop::collection::vec(number, 512)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lanes_are_independent(values in mixtures(), kind in 0..WEIGHTS.len(), seed in any::<u64>()) {
        check(&values, weights(WEIGHTS[kind], seed, values.len()).as_deref())?;
    }

    #[test]
    fn arbitrary_numbers_are_quantized_alike(values in anything(), kind in 0..WEIGHTS.len(), seed in any::<u64>()) {
        check(&values, weights(WEIGHTS[kind], seed, values.len()).as_deref())?;
    }
}

fn check(values: &[f32], weights: Option<&[f32]>) -> Result<(), TestCaseError> {
    for (ggml_type, ..) in types() {
        let len = if encodes_one_block_at_a_time(ggml_type) { 256 } else { values.len() };
        agree(ggml_type, &values[..len], len, weights.map(|weights| &weights[..len]))
            .map_err(TestCaseError::fail)?;
    }
    Ok(())
}
