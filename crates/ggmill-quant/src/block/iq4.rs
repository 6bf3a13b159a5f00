//! IQ4_NL and IQ4_XS: four-bit indices into sixteen unevenly spaced values.

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::arch::Pair;
use crate::float16::{read_f16, write_f16};
use crate::lanes::{self, Floats, Lanes, MAX_LANES, Mask, columns, columns_from, sums_of_squares};
use crate::numeric::{extreme, inverse_or_zero, nearest_int, sum_of_squares};
use crate::search::GROUP_MAX_EPS;

/// 32 weights under a half-precision scale.
pub(crate) struct IQ4_NL;
/// 256 weights in groups of 32, each under a six-bit scale.
pub(crate) struct IQ4_XS;

/// The values of the indices, ascending.
const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

// Offsets in IQ4_XS: after the super-scale, the upper two bits of every scale, the lower four bits,
// the indices.
const HIGH_SCALES: usize = 2;
const LOW_SCALES: usize = 4;
const INDICES: usize = 8;

impl Decode<32, 18> for IQ4_NL {
    const TYPE: GgmlType = GgmlType::IQ4_NL;

    #[inline(always)]
    fn decode(block: &[u8; 18], out: &mut [f32; 32]) {
        decode_group(&block[2..], read_f16(block, 0), out);
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 18]], out: &mut [[f32; 32]]) {
        for (block, out) in blocks.iter().zip(out) {
            lanes::decode_nibbles(lanes, &block[2..], &VALUES, read_f16(block, 0), out);
        }
    }
}

impl Encode<32, 18> for IQ4_NL {
    fn encode(values: &[f32; 32], block: &mut [u8; 18]) {
        encode_nl(values, values.map(|value| value * value), block);
    }

    fn encode_weighted(values: &[f32; 32], weights: &[f32; 32], _: f32, block: &mut [u8; 18]) {
        encode_nl(values, importance(values, weights, sigma2(values)), block);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 32]], out: &mut [[u8; 18]]) {
        for (values, out) in values.chunks(2 * L::WIDTH).zip(out.chunks_mut(2 * L::WIDTH)) {
            let scales = search_many(lanes, values, None, Sigma2::Block, 0);
            encode_nl_lanes(lanes, values, &scales, out);
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; 32]],
        weights: &[[f32; 32]],
        _: f32,
        out: &mut [[u8; 18]],
    ) {
        for ((values, weights), out) in values
            .chunks(2 * L::WIDTH)
            .zip(weights.chunks(2 * L::WIDTH))
            .zip(out.chunks_mut(2 * L::WIDTH))
        {
            let scales = search_many(lanes, values, Some(weights), Sigma2::Block, 0);
            encode_nl_lanes(lanes, values, &scales, out);
        }
    }
}

fn encode_nl(values: &[f32; 32], weights: [f32; 32], block: &mut [u8; 18]) {
    let scale = search(values, &weights);
    write_f16(block, 0, scale);
    encode_group(values, inverse_or_zero(scale), &mut block[2..]);
}

impl Decode<256, 136> for IQ4_XS {
    const TYPE: GgmlType = GgmlType::IQ4_XS;

    #[inline(always)]
    fn decode(block: &[u8; 136], out: &mut [f32; 256]) {
        let super_scale = read_f16(block, 0);
        for (group, (indices, out)) in
            block[INDICES..].chunks_exact(16).zip(out.chunks_exact_mut(32)).enumerate()
        {
            decode_group(indices, super_scale * group_scale(block, group), out);
        }
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 136]], out: &mut [[f32; 256]]) {
        for (block, out) in blocks.iter().zip(out) {
            let super_scale = read_f16(block, 0);
            for (group, (indices, out)) in
                block[INDICES..].chunks_exact(16).zip(out.as_chunks_mut::<32>().0).enumerate()
            {
                lanes::decode_nibbles(
                    lanes,
                    indices,
                    &VALUES,
                    super_scale * group_scale(block, group),
                    out,
                );
            }
        }
    }
}

