//! The searches of many super-blocks at once, for formats whose levels lie around zero: Q3_K and Q6_K.

use super::SUPER;
use crate::arch::Pair;
use crate::lanes::{Floats, Lanes, MOST, Room, columns, importance, spread_out, sums_of_squares, symmetric, symmetric_by_moves};
use crate::numeric::nearest;

/// What was found for each group of 16 of up to [`MOST`] super-blocks, group after group.
pub(super) struct Found {
    pub(super) scales: [f32; 16 * MOST],
    /// The weights' sums, where values count by importance times magnitude.
    sums: [f32; 16 * MOST],
    levels: Levels,
}

/// How the levels come from the values.
enum Levels {
    /// By multiplication; where the factor is 0, the levels are 0.
    Inverses([f32; 16 * MOST]),
    /// They do not: here they are, value by value.
    Stored([[u8; 16 * MOST]; 16]),
}

/// How values are weighed.
#[derive(Clone, Copy)]
pub(super) enum Weights<'a> {
    /// By their squares, with moves of single levels.
    Moves,
    /// By their squares.
    Square,
    /// By the importance of their columns.
    Column(&'a [[f32; SUPER]]),
    /// By importance times magnitude, with twice the mean square of each super-block.
    Importance(&'a [[f32; SUPER]]),
}

/// Scales of at most [`at_once`](super::side_by_side::at_once) super-blocks.
#[inline(always)]
pub(super) fn search<L: Lanes>(lanes: L, values: &[[f32; SUPER]], weights: Weights<'_>, half: i32) -> Found {
    let lanes = Pair(lanes);
    let levels = match weights {
        Weights::Moves => Levels::Stored([[0; 16 * MOST]; 16]),
        _ => Levels::Inverses([0.0; 16 * MOST]),
    };
    let mut found = Found { scales: [0.0; 16 * MOST], sums: [0.0; 16 * MOST], levels };
    let mut room = Room::<16>::new();
    let (groups, _) = values.as_flattened().as_chunks::<16>();
    let spreads = match weights {
        Weights::Importance(_) => sums_of_squares(lanes, values).map(|sum| 2.0 * sum / 256.0),
        _ => [0.0; MOST],
    };
    for first in (0..groups.len()).step_by(2 * L::WIDTH) {
        let x = columns(lanes, groups, first, &mut room);
        let w = match weights {
            Weights::Moves | Weights::Square => squares(&x),
            Weights::Column(weights) | Weights::Importance(weights) => columns(lanes, weights.as_flattened().as_chunks::<16>().0, first, &mut room),
        };
        let w = if let Weights::Importance(_) = weights {
            let [spread] = spread_out(lanes, |lane, _| spreads[((first + lane) / 16).min(MOST - 1)]);
            let w = importance(&x, &w, spread);
            let mut sum = lanes.splat(0.0);
            for &w in &w {
                sum = sum + w;
            }
            sum.store(&mut found.sums[first..]);
            w
        } else {
            w
        };
        match &mut found.levels {
            Levels::Stored(stored) => {
                let (scale, levels) = symmetric_by_moves(lanes, &x, half);
                scale.store(&mut found.scales[first..]);
                for (level, stored) in levels.into_iter().zip(stored) {
                    level.store_bytes(&mut stored[first..]);
                }
            }
            Levels::Inverses(inverses) => {
                let (scale, inverse) = symmetric(lanes, &x, half, &w);
                scale.store(&mut found.scales[first..]);
                inverse.store(&mut inverses[first..]);
            }
        }
    }
    found
}

#[inline(always)]
fn squares<F: Floats, const N: usize>(x: &[F; N]) -> [F; N] {
    let mut out = *x;
    for x in &mut out {
        *x = *x * *x;
    }
    out
}

/// One scale for the sixteen scales of each super-block, and the levels they then have.
#[inline(always)]
pub(super) fn scale_of_scales<L: Lanes>(lanes: L, found: &Found, half: i32) -> ([f32; MOST], [[u8; 16]; MOST]) {
    let lanes = Pair(lanes);
    let x: [_; 16] = spread_out(lanes, |lane, i| found.scales[16 * lane + i]);
    let w: [_; 16] = spread_out(lanes, |lane, i| found.sums[16 * lane + i]);
    let (scale, inverse) = symmetric(lanes, &x, half, &w);
    let (mut scales, mut inverses) = ([0.0; MOST], [0.0; MOST]);
    scale.store(&mut scales);
    inverse.store(&mut inverses);
    let mut levels = [[0; 16]; MOST];
    for (block, levels) in levels.iter_mut().enumerate() {
        let (of_groups, sums) = (&found.scales[16 * block..][..16], &found.sums[16 * block..][..16]);
        if of_groups.iter().all(|scale| scale.is_finite()) {
            multiply(of_groups, inverses[block], half, levels);
        } else {
            // Sums have overflowed: what rounding makes of infinities is for the scalar code to say.
            scales[block] = crate::search::symmetric(of_groups, half, Some(sums), levels);
        }
    }
    (scales, levels)
}

impl Found {
    /// The levels the search had given a group, for the case that its scale is stored as 0.
    fn levels(&self, group: usize, values: &[f32], half: i32, levels: &mut [u8]) {
        match &self.levels {
            Levels::Inverses(inverses) => multiply(values, inverses[group], half, levels),
            Levels::Stored(stored) => levels.iter_mut().zip(stored).for_each(|(level, stored)| *level = stored[group]),
        }
    }

    /// Levels for the scales of a super-block as they are stored. Groups whose scale is 0 keep the levels they have.
    #[inline(always)]
    pub(super) fn assign<L: Lanes>(&self, lanes: L, index: usize, values: &[f32; SUPER], scales: [f32; 16], half: i32) -> [u8; SUPER] {
        let mut levels = [0; SUPER];
        let add = lanes.splat(half as f32);
        for (group, (values, levels)) in values.chunks_exact(16).zip(levels.chunks_exact_mut(16)).enumerate() {
            if scales[group] == 0.0 {
                self.levels(16 * index + group, values, half, levels);
                continue;
            }
            let scale = lanes.splat(scales[group]);
            for (values, levels) in values.chunks_exact(L::WIDTH).zip(levels.chunks_exact_mut(L::WIDTH)) {
                ((lanes.load(values) / scale).nearest(-half, half - 1) + add).store_bytes(levels);
            }
        }
        levels
    }
}

fn multiply(values: &[f32], inverse: f32, half: i32, levels: &mut [u8]) {
    for (level, value) in levels.iter_mut().zip(values) {
        *level = if inverse == 0.0 { 0 } else { (nearest(inverse * value).clamp(-half, half - 1) + half) as u8 };
    }
}
