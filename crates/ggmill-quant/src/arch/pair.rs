//! Two vectors used as one, which hides the latency of dependent additions.

use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::lanes::{Floats, Lanes, Mask};

/// Twice the lanes of another implementation.
#[derive(Clone, Copy)]
pub(crate) struct Pair<L>(pub(crate) L);

#[derive(Clone, Copy)]
pub(crate) struct Two<T>(T, T);

impl<L: Lanes> Lanes for Pair<L> {
    const HAS_FAST_PICK: bool = L::HAS_FAST_PICK;

    type F = Two<L::F>;

    type Words = Two<L::Words>;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        Two(self.0.splat(value), self.0.splat(value))
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> Self::F {
        Two(self.0.load(values), self.0.load(&values[L::WIDTH..]))
    }

    #[inline(always)]
    fn load_signed(self, bytes: &[u8]) -> Self::F {
        Two(self.0.load_signed(bytes), self.0.load_signed(&bytes[L::WIDTH..]))
    }

    #[inline(always)]
    fn load_halves(self, halves: &[[u8; 2]]) -> Self::F {
        Two(self.0.load_halves(halves), self.0.load_halves(&halves[L::WIDTH..]))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indices: &[u8]) -> Self::F {
        Two(self.0.look_up(table, indices), self.0.look_up(table, &indices[L::WIDTH..]))
    }

    #[inline(always)]
    fn words(self, words: &[u16]) -> Self::Words {
        Two(self.0.words(words), self.0.words(&words[L::WIDTH..]))
    }

    #[inline(always)]
    fn pick(self, table: Self::F, words: Self::Words, shift: u32) -> Self::F {
        Two(self.0.pick(table.0, words.0, shift), self.0.pick(table.1, words.1, shift))
    }

    #[inline(always)]
    fn pick_digits(self, table: Self::F, words: &[u32]) -> Self::F {
        Two(self.0.pick_digits(table.0, words), self.0.pick_digits(table.1, &words[L::WIDTH / 8..]))
    }

    #[inline(always)]
    fn signed_points<const N: usize>(
        self,
        table: &[[u8; 4]; N],
        indices: &[u16; 8],
        signs: u32,
    ) -> [u8; 32] {
        self.0.signed_points(table, indices, signs)
    }

    #[inline(always)]
    fn eight_columns<const N: usize>(
        self,
        groups: &[[f32; N]],
        first: usize,
        part: usize,
    ) -> [Self::F; 8] {
        let low = self.0.eight_columns(groups, first, part);
        let high = self.0.eight_columns(groups, first + L::WIDTH, part);
        let mut out = [Two(low[0], high[0]); 8];
        for (out, (low, high)) in out.iter_mut().zip(low.into_iter().zip(high)).skip(1) {
            *out = Two(low, high);
        }
        out
    }
}

impl<F: Floats> Floats for Two<F> {
    const WIDTH: usize = 2 * F::WIDTH;

    type Mask = Two<F::Mask>;

    #[inline(always)]
    fn store(self, out: &mut [f32]) {
        self.0.store(out);
        self.1.store(&mut out[F::WIDTH..]);
    }

    #[inline(always)]
    fn store_bytes(self, out: &mut [u8]) {
        self.0.store_bytes(out);
        self.1.store_bytes(&mut out[F::WIDTH..]);
    }

    #[inline(always)]
    fn store_words(self, out: &mut [u16]) {
        self.0.store_words(out);
        self.1.store_words(&mut out[F::WIDTH..]);
    }

    #[inline(always)]
    fn reduce_min(self) -> f32 {
        self.0.min(self.1).reduce_min()
    }

    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        Self(self.0.fused(factor.0, addend.0), self.1.fused(factor.1, addend.1))
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        Self(self.0.power_of_two(), self.1.power_of_two())
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.sqrt(), self.1.sqrt())
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Self(self.0.abs(), self.1.abs())
    }

    #[inline(always)]
    fn trunc(self) -> Self {
        Self(self.0.trunc(), self.1.trunc())
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0), self.1.min(other.1))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0), self.1.max(other.1))
    }

    #[inline(always)]
    fn lt(self, other: Self) -> Self::Mask {
        Two(self.0.lt(other.0), self.1.lt(other.1))
    }

    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        Two(self.0.gt(other.0), self.1.gt(other.1))
    }

    #[inline(always)]
    fn eq(self, other: Self) -> Self::Mask {
        Two(self.0.eq(other.0), self.1.eq(other.1))
    }

    #[inline(always)]
    fn ne(self, other: Self) -> Self::Mask {
        Two(self.0.ne(other.0), self.1.ne(other.1))
    }

    #[inline(always)]
    fn select(self, mask: Self::Mask, other: Self) -> Self {
        Self(self.0.select(mask.0, other.0), self.1.select(mask.1, other.1))
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        Self(self.0.nearest(low, high), self.1.nearest(low, high))
    }
}

impl<M: Mask> Mask for Two<M> {
    const WIDTH: usize = 2 * M::WIDTH;

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(self.0.and(other.0), self.1.and(other.1))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0), self.1.or(other.1))
    }

    #[inline(always)]
    fn not(self) -> Self {
        Self(self.0.not(), self.1.not())
    }

    #[inline(always)]
    fn any(self) -> bool {
        self.0.any() | self.1.any()
    }

    #[inline(always)]
    fn all(self) -> bool {
        self.0.all() & self.1.all()
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.0.bits() | self.1.bits() << M::WIDTH
    }
}

/// Implements the arithmetic operators.
macro_rules! operators {
    ($($operator:ident $method:ident;)*) => {$(
        impl<F: $operator<Output = F>> $operator for Two<F> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(self.0.$method(other.0), self.1.$method(other.1))
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

impl<F: Neg<Output = F>> Neg for Two<F> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        Self(-self.0, -self.1)
    }
}
