//! IQ4_NL and IQ4_XS: four-bit indices into sixteen unevenly spaced values.

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::numeric::{extreme, inverse_or_zero, nearest, sum_of_squares};
use crate::search::NOTHING;

/// 32 weights under a half-precision scale.
pub(crate) struct IQ4_NL;
/// 256 weights, each 32 under a six-bit scale.
pub(crate) struct IQ4_XS;

/// What the indices stand for, ascending.
const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

// IQ4_XS: the super-scale, two bits of every scale, four bits of every scale, the indices.
const HIGH_SCALES: usize = 2;
const LOW_SCALES: usize = 4;
const INDICES: usize = 8;

impl Decode<32, 18> for IQ4_NL {
    const TYPE: GgmlType = GgmlType::IQ4_NL;

    fn decode(block: &[u8; 18], out: &mut [f32; 32]) {
        decode_group(&block[2..], read_f16(block, 0), out);
    }
}

impl Encode<32, 18> for IQ4_NL {
    fn encode(values: &[f32; 32], block: &mut [u8; 18]) {
        encode_nl(values, values.map(|value| value * value), block);
    }

    fn encode_weighted(values: &[f32; 32], weights: &[f32; 32], _: f32, block: &mut [u8; 18]) {
        encode_nl(values, importance(values, weights, spread(values)), block);
    }
}

fn encode_nl(values: &[f32; 32], weights: [f32; 32], block: &mut [u8; 18]) {
    let scale = search(values, &weights);
    write_f16(block, 0, scale);
    encode_group(values, inverse_or_zero(scale), &mut block[2..]);
}

impl Decode<256, 136> for IQ4_XS {
    const TYPE: GgmlType = GgmlType::IQ4_XS;

    fn decode(block: &[u8; 136], out: &mut [f32; 256]) {
        let super_scale = read_f16(block, 0);
        let high = u16::from_le_bytes([block[HIGH_SCALES], block[HIGH_SCALES + 1]]);
        for (group, (indices, out)) in block[INDICES..].chunks_exact(16).zip(out.chunks_exact_mut(32)).enumerate() {
            let low = block[LOW_SCALES + group / 2] >> (4 * (group % 2)) & 15;
            let scale = i32::from(low) | i32::from(high >> (2 * group) & 3) << 4;
            decode_group(indices, super_scale * (scale - 32) as f32, out);
        }
    }
}

impl Encode<256, 136> for IQ4_XS {
    fn encode(values: &[f32; 256], block: &mut [u8; 136]) {
        encode_xs(values, |_, group| group.map(|value| value * value), block);
    }

    fn encode_weighted(values: &[f32; 256], weights: &[f32; 256], _: f32, block: &mut [u8; 136]) {
        let spread = spread(values);
        let (weights, _) = weights.as_chunks();
        encode_xs(values, |index, group| importance(group, &weights[index], spread), block);
    }
}

fn encode_xs(values: &[f32; 256], weights: impl Fn(usize, &[f32; 32]) -> [f32; 32], block: &mut [u8; 136]) {
    let (groups, _) = values.as_chunks::<32>();
    let mut scales = [0.0; 8];
    for (index, (scale, group)) in scales.iter_mut().zip(groups).enumerate() {
        *scale = search(group, &weights(index, group));
    }
    let super_scale = -extreme(&scales) / 32.0;
    // The levels below are chosen for the super-scale as it was before it was rounded to half precision.
    write_f16(block, 0, super_scale);
    let inverse = inverse_or_zero(super_scale);
    let mut high = 0;
    block[LOW_SCALES..INDICES].fill(0);
    for (index, (&scale, group)) in scales.iter().zip(groups).enumerate() {
        let level = nearest(inverse * scale).clamp(-32, 31);
        encode_group(group, inverse_or_zero(super_scale * level as f32), &mut block[INDICES + 16 * index..][..16]);
        let stored = (level + 32) as u8;
        block[LOW_SCALES + index / 2] |= (stored & 15) << (4 * (index % 2));
        high |= u16::from(stored >> 4) << (2 * index);
    }
    block[HIGH_SCALES..LOW_SCALES].copy_from_slice(&high.to_le_bytes());
}

/// What each weight counts: its column's importance, times a magnitude that small weights share with their block.
fn importance(values: &[f32; 32], weights: &[f32; 32], spread: f32) -> [f32; 32] {
    core::array::from_fn(|i| weights[i] * (spread + values[i] * values[i]).sqrt())
}

/// Twice the mean square of a block.
fn spread(values: &[f32]) -> f32 {
    sum_of_squares(values) * (2.0 / values.len() as f32)
}

/// The scale of least weighted error among sixteen candidates, all near the one that puts the extreme value on the end of the table.
fn search(values: &[f32; 32], weights: &[f32; 32]) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < NOTHING {
        return 0.0;
    }
    let fit = |inverse: f32| {
        values.iter().zip(weights).fold((0.0, 0.0), |(qx, qq), (&value, &weight)| {
            let quant = f32::from(VALUES[usize::from(nearest_index(inverse * value))]);
            (qx + weight * quant * value, qq + weight * quant * quant)
        })
    };
    let first = -extreme / f32::from(VALUES[0]);
    let (qx, qq) = fit(1.0 / first);
    let mut scale = if qq > 0.0 { qx / qq } else { 0.0 };
    let mut best = scale * qx;
    for step in -7..=7 {
        let (qx, qq) = fit((step + i32::from(VALUES[0])) as f32 / extreme);
        if qq > 0.0 && qx * qx > best * qq {
            scale = qx / qq;
            best = scale * qx;
        }
    }
    scale
}

/// The index of the nearest value in the table, of two equally near the higher.
fn nearest_index(x: f32) -> u8 {
    let value = |index: usize| f32::from(VALUES[index]);
    if x <= value(0) {
        return 0;
    }
    if x >= value(15) {
        return 15;
    }
    // The first entry above x. There is none for what is not a number (0 times an infinite inverse); the reference's bisection then ends at the last.
    let upper = (1..15).find(|&index| x < value(index)).unwrap_or(15);
    if x - value(upper - 1) < value(upper) - x { upper as u8 - 1 } else { upper as u8 }
}

/// The first half of the group in the low halves of the bytes, the second in the high ones.
fn decode_group(indices: &[u8], scale: f32, out: &mut [f32]) {
    let (low, high) = out.split_at_mut(indices.len());
    for ((byte, low), high) in indices.iter().zip(low).zip(high) {
        *low = scale * f32::from(VALUES[usize::from(byte & 15)]);
        *high = scale * f32::from(VALUES[usize::from(byte >> 4)]);
    }
}

fn encode_group(values: &[f32; 32], inverse: f32, indices: &mut [u8]) {
    for (i, byte) in indices.iter_mut().enumerate() {
        *byte = nearest_index(inverse * values[i]) | nearest_index(inverse * values[i + 16]) << 4;
    }
}
