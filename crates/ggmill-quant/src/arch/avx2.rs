//! Eight lanes with AVX2.

use core::arch::x86_64::{
    __m256, __m256i, _CMP_EQ_OQ, _CMP_GT_OQ, _CMP_LT_OQ, _CMP_NEQ_UQ, _MM_FROUND_NO_EXC,
    _MM_FROUND_TO_ZERO, _mm_cvtsi32_si128, _mm_cvtss_f32, _mm_loadl_epi64, _mm_loadu_si128,
    _mm_min_ps, _mm_min_ss, _mm_movehdup_ps, _mm_movehl_ps, _mm_packus_epi16, _mm_packus_epi32,
    _mm_shuffle_epi8, _mm_storel_epi64, _mm_storeu_si128, _mm256_add_epi32, _mm256_add_ps,
    _mm256_and_ps, _mm256_and_si256, _mm256_andnot_ps, _mm256_blendv_ps, _mm256_castps_si256,
    _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmp_ps,
    _mm256_cmpeq_epi8, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu16_epi32,
    _mm256_cvtph_ps, _mm256_cvttps_epi32, _mm256_div_ps, _mm256_extractf128_ps,
    _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_i32gather_epi32, _mm256_loadu_ps,
    _mm256_max_epi32, _mm256_max_ps, _mm256_min_epi32, _mm256_min_ps, _mm256_movemask_ps,
    _mm256_mul_ps, _mm256_or_ps, _mm256_permute2f128_ps, _mm256_permutevar8x32_ps, _mm256_round_ps,
    _mm256_set_epi32, _mm256_set_epi64x, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_set1_ps,
    _mm256_shuffle_epi8, _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_sqrt_ps, _mm256_srl_epi32,
    _mm256_srlv_epi32, _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_epi8, _mm256_sub_epi32,
    _mm256_sub_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm256_xor_ps, _mm256_xor_si256,
};
use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::lanes::{Floats, Lanes, MAGIC, Mask, Work, eight_rows};

/// Proof that the CPU has the instructions: [`Avx2::detect`] makes the only values. Vectors and
/// masks are made only by its methods and by operations on other vectors, so they prove it too.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

#[derive(Clone, Copy)]
pub(crate) struct F8(pub(super) __m256);

/// Eight words of 16 bits, each zero-extended to 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct I8(__m256i);

#[derive(Clone, Copy)]
pub(crate) struct M8(__m256);

impl Avx2 {
    detected_features!(Avx2, ["avx2", "fma", "bmi1", "bmi2", "lzcnt", "popcnt", "f16c"]);

    /// Returns the lanes if the CPU has all the features.
    pub(crate) fn detect() -> Option<Self> {
        Self::has_features().then_some(Self(()))
    }
}

/// Gathers the four bytes of `table` at each index.
#[inline(always)]
pub(super) fn points<const N: usize>(_: Avx2, table: &[[u8; 4]; N], indices: &[u16; 8]) -> __m256i {
    const { assert!(N.is_power_of_two() && N <= 1 << 16) };
    // SAFETY: the indices are masked to less than `N`, a power of two; the `Avx2` proves that the
    // CPU has the instructions.
    unsafe {
        let indices = _mm256_cvtepu16_epi32(_mm_loadu_si128(indices.as_ptr().cast()));
        let indices =
            _mm256_and_si256(indices, _mm256_set1_epi32(const { (N as u32 - 1).cast_signed() }));
        _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), indices)
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

impl Lanes for Avx2 {
    const HAS_FAST_PICK: bool = true;

    type F = F8;

    type Words = I8;

    #[inline(always)]
    fn splat(self, value: f32) -> F8 {
        // SAFETY: `self` proves that the CPU has the instructions.
        F8(unsafe { _mm256_set1_ps(value) })
    }

    #[inline(always)]
    fn load(self, values: &[f32]) -> F8 {
        let values: &[f32] = &values[..8];
        // SAFETY: `values` has eight elements; `self` proves that the CPU has the instructions.
        F8(unsafe { _mm256_loadu_ps(values.as_ptr()) })
    }

