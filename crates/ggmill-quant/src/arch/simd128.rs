//! Vectors of four `f32` with WebAssembly SIMD, in programs that are compiled for it.

use core::arch::wasm32::{
    f32x4_abs, f32x4_add, f32x4_convert_i32x4, f32x4_div, f32x4_eq, f32x4_extract_lane, f32x4_lt,
    f32x4_mul, f32x4_neg, f32x4_pmax, f32x4_pmin, f32x4_splat, f32x4_sqrt, f32x4_sub, f32x4_trunc,
    i8x16_eq, i8x16_shl, i8x16_shuffle, i8x16_splat, i8x16_sub, i8x16_swizzle,
    i16x8_extend_low_i8x16, i16x8_mul, i16x8_splat, i32x4_all_true, i32x4_bitmask,
    i32x4_extend_high_i16x8, i32x4_extend_high_u16x8, i32x4_extend_low_i16x8,
    i32x4_extend_low_u16x8, i32x4_max, i32x4_min, i32x4_shl, i32x4_splat, i32x4_sub,
    i32x4_trunc_sat_f32x4, i64x2_splat, u8x16_narrow_i16x8, u8x16_shr, u16x8_narrow_i32x4,
    u16x8_shr, u32x4_gt, v128, v128_and, v128_any_true, v128_bitselect, v128_load,
    v128_load64_zero, v128_not, v128_or, v128_store, v128_store64_lane, v128_xor,
};

use super::quad::Quad;
use crate::lanes::MAGIC;

/// A vector of four `f32`, or a mask of four lanes.
#[derive(Clone, Copy)]
pub(crate) struct Simd128(v128);

/// Converts eight signed bytes to `f32`.
#[inline(always)]
fn widen(bytes: v128) -> [Simd128; 2] {
    let words = i16x8_extend_low_i8x16(bytes);
    [
        Simd128(f32x4_convert_i32x4(i32x4_extend_low_i16x8(words))),
        Simd128(f32x4_convert_i32x4(i32x4_extend_high_i16x8(words))),
    ]
}

/// Looks up entries of a table of eight numbers. Each byte of a lane of `places` is four times the
/// entry's number.
#[inline(always)]
fn entries(table: [Simd128; 2], places: v128) -> Simd128 {
    let places = v128_or(places, i32x4_splat(0x0302_0100));
    // Swizzle gives 0 for an index outside the half of the table.
    Simd128(v128_or(
        i8x16_swizzle(table[0].0, places),
        i8x16_swizzle(table[1].0, i8x16_sub(places, i8x16_splat(16))),
    ))
}

/// Loads eight bytes and zeros the rest of the vector.
#[inline(always)]
fn load64<T>(eight: &[T; 8]) -> v128 {
    const { assert!(size_of::<T>() >= 1) };
    // SAFETY: the array has at least eight bytes.
    unsafe { v128_load64_zero(eight.as_ptr().cast()) }
}

/// Loads sixteen bytes.
#[inline(always)]
fn load<T, const N: usize>(all: &[T; N]) -> v128 {
    const { assert!(size_of::<[T; N]>() == 16) };
    // SAFETY: the array has sixteen bytes.
    unsafe { v128_load(all.as_ptr().cast()) }
}

impl Quad for Simd128 {
    const HAS_FAST_PICK: bool = true;