/// Returns the scale level of a group, -32..32.
#[inline(always)]
fn group_scale(block: &[u8; 136], group: usize) -> f32 {
    let high = u16::from_le_bytes([block[HIGH_SCALES], block[HIGH_SCALES + 1]]);
    let low = block[LOW_SCALES + group / 2] >> (4 * (group % 2)) & 15;
    ((i32::from(low) | i32::from(high >> (2 * group) & 3) << 4) - 32) as f32
}

impl Encode<256, 136> for IQ4_XS {
    fn encode(values: &[f32; 256], block: &mut [u8; 136]) {
        encode_xs(values, |_, group| group.map(|value| value * value), block);
    }

    fn encode_weighted(values: &[f32; 256], weights: &[f32; 256], _: f32, block: &mut [u8; 136]) {
        let sigma2 = sigma2(values);
        let (weights, _) = weights.as_chunks();
        encode_xs(values, |index, group| importance(group, &weights[index], sigma2), block);
    }

    #[inline(always)]
    fn encode_many<L: Lanes>(lanes: L, values: &[[f32; 256]], out: &mut [[u8; 136]]) {
        for (values, out) in values.chunks(2 * L::WIDTH).zip(out.chunks_mut(2 * L::WIDTH)) {
            encode_xs_lanes(lanes, values, None, out);
        }
    }

    #[inline(always)]
    fn encode_many_weighted<L: Lanes>(
        lanes: L,
        values: &[[f32; 256]],
        weights: &[[f32; 256]],
        _: f32,
        out: &mut [[u8; 136]],
    ) {
        for ((values, weights), out) in values
            .chunks(2 * L::WIDTH)
            .zip(weights.chunks(2 * L::WIDTH))
            .zip(out.chunks_mut(2 * L::WIDTH))
        {
            encode_xs_lanes(lanes, values, Some(weights), out);
        }
    }
}

fn encode_xs(
    values: &[f32; 256],
    weights: impl Fn(usize, &[f32; 32]) -> [f32; 32],
    block: &mut [u8; 136],
) {
    let (groups, _) = values.as_chunks::<32>();
    let mut scales = [0.0; 8];
    for (index, (scale, group)) in scales.iter_mut().zip(groups).enumerate() {
        *scale = search(group, &weights(index, group));
    }
    let inverses = write_scales(&scales, block);
    for ((group, inverse), indices) in
        groups.iter().zip(inverses).zip(block[INDICES..].chunks_exact_mut(16))
    {
        encode_group(group, inverse, indices);
    }
}

/// Stores the scales of a super-block and returns the inverse of each group's scale.
fn write_scales(scales: &[f32; 8], block: &mut [u8; 136]) -> [f32; 8] {
    let super_scale = -extreme(scales) / 32.0;
    // As in the reference, the levels are chosen for the super-scale before rounding to half
    // precision.
    write_f16(block, 0, super_scale);
    let inverse = inverse_or_zero(super_scale);
    let mut high = 0;
    block[LOW_SCALES..INDICES].fill(0);
    let mut inverses = [0.0; 8];
    for (index, (&scale, inverse_of_group)) in scales.iter().zip(&mut inverses).enumerate() {
        let level = nearest_int(inverse * scale).clamp(-32, 31);
        *inverse_of_group = inverse_or_zero(super_scale * level as f32);
        let stored = (level + 32) as u8;
        block[LOW_SCALES + index / 2] |= (stored & 15) << (4 * (index % 2));
        high |= u16::from(stored >> 4) << (2 * index);
    }
    block[HIGH_SCALES..LOW_SCALES].copy_from_slice(&high.to_le_bytes());
    inverses
}

/// Which values' mean square is the σ² of the weights.
#[derive(Clone, Copy)]
enum Sigma2<'a> {
    Block,
    SuperBlock(&'a [f32; MAX_LANES]),
}

