//! Sums in order, of several groups or blocks at once.

use super::{Floats, Lanes, MOST, Room, columns};

/// The sum of squares of each block, added in order. At most [`WIDTH`](Lanes::WIDTH) blocks count.
#[inline(always)]
pub(crate) fn sums_of_squares<L: Lanes>(lanes: L, blocks: &[[f32; 256]]) -> [f32; MOST] {
    let mut sum = lanes.splat(0.0);
    let mut room = Room::<32>::new();
    let count = blocks.len().min(L::WIDTH);
    for part in 0..8 {
        let mut parts = [[0.0; 32]; MOST];
        for (copy, block) in parts.iter_mut().zip(&blocks[..count]) {
            copy.copy_from_slice(&block[32 * part..][..32]);
        }
        for x in columns(lanes, &parts[..count], 0, &mut room) {
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
