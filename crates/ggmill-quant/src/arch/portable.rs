//! Lanes as arrays: what every other instance has to do, in a form that every machine compiles.

use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::float16::f16_to_f32;
use crate::lanes::{Floats, Lanes, MAGIC, Mask, eight_rows};
use crate::numeric::{fused, power_of_two};

const WIDTH: usize = 8;

/// A one in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[derive(Clone, Copy)]
pub(crate) struct Array([f32; WIDTH]);

/// All bits of a lane or none, as comparisons of vectors give them, so that choosing by them takes
/// no conversion.
#[derive(Clone, Copy)]
pub(crate) struct Truths([u32; WIDTH]);

impl Array {
    #[inline(always)]
    fn both(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(core::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn compare(self, other: Self, f: impl Fn(&f32, &f32) -> bool) -> Truths {
        Truths(core::array::from_fn(|i| choose(f(&self.0[i], &other.0[i]), u32::MAX, 0)))
    }
}

#[inline(always)]
fn choose<T>(truth: bool, this: T, other: T) -> T {
    if truth { this } else { other }
}

/// Towards zero, for what is from 0 to 65535; what is not becomes one of these.
#[inline(always)]
fn whole(value: f32) -> i32 {
    let value = choose(value > 0.0, value, 0.0);
    let value = choose(value < 65_535.0, value, 65_535.0);
    // SAFETY: not NaN, which is not greater than 0, and within the limits. The conversion that asks
    // for both itself is what compilers do not make one instruction of.
    unsafe { value.to_int_unchecked() }
}

/// Towards zero. Without SSE4.1 the function of the library is called for each value.
#[inline(always)]
fn trunc(value: f32) -> f32 {
    /// From here on there are no fractions.
    const ALL_WHOLE: f32 = 8_388_608.0;
    let small = value.abs() < ALL_WHOLE;
    // SAFETY: the magnitude is less than 2^23.
    let whole: i32 = unsafe { choose(small, value, 0.0).to_int_unchecked() };
    choose(small, (whole as f32).copysign(value), value)
}

/// The first eight of a slice that has at least as many.
#[inline(always)]
fn first<T: Copy>(slice: &[T]) -> &[T; WIDTH] {
    &slice.as_chunks().0[0]
}

impl Lanes for Portable {
    const PICKS: bool = false;

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
        // Eight bytes at a time in one number.
        for (place, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let point = |number: usize| {
                u64::from(u32::from_le_bytes(table[usize::from(indices[number]) % N]))
            };
            let points = point(2 * place) | point(2 * place + 1) << 32;
            let spread = (u64::from(signs >> (8 * place) & 0xff) * EACH) & 0x8040_2010_0804_0201;
            let ones = (spread + 0x7f * EACH) >> 7 & EACH;
            // The complement of each negative byte, and 1: that carries into no other byte, since
            // none is 0.
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

    type Mask = Truths;

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
    fn least(self) -> f32 {
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
    fn lesser(self, other: Self) -> Self {
        self.both(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        self.both(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn lt(self, other: Self) -> Truths {
        self.compare(other, f32::lt)
    }

    #[inline(always)]
    fn gt(self, other: Self) -> Truths {
        self.compare(other, f32::gt)
    }

    #[inline(always)]
    fn eq(self, other: Self) -> Truths {
        self.compare(other, f32::eq)
    }

    #[inline(always)]
    fn ne(self, other: Self) -> Truths {
        self.compare(other, f32::ne)
    }

    #[inline(always)]
    fn or(self, mask: Truths, other: Self) -> Self {
        Self(core::array::from_fn(|i| {
            let (this, other) = (self.0[i].to_bits(), other.0[i].to_bits());
            f32::from_bits(this & mask.0[i] | other & !mask.0[i])
        }))
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        // Limits are compared as floats, which hold all numbers of 23 bits: of whole numbers there
        // is no lesser one without SSE4.1.
        let (low, high) = (low as f32, high as f32);
        Self(self.0.map(|value| {
            let bits = (value + MAGIC).to_bits();
            let nearest = ((bits & 0x007f_ffff).cast_signed() - 0x0040_0000) as f32;
            let nearest = choose(nearest > low, nearest, low);
            choose(nearest < high, nearest, high)
        }))
    }
}

impl Mask for Truths {
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

/// The four operations, and the sign.
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
