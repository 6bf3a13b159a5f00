//! Eight lanes made of two 128-bit vectors, for NEON, WebAssembly SIMD and SSE2.
//!
//! An instruction set implements [`Quad`]; this file implements [`Lanes`] over it.

use core::marker::PhantomData;
use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::lanes::{Floats, Lanes, Mask, eight_rows};
use crate::numeric::{fused, power_of_two};

/// Defines operations that are one instruction each, for instruction sets that the program is
/// compiled for and whose intrinsics are unsafe: constants, loads and stores, then the rest.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
macro_rules! instructions {
    (
        splat => $splat:ident;
        load => $load:ident;
        store => $store:ident;
        $($name:ident($($other:ident)?) => $instruction:ident;)*
    ) => {
        #[inline(always)]
        fn splat(value: f32) -> Self {
            // SAFETY: compiled only for CPUs with the instruction.
            unsafe { Self($splat(value)) }
        }

        #[inline(always)]
        fn load(values: &[f32; 4]) -> Self {
            // SAFETY: compiled only for CPUs with the instruction; the array has four elements.
            unsafe { Self($load(values.as_ptr())) }
        }

        #[inline(always)]
        fn store(self, out: &mut [f32; 4]) {
            // SAFETY: compiled only for CPUs with the instruction; the array has four elements.
            unsafe { $store(out.as_mut_ptr(), self.0) }
        }

        $(
            #[inline(always)]
            fn $name(self $(, $other: Self)?) -> Self {
                // SAFETY: compiled only for CPUs with the instruction.
                Self(unsafe { $instruction(self.0 $(, $other.0)?) })
            }
        )*
    };
}
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub(super) use instructions;

/// A vector of 128 bits: four `f32`, a mask of four lanes (all bits of a lane or none), or sixteen
/// bytes. Operations have the semantics of [`Floats`], conversions those of [`Lanes`]; a conversion
/// of eight lanes uses a pair of vectors.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the eight bytes are loaded through the pointer, whose size depends on the target"
)]
pub(crate) trait Quad: Copy + 'static {
    /// As [`Lanes::HAS_FAST_PICK`].
    const HAS_FAST_PICK: bool;

    /// Eight words of sixteen bits.
    type Words: Copy;

    fn splat(value: f32) -> Self;

    fn load(values: &[f32; 4]) -> Self;

    fn store(self, out: &mut [f32; 4]);

    fn add(self, other: Self) -> Self;

    fn sub(self, other: Self) -> Self;

    fn mul(self, other: Self) -> Self;

    fn div(self, other: Self) -> Self;

    fn neg(self) -> Self;

    /// Computes each lane in scalar code, for instruction sets without a fused multiply-add.
    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        let [mut a, mut b, mut c] = [[0.0; 4]; 3];
        self.store(&mut a);
        factor.store(&mut b);
        addend.store(&mut c);
        for (a, (b, c)) in a.iter_mut().zip(b.into_iter().zip(c)) {
            *a = fused(*a, b, c);
        }
        Self::load(&a)
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        let mut numbers = [0.0; 4];
        self.store(&mut numbers);
        for number in &mut numbers {
            *number = power_of_two(*number);
        }
        Self::load(&numbers)
    }

    fn sqrt(self) -> Self;

    fn abs(self) -> Self;

    fn trunc(self) -> Self;

    fn min(self, other: Self) -> Self;

    fn max(self, other: Self) -> Self;

    fn lt(self, other: Self) -> Self;

    fn eq(self, other: Self) -> Self;

    fn and(self, other: Self) -> Self;

    fn or(self, other: Self) -> Self;

    fn not(self) -> Self;

    /// Returns the bits of `this` where the mask is set and those of `other` elsewhere.
    fn select(mask: Self, this: Self, other: Self) -> Self;

    fn nearest(self, low: i32, high: i32) -> Self;

    fn reduce_min(self) -> f32;

    fn any(self) -> bool;

    fn all(self) -> bool;

    /// Returns one bit per lane, the first lane in the lowest bit.
    fn bits(self) -> u32;

    fn from_signed(bytes: &[u8; 8]) -> [Self; 2];

    fn from_halves(halves: &[[u8; 2]; 8]) -> [Self; 2];

    fn look_up(table: &[i8; 16], indices: &[u8; 8]) -> [Self; 2];

    fn words(words: &[u16; 8]) -> Self::Words;

    fn pick(table: [Self; 2], words: Self::Words, shift: u32) -> [Self; 2];

    fn pick_digits(table: [Self; 2], word: u32) -> [Self; 2];

    /// Negates the bytes whose bit in `signs` is set.
    fn negate(bytes: [u8; 16], signs: u16) -> [u8; 16];

    fn to_bytes(pair: [Self; 2]) -> [u8; 8];

    fn to_words(pair: [Self; 2]) -> [u16; 8];

    /// Transposes a 4 × 4 matrix.
    fn transpose(rows: [Self; 4]) -> [Self; 4];
}

