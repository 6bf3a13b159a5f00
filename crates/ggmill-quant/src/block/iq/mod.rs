//! The IQ types of one to three bits. Groups of weights are rounded to points of a grid, which has
//! few of all possible combinations of levels.
//!
//! IQ2 and IQ3 store magnitudes as grid points, and signs separately. IQ1 stores signed levels as
//! grid points, and a shift.

mod grid;
mod iq1;
mod iq1_m;
mod iq1_s;
mod iq2;
mod iq3;
mod search;
mod search_lanes;
mod sets;

pub(crate) use iq1_m::IQ1_M;
pub(crate) use iq1_s::IQ1_S;
pub(crate) use iq2::{IQ2_S, IQ2_XS, IQ2_XXS};
pub(crate) use iq3::{IQ3_S, IQ3_XXS};

use search::{ScalarSearch, Strategy};
use search_lanes::LaneSearch;

use super::{Decode, Encode};
use crate::lanes::Lanes;
use crate::numeric::{nearest_int, sum_of_squares};

/// The number of weights in a super-block.
const QK_K: usize = 256;

/// The encoding of a super-block, generic over the search strategy.
trait Write<const B: usize>: Decode<QK_K, B> {
    const NEEDS_WEIGHTS: bool = false;

    /// Encodes a super-block. `importance` is not `None` if the format needs weights.
    fn write(
        strategy: impl Strategy,
        values: &[f32; QK_K],
        importance: Option<&[f32; QK_K]>,
        block: &mut [u8; B],
    );
}

impl<T: Write<B>, const B: usize> Encode<QK_K, B> for T {
    const NEEDS_WEIGHTS: bool = <T as Write<B>>::NEEDS_WEIGHTS;

    fn encode(values: &[f32; QK_K], block: &mut [u8; B]) {
        T::write(ScalarSearch, values, None, block);
    }

    fn encode_weighted(values: &[f32; QK_K], weights: &[f32; QK_K], _: f32, block: &mut [u8; B]) {
        T::write(ScalarSearch, values, Some(weights), block);
    }

    #[inline(always)]
    fn encode_all<L: Lanes>(
        lanes: L,
        values: &[[f32; QK_K]],
        weights: Option<(&[[f32; QK_K]], f32)>,
        out: &mut [[u8; B]],
    ) {
        for (index, (values, block)) in values.iter().zip(out).enumerate() {
            T::write(
                LaneSearch(lanes),
                values,
                weights.and_then(|(weights, _)| weights.get(index)),
                block,
            );
        }
    }
}

/// Returns the weight of each value x: importance · √(σ² + x²), or without importance `offset` +
/// x².
#[inline(always)]
fn value_weights(
    values: &[f32; QK_K],
    importance: Option<&[f32; QK_K]>,
    sigma2: f32,
    offset: f32,
) -> [f32; QK_K] {
    let mut weights = *values;
    match importance {
        None => {
            for weight in &mut weights {
                *weight = offset + *weight * *weight;
            }
        }
        Some(importance) => {
            for (weight, importance) in weights.iter_mut().zip(importance) {
                *weight = importance * (sigma2 + *weight * *weight).sqrt();
            }
        }
    }
    weights
}

/// Returns σ², twice the mean square of a super-block.
fn sigma2(values: &[f32; QK_K]) -> f32 {
    2.0 * sum_of_squares(values) / QK_K as f32
}

/// Returns the greatest of scales that are not negative.
fn max_scale(scales: &[f32]) -> f32 {
    scales.iter().fold(0.0, |max_scale, &scale| if max_scale > scale { max_scale } else { scale })
}

/// Returns the levels of the scales, `0..=top`. Level `l` stands for (2·l + 1) · `super_scale`.
fn scale_levels<const N: usize>(scales: [f32; N], super_scale: f32, top: i32) -> [u8; N] {
    let inverse = 1.0 / super_scale;
    scales.map(|scale| nearest_int(0.5 * (inverse * scale - 1.0)).clamp(0, top) as u8)
}
