//! Several groups at once, one to a lane.
//!
//! A search for a scale is one long chain of additions: each waits for the one before, and no two
//! may change places, or the bits change. But groups know nothing of each other. With group after
//! group in the lanes of a vector, every lane does what the scalar code does, in its order, and a
//! processor that can add eight pairs of numbers at a time works on eight groups. The scalar code
//! stays the definition; what is here equals it bit for bit, or declines.
//!
//! Vectors are worked on in loops and not in closures: a closure is compiled for the instructions
//! of every machine, and may be called instead of inlined.
//!
//! The algorithms are written once, over [`Lanes`]; an instruction set is an instance of that trait
//! (in [`arch`](crate::arch)).

#![allow(
    clippy::inline_always,
    reason = "vector operations are worth something only inside a function compiled for their \
              instruction set"
)]

mod blocks;
mod search;
mod sums;
mod tile;

use core::ops::{Add, Div, Mul, Neg, Sub};

pub(crate) use blocks::{
    decode_affine, decode_nibbles, decode_signed, extremes, greatest_magnitude, largest,
    least_and_most, offset_levels, round_to_bytes,
};
pub(crate) use search::{AffineLanes, Moved, affine, positive, symmetric, symmetric_by_moves};
pub(crate) use sums::{importance, sums_of_squares};
pub(crate) use tile::{columns, eight_rows, spread_out};

/// The most lanes an instance has.
pub(crate) const MOST: usize = 32;

/// 1.5 · 2²³: a float this large has no room for fractions, so that adding it rounds to the nearest
/// integer, half to even.
pub(crate) const MAGIC: f32 = 12_582_912.0;

/// An instruction set, as a value that exists only where the instructions do. It makes vectors;
/// what is done with them is done by themselves.
pub(crate) trait Lanes: Copy {
    /// How many lanes a vector has: 8, 16 or 32.
    const WIDTH: usize = Self::F::WIDTH;

    /// Whether [`pick`](Self::pick) is a few instructions, and not some for each lane.
    const PICKS: bool;

    /// A vector of `f32`.
    type F: Floats;

    /// A vector of words of sixteen bits.
    type Words: Copy;

    /// The same value in every lane.
    fn splat(self, value: f32) -> Self::F;

    /// The first values of a slice. There are at least [`WIDTH`](Self::WIDTH).
    fn load(self, values: &[f32]) -> Self::F;

    /// The first bytes of a slice as signed numbers. There are at least [`WIDTH`](Self::WIDTH).
    fn load_signed(self, bytes: &[u8]) -> Self::F;

    /// The first half-precision numbers of a slice. There are at least [`WIDTH`](Self::WIDTH).
    fn load_halves(self, halves: &[[u8; 2]]) -> Self::F;

    /// The values in `table` of the first indices of a slice. There are at least
    /// [`WIDTH`](Self::WIDTH) indices, each below 16.
    fn look_up(self, table: &[i8; 16], indices: &[u8]) -> Self::F;

    /// The first words of a slice. There are at least [`WIDTH`](Self::WIDTH).
    fn words(self, words: &[u16]) -> Self::Words;

    /// In each lane the entry of a table whose number the word's bits from `shift` on are. The
    /// table repeats itself every eight places, and three bits count.
    fn pick(self, table: Self::F, words: Self::Words, shift: u32) -> Self::F;

    /// In eight lanes the entries of a table whose numbers are the four-bit digits of a word, the
    /// lowest first; in the next eight, those of the next word. The table repeats itself every
    /// eight places, and three bits count. There is a word for every eight lanes.
    fn pick_digits(self, table: Self::F, words: &[u32]) -> Self::F;

    /// Four bytes of a table for each index, one after the other, those negated whose bit is set.
    /// Indices are taken modulo the table's length, a power of two; no byte of the table is 0.
    fn signed_points<const N: usize>(
        self,
        table: &[[u8; 4]; N],
        indices: &[u16; 8],
        signs: u32,
    ) -> [u8; 32];

    /// Vector `i` holds value `8 * part + i` of the groups `first..first + WIDTH`, one to a lane.
    /// Where there are no more groups, the last one is in the lanes that are left.
    fn eight_columns<const N: usize>(
        self,
        groups: &[[f32; N]],
        first: usize,
        part: usize,
    ) -> [Self::F; 8];
}

/// Vectors of `f32`. Every operation does in each lane what the scalar operation does, NaN,
/// infinities and the sign of zero included.
pub(crate) trait Floats:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    const WIDTH: usize;

    /// A lane mask.
    type Mask: Mask;

    /// Into the first places of a slice, which has at least as many.
    fn store(self, out: &mut [f32]);

    /// Whole numbers from 0 to 255 into the first places of a slice, which has at least as many.
    fn store_bytes(self, out: &mut [u8]);

    /// Whole numbers from 0 to 65535 into the first places of a slice, which has at least as many.
    fn store_words(self, out: &mut [u16]);

    /// The least of all lanes, none of which is NaN.
    fn least(self) -> f32;

    /// The product with `factor`, plus `addend`, rounded once.
    fn fused(self, factor: Self, addend: Self) -> Self;

    /// 2 to the power of whole numbers from -126 to 127.
    fn power_of_two(self) -> Self;

    fn sqrt(self) -> Self;

    fn abs(self) -> Self;

    /// Towards zero.
    fn trunc(self) -> Self;

    /// `if self < other { self } else { other }`
    fn lesser(self, other: Self) -> Self;

    /// `if self > other { self } else { other }`
    fn greater(self, other: Self) -> Self;

    fn lt(self, other: Self) -> Self::Mask;

    fn gt(self, other: Self) -> Self::Mask;

    fn eq(self, other: Self) -> Self::Mask;

    /// Not equal, or not a number.
    fn ne(self, other: Self) -> Self::Mask;

    /// This where the mask holds, the other elsewhere.
    fn or(self, mask: Self::Mask, other: Self) -> Self;

    /// [`nearest`](crate::numeric::nearest), whatever the value, then limited, then as a float
    /// again.
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

    /// A bit for each lane, that of the first lowest.
    fn bits(self) -> u32;
}

/// Something to do with whichever instruction set there is.
pub(crate) trait Work {
    fn run<L: Lanes>(self, lanes: L);
}