/// Returns the scales of at most two vectors of groups, from group `first` on.
#[inline(always)]
fn search_many<L: Lanes>(
    lanes: L,
    values: &[[f32; 32]],
    weights: Option<&[[f32; 32]]>,
    sigma2: Sigma2<'_>,
    first: usize,
) -> [f32; MAX_LANES] {
    let lanes = Pair(lanes);
    let x = columns(lanes, values, first);
    let mut squares = x;
    for square in &mut squares {
        *square = *square * *square;
    }
    let w = match weights {
        None => squares,
        Some(weights) => {
            let sigma2 = match sigma2 {
                Sigma2::Block => {
                    let mut sum = lanes.splat(0.0);
                    for &square in &squares {
                        sum = sum + square;
                    }
                    sum * lanes.splat(2.0 / 32.0)
                }
                Sigma2::SuperBlock(sums) => {
                    let [sum] = columns_from(lanes, |lane, _| {
                        sums[((first + lane) / 8).min(MAX_LANES - 1)]
                    });
                    sum * lanes.splat(2.0 / 256.0)
                }
            };
            lanes::importance(&x, &columns(lanes, weights, first), sigma2)
        }
    };
    let mut out = [0.0; MAX_LANES];
    search_lanes(lanes, &x, &w).store(&mut out);
    out
}

#[inline(always)]
fn encode_xs_lanes<L: Lanes>(
    lanes: L,
    values: &[[f32; 256]],
    weights: Option<&[[f32; 256]]>,
    out: &mut [[u8; 136]],
) {
    let sums =
        if weights.is_some() { sums_of_squares(Pair(lanes), values) } else { [0.0; MAX_LANES] };
    let (groups, _) = values.as_flattened().as_chunks::<32>();
    let weights = weights.map(|weights| weights.as_flattened().as_chunks::<32>().0);
    let mut scales = [[0.0; 8]; MAX_LANES];
    for first in (0..groups.len()).step_by(2 * L::WIDTH) {
        let found = search_many(lanes, groups, weights, Sigma2::SuperBlock(&sums), first);
        scales.as_flattened_mut()[first..][..2 * L::WIDTH].copy_from_slice(&found[..2 * L::WIDTH]);
    }
    for (index, (values, block)) in values.iter().zip(out).enumerate() {
        let inverses = write_scales(&scales[index], block);
        let (groups, _) = values.as_chunks::<32>();
        for ((group, inverse), indices) in
            groups.iter().zip(inverses).zip(block[INDICES..].chunks_exact_mut(16))
        {
            encode_group_lanes(lanes, group, inverse, indices);
        }
    }
}

#[inline(always)]
fn encode_nl_lanes<L: Lanes>(
    lanes: L,
    values: &[[f32; 32]],
    scales: &[f32; MAX_LANES],
    out: &mut [[u8; 18]],
) {
    for ((values, &scale), block) in values.iter().zip(scales).zip(out) {
        write_f16(block, 0, scale);
        encode_group_lanes(lanes, values, inverse_or_zero(scale), &mut block[2..]);
    }
}

/// Does what [`encode_group`] does, with lanes.
#[inline(always)]
fn encode_group_lanes<L: Lanes>(lanes: L, values: &[f32; 32], inverse: f32, out: &mut [u8]) {
    let inverse = lanes.splat(inverse);
    let mut indices = [0; 32];
    for (values, indices) in values.chunks_exact(L::WIDTH).zip(indices.chunks_exact_mut(L::WIDTH)) {
        let x = inverse * lanes.load(values);
        let mut index = lanes.splat(15.0);
        for (i, &from) in THRESHOLDS.iter().enumerate().rev() {
            index = lanes.splat(i as f32).select(x.lt(lanes.splat(from)), index);
        }
        index.store_bytes(indices);
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = indices[i] | indices[i + 16] << 4;
    }
}

/// Does what [`search`] does, with one group per lane.
#[inline(always)]
fn search_lanes<L: Lanes>(lanes: L, x: &[L::F; 32], w: &[L::F; 32]) -> L::F {
    let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
    let mut extreme = zero;
    for &x in x {
        extreme = x.select(x.abs().gt(extreme.abs()), extreme);
    }
    let live = extreme.abs().lt(lanes.splat(GROUP_MAX_EPS)).not();
    let extreme = extreme.select(live, one);
    let first = -extreme / lanes.splat(f32::from(VALUES[0]));
    let (qx, qq) = fit_lanes(lanes, x, w, one / first);
    let mut scale = (qx / qq).select(qq.gt(zero), zero);
    let mut best = scale * qx;
    for step in -7..=7 {
        let (qx, qq) =
            fit_lanes(lanes, x, w, lanes.splat((step + i32::from(VALUES[0])) as f32) / extreme);
        let better = qq.gt(zero).and((qx * qx).gt(best * qq));
        scale = (qx / qq).select(better, scale);
        best = (scale * qx).select(better, best);
    }
    scale.select(live, zero)
}

