//! Algorithms on several groups at once, one group per lane.
//!
//! A search for a scale is one long chain of additions: each waits for the one before, and no two
//! may change places, or the bits change. But groups are independent. With one group per lane of a
//! vector, every lane does what the scalar code does, in its order, and a CPU that can add eight
//! pairs of numbers at a time works on eight groups. The scalar code stays the definition; what is
//! here equals it bit for bit, or declines.
//!
//! Vectors are processed in loops, not in closures: a closure is compiled for the baseline
//! instructions, and may be called instead of inlined.
//!
//! The algorithms are written once, over [`Lanes`]; each instruction set implements that trait (in
//! [`arch`](crate::arch)).

#![allow(
    clippy::inline_always,
    reason = "vector operations are fast only when inlined into a function that is compiled for \
              their instruction set"
)]

mod blocks;
mod search;

use core::ops::{Add, Div, Mul, Neg, Sub};

pub(crate) use blocks::{
    decode_affine, decode_nibbles, decode_signed, extreme_scales, max_abs, max_abs_scales,
    min_max_scales, offset_levels, round_to_bytes,
};
pub(crate) use search::{
    AffineLanes, MovedGroups, affine, positive, symmetric, symmetric_by_moves,
};

/// The greatest [`WIDTH`](Lanes::WIDTH): 16 lanes, paired.
pub(crate) const MAX_LANES: usize = 32;

/// 1.5 · 2²³. Floats of this magnitude have no fractional bits, so adding it rounds to the nearest
/// integer, half to even.
pub(crate) const MAGIC: f32 = 12_582_912.0;

/// An instruction set, as a value that exists only if the CPU has the instructions. It creates
/// vectors; the operations on vectors are in [`Floats`] and [`Mask`].
pub(crate) trait Lanes: Copy {
    /// The number of lanes of a vector: 8, 16 or 32.
    const WIDTH: usize = Self::F::WIDTH;

    /// `true` if [`pick`](Self::pick) is a vector permutation and not code for each lane.
    const HAS_FAST_PICK: bool;

    /// A vector of `f32`.
    type F: Floats;

    /// A vector of 16-bit words.
    type Words: Copy;

    /// Broadcasts a value to every lane.
    fn splat(self, value: f32) -> Self::F;

    /// Loads the first [`WIDTH`](Self::WIDTH) values of a slice, which must have that many.
    fn load(self, values: &[f32]) -> Self::F;

    /// Loads the first [`WIDTH`](Self::WIDTH) bytes of a slice as signed integers.
    fn load_signed(self, bytes: &[u8]) -> Self::F;

    /// Loads the first [`WIDTH`](Self::WIDTH) half-precision numbers of a slice.
    fn load_halves(self, halves: &[[u8; 2]]) -> Self::F;

    /// Looks up the first [`WIDTH`](Self::WIDTH) indices of a slice, each below 16, in `table`.
    fn look_up(self, table: &[i8; 16], indices: &[u8]) -> Self::F;

    /// Loads the first [`WIDTH`](Self::WIDTH) words of a slice.
    fn words(self, words: &[u16]) -> Self::Words;

    /// Looks up in `table`, for each lane, the index in the three bits of its word from `shift` on.
    /// The table has eight entries, repeated to the width of the vector.
    fn pick(self, table: Self::F, words: Self::Words, shift: u32) -> Self::F;

    /// Looks up in `table` the eight four-bit digits of each word, the lowest first: one word for
    /// every eight lanes. Only the lower three bits of a digit are used. The table has eight
    /// entries, repeated to the width of the vector.
    fn pick_digits(self, table: Self::F, words: &[u32]) -> Self::F;

    /// Concatenates the four bytes of `table` at each index and negates the bytes whose bit in
    /// `signs` is set. Indices are taken modulo `N`, a power of two. No byte of the table may be 0.
    fn signed_points<const N: usize>(
        self,
        table: &[[u8; 4]; N],
        indices: &[u16; 8],
        signs: u32,
    ) -> [u8; 32];

    /// Returns a vector for each of the values `8 * part..8 * part + 8`, with one lane for each of
    /// the groups `first..first + WIDTH`. The last group fills lanes beyond the end.
    fn eight_columns<const N: usize>(
        self,
        groups: &[[f32; N]],
        first: usize,
        part: usize,
    ) -> [Self::F; 8];
}

