use super::*;

/// Numbers of all magnitudes up to the given one.
fn waves(count: usize, magnitude: f32) -> Vec<f32> {
    (0..count)
        .map(|number| (f32::from(u16::try_from(number).unwrap()) * 0.7).sin() * magnitude)
        .collect()
}

fn piece(ggml_type: GgmlType, len: usize) -> DataPiece {
    DataPiece { tensor: 0, offset: 0, len, ggml_type, endian: Endian::Little }
}

fn facts(ggml_type: GgmlType, bytes: &[u8]) -> Facts {
    piece(ggml_type, bytes.len()).examine(bytes).facts.unwrap()
}

/// Blocks as the encoder makes them of ordinary weights.
fn good(ggml_type: GgmlType, blocks: usize) -> Vec<u8> {
    let layout = ggml_type.layout().unwrap();
    let elements = layout.elements as usize * blocks;
    let values = waves(elements, 0.0625);
    let mut bytes = vec![0; layout.bytes as usize * blocks];
    let weights = vec![1.0; elements];
    ggmill_quant::quantize(ggml_type, &values, elements, Some(&weights), &mut bytes).unwrap();
    bytes
}

fn decoded(ggml_type: GgmlType, bytes: &[u8]) -> Vec<f32> {
    let layout = ggml_type.layout().unwrap();
    let mut values = vec![0.0; bytes.len() / layout.bytes as usize * layout.elements as usize];
    ggmill_quant::dequantize(ggml_type, bytes, &mut values).unwrap();
    values
}

fn block_types() -> impl Iterator<Item = GgmlType> {
    GgmlType::all().filter(|&ggml_type| BlockDescription::of(ggml_type).is_some())
}

/// A scale that is NaN and one that is infinite, as bytes of the field.
fn bad_scales(scale: ScaleFormat) -> Vec<Vec<u8>> {
    match scale {
        ScaleFormat::F16 => vec![vec![0, 0x7e], vec![0, 0x7c], vec![0, 0xfc]],
        ScaleFormat::F32 => {
            vec![f32::NAN.to_le_bytes().to_vec(), f32::NEG_INFINITY.to_le_bytes().to_vec()]
        }
        ScaleFormat::E8M0 => vec![vec![255]],
        ScaleFormat::UE4M3 => vec![vec![0x38, 0x7f, 0x38, 0x38]],
        ScaleFormat::Spread => vec![vec![0, 0, 0, 0, 0, 0xe0, 0, 0x70]],
    }
}

#[test]
fn every_bad_number_of_a_long_piece_is_counted() {
    let count = 100_000;
    for (ggml_type, bad, greatest) in [
        (GgmlType::F16, &[0, 0xfe][..], &[0xff, 0x7b][..]),
        (GgmlType::BF16, &[0x80, 0x7f], &[0x7f, 0xff]),
        (GgmlType::F32, &[0, 0, 0x80, 0xff], &[0xff, 0xff, 0x7f, 0x7f]),
        (GgmlType::F64, &[1, 0, 0, 0, 0, 0, 0xf0, 0x7f], &[0, 0, 0, 0xe0, 0xff, 0xff, 0xef, 0x47]),
    ] {
        let width = bad.len();
        let mut bytes = vec![0; count * width];
        bytes[12 * width..13 * width].copy_from_slice(greatest);
        for number in bytes.chunks_exact_mut(width).skip(100) {
            number.copy_from_slice(bad);
        }
        let found = facts(ggml_type, &bytes);
        assert_eq!(found.bad, (count - 100) as u64, "{ggml_type}");
        assert_eq!(found.first, Some((100 * width) as u64), "{ggml_type}");
        let largest = if ggml_type == GgmlType::F16 { 65_504.0 } else { f32::MAX };
        assert!(found.largest >= largest * 0.99 && found.largest.is_finite(), "{ggml_type}");
        assert!(!found.is_zero, "{ggml_type}");
    }
}

#[test]
fn good_blocks_of_every_type_are_good() {
    for ggml_type in block_types() {
        let found = facts(ggml_type, &good(ggml_type, 5));
        assert_eq!((found.bad, found.first, found.is_zero), (0, None, false), "{ggml_type}");
        assert!(found.largest < 1.0, "{ggml_type}");
    }
}

#[test]
fn a_bad_scale_of_every_type_is_found_where_it_is() {
    for ggml_type in block_types() {
        let size = ggml_type.layout().unwrap().bytes as usize;
        for field in BlockDescription::of(ggml_type).unwrap().fields {
            for bad in field.scale.map(bad_scales).unwrap_or_default() {
                let mut bytes = good(ggml_type, 5);
                let at = 3 * size + field.start as usize;
                bytes[at..at + bad.len()].copy_from_slice(&bad);
                let found = facts(ggml_type, &bytes);
                assert_eq!(
                    (found.bad, found.first),
                    (1, Some(3 * size as u64)),
                    "{ggml_type}: {}",
                    field.name
                );
                // The sum that Q8_1 has of its weights makes none of them; the reference takes the
                // two others for numbers.
                let silent = field.name == "s"
                    || matches!(field.scale, Some(ScaleFormat::E8M0 | ScaleFormat::UE4M3));
                assert!(
                    silent || decoded(ggml_type, &bytes).iter().any(|weight| !weight.is_finite()),
                    "{ggml_type}: {}",
                    field.name
                );
            }
        }
    }
}

