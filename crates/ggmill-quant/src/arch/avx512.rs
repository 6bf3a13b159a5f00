//! Sixteen lanes with AVX-512.

use core::arch::x86_64::{
    __m512, __m512i, __mmask16, _CMP_EQ_OQ, _CMP_GT_OQ, _CMP_LT_OQ, _CMP_NEQ_UQ, _MM_FROUND_NO_EXC,
    _MM_FROUND_TO_ZERO, _mm_cvtsi32_si128, _mm_loadl_epi64, _mm_loadu_si128, _mm_shuffle_epi8,
    _mm_storeu_si128, _mm256_loadu_si256, _mm256_mask_sub_epi8, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm512_abs_ps, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512,
    _mm512_castps_si512, _mm512_castps256_ps512, _mm512_castsi128_si512, _mm512_castsi512_ps,
    _mm512_cmp_ps_mask, _mm512_cvtepi8_epi32, _mm512_cvtepi32_epi8, _mm512_cvtepi32_epi16,
    _mm512_cvtepi32_ps, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_cvttps_epi32, _mm512_div_ps,
    _mm512_fmadd_ps, _mm512_insertf32x8, _mm512_loadu_ps, _mm512_mask_blend_ps, _mm512_max_epi32,
    _mm512_max_ps, _mm512_min_epi32, _mm512_min_ps, _mm512_mul_ps, _mm512_permutexvar_epi32,
    _mm512_permutexvar_ps, _mm512_reduce_min_ps, _mm512_roundscale_ps, _mm512_set_epi32,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32, _mm512_sqrt_ps, _mm512_srl_epi32,
    _mm512_srlv_epi32, _mm512_storeu_ps, _mm512_sub_epi32, _mm512_sub_ps, _mm512_xor_si512,
};
use core::ops::{Add, Div, Mul, Neg, Sub};

use super::avx2::{Avx2, points};
use crate::lanes::{Floats, Lanes, MAGIC, Mask, Work};

/// Proof that the CPU has the instructions: [`Avx512::detect`] makes the only values. Vectors and
/// masks are made only by its methods and by operations on other vectors, so they prove it too.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(Avx2);

#[derive(Clone, Copy)]
pub(crate) struct F16(__m512);

/// Sixteen words of 16 bits, each zero-extended to 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct I16(__m512i);

#[derive(Clone, Copy)]
pub(crate) struct M16(__mmask16);

impl Avx512 {
    // Includes the features of `Avx2`, which the tests compare.
    detected_features!(
        Avx512,
        [
            "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "bmi1", "bmi2", "lzcnt",
            "popcnt", "f16c",
        ]
    );

    /// Returns the lanes if the CPU has all the features.
    pub(crate) fn detect() -> Option<Self> {
        Self::has_features().then(Avx2::detect).flatten().map(Self)
    }
}

/// Defines operations that are one instruction each.
macro_rules! instructions {
    ($($name:ident($($argument:ident),*) -> $result:ident: $value:expr;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $argument: Self)*) -> $result {
            // SAFETY: `self` proves that the CPU has the instructions.
            $result(unsafe { $value(self.0 $(, $argument.0)*) })
        }
    )*};
}

impl Lanes for Avx512 {
    const HAS_FAST_PICK: bool = true;

    type F = F16;

    type Words = I16;

    #[inline(always)]
    fn splat(self, value: f32) -> F16 {
        // SAFETY: `self` proves that the CPU has the instructions.
        F16(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> F16 {
        let values: &[f32] = &values[..16];
        // SAFETY: `values` has sixteen elements; `self` proves that the CPU has the instructions.
        F16(unsafe { _mm512_loadu_ps(values.as_ptr()) })
    }

    #[inline(always)]
    fn load_signed(self, bytes: &[u8]) -> F16 {
        let bytes = &bytes[..16];
        // SAFETY: `bytes` has sixteen elements; `self` proves that the CPU has the instructions.
        F16(unsafe {
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.as_ptr().cast())))
        })
    }

    #[inline(always)]
    fn load_halves(self, halves: &[[u8; 2]]) -> F16 {
        let halves = &halves[..16];
        // SAFETY: `halves` has sixteen elements; `self` proves that the CPU has the instructions.
        F16(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(halves.as_ptr().cast())) })
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indices: &[u8]) -> F16 {
        let indices = &indices[..16];
        // SAFETY: `table` and `indices` have sixteen elements; `self` proves that the CPU has the
        // instructions.
        F16(unsafe {
            let entries = _mm_shuffle_epi8(
                _mm_loadu_si128(table.as_ptr().cast()),
                _mm_loadu_si128(indices.as_ptr().cast()),
            );
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(entries))
        })
    }

    #[inline(always)]
    fn words(self, words: &[u16]) -> I16 {
        let words = &words[..16];
        // SAFETY: `words` has sixteen elements; `self` proves that the CPU has the instructions.
        I16(unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(words.as_ptr().cast())) })
    }

    #[inline(always)]
    fn pick(self, table: F16, words: I16, shift: u32) -> F16 {
        // SAFETY: `self` proves that the CPU has the instructions.
        F16(unsafe {
            _mm512_permutexvar_ps(
                _mm512_srl_epi32(words.0, _mm_cvtsi32_si128(shift.cast_signed())),
                table.0,
            )
        })
    }

    #[inline(always)]
    fn pick_digits(self, table: F16, words: &[u32]) -> F16 {
        let words = &words[..2];
        // SAFETY: `words` has two elements; `self` proves that the CPU has the instructions.
        F16(unsafe {
            let owners = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
            let places = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);
            let words = _mm512_permutexvar_epi32(
                owners,
                _mm512_castsi128_si512(_mm_loadl_epi64(words.as_ptr().cast())),
            );
            _mm512_permutexvar_ps(_mm512_srlv_epi32(words, places), table.0)
        })
    }

    #[inline(always)]
    fn signed_points<const N: usize>(
        self,
        table: &[[u8; 4]; N],
        indices: &[u16; 8],
        signs: u32,
    ) -> [u8; 32] {
        let points = points(self.0, table, indices);
        let mut out = [0; 32];
        // SAFETY: `out` has 32 elements; `self` proves that the CPU has the instructions.
        unsafe {
            _mm256_storeu_si256(
                out.as_mut_ptr().cast(),
                _mm256_mask_sub_epi8(points, signs, _mm256_setzero_si256(), points),
            );
        }
        out
    }

    #[inline(always)]
    fn eight_columns<const N: usize>(
        self,
        groups: &[[f32; N]],
        first: usize,
        part: usize,
    ) -> [F16; 8] {
        let low = self.0.eight_columns(groups, first, part);
        let high = self.0.eight_columns(groups, first + 8, part);
        let mut out = [self.splat(0.0); 8];
        for (out, (low, high)) in out.iter_mut().zip(low.into_iter().zip(high)) {
            // SAFETY: `self` proves that the CPU has the instructions.
            *out = F16(unsafe { _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low.0), high.0) });
        }
        out
    }
}

