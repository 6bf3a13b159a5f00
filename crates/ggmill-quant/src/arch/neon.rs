//! Vectors of four `f32` with NEON, which every AArch64 CPU has.

use core::arch::aarch64::{
    float32x4_t, int8x8_t, uint8x16_t, uint8x16x2_t, uint16x8_t, uint32x4_t, vabsq_f32, vaddq_f32,
    vaddq_u8, vaddvq_u32, vandq_s32, vandq_u8, vandq_u16, vandq_u32, vbslq_f32, vceqq_f32,
    vceqq_u8, vcltq_f32, vcombine_u8, vcombine_u16, vcreate_u8, vcvtq_f32_s32, vcvtq_u32_f32,
    vdivq_f32, vdup_n_u8, vdupq_n_f32, vdupq_n_s16, vdupq_n_s32, vdupq_n_u16, vdupq_n_u32,
    veorq_u8, vfmaq_f32, vget_high_s16, vget_low_s16, vld1_s8, vld1_u8, vld1q_f32, vld1q_s8,
    vld1q_s32, vld1q_u8, vld1q_u16, vmaxq_s32, vmaxvq_u32, vminq_s32, vminvq_f32, vminvq_u32,
    vmovl_s8, vmovl_s16, vmovn_u16, vmovn_u32, vmulq_f32, vmulq_u16, vmulq_u32, vmvnq_u32,
    vnegq_f32, vorrq_u32, vqtbl1_s8, vqtbl2q_u8, vreinterpretq_f32_f64, vreinterpretq_f32_u8,
    vreinterpretq_f32_u32, vreinterpretq_f64_f32, vreinterpretq_s32_f32, vreinterpretq_u8_f32,
    vreinterpretq_u8_u16, vreinterpretq_u8_u32, vreinterpretq_u32_f32, vrndq_f32, vshlq_u16,
    vshlq_u32, vsqrtq_f32, vst1_u8, vst1q_f32, vst1q_u8, vst1q_u16, vsubq_f32, vsubq_s32, vsubq_u8,
    vtrn1q_f32, vtrn1q_f64, vtrn2q_f32, vtrn2q_f64, vzip1q_u16, vzip2q_u16,
};
use core::arch::asm;

use super::quad::{Quad, instructions};
use crate::lanes::MAGIC;

/// A vector of four `f32`, or a mask of four lanes.
#[derive(Clone, Copy)]
pub(crate) struct Neon(float32x4_t);

impl Neon {
    #[inline(always)]
    fn of(bits: uint32x4_t) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { Self(vreinterpretq_f32_u32(bits)) }
    }

    #[inline(always)]
    fn to_bits(self) -> uint32x4_t {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { vreinterpretq_u32_f32(self.0) }
    }
}

/// Converts eight signed bytes to `f32`.
#[inline(always)]
fn widen(bytes: int8x8_t) -> [Neon; 2] {
    // SAFETY: compiled only for CPUs with NEON.
    unsafe {
        let words = vmovl_s8(bytes);
        [
            Neon(vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)))),
            Neon(vcvtq_f32_s32(vmovl_s16(vget_high_s16(words)))),
        ]
    }
}

/// Looks up entries of a table of eight numbers. Each byte of a lane of `places` is four times the
/// entry's number.
#[inline(always)]
fn entries(table: [Neon; 2], places: uint8x16_t) -> Neon {
    // SAFETY: compiled only for CPUs with NEON.
    unsafe {
        let table =
            uint8x16x2_t(vreinterpretq_u8_f32(table[0].0), vreinterpretq_u8_f32(table[1].0));
        Neon(vreinterpretq_f32_u8(vqtbl2q_u8(
            table,
            vaddq_u8(places, vreinterpretq_u8_u32(vdupq_n_u32(0x0302_0100))),
        )))
    }
}

impl Quad for Neon {
    const HAS_FAST_PICK: bool = true;

    type Words = uint16x8_t;

