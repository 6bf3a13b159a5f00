//! Vectors of four `f32` with SSE2, which every x86-64 CPU has: for CPUs without AVX2.

use core::arch::x86_64::{
    __m128, __m128i, _mm_add_epi32, _mm_add_ps, _mm_and_ps, _mm_and_si128, _mm_andnot_ps,
    _mm_andnot_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi8, _mm_cmpeq_ps,
    _mm_cmplt_epi32, _mm_cmplt_ps, _mm_cvtepi32_ps, _mm_cvtsi32_si128, _mm_cvtss_f32,
    _mm_cvttps_epi32, _mm_div_ps, _mm_loadl_epi64, _mm_loadu_ps, _mm_loadu_si128, _mm_max_ps,
    _mm_min_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_movemask_ps, _mm_mul_ps, _mm_or_ps, _mm_or_si128,
    _mm_packs_epi32, _mm_packus_epi16, _mm_set1_epi16, _mm_set1_epi32, _mm_set1_epi64x,
    _mm_set1_ps, _mm_setzero_si128, _mm_shuffle_epi32, _mm_shuffle_ps, _mm_shufflelo_epi16,
    _mm_slli_epi32, _mm_sqrt_ps, _mm_srai_epi16, _mm_srai_epi32, _mm_storel_epi64, _mm_storeu_ps,
    _mm_storeu_si128, _mm_sub_epi8, _mm_sub_epi32, _mm_sub_ps, _mm_unpackhi_epi16, _mm_unpackhi_ps,
    _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm_unpacklo_ps, _mm_xor_ps, _mm_xor_si128,
};

use super::quad::{Quad, instructions};
use crate::lanes::MAGIC;

/// A vector of four `f32`, or a mask of four lanes.
#[derive(Clone, Copy)]
pub(crate) struct Sse2(__m128);

/// Returns a vector with all bits set.
#[inline(always)]
fn ones() -> __m128 {
    // SAFETY: compiled only for CPUs with SSE2.
    unsafe { _mm_castsi128_ps(_mm_set1_epi32(-1)) }
}

/// Converts eight signed bytes to `f32`.
#[inline(always)]
fn widen(bytes: __m128i) -> [Sse2; 2] {
    // SAFETY: compiled only for CPUs with SSE2.
    unsafe {
        // SSE2 has no sign extension: duplicate each byte, then shift the copy out.
        let words = _mm_srai_epi16::<8>(_mm_unpacklo_epi8(bytes, bytes));
        [_mm_unpacklo_epi16(words, words), _mm_unpackhi_epi16(words, words)]
            .map(|twice| Sse2(_mm_cvtepi32_ps(_mm_srai_epi32::<16>(twice))))
    }
}

/// Loads sixteen bytes.
#[inline(always)]
fn load<T, const N: usize>(all: &[T; N]) -> __m128i {
    const { assert!(size_of::<[T; N]>() == 16) };
    // SAFETY: compiled only for CPUs with SSE2; the array has sixteen elements.
    unsafe { _mm_loadu_si128(all.as_ptr().cast()) }
}

/// Looks up entries of a table of eight numbers, one by one: byte shuffles need SSSE3.
#[inline(always)]
fn entries(table: [Sse2; 2], place: impl Fn(usize) -> usize) -> [Sse2; 2] {
    let mut numbers = [[0.0; 4]; 2];
    table[0].store(&mut numbers[0]);
    table[1].store(&mut numbers[1]);
    let numbers = numbers.as_flattened();
    let entry = |lane| numbers[place(lane) & 7];
    [
        Sse2::load(&[entry(0), entry(1), entry(2), entry(3)]),
        Sse2::load(&[entry(4), entry(5), entry(6), entry(7)]),
    ]
}

impl Quad for Sse2 {
    const HAS_FAST_PICK: bool = false;

    type Words = [u16; 8];

