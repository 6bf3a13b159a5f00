//! Lanes as arrays: what every other instance has to do, in a form that every machine compiles.

use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::float16::f16_to_f32;
use crate::lanes::{Floats, Lanes, MOST, Mask};
use crate::numeric;

const WIDTH: usize = 8;

/// A one in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;

#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[derive(Clone, Copy)]
pub(crate) struct Array([f32; WIDTH]);

#[derive(Clone, Copy)]
pub(crate) struct Truths([bool; WIDTH]);

impl Array {
    #[inline(always)]
    fn both(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(core::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn compare(self, other: Self, f: impl Fn(&f32, &f32) -> bool) -> Truths {
        Truths(core::array::from_fn(|i| f(&self.0[i], &other.0[i])))
    }
}

impl Lanes for Portable {
    type F = Array;

    type Words = [u16; WIDTH];

    #[inline(always)]
    fn splat(self, value: f32) -> Array {
        Array([value; WIDTH])
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> Array {
        Array(core::array::from_fn(|i| values[i]))
    }

    #[inline(always)]
    fn load_signed(self, bytes: &[u8]) -> Array {
        Array(core::array::from_fn(|i| f32::from(bytes[i].cast_signed())))
    }

    #[inline(always)]
    fn load_halves(self, halves: &[[u8; 2]]) -> Array {
        Array(core::array::from_fn(|i| f16_to_f32(u16::from_le_bytes(halves[i]))))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indices: &[u8]) -> Array {
        Array(core::array::from_fn(|i| f32::from(table[usize::from(indices[i] & 15)])))
    }

    #[inline(always)]
    fn words(self, words: &[u16]) -> [u16; WIDTH] {
        core::array::from_fn(|i| words[i])
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
    fn transpose8(self, rows: [&[f32]; 8], out: &mut [[f32; MOST]; 8], place: usize) {
        for (i, out) in out.iter_mut().enumerate() {
            for (out, row) in out[place..].iter_mut().zip(rows) {
                *out = row[i];
            }
        }
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
        out[..WIDTH].copy_from_slice(&self.0.map(|value| value as u8));
    }

    #[inline(always)]
    fn store_words(self, out: &mut [u16]) {
        out[..WIDTH].copy_from_slice(&self.0.map(|value| value as u16));
    }

    #[inline(always)]
    fn least(self) -> f32 {
        self.0.into_iter().fold(self.0[0], |least, value| if value < least { value } else { least })
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
        Self(self.0.map(f32::trunc))
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
        Self(core::array::from_fn(|i| if mask.0[i] { self.0[i] } else { other.0[i] }))
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        Self(self.0.map(|value| numeric::nearest(value).clamp(low, high) as f32))
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
        Self(self.0.map(|truth| !truth))
    }

    #[inline(always)]
    fn any(self) -> bool {
        self.0.contains(&true)
    }

    #[inline(always)]
    fn all(self) -> bool {
        !self.0.contains(&false)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.0.iter().rfold(0, |bits, &truth| bits << 1 | u32::from(truth))
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