impl Floats for F16 {
    const WIDTH: usize = 16;

    type Mask = M16;

    instructions! {
        fused(factor, addend) -> F16: _mm512_fmadd_ps;
        sqrt() -> F16: _mm512_sqrt_ps;
        abs() -> F16: _mm512_abs_ps;
        trunc() -> F16: _mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>;
        min(other) -> F16: _mm512_min_ps;
        max(other) -> F16: _mm512_max_ps;
        lt(other) -> M16: _mm512_cmp_ps_mask::<_CMP_LT_OQ>;
        gt(other) -> M16: _mm512_cmp_ps_mask::<_CMP_GT_OQ>;
        eq(other) -> M16: _mm512_cmp_ps_mask::<_CMP_EQ_OQ>;
        ne(other) -> M16: _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>;
    }

    #[inline(always)]
    fn store(self, out: &mut [f32]) {
        let out = &mut out[..16];
        // SAFETY: `out` has sixteen elements; `self` proves that the CPU has the instructions.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn store_words(self, out: &mut [u16]) {
        let out = &mut out[..16];
        // SAFETY: `out` has sixteen elements; `self` proves that the CPU has the instructions.
        unsafe {
            _mm256_storeu_si256(
                out.as_mut_ptr().cast(),
                _mm512_cvtepi32_epi16(_mm512_cvttps_epi32(self.0)),
            );
        }
    }

    #[inline(always)]
    fn reduce_min(self) -> f32 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm512_reduce_min_ps(self.0) }
    }

    #[inline(always)]
    fn store_bytes(self, out: &mut [u8]) {
        let out = &mut out[..16];
        // SAFETY: `out` has sixteen elements; `self` proves that the CPU has the instructions.
        unsafe {
            _mm_storeu_si128(
                out.as_mut_ptr().cast(),
                _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(self.0)),
            );
        }
    }

    #[inline(always)]
    fn select(self, mask: M16, other: Self) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        Self(unsafe { _mm512_mask_blend_ps(mask.0, other.0, self.0) })
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        Self(unsafe {
            let biased = _mm512_add_epi32(_mm512_cvttps_epi32(self.0), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        })
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let bits = _mm512_castps_si512(_mm512_add_ps(self.0, _mm512_set1_ps(MAGIC)));
            let whole = _mm512_sub_epi32(
                _mm512_and_si512(bits, _mm512_set1_epi32(0x007f_ffff)),
                _mm512_set1_epi32(0x0040_0000),
            );
            Self(_mm512_cvtepi32_ps(_mm512_min_epi32(
                _mm512_max_epi32(whole, _mm512_set1_epi32(low)),
                _mm512_set1_epi32(high),
            )))
        }
    }
}

impl Mask for M16 {
    const WIDTH: usize = 16;

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }

    #[inline(always)]
    fn any(self) -> bool {
        self.0 != 0
    }

    #[inline(always)]
    fn all(self) -> bool {
        self.0 == u16::MAX
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self.0)
    }
}

/// Implements the arithmetic operators.
macro_rules! operators {
    ($($operator:ident $method:ident $instruction:ident;)*) => {$(
        impl $operator for F16 {
            type Output = Self;

            instructions! {
                $method(other) -> F16: $instruction;
            }
        }
    )*};
}

operators! {
    Add add _mm512_add_ps;
    Sub sub _mm512_sub_ps;
    Mul mul _mm512_mul_ps;
    Div div _mm512_div_ps;
}

impl Neg for F16 {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        Self(unsafe {
            _mm512_castsi512_ps(_mm512_xor_si512(
                _mm512_castps_si512(_mm512_set1_ps(-0.0)),
                _mm512_castps_si512(self.0),
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An `Avx512` has an `Avx2`, whose methods are inlined into the function that `Avx512::run`
    /// compiles.
    #[test]
    fn avx512_detects_and_enables_every_feature_of_avx2() {
        for feature in Avx2::FEATURES {
            assert!(Avx512::FEATURES.contains(feature), "{feature}");
        }
    }
}