    #[inline(always)]
    fn load_signed(self, bytes: &[u8]) -> F8 {
        let bytes = &bytes[..8];
        // SAFETY: `bytes` has eight elements; `self` proves that the CPU has the instructions.
        F8(unsafe {
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(bytes.as_ptr().cast())))
        })
    }

    #[inline(always)]
    fn load_halves(self, halves: &[[u8; 2]]) -> F8 {
        let halves = &halves[..8];
        // SAFETY: `halves` has eight elements; `self` proves that the CPU has the instructions.
        F8(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(halves.as_ptr().cast())) })
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indices: &[u8]) -> F8 {
        let indices = &indices[..8];
        // SAFETY: `table` has sixteen entries and `indices` eight; `self` proves that the CPU has
        // the instructions.
        F8(unsafe {
            let entries = _mm_shuffle_epi8(
                _mm_loadu_si128(table.as_ptr().cast()),
                _mm_loadl_epi64(indices.as_ptr().cast()),
            );
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(entries))
        })
    }

    #[inline(always)]
    fn words(self, words: &[u16]) -> I8 {
        let words = &words[..8];
        // SAFETY: `words` has eight elements; `self` proves that the CPU has the instructions.
        I8(unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(words.as_ptr().cast())) })
    }

    #[inline(always)]
    fn pick(self, table: F8, words: I8, shift: u32) -> F8 {
        // SAFETY: `self` proves that the CPU has the instructions.
        F8(unsafe {
            _mm256_permutevar8x32_ps(
                table.0,
                _mm256_srl_epi32(words.0, _mm_cvtsi32_si128(shift.cast_signed())),
            )
        })
    }

    #[inline(always)]
    fn pick_digits(self, table: F8, words: &[u32]) -> F8 {
        // SAFETY: `self` proves that the CPU has the instructions.
        F8(unsafe {
            let places = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);
            _mm256_permutevar8x32_ps(
                table.0,
                _mm256_srlv_epi32(_mm256_set1_epi32(words[0].cast_signed()), places),
            )
        })
    }

    #[inline(always)]
    fn signed_points<const N: usize>(
        self,
        table: &[[u8; 4]; N],
        indices: &[u16; 8],
        signs: u32,
    ) -> [u8; 32] {
        let points = points(self, table, indices);
        let mut out = [0; 32];
        // SAFETY: `out` has 32 elements; `self` proves that the CPU has the instructions.
        unsafe {
            // Broadcasts to each byte of the points the byte of `signs` that has its bit, then
            // compares that bit: all ones where it is set.
            let owners = _mm256_set_epi64x(
                0x0303_0303_0303_0303,
                0x0202_0202_0202_0202,
                0x0101_0101_0101_0101,
                0,
            );
            let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
            let spread = _mm256_and_si256(
                _mm256_shuffle_epi8(_mm256_set1_epi32(signs.cast_signed()), owners),
                bits,
            );
            let negative = _mm256_cmpeq_epi8(spread, bits);
            _mm256_storeu_si256(
                out.as_mut_ptr().cast(),
                _mm256_sub_epi8(_mm256_xor_si256(points, negative), negative),
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
    ) -> [F8; 8] {
        let [a, b, c, d, e, f, g, h] = eight_rows(groups, first, part);
        let (a, b, c, d) = (self.load(a).0, self.load(b).0, self.load(c).0, self.load(d).0);
        let (e, f, g, h) = (self.load(e).0, self.load(f).0, self.load(g).0, self.load(h).0);
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let low = (
                _mm256_unpacklo_ps(a, b),
                _mm256_unpacklo_ps(c, d),
                _mm256_unpacklo_ps(e, f),
                _mm256_unpacklo_ps(g, h),
            );
            let high = (
                _mm256_unpackhi_ps(a, b),
                _mm256_unpackhi_ps(c, d),
                _mm256_unpackhi_ps(e, f),
                _mm256_unpackhi_ps(g, h),
            );
            let columns_0 =
                (_mm256_shuffle_ps::<0x44>(low.0, low.1), _mm256_shuffle_ps::<0x44>(low.2, low.3));
            let columns_1 =
                (_mm256_shuffle_ps::<0xee>(low.0, low.1), _mm256_shuffle_ps::<0xee>(low.2, low.3));
            let columns_2 = (
                _mm256_shuffle_ps::<0x44>(high.0, high.1),
                _mm256_shuffle_ps::<0x44>(high.2, high.3),
            );
            let columns_3 = (
                _mm256_shuffle_ps::<0xee>(high.0, high.1),
                _mm256_shuffle_ps::<0xee>(high.2, high.3),
            );
            [
                _mm256_permute2f128_ps::<0x20>(columns_0.0, columns_0.1),
                _mm256_permute2f128_ps::<0x20>(columns_1.0, columns_1.1),
                _mm256_permute2f128_ps::<0x20>(columns_2.0, columns_2.1),
                _mm256_permute2f128_ps::<0x20>(columns_3.0, columns_3.1),
                _mm256_permute2f128_ps::<0x31>(columns_0.0, columns_0.1),
                _mm256_permute2f128_ps::<0x31>(columns_1.0, columns_1.1),
                _mm256_permute2f128_ps::<0x31>(columns_2.0, columns_2.1),
                _mm256_permute2f128_ps::<0x31>(columns_3.0, columns_3.1),
            ]
            .map(F8)
        }
    }
}