/// A vector of `f32`. In each lane, every operation equals the scalar operation, including NaN,
/// infinities and the sign of zero.
pub(crate) trait Floats:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    const WIDTH: usize;

    /// The result of comparisons.
    type Mask: Mask;

    /// Stores the lanes at the start of a slice, which must be long enough.
    fn store(self, out: &mut [f32]);

    /// Stores the lanes, integers from 0 to 255, as bytes at the start of a slice.
    fn store_bytes(self, out: &mut [u8]);

    /// Stores the lanes, integers from 0 to 65535, as words at the start of a slice.
    fn store_words(self, out: &mut [u16]);

    /// Returns the minimum of all lanes, none of which is NaN.
    fn reduce_min(self) -> f32;

    /// Returns `self * factor + addend`, rounded once.
    fn fused(self, factor: Self, addend: Self) -> Self;

    /// Returns 2 to the power of each lane, an integer from -126 to 127.
    fn power_of_two(self) -> Self;

    fn sqrt(self) -> Self;

    fn abs(self) -> Self;

    /// Rounds towards zero.
    fn trunc(self) -> Self;

    /// `if self < other { self } else { other }`
    fn min(self, other: Self) -> Self;

    /// `if self > other { self } else { other }`
    fn max(self, other: Self) -> Self;

    fn lt(self, other: Self) -> Self::Mask;

    fn gt(self, other: Self) -> Self::Mask;

    fn eq(self, other: Self) -> Self::Mask;

    /// Not equal, or NaN.
    fn ne(self, other: Self) -> Self::Mask;

    /// Returns `self` in lanes where the mask is set and `other` elsewhere.
    fn select(self, mask: Self::Mask, other: Self) -> Self;

    /// Rounds as [`nearest_int`](crate::numeric::nearest_int), for any value, and clamps to
    /// `[low, high]`.
    fn nearest(self, low: i32, high: i32) -> Self;
}

/// A lane mask.
pub(crate) trait Mask: Copy {
    const WIDTH: usize;

    fn and(self, other: Self) -> Self;

    fn or(self, other: Self) -> Self;

    fn not(self) -> Self;

    fn any(self) -> bool;

    fn all(self) -> bool;

    /// Returns one bit per lane, the first lane in the lowest bit.
    fn bits(self) -> u32;
}

/// An algorithm that is generic over the instruction set.
pub(crate) trait Work {
    /// If false, AVX2 is used in place of AVX-512.
    const USES_AVX512: bool = true;

    fn run<L: Lanes>(self, lanes: L);
}

/// Transposes the groups `first..first + WIDTH`: vector `i` holds value `i` of each group, one
/// group per lane. The last group fills lanes beyond the end.
#[inline(always)]
pub(crate) fn columns<L: Lanes, const N: usize>(
    lanes: L,
    groups: &[[f32; N]],
    first: usize,
) -> [L::F; N] {
    const { assert!(N.is_multiple_of(8)) };
    let mut out = [lanes.splat(0.0); N];
    for (part, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *out = lanes.eight_columns(groups, first, part);
    }
    out
}

/// Returns the values `8 * part..8 * part + 8` of each of the groups `first..first + 8`. The last
/// group replaces groups beyond the end.
#[inline(always)]
pub(crate) fn eight_rows<const N: usize>(
    groups: &[[f32; N]],
    first: usize,
    part: usize,
) -> [&[f32; 8]; 8] {
    // Fast path, with one bounds check: all eight groups exist.
    if let Some(groups) = groups.get(first..).and_then(<[_]>::first_chunk::<8>) {
        return groups.each_ref().map(|group| &group.as_chunks().0[part]);
    }
    let last = groups.len() - 1;
    core::array::from_fn(|row| &groups[(first + row).min(last)].as_chunks().0[part])
}

/// Returns what [`columns`] does for groups whose values `value(group, index)` returns.
#[inline(always)]
pub(crate) fn columns_from<L: Lanes, const N: usize>(
    lanes: L,
    value: impl Fn(usize, usize) -> f32,
) -> [L::F; N] {
    let mut out = [lanes.splat(0.0); N];
    for (i, out) in out.iter_mut().enumerate() {
        let mut row = [0.0; MAX_LANES];
        for (lane, row) in row.iter_mut().take(L::WIDTH).enumerate() {
            *row = value(lane, i);
        }
        *out = lanes.load(&row);
    }
    out
}

/// Returns the sum of squares of each block, added in order. There are at most
/// [`WIDTH`](Lanes::WIDTH) blocks.
#[inline(always)]
pub(crate) fn sums_of_squares<L: Lanes>(lanes: L, blocks: &[[f32; 256]]) -> [f32; MAX_LANES] {
    let mut sum = lanes.splat(0.0);
    for part in 0..256 / 8 {
        for x in lanes.eight_columns(blocks, 0, part) {
            sum = sum + x * x;
        }
    }
    let mut out = [0.0; MAX_LANES];
    sum.store(&mut out);
    out
}

/// Returns the weight of each value: importance · √(σ² + x²), as the scalar code of each format.
#[inline(always)]
pub(crate) fn importance<F: Floats, const N: usize>(
    x: &[F; N],
    weights: &[F; N],
    sigma2: F,
) -> [F; N] {
    let mut out = *weights;
    for (w, &x) in out.iter_mut().zip(x) {
        *w = *w * (sigma2 + x * x).sqrt();
    }
    out
}
