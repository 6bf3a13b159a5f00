//! The IQ types of one to three bits: groups of weights are rounded to points of a grid, a few of
//! all the combinations their levels could have.
//!
//! IQ2 and IQ3 store magnitudes on the grid and signs beside it; IQ1 stores signed levels and
//! shifts them.

mod grid;
mod group;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod search;
mod sets;
mod shifted;
mod side_by_side;
mod split;

pub(crate) use iq1_m::IQ1_M;
pub(crate) use iq1_s::IQ1_S;
pub(crate) use iq2_s::IQ2_S;
pub(crate) use iq2_xs::IQ2_XS;
pub(crate) use iq2_xxs::IQ2_XXS;
pub(crate) use iq3_s::IQ3_S;
pub(crate) use iq3_xxs::IQ3_XXS;

use search::{OneByOne, Way};
use side_by_side::SideBySide;

use super::{Decode, Encode};
use crate::lanes::Lanes;
use crate::numeric::{nearest, sum_of_squares};

/// Weights in a super-block.
const SUPER: usize = 256;

/// How a super-block is written, whichever way its groups are searched.
trait Write<const B: usize>: Decode<SUPER, B> {
    const NEEDS_WEIGHTS: bool = false;

    /// Without importance only where the format does without.
    fn write(
        way: impl Way,
        values: &[f32; SUPER],
        importance: Option<&[f32; SUPER]>,
        block: &mut [u8; B],
    );
}

impl<T: Write<B>, const B: usize> Encode<SUPER, B> for T {
    const NEEDS_WEIGHTS: bool = <T as Write<B>>::NEEDS_WEIGHTS;

    fn encode(values: &[f32; SUPER], block: &mut [u8; B]) {
        T::write(OneByOne, values, None, block);
    }

    fn encode_weighted(values: &[f32; SUPER], weights: &[f32; SUPER], _: f32, block: &mut [u8; B]) {
        T::write(OneByOne, values, Some(weights), block);
    }

    #[inline(always)]
    fn encode_all<L: Lanes>(
        lanes: L,
        values: &[[f32; SUPER]],
        weights: Option<(&[[f32; SUPER]], f32)>,
        out: &mut [[u8; B]],
    ) {
        for (index, (values, block)) in values.iter().zip(out).enumerate() {
            T::write(
                SideBySide(lanes),
                values,
                weights.and_then(|(weights, _)| weights.get(index)),
                block,
            );
        }
    }
}

/// The weight of each value: its column's importance, times a magnitude that small weights share
/// with their super-block. Without importance, its square and a share.
#[inline(always)]
fn counts(
    values: &[f32; SUPER],
    importance: Option<&[f32; SUPER]>,
    spread: f32,
    share: f32,
) -> [f32; SUPER] {
    let mut counts = *values;
    match importance {
        None => {
            for count in &mut counts {
                *count = share + *count * *count;
            }
        }
        Some(importance) => {
            for (count, importance) in counts.iter_mut().zip(importance) {
                *count = importance * (spread + *count * *count).sqrt();
            }
        }
    }
    counts
}

/// Twice the mean square of a super-block.
fn spread(values: &[f32; SUPER]) -> f32 {
    2.0 * sum_of_squares(values) / SUPER as f32
}

/// The greatest of scales that are not negative.
fn greatest(scales: &[f32]) -> f32 {
    scales.iter().fold(0.0, |greatest, &scale| if greatest > scale { greatest } else { scale })
}

/// Levels of the scales, 0..=`top`, where level `l` stands for 2·l + 1 times a super-scale.
fn scale_levels<const N: usize>(scales: [f32; N], super_scale: f32, top: i32) -> [u8; N] {
    let inverse = 1.0 / super_scale;
    scales.map(|scale| nearest(0.5 * (inverse * scale - 1.0)).clamp(0, top) as u8)
}
