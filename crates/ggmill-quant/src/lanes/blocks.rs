//! Encoding of the formats without a search: a scale for each block, a block to a lane, then
//! levels, value after value.

use super::{Floats, Lanes, MOST, Mask, columns};

/// A number and its use for each of [`WIDTH`](Lanes::WIDTH) blocks.
pub(crate) struct Scales {
    pub(crate) scales: [f32; MOST],
    /// Their inverses; 0 of 0.
    pub(crate) inverses: [f32; MOST],
    /// The number that is subtracted before scaling.
    pub(crate) mins: [f32; MOST],
}

/// The first value of the greatest magnitude over `divisor`, for each of up to
/// [`WIDTH`](Lanes::WIDTH) blocks. `None` where an inverse is not finite.
#[inline(always)]
pub(crate) fn extremes<L: Lanes>(lanes: L, blocks: &[[f32; 32]], divisor: f32) -> Option<Scales> {
    let mut extreme = lanes.splat(0.0);
    for x in columns(lanes, blocks, 0) {
        extreme = x.or(x.abs().gt(extreme.abs()), extreme);
    }
    scales(lanes, extreme / lanes.splat(divisor), lanes.splat(0.0))
}

/// The greatest magnitude over `divisor`, for each of up to [`WIDTH`](Lanes::WIDTH) blocks. `None`
/// where an inverse is not finite.
#[inline(always)]
pub(crate) fn largest<L: Lanes>(lanes: L, blocks: &[[f32; 32]], divisor: f32) -> Option<Scales> {
    let mut largest = lanes.splat(0.0);
    for x in columns(lanes, blocks, 0) {
        largest = largest.greater(x.abs());
    }
    scales(lanes, largest / lanes.splat(divisor), lanes.splat(0.0))
}

/// The least value, and how far the greatest is from it over `divisor`, for each of up to
/// [`WIDTH`](Lanes::WIDTH) blocks. `None` where a number is not finite.
#[inline(always)]
pub(crate) fn least_and_most<L: Lanes>(
    lanes: L,
    blocks: &[[f32; 32]],
    divisor: f32,
) -> Option<Scales> {
    let x = columns(lanes, blocks, 0);
    let (mut least, mut most) = (x[0], x[0]);
    for x in x {
        least = x.lesser(least);
        most = x.greater(most);
    }
    scales(lanes, (most - least) / lanes.splat(divisor), least)
}

#[inline(always)]
fn scales<L: Lanes>(lanes: L, scale: L::F, min: L::F) -> Option<Scales> {
    let (zero, greatest) = (lanes.splat(0.0), lanes.splat(f32::MAX));
    let inverse = zero.or(scale.eq(zero), lanes.splat(1.0) / scale);
    if scale.abs().gt(greatest).or(inverse.abs().gt(greatest)).any() {
        return None;
    }
    let mut out = Scales { scales: [0.0; MOST], inverses: [0.0; MOST], mins: [0.0; MOST] };
    scale.store(&mut out.scales);
    inverse.store(&mut out.inverses);
    min.store(&mut out.mins);
    Some(out)
}

/// (x - `min`) · `inverse` + `add`, truncated, at most `top`. None of them is negative.
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
        ((lanes.load(values) - min) * inverse + add).lesser(top).store_bytes(levels);
    }
    levels
}

/// x · `inverse`, rounded half away from zero, as signed bytes. Magnitudes are below 128.
#[inline(always)]
pub(crate) fn round_to_bytes<L: Lanes, const N: usize>(
    lanes: L,
    values: &[f32; N],
    inverse: f32,
) -> [u8; N] {
    /// Added to a magnitude, this carries a half into the next whole number, and nothing less than
    /// a half.
    const ALMOST_HALF: f32 = 0.499_999_97;
    let mut levels = [0; N];
    let (zero, inverse, half, wrap) =
        (lanes.splat(0.0), lanes.splat(inverse), lanes.splat(ALMOST_HALF), lanes.splat(256.0));
    for (values, levels) in values.chunks_exact(L::WIDTH).zip(levels.chunks_exact_mut(L::WIDTH)) {
        let scaled = lanes.load(values) * inverse;
        let rounded = (scaled.abs() + half).trunc();
        (wrap - rounded).or(scaled.lt(zero).and(rounded.gt(zero)), rounded).store_bytes(levels);
    }
    levels
}

/// The greatest magnitude of some values, as many as fill whole vectors.
#[inline(always)]
pub(crate) fn greatest_magnitude<L: Lanes>(lanes: L, values: &[f32]) -> f32 {
    let mut largest = lanes.splat(0.0);
    for values in values.chunks_exact(L::WIDTH) {
        largest = largest.greater(lanes.load(values).abs());
    }
    let mut room = [0.0; MOST];
    largest.store(&mut room);
    // The greatest is the greatest in any order; half of the rest at a time goes faster than one
    // after the other.
    let mut width = L::WIDTH;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            room[lane] =
                if room[lane] > room[lane + width] { room[lane] } else { room[lane + width] };
        }
    }
    room[0]
}

/// `N` values under one scale, whose indices lie in the low halves of `N / 2` bytes, then in the
/// high ones.
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

/// Signed bytes times a scale, as many as fill whole vectors.
#[inline(always)]
pub(crate) fn decode_signed<L: Lanes>(lanes: L, bytes: &[u8], scale: f32, out: &mut [f32]) {
    let scale = lanes.splat(scale);
    for (bytes, out) in bytes.chunks_exact(L::WIDTH).zip(out.chunks_exact_mut(L::WIDTH)) {
        (lanes.load_signed(bytes) * scale).store(out);
    }
}

/// Bytes up to 127 times a scale, less a minimum, as many as fill whole vectors.
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