impl Floats for F8 {
    const WIDTH: usize = 8;

    type Mask = M8;

    instructions! {
        fused(factor, addend) -> F8: _mm256_fmadd_ps;
        sqrt() -> F8: _mm256_sqrt_ps;
        trunc() -> F8: _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>;
        min(other) -> F8: _mm256_min_ps;
        max(other) -> F8: _mm256_max_ps;
        lt(other) -> M8: _mm256_cmp_ps::<_CMP_LT_OQ>;
        gt(other) -> M8: _mm256_cmp_ps::<_CMP_GT_OQ>;
        eq(other) -> M8: _mm256_cmp_ps::<_CMP_EQ_OQ>;
        ne(other) -> M8: _mm256_cmp_ps::<_CMP_NEQ_UQ>;
    }

    #[inline(always)]
    fn store(self, out: &mut [f32]) {
        let out = &mut out[..8];
        // SAFETY: `out` has eight elements; `self` proves that the CPU has the instructions.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn store_bytes(self, out: &mut [u8]) {
        let out = &mut out[..8];
        // SAFETY: `out` has eight elements; `self` proves that the CPU has the instructions.
        unsafe {
            let whole = _mm256_cvttps_epi32(self.0);
            let words = _mm_packus_epi32(
                _mm256_castsi256_si128(whole),
                _mm256_extracti128_si256::<1>(whole),
            );
            _mm_storel_epi64(out.as_mut_ptr().cast(), _mm_packus_epi16(words, words));
        }
    }

    #[inline(always)]
    fn store_words(self, out: &mut [u16]) {
        let out = &mut out[..8];
        // SAFETY: `out` has eight elements; `self` proves that the CPU has the instructions.
        unsafe {
            let whole = _mm256_cvttps_epi32(self.0);
            _mm_storeu_si128(
                out.as_mut_ptr().cast(),
                _mm_packus_epi32(
                    _mm256_castsi256_si128(whole),
                    _mm256_extracti128_si256::<1>(whole),
                ),
            );
        }
    }

    #[inline(always)]
    fn reduce_min(self) -> f32 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let four =
                _mm_min_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_min_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        Self(unsafe {
            let biased = _mm256_add_epi32(_mm256_cvttps_epi32(self.0), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        })
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        Self(unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0) })
    }

    #[inline(always)]
    fn select(self, mask: M8, other: Self) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        Self(unsafe { _mm256_blendv_ps(other.0, self.0, mask.0) })
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe {
            let bits = _mm256_castps_si256(_mm256_add_ps(self.0, _mm256_set1_ps(MAGIC)));
            let whole = _mm256_sub_epi32(
                _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff)),
                _mm256_set1_epi32(0x0040_0000),
            );
            Self(_mm256_cvtepi32_ps(_mm256_min_epi32(
                _mm256_max_epi32(whole, _mm256_set1_epi32(low)),
                _mm256_set1_epi32(high),
            )))
        }
    }
}

impl Mask for M8 {
    const WIDTH: usize = 8;

    instructions! {
        and(other) -> M8: _mm256_and_ps;
        or(other) -> M8: _mm256_or_ps;
    }

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { Self(_mm256_xor_ps(self.0, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))) }
    }

    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm256_movemask_ps(self.0) != 0 }
    }

    #[inline(always)]
    fn all(self) -> bool {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm256_movemask_ps(self.0) == 0xff }
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        // SAFETY: `self` proves that the CPU has the instructions.
        unsafe { _mm256_movemask_ps(self.0).cast_unsigned() }
    }
}

/// Implements the arithmetic operators.
macro_rules! operators {
    ($($operator:ident $method:ident $instruction:ident;)*) => {$(
        impl $operator for F8 {
            type Output = Self;

            instructions! {
                $method(other) -> F8: $instruction;
            }
        }
    )*};
}

operators! {
    Add add _mm256_add_ps;
    Sub sub _mm256_sub_ps;
    Mul mul _mm256_mul_ps;
    Div div _mm256_div_ps;
}

impl Neg for F8 {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: `self` proves that the CPU has the instructions.
        Self(unsafe { _mm256_xor_ps(_mm256_set1_ps(-0.0), self.0) })
    }
}
