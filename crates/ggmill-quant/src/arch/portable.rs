//! Lanes as arrays: the reference implementation of the vector operations, for every target.

use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::float16::f16_to_f32;
use crate::lanes::{Floats, Lanes, MAGIC, Mask, eight_rows};
use crate::numeric::{fused, power_of_two};

const WIDTH: usize = 8;

/// A 1 in each byte.
const BYTE_ONES: u64 = 0x0101_0101_0101_0101;

#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[derive(Clone, Copy)]
pub(crate) struct Array([f32; WIDTH]);

/// A mask: all bits of a lane or none, as vector comparisons give them, so that compilers can
/// vectorize [`Floats::select`] without a conversion.
#[derive(Clone, Copy)]
pub(crate) struct ArrayMask([u32; WIDTH]);

impl Array {
    #[inline(always)]
    fn both(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(core::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn compare(self, other: Self, f: impl Fn(&f32, &f32) -> bool) -> ArrayMask {
        ArrayMask(core::array::from_fn(|i| select(f(&self.0[i], &other.0[i]), u32::MAX, 0)))
    }
}

#[inline(always)]
fn select<T>(truth: bool, this: T, other: T) -> T {
    if truth { this } else { other }
}

/// Converts a value to an integer, rounding towards zero and clamping to `[0, 65535]`. NaN becomes
/// 0.
#[inline(always)]
fn whole(value: f32) -> i32 {
    let value = select(value > 0.0, value, 0.0);
    let value = select(value < 65_535.0, value, 65_535.0);
    // SAFETY: the value is not NaN, which fails `value > 0.0`, and is within the limits. The
    // checked conversion (`as`) does not compile to one instruction.
    unsafe { value.to_int_unchecked() }
}

/// Rounds towards zero. `f32::trunc` would call a library function per value without SSE4.1.
#[inline(always)]
fn trunc(value: f32) -> f32 {
    /// 2²³, from which on every `f32` is an integer.
    const ALL_WHOLE: f32 = 8_388_608.0;
    let small = value.abs() < ALL_WHOLE;
    // SAFETY: the magnitude is less than 2^23.
    let whole: i32 = unsafe { select(small, value, 0.0).to_int_unchecked() };
    select(small, (whole as f32).copysign(value), value)
}

/// Returns the first eight elements of a slice of at least eight.
#[inline(always)]
fn first<T: Copy>(slice: &[T]) -> &[T; WIDTH] {
    &slice.as_chunks().0[0]
}

impl Lanes for Portable {
    const HAS_FAST_PICK: bool = false;

    type F = Array;

    type Words = [u16; WIDTH];

    #[inline(always)]
    fn splat(self, value: f32) -> Array {
        Array([value; WIDTH])
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> Array {
        Array(*first(values))
    }

    #[inline(always)]
    fn load_signed(self, bytes: &[u8]) -> Array {
        Array(core::array::from_fn(|i| f32::from(bytes[i].cast_signed())))
    }

    #[inline(always)]
    fn load_halves(self, halves: &[[u8; 2]]) -> Array {
        Array(first(halves).map(|half| f16_to_f32(u16::from_le_bytes(half))))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indices: &[u8]) -> Array {
        Array(first(indices).map(|index| f32::from(table[usize::from(index & 15)])))
    }

    #[inline(always)]
    fn words(self, words: &[u16]) -> [u16; WIDTH] {
        *first(words)
    }

    #[inline(always)]
    fn pick(self, table: Array, words: [u16; WIDTH], shift: u32) -> Array {
        Array(words.map(|word| table.0[usize::from(word >> shift & 7)]))
    }

    #[inline(always)]
    fn pick_digits(self, table: Array, words: &[u32]) -> Array {
        Array(core::array::from_fn(|i| table.0[(words[0] >> (4 * i) & 7) as usize]))
    }

    #[inline(always)]
    fn signed_points<const N: usize>(
        self,
        table: &[[u8; 4]; N],
        indices: &[u16; 8],
        signs: u32,
    ) -> [u8; 32] {
        const { assert!(N.is_power_of_two()) };
        let mut out = [0; 32];
        // Eight bytes at a time in one `u64`.
        for (place, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let point = |number: usize| {
                u64::from(u32::from_le_bytes(table[usize::from(indices[number]) % N]))
            };
            let points = point(2 * place) | point(2 * place + 1) << 32;
            let spread =
                (u64::from(signs >> (8 * place) & 0xff) * BYTE_ONES) & 0x8040_2010_0804_0201;
            let ones = (spread + 0x7f * BYTE_ONES) >> 7 & BYTE_ONES;
            // Two's complement negation of the selected bytes. No carry leaves a byte, because no
            // byte is 0.
            *out = ((points ^ (ones * 0xff)) + ones).to_le_bytes();
        }
        out
    }

    #[inline(always)]
    fn eight_columns<const N: usize>(
        self,
        groups: &[[f32; N]],
        first: usize,
        part: usize,
    ) -> [Array; 8] {
        let rows = eight_rows(groups, first, part);
        core::array::from_fn(|i| Array(rows.map(|row| row[i])))
    }
}

impl Floats for Array {
    const WIDTH: usize = WIDTH;

    type Mask = ArrayMask;

    #[inline(always)]
    fn store(self, out: &mut [f32]) {
        out[..WIDTH].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn store_bytes(self, out: &mut [u8]) {
        out[..WIDTH].copy_from_slice(&self.0.map(|value| whole(value) as u8));
    }

    #[inline(always)]
    fn store_words(self, out: &mut [u16]) {
        out[..WIDTH].copy_from_slice(&self.0.map(|value| whole(value) as u16));
    }

    #[inline(always)]
    fn reduce_min(self) -> f32 {
        self.0.into_iter().fold(self.0[0], |least, value| if value < least { value } else { least })
    }

    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        Self(core::array::from_fn(|i| fused(self.0[i], factor.0[i], addend.0[i])))
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        Self(self.0.map(power_of_two))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.map(f32::sqrt))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Self(self.0.map(f32::abs))
    }

    #[inline(always)]
    fn trunc(self) -> Self {
        Self(self.0.map(trunc))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.both(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.both(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn lt(self, other: Self) -> ArrayMask {
        self.compare(other, f32::lt)
    }

    #[inline(always)]
    fn gt(self, other: Self) -> ArrayMask {
        self.compare(other, f32::gt)
    }

    #[inline(always)]
    fn eq(self, other: Self) -> ArrayMask {
        self.compare(other, f32::eq)
    }

    #[inline(always)]
    fn ne(self, other: Self) -> ArrayMask {
        self.compare(other, f32::ne)
    }

    #[inline(always)]
    fn select(self, mask: ArrayMask, other: Self) -> Self {
        Self(core::array::from_fn(|i| {
            let (this, other) = (self.0[i].to_bits(), other.0[i].to_bits());
            f32::from_bits(this & mask.0[i] | other & !mask.0[i])
        }))
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        // Clamps as floats, which represent all 23-bit integers: SSE2 has no minimum of 32-bit
        // integers.
        let (low, high) = (low as f32, high as f32);
        Self(self.0.map(|value| {
            let bits = (value + MAGIC).to_bits();
            let nearest = ((bits & 0x007f_ffff).cast_signed() - 0x0040_0000) as f32;
            let nearest = select(nearest > low, nearest, low);
            select(nearest < high, nearest, high)
        }))
    }
}

impl Mask for ArrayMask {
    const WIDTH: usize = WIDTH;

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(core::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(core::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    #[inline(always)]
    fn not(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }

    #[inline(always)]
    fn any(self) -> bool {
        self.0.into_iter().fold(0, |any, bits| any | bits) != 0
    }

    #[inline(always)]
    fn all(self) -> bool {
        self.0.into_iter().fold(u32::MAX, |all, bits| all & bits) != 0
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        (0..).zip(self.0).fold(0, |all, (lane, bits)| all | bits & 1 << lane)
    }
}

/// Implements the arithmetic operators.
macro_rules! operators {
    ($($operator:ident $method:ident $operation:tt;)*) => {$(
        impl $operator for Array {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.both(other, |a, b| a $operation b)
            }
        }
    )*};
}

operators! {
    Add add +;
    Sub sub -;
    Mul mul *;
    Div div /;
}

impl Neg for Array {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        Self(self.0.map(|value| -value))
    }
}