    instructions! {
        splat => vdupq_n_f32;
        load => vld1q_f32;
        store => vst1q_f32;
        add(other) => vaddq_f32;
        sub(other) => vsubq_f32;
        mul(other) => vmulq_f32;
        div(other) => vdivq_f32;
        neg() => vnegq_f32;
        sqrt() => vsqrtq_f32;
        abs() => vabsq_f32;
        trunc() => vrndq_f32;
    }

    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        Self(unsafe { vfmaq_f32(addend.0, self.0, factor.0) })
    }

    // `vminq_f32` has other results for NaN and for zeros of different signs.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self::select(self.lt(other), self, other)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self::select(other.lt(self), self, other)
    }

    #[inline(always)]
    fn lt(self, other: Self) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { Self::of(vcltq_f32(self.0, other.0)) }
    }

    #[inline(always)]
    fn eq(self, other: Self) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { Self::of(vceqq_f32(self.0, other.0)) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { Self::of(vandq_u32(self.to_bits(), other.to_bits())) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { Self::of(vorrq_u32(self.to_bits(), other.to_bits())) }
    }

    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { Self::of(vmvnq_u32(self.to_bits())) }
    }

    #[inline(always)]
    fn select(mask: Self, this: Self, other: Self) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { Self(vbslq_f32(mask.to_bits(), this.0, other.0)) }
    }

    #[inline(always)]
    fn nearest(self, low: i32, high: i32) -> Self {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe {
            let bits = vreinterpretq_s32_f32(vaddq_f32(self.0, vdupq_n_f32(MAGIC)));
            let whole =
                vsubq_s32(vandq_s32(bits, vdupq_n_s32(0x007f_ffff)), vdupq_n_s32(0x0040_0000));
            Self(vcvtq_f32_s32(vminq_s32(vmaxq_s32(whole, vdupq_n_s32(low)), vdupq_n_s32(high))))
        }
    }

    #[inline(always)]
    fn reduce_min(self) -> f32 {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { vminvq_f32(self.0) }
    }

    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { vmaxvq_u32(self.to_bits()) != 0 }
    }

    #[inline(always)]
    fn all(self) -> bool {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe { vminvq_u32(self.to_bits()) != 0 }
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        // SAFETY: compiled only for CPUs with NEON; the array has four elements.
        unsafe {
            let ones = vandq_u32(self.to_bits(), vdupq_n_u32(1));
            let places = vld1q_s32([0, 1, 2, 3].as_ptr());
            vaddvq_u32(vshlq_u32(ones, places))
        }
    }

    #[inline(always)]
    fn from_signed(bytes: &[u8; 8]) -> [Self; 2] {
        // SAFETY: compiled only for CPUs with NEON; the array has eight elements.
        unsafe { widen(vld1_s8(bytes.as_ptr().cast())) }
    }

    #[inline(always)]
    fn from_halves(halves: &[[u8; 2]; 8]) -> [Self; 2] {
        // SAFETY: compiled only for CPUs with NEON; the array has eight elements; the conversion is
        // in the base architecture (ARMv8.0) and accesses only its registers.
        unsafe {
            let (low, high): (float32x4_t, float32x4_t);
            let halves = vld1q_u8(halves.as_ptr().cast());
            asm!(
                "fcvtl {low:v}.4s, {halves:v}.4h",
                "fcvtl2 {high:v}.4s, {halves:v}.8h",
                halves = in(vreg) halves, low = out(vreg) low, high = lateout(vreg) high,
                options(pure, nomem, nostack, preserves_flags),
            );
            [Self(low), Self(high)]
        }
    }

    #[inline(always)]
    fn look_up(table: &[i8; 16], indices: &[u8; 8]) -> [Self; 2] {
        // SAFETY: compiled only for CPUs with NEON; `table` has
        // sixteen entries and `indices` eight.
        unsafe {
            let (table, indices) = (vld1q_s8(table.as_ptr()), vld1_u8(indices.as_ptr()));
            widen(vqtbl1_s8(table, indices))
        }
    }

    #[inline(always)]
    fn words(words: &[u16; 8]) -> uint16x8_t {
        // SAFETY: compiled only for CPUs with NEON; the array has eight elements.
        unsafe { vld1q_u16(words.as_ptr()) }
    }

    #[inline(always)]
    fn pick(table: [Self; 2], words: uint16x8_t, shift: u32) -> [Self; 2] {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe {
            let numbers = vandq_u16(vshlq_u16(words, vdupq_n_s16(-(shift as i16))), vdupq_n_u16(7));
            let places = vmulq_u16(numbers, vdupq_n_u16(0x0404));
            [vzip1q_u16(places, places), vzip2q_u16(places, places)]
                .map(|places| entries(table, vreinterpretq_u8_u16(places)))
        }
    }

    #[inline(always)]
    fn pick_digits(table: [Self; 2], word: u32) -> [Self; 2] {
        // SAFETY: compiled only for CPUs with NEON; the array has eight elements.
        unsafe {
            const SHIFTS: [i32; 8] = [0, -4, -8, -12, -16, -20, -24, -28];
            let word = vdupq_n_u32(word);
            let shifts = [vld1q_s32(SHIFTS.as_ptr()), vld1q_s32(SHIFTS[4..].as_ptr())];
            shifts.map(|shifts| {
                let numbers = vandq_u32(vshlq_u32(word, shifts), vdupq_n_u32(7));
                entries(table, vreinterpretq_u8_u32(vmulq_u32(numbers, vdupq_n_u32(0x0404_0404))))
            })
        }
    }

    #[inline(always)]
    fn negate(bytes: [u8; 16], signs: u16) -> [u8; 16] {
        // SAFETY: compiled only for CPUs with NEON; `bytes` and `out` have sixteen elements.
        unsafe {
            let [low, high] = signs.to_le_bytes();
            let spread = vcombine_u8(vdup_n_u8(low), vdup_n_u8(high));
            let each =
                vcombine_u8(vcreate_u8(0x8040_2010_0804_0201), vcreate_u8(0x8040_2010_0804_0201));
            let negative = vceqq_u8(vandq_u8(spread, each), each);
            let mut out = [0; 16];
            vst1q_u8(
                out.as_mut_ptr(),
                vsubq_u8(veorq_u8(vld1q_u8(bytes.as_ptr()), negative), negative),
            );
            out
        }
    }

    #[inline(always)]
    fn to_bytes(pair: [Self; 2]) -> [u8; 8] {
        // SAFETY: compiled only for CPUs with NEON; `out` has eight elements.
        unsafe {
            let mut out = [0; 8];
            vst1_u8(out.as_mut_ptr(), vmovn_u16(narrow(pair)));
            out
        }
    }

    #[inline(always)]
    fn to_words(pair: [Self; 2]) -> [u16; 8] {
        // SAFETY: compiled only for CPUs with NEON; `out` has eight elements.
        unsafe {
            let mut out = [0; 8];
            vst1q_u16(out.as_mut_ptr(), narrow(pair));
            out
        }
    }

    #[inline(always)]
    fn transpose([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        // SAFETY: compiled only for CPUs with NEON.
        unsafe {
            let pairs = [
                vtrn1q_f32(a.0, b.0),
                vtrn2q_f32(a.0, b.0),
                vtrn1q_f32(c.0, d.0),
                vtrn2q_f32(c.0, d.0),
            ];
            let [ab_even, ab_odd, cd_even, cd_odd] = pairs.map(|pair| vreinterpretq_f64_f32(pair));
            let columns = [
                vtrn1q_f64(ab_even, cd_even),
                vtrn1q_f64(ab_odd, cd_odd),
                vtrn2q_f64(ab_even, cd_even),
                vtrn2q_f64(ab_odd, cd_odd),
            ];
            columns.map(|column| Self(vreinterpretq_f32_f64(column)))
        }
    }
}

/// Converts eight integers from 0 to 65535 to words.
#[inline(always)]
fn narrow([low, high]: [Neon; 2]) -> uint16x8_t {
    // SAFETY: compiled only for CPUs with NEON.
    unsafe { vcombine_u16(vmovn_u32(vcvtq_u32_f32(low.0)), vmovn_u32(vcvtq_u32_f32(high.0))) }
}
