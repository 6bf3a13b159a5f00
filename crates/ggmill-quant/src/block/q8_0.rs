//! Q8_0: 32 bytes under one half-precision scale.

use ggmill_core::GgmlType;

use super::{Decode, Encode};
use crate::float16::{read_f16, write_f16};
use crate::numeric;

pub(crate) struct Q8_0;

const SCALE: usize = 0;
const QUANTS: usize = 2;

impl Decode<32, 34> for Q8_0 {
    const TYPE: GgmlType = GgmlType::Q8_0;

    fn decode(block: &[u8; 34], out: &mut [f32; 32]) {
        let scale = read_f16(block, SCALE);
        for (out, quant) in out.iter_mut().zip(&block[QUANTS..]) {
            *out = f32::from(quant.cast_signed()) * scale;
        }
    }
}

impl Encode<32, 34> for Q8_0 {
    fn encode(values: &[f32; 32], block: &mut [u8; 34]) {
        let scale = numeric::largest(values) / 127.0;
        let inverse = numeric::inverse_or_zero(scale);
        write_f16(block, SCALE, scale);
        for (quant, value) in block[QUANTS..].iter_mut().zip(values) {
            *quant = numeric::round(value * inverse) as u8;
        }
    }
}
