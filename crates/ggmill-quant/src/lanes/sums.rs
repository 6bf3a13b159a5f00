//! Sums in order, of several groups or blocks at once.

use super::{Floats, Lanes, MOST};

/// The sum of squares of each block, added in order. At most [`WIDTH`](Lanes::WIDTH) blocks count.
#[inline(always)]
pub(crate) fn sums_of_squares<L: Lanes>(lanes: L, blocks: &[[f32; 256]]) -> [f32; MOST] {
    let mut sum = lanes.splat(0.0);
    for part in 0..256 / 8 {
        for x in lanes.eight_columns(blocks, 0, part) {
            sum = sum + x * x;
        }
    }
    let mut out = [0.0; MOST];
    sum.store(&mut out);
    out
}

/// The weight of each value of the groups: its column's importance, times a magnitude that small
/// weights share.
#[inline(always)]
pub(crate) fn importance<F: Floats, const N: usize>(
    x: &[F; N],
    weights: &[F; N],
    spread: F,
) -> [F; N] {
    let mut out = *weights;
    for (w, &x) in out.iter_mut().zip(x) {
        *w = *w * (spread + x * x).sqrt();
    }
    out
}
