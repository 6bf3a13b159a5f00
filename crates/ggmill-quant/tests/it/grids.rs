//! Every point of every grid against what the reference's dequantizers give for it.

use ggmill_core::GgmlType;

use crate::inputs::digest;

/// The values of so many points, each in its own place of blocks with the lowest scales and no
/// signs; `place` says how an index is stored.
fn values(
    ggml_type: GgmlType,
    points: usize,
    super_scale: u16,
    place: impl Fn(&mut [u8], usize, u16),
) -> Vec<f32> {
    let layout = ggml_type.layout().unwrap();
    let width = if matches!(ggml_type, GgmlType::IQ3_XXS | GgmlType::IQ3_S) { 4 } else { 8 };
    let per_block = layout.elements as usize / width;
    let mut blocks = vec![0; points / per_block * layout.bytes as usize];
    for (block, bytes) in blocks.chunks_exact_mut(layout.bytes as usize).enumerate() {
        bytes[..2].copy_from_slice(&super_scale.to_le_bytes());
        for column in 0..per_block {
            place(bytes, column, (block * per_block + column) as u16);
        }
    }
    let mut out = vec![0.0; points * width];
    ggmill_quant::dequantize(ggml_type, &blocks, &mut out).unwrap();
    out
}

fn check(values: &[f32], expected: u64) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(digest(&bytes), expected);
}

// The digests are printed by `xtask/peers/iq_tables.py --digests`, from values the reference
// computed. The super-scales make the lowest scale exactly 1.

#[test]
fn iq2_xxs() {
    let found = values(GgmlType::IQ2_XXS, 256, 0x4800, |block, column, index| {
        block[2 + column / 4 * 8 + column % 4] = index as u8;
    });
    assert_eq!(
        found[..16],
        [8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 43.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]
    );
    check(&found, 0x94e0_9288_cf09_47df);
}

#[test]
fn iq2_xs() {
    let found = values(GgmlType::IQ2_XS, 512, 0x4800, |block, column, index| {
        block[2 + 2 * column..][..2].copy_from_slice(&index.to_le_bytes());
    });
    check(&found, 0x48e9_c708_8c64_d7df);
}

#[test]
fn iq2_s() {
    let found = values(GgmlType::IQ2_S, 1024, 0x4800, |block, column, index| {
        block[2 + column] = index as u8;
        block[66 + column / 4] |= ((index >> 8) as u8) << (column % 4 * 2);
    });
    check(&found, 0x39e9_7fde_a876_f7df);
}

#[test]
fn iq3_xxs() {
    let found = values(GgmlType::IQ3_XXS, 256, 0x4400, |block, column, index| {
        block[2 + column] = index as u8;
    });
    check(&found, 0x78e4_4609_b1a9_dfdf);
}

#[test]
fn iq3_s() {
    let found = values(GgmlType::IQ3_S, 512, 0x3c00, |block, column, index| {
        block[2 + column] = index as u8;
        block[66 + column / 8] |= ((index >> 8) as u8) << (column % 8);
    });
    check(&found, 0x0e86_eaad_71b5_47df);
}

#[test]
fn iq1_s() {
    let found = values(GgmlType::IQ1_S, 2048, 0x3c00, |block, column, index| {
        let high = (index >> 8) << (column % 4 * 3);
        let word = &mut block[34 + column / 4 * 2..][..2];
        let joined = u16::from_le_bytes([word[0], word[1]]) | high;
        word.copy_from_slice(&joined.to_le_bytes());
        block[2 + column] = index as u8;
    });
    check(&found, 0xe33f_d66f_8ef4_37df);
}