#[inline(always)]
fn fit_lanes<L: Lanes>(lanes: L, x: &[L::F; 32], w: &[L::F; 32], inverse: L::F) -> (L::F, L::F) {
    let (mut qx, mut qq) = (lanes.splat(0.0), lanes.splat(0.0));
    for (&x, &w) in x.iter().zip(w) {
        let scaled = inverse * x;
        let mut quant = lanes.splat(f32::from(VALUES[15]));
        for (&value, &from) in VALUES.iter().zip(&THRESHOLDS).rev() {
            quant = lanes.splat(f32::from(value)).select(scaled.lt(lanes.splat(from)), quant);
        }
        qx = qx + w * quant * x;
        qq = qq + w * quant * quant;
    }
    (qx, qq)
}

/// The least number whose [`nearest_index`] is greater than `i`, for each `i`.
const THRESHOLDS: [f32; 15] = {
    let mut from = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        let (low, high) = (VALUES[i] as f32, VALUES[i + 1] as f32);
        // Bisection over the floats between the two.
        let (mut below, mut above) = (float_order(low), float_order(high));
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            let x = float_at(middle);
            if x - low < high - x {
                below = middle;
            } else {
                above = middle;
            }
        }
        from[i] = float_at(above);
        i += 1;
    }
    from
};

/// Maps floats to integers in ascending order.
const fn float_order(x: f32) -> i64 {
    let bits = x.to_bits();
    if bits >> 31 == 1 { -((bits & 0x7fff_ffff) as i64) } else { bits as i64 }
}

/// Inverts [`float_order`].
const fn float_at(place: i64) -> f32 {
    f32::from_bits(if place < 0 { place.unsigned_abs() as u32 | 0x8000_0000 } else { place as u32 })
}

/// Returns the weight of each value: importance · √(σ² + x²).
fn importance(values: &[f32; 32], weights: &[f32; 32], sigma2: f32) -> [f32; 32] {
    core::array::from_fn(|i| weights[i] * (sigma2 + values[i] * values[i]).sqrt())
}

/// Returns σ², twice the mean square of a block.
fn sigma2(values: &[f32]) -> f32 {
    sum_of_squares(values) * (2.0 / values.len() as f32)
}

/// Returns the scale of least weighted error among sixteen candidates near the one that maps the
/// extreme value to the end of the table.
fn search(values: &[f32; 32], weights: &[f32; 32]) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < GROUP_MAX_EPS {
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

/// Returns the index of the nearest value in the table, the higher of two equally near ones.
fn nearest_index(x: f32) -> u8 {
    let value = |index: usize| f32::from(VALUES[index]);
    if x <= value(0) {
        return 0;
    }
    if x >= value(15) {
        return 15;
    }
    // The first entry above x. There is none for NaN (0 times an infinite inverse), for which the
    // reference's bisection ends at the last entry.
    let upper = (1..15).find(|&index| x < value(index)).unwrap_or(15);
    if x - value(upper - 1) < value(upper) - x { upper as u8 - 1 } else { upper as u8 }
}

/// Decodes a group: the first half is in the low nibbles, the second in the high nibbles.
#[inline(always)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_give_the_nearest_index() {
        let index = |x: f32| THRESHOLDS.iter().filter(|&&from| !(x < from)).count();
        for from in THRESHOLDS {
            for bits in from.to_bits() - 40..from.to_bits() + 40 {
                let x = f32::from_bits(bits);
                assert_eq!(index(x), usize::from(nearest_index(x)), "{x}");
            }
        }
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e-30, -127.0, 113.0] {
            assert_eq!(index(x), usize::from(nearest_index(x)), "{x}");
        }
    }
}