/// Eight lanes. No detection is needed: implementations of [`Quad`] are compiled only into programs
/// for CPUs with the instructions.
pub(crate) struct Eight<Q>(PhantomData<Q>);

impl<Q> Eight<Q> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<Q> Clone for Eight<Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q> Copy for Eight<Q> {}

/// A vector of eight `f32`.
#[derive(Clone, Copy)]
pub(crate) struct F8<Q>([Q; 2]);

/// A mask of eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct M8<Q>([Q; 2]);

/// Returns the first `N` elements of a slice of at least `N`.
#[inline(always)]
fn first<T: Copy, const N: usize>(slice: &[T]) -> &[T; N] {
    let (chunks, _) = slice.as_chunks();
    &chunks[0]
}

/// Returns the first `N` elements of a slice of at least `N`, mutably.
#[inline(always)]
fn first_mut<T: Copy, const N: usize>(slice: &mut [T]) -> &mut [T; N] {
    let (chunks, _) = slice.as_chunks_mut();
    &mut chunks[0]
}

/// Splits eight values into two halves.
#[inline(always)]
fn halves(eight: &[f32; 8]) -> [&[f32; 4]; 2] {
    [first(eight), first(&eight[4..])]
}

impl<Q: Quad> Lanes for Eight<Q> {
    const HAS_FAST_PICK: bool = Q::HAS_FAST_PICK;

    type F = F8<Q>;

    type Words = Q::Words;

    #[inline(always)]
    fn splat(self, value: f32) -> F8<Q> {
        F8([Q::splat(value); 2])
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> F8<Q> {
        let values: &[f32; 8] = first(values);
        F8([Q::load(first(values)), Q::load(first(&values[4..]))])
    }

    #[inline(always)]
    fn load_signed(self, bytes: &[u8]) -> F8<Q> {
        F8(Q::from_signed(first(bytes)))
    }

    #[inline(always)]
    fn load_halves(self, halves: &[[u8; 2]]) -> F8<Q> {
        F8(Q::from_halves(first(halves)))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indices: &[u8]) -> F8<Q> {
        F8(Q::look_up(table, first(indices)))
    }

    #[inline(always)]
    fn words(self, words: &[u16]) -> Q::Words {
        Q::words(first(words))
    }

    #[inline(always)]
    fn pick(self, table: F8<Q>, words: Q::Words, shift: u32) -> F8<Q> {
        F8(Q::pick(table.0, words, shift))
    }

    #[inline(always)]
    fn pick_digits(self, table: F8<Q>, words: &[u32]) -> F8<Q> {
        F8(Q::pick_digits(table.0, words[0]))
    }

    #[inline(always)]
    fn signed_points<const N: usize>(
        self,
        table: &[[u8; 4]; N],
        indices: &[u16; 8],
        signs: u32,
    ) -> [u8; 32] {
        const { assert!(N.is_power_of_two()) };
        let mut points = [0; 32];
        for (point, &index) in points.as_chunks_mut().0.iter_mut().zip(indices) {
            *point = table[usize::from(index) % N];
        }
        let [low, high] = [*first(&points), *first(&points[16..])];
        points[..16].copy_from_slice(&Q::negate(low, signs as u16));
        points[16..].copy_from_slice(&Q::negate(high, (signs >> 16) as u16));
        points
    }

    #[inline(always)]
    fn eight_columns<const N: usize>(
        self,
        groups: &[[f32; N]],
        first: usize,
        part: usize,
    ) -> [F8<Q>; 8] {
        let [a, b, c, d, e, f, g, h] = eight_rows(groups, first, part).map(halves);
        let quarter = |half: usize, rows: [[&[f32; 4]; 2]; 4]| {
            Q::transpose(rows.map(|row| Q::load(row[half])))
        };
        let mut out = [self.splat(0.0); 8];
        for (half, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let (low, high) = (quarter(half, [a, b, c, d]), quarter(half, [e, f, g, h]));
            for (out, (low, high)) in out.iter_mut().zip(low.into_iter().zip(high)) {
                *out = F8([low, high]);
            }
        }
        out
    }
}

impl<Q: Quad> F8<Q> {
    #[inline(always)]
    fn each(self, f: impl Fn(Q) -> Q) -> Self {
        Self(self.0.map(f))
    }

