//! Encoding without a search: one scale per block, computed with one block per lane, then the
//! levels. And decoding of blocks with one scale.

use super::{Floats, Lanes, MAX_LANES, Mask, columns};

/// The scales of up to [`WIDTH`](Lanes::WIDTH) blocks.
pub(crate) struct Scales {
    pub(crate) scales: [f32; MAX_LANES],
    /// The inverse of each scale, or 0 if it is 0.
    pub(crate) inverses: [f32; MAX_LANES],
    /// The minimum, which is subtracted before scaling.
    pub(crate) mins: [f32; MAX_LANES],
}

/// Returns, as the scale of each block, its first value of the greatest magnitude divided by
/// `divisor`, or `None` if a scale or an inverse is not finite.
#[inline(always)]
pub(crate) fn extreme_scales<L: Lanes>(
    lanes: L,
    blocks: &[[f32; 32]],
    divisor: f32,
) -> Option<Scales> {
    let mut extreme = lanes.splat(0.0);
    for x in columns(lanes, blocks, 0) {
        extreme = x.select(x.abs().gt(extreme.abs()), extreme);
    }
    scales(lanes, extreme / lanes.splat(divisor), lanes.splat(0.0))
}

/// Returns, as the scale of each block, its greatest magnitude divided by `divisor`, or `None` if a
/// scale or an inverse is not finite.
#[inline(always)]
pub(crate) fn max_abs_scales<L: Lanes>(
    lanes: L,
    blocks: &[[f32; 32]],
    divisor: f32,
) -> Option<Scales> {
    let mut largest = lanes.splat(0.0);
    for x in columns(lanes, blocks, 0) {
        largest = largest.max(x.abs());
    }
    scales(lanes, largest / lanes.splat(divisor), lanes.splat(0.0))
}

/// Returns, for each block, its minimum, and as the scale its range divided by `divisor`, or `None`
/// if a scale or an inverse is not finite.
#[inline(always)]
pub(crate) fn min_max_scales<L: Lanes>(
    lanes: L,
    blocks: &[[f32; 32]],
    divisor: f32,
) -> Option<Scales> {
    let x = columns(lanes, blocks, 0);
    let (mut least, mut most) = (x[0], x[0]);
    for x in x {
        least = x.min(least);
        most = x.max(most);
    }
    scales(lanes, (most - least) / lanes.splat(divisor), least)
}

#[inline(always)]
fn scales<L: Lanes>(lanes: L, scale: L::F, min: L::F) -> Option<Scales> {
    let (zero, greatest) = (lanes.splat(0.0), lanes.splat(f32::MAX));
    let inverse = zero.select(scale.eq(zero), lanes.splat(1.0) / scale);
    if scale.abs().gt(greatest).or(inverse.abs().gt(greatest)).any() {
        return None;
    }
    let mut out =
        Scales { scales: [0.0; MAX_LANES], inverses: [0.0; MAX_LANES], mins: [0.0; MAX_LANES] };
    scale.store(&mut out.scales);
    inverse.store(&mut out.inverses);
    min.store(&mut out.mins);
    Some(out)
}

/// Returns (x - `min`) · `inverse` + `add` of each value, truncated and at most `top`. No result is
/// negative.
#[inline(always)]
pub(crate) fn offset_levels<L: Lanes, const N: usize>(
    lanes: L,
    values: &[f32; N],
    min: f32,
    inverse: f32,
    add: f32,
    top: f32,
) -> [u8; N] {
    let mut levels = [0; N];
    let (min, inverse, add, top) =
        (lanes.splat(min), lanes.splat(inverse), lanes.splat(add), lanes.splat(top));
    for (values, levels) in values.chunks_exact(L::WIDTH).zip(levels.chunks_exact_mut(L::WIDTH)) {
        ((lanes.load(values) - min) * inverse + add).min(top).store_bytes(levels);
    }
    levels
}

/// Returns x · `inverse` of each value, rounded half away from zero, as signed bytes. Magnitudes
/// are below 128.
#[inline(always)]
pub(crate) fn round_to_bytes<L: Lanes, const N: usize>(
    lanes: L,
    values: &[f32; N],
    inverse: f32,
) -> [u8; N] {
    /// The greatest `f32` below ½. Added to a magnitude, it carries fractions from ½ on into the
    /// next integer; ½ itself would carry the greatest fraction below ½ too.
    const ALMOST_HALF: f32 = 0.499_999_97;
    let mut levels = [0; N];
    let (zero, inverse, half, wrap) =
        (lanes.splat(0.0), lanes.splat(inverse), lanes.splat(ALMOST_HALF), lanes.splat(256.0));
    for (values, levels) in values.chunks_exact(L::WIDTH).zip(levels.chunks_exact_mut(L::WIDTH)) {
        let scaled = lanes.load(values) * inverse;
        let rounded = (scaled.abs() + half).trunc();
        (wrap - rounded).select(scaled.lt(zero).and(rounded.gt(zero)), rounded).store_bytes(levels);
    }
    levels
}

/// Returns the greatest magnitude of values that fill whole vectors.
#[inline(always)]
pub(crate) fn max_abs<L: Lanes>(lanes: L, values: &[f32]) -> f32 {
    let mut largest = lanes.splat(0.0);
    for values in values.chunks_exact(L::WIDTH) {
        largest = largest.max(lanes.load(values).abs());
    }
    let mut buffer = [0.0; MAX_LANES];
    largest.store(&mut buffer);
    // A maximum does not depend on the order, and halving is faster than a chain of comparisons.
    let mut width = L::WIDTH;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            buffer[lane] = if buffer[lane] > buffer[lane + width] {
                buffer[lane]
            } else {
                buffer[lane + width]
            };
        }
    }
    buffer[0]
}

/// Decodes `N` values of one scale. Their indices into `table` are in the low halves of `N / 2`
/// bytes, then in the high halves.
#[inline(always)]
pub(crate) fn decode_nibbles<L: Lanes, const N: usize>(
    lanes: L,
    bytes: &[u8],
    table: &[i8; 16],
    scale: f32,
    out: &mut [f32; N],
) {
    let mut indices = [0; N];
    let (low, high) = indices.split_at_mut(N / 2);
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        *low = byte & 15;
        *high = byte >> 4;
    }
    let scale = lanes.splat(scale);
    for (indices, out) in indices.chunks_exact(L::WIDTH).zip(out.chunks_exact_mut(L::WIDTH)) {
        (lanes.look_up(table, indices) * scale).store(out);
    }
}

/// Multiplies signed bytes by a scale. They must fill whole vectors.
#[inline(always)]
pub(crate) fn decode_signed<L: Lanes>(lanes: L, bytes: &[u8], scale: f32, out: &mut [f32]) {
    let scale = lanes.splat(scale);
    for (bytes, out) in bytes.chunks_exact(L::WIDTH).zip(out.chunks_exact_mut(L::WIDTH)) {
        (lanes.load_signed(bytes) * scale).store(out);
    }
}

/// Multiplies bytes up to 127 by a scale and subtracts a minimum. They must fill whole vectors.
#[inline(always)]
pub(crate) fn decode_affine<L: Lanes>(
    lanes: L,
    bytes: &[u8],
    scale: f32,
    min: f32,
    out: &mut [f32],
) {
    let (scale, min) = (lanes.splat(scale), lanes.splat(min));
    for (bytes, out) in bytes.chunks_exact(L::WIDTH).zip(out.chunks_exact_mut(L::WIDTH)) {
        (lanes.load_signed(bytes) * scale - min).store(out);
    }
}