    type Words = v128;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self(f32x4_splat(value))
    }

    #[inline(always)]
    fn load(values: &[f32; 4]) -> Self {
        Self(load(values))
    }

    #[inline(always)]
    fn store(self, out: &mut [f32; 4]) {
        // SAFETY: `out` has four elements.
        unsafe { v128_store(out.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(f32x4_add(self.0, other.0))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(f32x4_sub(self.0, other.0))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(f32x4_mul(self.0, other.0))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(f32x4_div(self.0, other.0))
    }

    #[inline(always)]
    fn neg(self) -> Self {
        Self(f32x4_neg(self.0))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(f32x4_sqrt(self.0))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Self(f32x4_abs(self.0))
    }

    #[inline(always)]
    fn trunc(self) -> Self {
        Self(f32x4_trunc(self.0))
    }

    // `pmin(a, b)` is `if b < a { b } else { a }`, and `pmax` the same the other way round.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(f32x4_pmin(other.0, self.0))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(f32x4_pmax(other.0, self.0))
    }

    #[inline(always)]
    fn lt(self, other: Self) -> Self {
        Self(f32x4_lt(self.0, other.0))
    }

    #[inline(always)]
    fn eq(self, other: Self) -> Self {
        Self(f32x4_eq(self.0, other.0))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(v128_and(self.0, other.0))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(v128_or(self.0, other.0))
    }

    #[inline(always)]
    fn not(self) -> Self {
        Self(v128_not(self.0))
    }

    #[inline(always)]
    fn select(mask: Self, this: Self, other: Self) -> Self {
        Self(v128_bitselect(this.0, other.0, mask.0))
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        let bits = f32x4_add(self.0, f32x4_splat(MAGIC));
        let whole = i32x4_sub(v128_and(bits, i32x4_splat(0x007f_ffff)), i32x4_splat(0x0040_0000));
        Self(f32x4_convert_i32x4(i32x4_min(i32x4_max(whole, i32x4_splat(low)), i32x4_splat(high))))
    }

    #[inline(always)]
    fn reduce_min(self) -> f32 {
        let two = f32x4_pmin(
            self.0,
            i8x16_shuffle::<8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7>(self.0, self.0),
        );
        let (a, b) = (f32x4_extract_lane::<0>(two), f32x4_extract_lane::<1>(two));
        if b < a { b } else { a }
    }

    #[inline(always)]
    fn any(self) -> bool {
        v128_any_true(self.0)
    }

    #[inline(always)]
    fn all(self) -> bool {
        i32x4_all_true(self.0)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(i32x4_bitmask(self.0))
    }

    #[inline(always)]
    fn from_signed(bytes: &[u8; 8]) -> [Self; 2] {
        widen(load64(bytes))
    }

    #[inline(always)]
    fn from_halves(halves: &[[u8; 2]; 8]) -> [Self; 2] {
        let halves = load(halves);
        [i32x4_extend_low_u16x8(halves), i32x4_extend_high_u16x8(halves)].map(|half| {
            let magnitude = v128_and(half, i32x4_splat(0x7fff));
            // Shifted to their positions in an `f32`, the bits encode 2^-112 times the number,
            // subnormal ones included.
            let scaled =
                f32x4_mul(i32x4_shl(magnitude, 13), f32x4_splat(f32::from_bits(239 << 23)));
            // Infinity and NaN get all bits of the exponent, and NaN is made quiet.
            let special =
                v128_and(u32x4_gt(magnitude, i32x4_splat(0x7bff)), i32x4_splat(0x7f80_0000));
            let quiet =
                v128_and(u32x4_gt(magnitude, i32x4_splat(0x7c00)), i32x4_splat(0x0040_0000));
            let sign = i32x4_shl(v128_and(half, i32x4_splat(0x8000)), 16);
            Self(v128_or(v128_or(scaled, sign), v128_or(special, quiet)))
        })
    }

    #[inline(always)]
    fn look_up(table: &[i8; 16], indices: &[u8; 8]) -> [Self; 2] {
        widen(i8x16_swizzle(load(table), load64(indices)))
    }

    #[inline(always)]
    fn words(words: &[u16; 8]) -> v128 {
        load(words)
    }

    #[inline(always)]
    fn pick(table: [Self; 2], words: v128, shift: u32) -> [Self; 2] {
        let places =
            i16x8_mul(v128_and(u16x8_shr(words, shift), i16x8_splat(7)), i16x8_splat(0x0404));
        let low = i8x16_shuffle::<0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7>(places, places);
        let high = i8x16_shuffle::<8, 9, 8, 9, 10, 11, 10, 11, 12, 13, 12, 13, 14, 15, 14, 15>(
            places, places,
        );
        [entries(table, low), entries(table, high)]
    }

    #[inline(always)]
    fn pick_digits(table: [Self; 2], word: u32) -> [Self; 2] {
        let word = i32x4_splat(word.cast_signed());
        // The even and the odd digits, one per byte, times four.
        let even = i8x16_shl(v128_and(word, i8x16_splat(7)), 2);
        let odd = i8x16_shl(v128_and(u8x16_shr(word, 4), i8x16_splat(7)), 2);
        let low =
            i8x16_shuffle::<0, 0, 0, 0, 16, 16, 16, 16, 1, 1, 1, 1, 17, 17, 17, 17>(even, odd);
        let high =
            i8x16_shuffle::<2, 2, 2, 2, 18, 18, 18, 18, 3, 3, 3, 3, 19, 19, 19, 19>(even, odd);
        [entries(table, low), entries(table, high)]
    }

    #[inline(always)]
    fn negate(bytes: [u8; 16], signs: u16) -> [u8; 16] {
        let signs = i16x8_splat(signs.cast_signed());
        let spread = i8x16_shuffle::<0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1>(signs, signs);
        let each = i64x2_splat(0x8040_2010_0804_0201_u64.cast_signed());
        let negative = i8x16_eq(v128_and(spread, each), each);
        let mut out = [0; 16];
        // SAFETY: `out` has sixteen elements.
        unsafe {
            v128_store(
                out.as_mut_ptr().cast(),
                i8x16_sub(v128_xor(load(&bytes), negative), negative),
            )
        };
        out
    }

    #[inline(always)]
    fn to_bytes(pair: [Self; 2]) -> [u8; 8] {
        let words = narrow(pair);
        let mut out = [0_u8; 8];
        // SAFETY: `out` has eight elements.
        unsafe {
            v128_store64_lane::<0>(u8x16_narrow_i16x8(words, words), out.as_mut_ptr().cast())
        };
        out
    }

    #[inline(always)]
    fn to_words(pair: [Self; 2]) -> [u16; 8] {
        let mut out = [0_u16; 8];
        // SAFETY: `out` has eight elements.
        unsafe { v128_store(out.as_mut_ptr().cast(), narrow(pair)) };
        out
    }

    #[inline(always)]
    fn transpose([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        let even = |a: v128, b: v128| {
            i8x16_shuffle::<0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27>(a, b)
        };
        let odd = |a: v128, b: v128| {
            i8x16_shuffle::<4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31>(a, b)
        };
        let low = |a: v128, b: v128| {
            Self(i8x16_shuffle::<0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23>(a, b))
        };
        let high = |a: v128, b: v128| {
            Self(i8x16_shuffle::<8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31>(
                a, b,
            ))
        };
        let (ab_even, ab_odd, cd_even, cd_odd) =
            (even(a.0, b.0), odd(a.0, b.0), even(c.0, d.0), odd(c.0, d.0));
        [low(ab_even, cd_even), low(ab_odd, cd_odd), high(ab_even, cd_even), high(ab_odd, cd_odd)]
    }
}

/// Converts eight integers from 0 to 65535 to words.
#[inline(always)]
fn narrow([low, high]: [Simd128; 2]) -> v128 {
    u16x8_narrow_i32x4(i32x4_trunc_sat_f32x4(low.0), i32x4_trunc_sat_f32x4(high.0))
}