    #[inline(always)]
    fn both(self, other: Self, f: impl Fn(Q, Q) -> Q) -> [Q; 2] {
        let (Self([a, b]), Self([c, d])) = (self, other);
        [f(a, c), f(b, d)]
    }
}

impl<Q: Quad> Floats for F8<Q> {
    const WIDTH: usize = 8;

    type Mask = M8<Q>;

    #[inline(always)]
    fn store(self, out: &mut [f32]) {
        let out: &mut [f32; 8] = first_mut(out);
        let (low, high) = out.split_at_mut(4);
        self.0[0].store(first_mut(low));
        self.0[1].store(first_mut(high));
    }

    #[inline(always)]
    fn store_bytes(self, out: &mut [u8]) {
        *first_mut(out) = Q::to_bytes(self.0);
    }

    #[inline(always)]
    fn store_words(self, out: &mut [u16]) {
        *first_mut(out) = Q::to_words(self.0);
    }

    #[inline(always)]
    fn reduce_min(self) -> f32 {
        let [a, b] = self.0;
        a.min(b).reduce_min()
    }

    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        let (Self([a, b]), Self([c, d]), Self([e, f])) = (self, factor, addend);
        Self([a.fused(c, e), b.fused(d, f)])
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        self.each(Q::power_of_two)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        self.each(Q::sqrt)
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.each(Q::abs)
    }

    #[inline(always)]
    fn trunc(self) -> Self {
        self.each(Q::trunc)
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(self.both(other, Q::min))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(self.both(other, Q::max))
    }

    #[inline(always)]
    fn lt(self, other: Self) -> M8<Q> {
        M8(self.both(other, Q::lt))
    }

    #[inline(always)]
    fn gt(self, other: Self) -> M8<Q> {
        other.lt(self)
    }

    #[inline(always)]
    fn eq(self, other: Self) -> M8<Q> {
        M8(self.both(other, Q::eq))
    }

    #[inline(always)]
    fn ne(self, other: Self) -> M8<Q> {
        self.eq(other).not()
    }

    #[inline(always)]
    fn select(self, mask: M8<Q>, other: Self) -> Self {
        let (Self([a, b]), Self([c, d])) = (self, other);
        Self([Q::select(mask.0[0], a, c), Q::select(mask.0[1], b, d)])
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        let [a, b] = self.0;
        Self([a.nearest(low, high), b.nearest(low, high)])
    }
}

impl<Q: Quad> Mask for M8<Q> {
    const WIDTH: usize = 8;

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self([self.0[0].and(other.0[0]), self.0[1].and(other.0[1])])
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self([self.0[0].or(other.0[0]), self.0[1].or(other.0[1])])
    }

    #[inline(always)]
    fn not(self) -> Self {
        Self(self.0.map(Q::not))
    }

    #[inline(always)]
    fn any(self) -> bool {
        let [a, b] = self.0;
        a.or(b).any()
    }

    #[inline(always)]
    fn all(self) -> bool {
        let [a, b] = self.0;
        a.and(b).all()
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        let [a, b] = self.0;
        a.bits() | b.bits() << 4
    }
}

/// Implements the arithmetic operators.
macro_rules! operators {
    ($($operator:ident $method:ident;)*) => {$(
        impl<Q: Quad> $operator for F8<Q> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(self.both(other, Q::$method))
            }
        }
    )*};
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl<Q: Quad> Neg for F8<Q> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.each(Q::neg)
    }
}
