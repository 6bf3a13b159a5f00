//! Plain numbers: "blocks" of one element.
//!
//! Floats keep infinities and NaN. Integers decode to the nearest `f32` and cannot be encoded.

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::float16;
use crate::lanes::{Floats, Lanes};

pub(crate) struct F32;
pub(crate) struct F16;
pub(crate) struct BF16;
pub(crate) struct F64;

impl Decode<1, 4> for F32 {
    const TYPE: GgmlType = GgmlType::F32;

    #[inline(always)]
    fn decode(block: &[u8; 4], out: &mut [f32; 1]) {
        *out = [f32::from_le_bytes(*block)];
    }
}

impl Encode<1, 4> for F32 {
    fn encode([value]: &[f32; 1], block: &mut [u8; 4]) {
        *block = value.to_le_bytes();
    }
}

impl Decode<1, 2> for F16 {
    const TYPE: GgmlType = GgmlType::F16;

    #[inline(always)]
    fn decode(block: &[u8; 2], out: &mut [f32; 1]) {
        *out = [float16::f16_to_f32(u16::from_le_bytes(*block))];
    }

    #[inline(always)]
    fn decode_many<L: Lanes>(lanes: L, blocks: &[[u8; 2]], out: &mut [[f32; 1]]) {
        let whole = blocks.len() - blocks.len() % L::WIDTH;
        let ((blocks, rest), (out, rest_out)) = (blocks.split_at(whole), out.split_at_mut(whole));
        for (blocks, out) in
            blocks.chunks_exact(L::WIDTH).zip(out.as_flattened_mut().chunks_exact_mut(L::WIDTH))
        {
            lanes.load_halves(blocks).store(out);
        }
        for (block, out) in rest.iter().zip(rest_out) {
            Self::decode(block, out);
        }
    }
}

impl Encode<1, 2> for F16 {
    fn encode([value]: &[f32; 1], block: &mut [u8; 2]) {
        *block = float16::f32_to_f16(*value).to_le_bytes();
    }
}

impl Decode<1, 2> for BF16 {
    const TYPE: GgmlType = GgmlType::BF16;

    #[inline(always)]
    fn decode(block: &[u8; 2], out: &mut [f32; 1]) {
        *out = [float16::bf16_to_f32(u16::from_le_bytes(*block))];
    }
}

impl Encode<1, 2> for BF16 {
    fn encode([value]: &[f32; 1], block: &mut [u8; 2]) {
        *block = float16::f32_to_bf16(*value).to_le_bytes();
    }
}

impl Decode<1, 8> for F64 {
    const TYPE: GgmlType = GgmlType::F64;

    #[inline(always)]
    fn decode(block: &[u8; 8], out: &mut [f32; 1]) {
        *out = [f64::from_le_bytes(*block) as f32];
    }
}

impl Encode<1, 8> for F64 {
    fn encode([value]: &[f32; 1], block: &mut [u8; 8]) {
        *block = f64::from(*value).to_le_bytes();
    }
}

macro_rules! integers {
    ($($name:ident $int:ty, $bytes:literal;)*) => {$(
        pub(crate) struct $name;

        impl Decode<1, $bytes> for $name {
            const TYPE: GgmlType = GgmlType::$name;

            #[inline(always)]
            fn decode(block: &[u8; $bytes], out: &mut [f32; 1]) {
                *out = [<$int>::from_le_bytes(*block) as f32];
            }
        }
    )*};
}

integers! {
    I8 i8, 1;
    I16 i16, 2;
    I32 i32, 4;
    I64 i64, 8;
}