    // `minps a, b` is `if a < b { a } else { b }`, and `maxps` the same the other way round.
    instructions! {
        splat => _mm_set1_ps;
        load => _mm_loadu_ps;
        store => _mm_storeu_ps;
        add(other) => _mm_add_ps;
        sub(other) => _mm_sub_ps;
        mul(other) => _mm_mul_ps;
        div(other) => _mm_div_ps;
        sqrt() => _mm_sqrt_ps;
        min(other) => _mm_min_ps;
        max(other) => _mm_max_ps;
        lt(other) => _mm_cmplt_ps;
        eq(other) => _mm_cmpeq_ps;
        and(other) => _mm_and_ps;
        or(other) => _mm_or_ps;
    }

    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe { Self(_mm_xor_ps(self.0, _mm_set1_ps(-0.0))) }
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe { Self(_mm_andnot_ps(_mm_set1_ps(-0.0), self.0)) }
    }

    #[inline(always)]
    fn trunc(self) -> Self {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe {
            // From 2²³ on every `f32` is an integer, and from 2³¹ on the conversion overflows.
            let fractions = Self(_mm_cmplt_ps(self.abs().0, _mm_set1_ps(8_388_608.0)));
            let whole = _mm_cvtepi32_ps(_mm_cvttps_epi32(self.0));
            let sign = _mm_and_ps(self.0, _mm_set1_ps(-0.0));
            Self::select(fractions, Self(_mm_or_ps(whole, sign)), self)
        }
    }

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe { Self(_mm_xor_ps(self.0, ones())) }
    }

    #[inline(always)]
    fn select(mask: Self, this: Self, other: Self) -> Self {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe { Self(_mm_or_ps(_mm_and_ps(mask.0, this.0), _mm_andnot_ps(mask.0, other.0))) }
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe {
            let bits = _mm_castps_si128(_mm_add_ps(self.0, _mm_set1_ps(MAGIC)));
            let whole = _mm_cvtepi32_ps(_mm_sub_epi32(
                _mm_and_si128(bits, _mm_set1_epi32(0x007f_ffff)),
                _mm_set1_epi32(0x0040_0000),
            ));
            // Clamps as floats, which represent all 23-bit integers: SSE2 has no minimum of 32-bit
            // integers.
            Self(_mm_min_ps(_mm_max_ps(whole, _mm_set1_ps(low as f32)), _mm_set1_ps(high as f32)))
        }
    }

    #[inline(always)]
    fn reduce_min(self) -> f32 {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe {
            let two = _mm_min_ps(self.0, _mm_movehl_ps(self.0, self.0));
            _mm_cvtss_f32(_mm_min_ps(two, _mm_shuffle_ps::<0b01>(two, two)))
        }
    }

    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe { _mm_movemask_ps(self.0) != 0 }
    }

    #[inline(always)]
    fn all(self) -> bool {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe { _mm_movemask_ps(self.0) == 0b1111 }
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe { _mm_movemask_ps(self.0).cast_unsigned() }
    }

    #[inline(always)]
    fn from_signed(bytes: &[u8; 8]) -> [Self; 2] {
        // SAFETY: compiled only for CPUs with SSE2; the array has eight elements.
        unsafe { widen(_mm_loadl_epi64(bytes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn from_halves(halves: &[[u8; 2]; 8]) -> [Self; 2] {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe {
            let (halves, zero) = (load(halves), _mm_setzero_si128());
            [_mm_unpacklo_epi16(halves, zero), _mm_unpackhi_epi16(halves, zero)].map(|half| {
                let magnitude = _mm_and_si128(half, _mm_set1_epi32(0x7fff));
                let moved = _mm_slli_epi32::<13>(magnitude);
                // Adding 224 to the exponent, 112 more than the formats differ by, sets all of its
                // bits for infinity and NaN. The product corrects it and makes NaN quiet.
                let normal = _mm_mul_ps(
                    _mm_castsi128_ps(_mm_add_epi32(moved, _mm_set1_epi32(224 << 23))),
                    _mm_set1_ps(f32::from_bits(15 << 23)),
                );
                // The mantissa of a subnormal half is appended to a leading 1 of weight 2^-14,
                // which is subtracted again. This avoids arithmetic on subnormal floats, which is
                // slow.
                let least = _mm_set1_epi32(113 << 23);
                let subnormal = _mm_sub_ps(
                    _mm_castsi128_ps(_mm_add_epi32(moved, least)),
                    _mm_castsi128_ps(least),
                );
                let is_subnormal = _mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x0400));
                let number = _mm_or_si128(
                    _mm_and_si128(is_subnormal, _mm_castps_si128(subnormal)),
                    _mm_andnot_si128(is_subnormal, _mm_castps_si128(normal)),
                );
                let sign = _mm_slli_epi32::<16>(_mm_and_si128(half, _mm_set1_epi32(0x8000)));
                Self(_mm_castsi128_ps(_mm_or_si128(number, sign)))
            })
        }
    }

    #[inline(always)]
    fn look_up(table: &[i8; 16], indices: &[u8; 8]) -> [Self; 2] {
        Self::from_signed(&indices.map(|index| table[usize::from(index & 15)].cast_unsigned()))
    }

    #[inline(always)]
    fn words(words: &[u16; 8]) -> [u16; 8] {
        *words
    }

    #[inline(always)]
    fn pick(table: [Self; 2], words: [u16; 8], shift: u32) -> [Self; 2] {
        entries(table, |lane| usize::from(words[lane] >> shift))
    }

    #[inline(always)]
    fn pick_digits(table: [Self; 2], word: u32) -> [Self; 2] {
        entries(table, |lane| (word >> (4 * lane)) as usize)
    }

    #[inline(always)]
    fn negate(bytes: [u8; 16], signs: u16) -> [u8; 16] {
        // SAFETY: compiled only for CPUs with SSE2; `out` has sixteen elements.
        unsafe {
            // Broadcasts to each byte the byte of `signs` that has its bit, then isolates that bit.
            let signs = _mm_cvtsi32_si128(i32::from(signs));
            let twice = _mm_unpacklo_epi8(signs, signs);
            let spread =
                _mm_shuffle_epi32::<0b01_01_00_00>(_mm_shufflelo_epi16::<0b01_01_00_00>(twice));
            let each = _mm_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
            let negative = _mm_cmpeq_epi8(_mm_and_si128(spread, each), each);
            let mut out = [0; 16];
            {
                _mm_storeu_si128(
                    out.as_mut_ptr().cast(),
                    _mm_sub_epi8(_mm_xor_si128(load(&bytes), negative), negative),
                );
            }
            out
        }
    }

    #[inline(always)]
    fn to_bytes([low, high]: [Self; 2]) -> [u8; 8] {
        // SAFETY: compiled only for CPUs with SSE2; `out` has eight elements.
        unsafe {
            let words = _mm_packs_epi32(_mm_cvttps_epi32(low.0), _mm_cvttps_epi32(high.0));
            let mut out = [0_u8; 8];
            _mm_storel_epi64(out.as_mut_ptr().cast(), _mm_packus_epi16(words, words));
            out
        }
    }

    #[inline(always)]
    fn to_words(pair: [Self; 2]) -> [u16; 8] {
        // SAFETY: compiled only for CPUs with SSE2; `out` has eight elements.
        unsafe {
            // SSE2 packs to signed words only, so the range is shifted down and back.
            let [low, high] =
                pair.map(|half| _mm_sub_epi32(_mm_cvttps_epi32(half.0), _mm_set1_epi32(0x8000)));
            let words = _mm_xor_si128(_mm_packs_epi32(low, high), _mm_set1_epi16(i16::MIN));
            let mut out = [0_u16; 8];
            _mm_storeu_si128(out.as_mut_ptr().cast(), words);
            out
        }
    }

    #[inline(always)]
    fn transpose([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        // SAFETY: compiled only for CPUs with SSE2.
        unsafe {
            let (ab_low, ab_high) = (_mm_unpacklo_ps(a.0, b.0), _mm_unpackhi_ps(a.0, b.0));
            let (cd_low, cd_high) = (_mm_unpacklo_ps(c.0, d.0), _mm_unpackhi_ps(c.0, d.0));
            [
                Self(_mm_movelh_ps(ab_low, cd_low)),
                Self(_mm_movehl_ps(cd_low, ab_low)),
                Self(_mm_movelh_ps(ab_high, cd_high)),
                Self(_mm_movehl_ps(cd_high, ab_high)),
            ]
        }
    }
}
