//! The K-quants: super-blocks of 256 weights in groups of 16 or 32, whose scales (and minima) are
//! quantized too.

mod q2_k;
mod q3_k;
mod q4_k;
mod q6_k;
mod q8_k;
mod search;

pub(crate) use q2_k::Q2_K;
pub(crate) use q3_k::Q3_K;
pub(crate) use q4_k::{Q4_K, Q5_K};
pub(crate) use q6_k::Q6_K;
pub(crate) use q8_k::Q8_K;

use super::BYTE_ONES;

/// The number of weights in a super-block.
const QK_K: usize = 256;

/// Returns the weight of each value of a group: importance · √(σ² + x²).
fn importance<const N: usize>(values: &[f32; N], weights: &[f32; N], spread: f32) -> [f32; N] {
    core::array::from_fn(|i| weights[i] * (spread + values[i] * values[i]).sqrt())
}

fn sum(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, value| sum + value)
}

/// Collects one bit of each level: byte `b` has those of the weights `b`, `b + 32` and so on, the
/// first in the lowest bit. Works on eight bytes at a time: compilers turn loops over single bytes
/// into gathers.
#[inline(always)]
fn bits_by_column(levels: &[u8; QK_K], bit: u32) -> [u8; 32] {
    let mut columns = [0_u64; 4];
    for (row, levels) in (0..).zip(levels.as_chunks::<32>().0) {
        for (column, levels) in columns.iter_mut().zip(levels.as_chunks::<8>().0) {
            *column |= (u64::from_le_bytes(*levels) >> bit & BYTE_ONES) << row;
        }
    }
    let mut bytes = [0; 32];
    for (bytes, column) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(columns) {
        *bytes = column.to_le_bytes();
    }
    bytes
}

/// Packs two-bit levels: in each half of the super-block, byte `b` holds weights `b`, `b + 32`,
/// `b + 64` and `b + 96`, the first in the lowest bits.
#[inline(always)]
fn pack_two_bits(levels: &[u8; QK_K], out: &mut [u8]) {
    let ((halves, _), (out, _)) = (levels.as_chunks::<128>(), out.as_chunks_mut::<32>());
    for (levels, out) in halves.iter().zip(out) {
        for column in 0..32 {
            out[column] = levels[column]
                | levels[column + 32] << 2
                | levels[column + 64] << 4
                | levels[column + 96] << 6;
        }
    }
}
