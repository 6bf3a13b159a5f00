//! The IQ types of one to three bits: groups of weights are rounded to points of a grid, a few of all the combinations their levels could have.
//!
//! IQ2 and IQ3 store magnitudes on the grid and signs beside it; IQ1 stores signed levels and shifts them.

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

pub(crate) use iq1_m::IQ1_M;
pub(crate) use iq1_s::IQ1_S;
pub(crate) use iq2_s::IQ2_S;
pub(crate) use iq2_xs::IQ2_XS;
pub(crate) use iq2_xxs::IQ2_XXS;
pub(crate) use iq3_s::IQ3_S;
pub(crate) use iq3_xxs::IQ3_XXS;

use crate::numeric::{nearest, sum_of_squares};

/// Weights in a super-block.
const SUPER: usize = 256;

/// What each weight of a group counts: its column's importance, times a magnitude that small weights share with their super-block.
fn importance<const N: usize>(values: &[f32; N], weights: &[f32; N], spread: f32) -> [f32; N] {
    core::array::from_fn(|i| weights[i] * (spread + values[i] * values[i]).sqrt())
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