#[test]
fn nothing_but_zeros_is_seen_in_every_type() {
    for ggml_type in block_types() {
        let mut bytes = good(ggml_type, 5);
        let size = ggml_type.layout().unwrap().bytes as usize;
        for block_of in bytes.chunks_exact_mut(size) {
            for field in BlockDescription::of(ggml_type).unwrap().fields {
                let scale_bytes =
                    &mut block_of[field.start as usize..(field.start + field.bytes) as usize];
                match field.scale {
                    Some(ScaleFormat::Spread) => {
                        scale_bytes.iter_mut().skip(1).step_by(2).for_each(|byte| *byte &= 0x0f);
                    }
                    Some(ScaleFormat::E8M0) => {}
                    Some(_) => scale_bytes.fill(0),
                    None if ggml_type == GgmlType::MXFP4 => scale_bytes.fill(0x80),
                    None => {}
                }
            }
        }
        assert!(facts(ggml_type, &bytes).is_zero, "{ggml_type}");
        assert!(decoded(ggml_type, &bytes).iter().all(|weight| weight.abs() == 0.0), "{ggml_type}");
        // One block with anything in it is enough.
        let last = bytes.len() - size;
        bytes[last..].copy_from_slice(&good(ggml_type, 1));
        assert!(!facts(ggml_type, &bytes).is_zero, "{ggml_type}");
    }
}

#[test]
fn weights_beyond_half_precision_are_found_and_none_below() {
    for ggml_type in block_types().filter(|&ggml_type| ggml_type != GgmlType::NVFP4) {
        let elements = ggml_type.layout().unwrap().elements as usize;
        for (magnitude, beyond) in [(1e3, false), (3e5, true)] {
            let values = waves(elements, magnitude);
            let mut bytes = vec![0; ggml_type.layout().unwrap().bytes as usize];
            ggmill_quant::quantize(
                ggml_type,
                &values,
                elements,
                Some(&vec![1.0; elements]),
                &mut bytes,
            )
            .unwrap();
            let truth = decoded(ggml_type, &bytes)
                .into_iter()
                .fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
            // One scale for each block of F16 reaches no further than that.
            if truth.is_finite() && beyond == (truth > LARGEST) {
                // The sum that Q8_1 has of its weights is infinite then.
                let found = facts(ggml_type, &bytes);
                assert_eq!(
                    found.largest > LARGEST || found.bad > 0,
                    beyond,
                    "{ggml_type}: {truth}"
                );
            }
        }
    }
}

#[test]
fn floats_of_every_width() {
    let halves =
        |values: &[u16]| values.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<u8>>();
    let found = facts(GgmlType::F16, &halves(&[0x3c00, 0x7c00, 0xfbff, 0xfe01]));
    assert_eq!((found.bad, found.first, found.largest), (2, Some(2), LARGEST));
    let found = facts(GgmlType::BF16, &halves(&[0x3f80, 0x7f7f, 0xff80]));
    assert_eq!((found.bad, found.first), (1, Some(4)));
    assert!(found.largest > 1e38);
    let found = facts(GgmlType::F32, &[1.0f32, -7e4, 3.0].map(f32::to_le_bytes).concat());
    assert_eq!((found.bad, found.largest, found.is_zero), (0, 7e4, false));
    let found = facts(GgmlType::F64, &[1.0f64, f64::NAN, -3.5].map(f64::to_le_bytes).concat());
    assert_eq!((found.bad, found.first, found.largest), (1, Some(8), 3.5));
    assert!(facts(GgmlType::F32, &[0, 0, 0, 0x80, 0, 0, 0, 0]).is_zero);
    for bits in 0..=u16::MAX {
        let value = decoded(GgmlType::F16, &bits.to_le_bytes())[0];
        assert!(
            value.to_bits() == half(bits).to_bits() || value.is_nan() && half(bits).is_nan(),
            "{bits:#x}"
        );
    }
}

#[test]
fn pieces_of_any_order_add_up_and_byte_order_is_minded() {
    let numbers = [1.0f32, f32::INFINITY, 2.0, f32::NAN];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    let half = |offset: usize| {
        DataPiece { offset: 100 + offset as u64, endian: Endian::Big, ..piece(GgmlType::F32, 8) }
            .examine(&bytes[offset..offset + 8])
    };
    let mut found = DataFacts::default();
    found.add(half(8));
    found.add(half(0));
    let anomalies: Vec<_> = found.anomalies(0, GgmlType::F32).collect();
    assert_eq!(anomalies, [Anomaly::NotFinite { count: 2, first: 104, in_blocks: false }]);
}
