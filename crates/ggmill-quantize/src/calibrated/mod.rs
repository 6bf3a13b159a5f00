//! Calibrated rounding: the codes of a matrix are chosen by what the matrix computes on a text, not weight
//! by weight. The types and their decoders are unchanged.
//!
//! The loss of a matrix is that of its products with the inputs of the text: for the rounding error *r* of a
//! row it is *rᵀHr*, *H* being the sum of products of the inputs. Each column is rounded in turn, and the
//! columns after it make up for its error (GPTQ). Of several scales for a group of columns, the one whose codes
//! lose least is kept. Then each group chooses its scale and codes again while all other groups stay, and single
//! codes are changed, where that lowers the loss (coordinate descent). Types with grids round eight columns at a
//! time to the nearest point, and the columns after these make up for the errors.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "weights are of single precision, codes have at most six bits, and counts are small"
)]

mod deviation;
mod factor;
mod hessian;
mod rounding;
mod rows;

pub use deviation::Inputs;
pub use hessian::Hessian;
pub use rounding::{Rounded, Rounding};

/// Returns numbers between -1 and 1, for tests.
#[cfg(test)]
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}
