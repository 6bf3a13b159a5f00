//! The searches of many super-blocks at once, for formats whose levels lie around zero: Q3_K and
//! Q6_K.

use super::SUPER;
use crate::arch::Pair;
use crate::lanes::{
    Floats, Lanes, MOST, Mask, Moved, columns, importance, spread_out, sums_of_squares, symmetric,
    symmetric_by_moves,
};
use crate::numeric::nearest;

/// How often every level may move.
const ROUNDS: usize = 5;

/// The result for each group of 16 of up to [`MOST`] super-blocks, group after group.
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
    /// By their squares.
    Square,
    /// By the importance of their columns.
    Column(&'a [[f32; SUPER]]),
    /// By importance times magnitude, with twice the mean square of each super-block.
    Importance(&'a [[f32; SUPER]]),
}

/// Scales of at most [`at_once`](super::side_by_side::at_once) super-blocks.
#[inline(always)]
pub(super) fn search<L: Lanes>(
    lanes: L,
    values: &[[f32; SUPER]],
    weights: Weights<'_>,
    half: i32,
) -> Found {
    let lanes = Pair(lanes);
    let mut found = Found {
        scales: [0.0; 16 * MOST],
        sums: [0.0; 16 * MOST],
        levels: Levels::Inverses([0.0; 16 * MOST]),
    };
    let Levels::Inverses(inverses) = &mut found.levels else { return found };
    let (groups, _) = values.as_flattened().as_chunks::<16>();
    let spreads = match weights {
        Weights::Importance(_) => sums_of_squares(lanes, values).map(|sum| 2.0 * sum / 256.0),
        _ => [0.0; MOST],
    };
    for first in (0..groups.len()).step_by(2 * L::WIDTH) {
        let x = columns(lanes, groups, first);
        let w = match weights {
            Weights::Square => squares(&x),
            Weights::Column(weights) | Weights::Importance(weights) => {
                columns(lanes, weights.as_flattened().as_chunks::<16>().0, first)
            }
        };
        let w = if let Weights::Importance(_) = weights {
            let [spread] =
                spread_out(lanes, |lane, _| spreads[((first + lane) / 16).min(MOST - 1)]);
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
        let (scale, inverse) = symmetric(lanes, &x, half, &w);
        scale.store(&mut found.scales[first..]);
        inverse.store(&mut inverses[first..]);
    }
    found
}

/// As [`search`], by moves of single levels; values are weighed by their squares. What is found
/// replaces what [`Found::room`] held.
#[inline(always)]
pub(super) fn search_by_moves<L: Lanes>(
    lanes: L,
    values: &[[f32; SUPER]],
    half: i32,
    found: &mut Found,
) {
    let (groups, _) = values.as_flattened().as_chunks::<16>();
    let Levels::Stored(levels) = &mut found.levels else { return };
    // Four groups in five are at rest after one round. The others start again among themselves:
    // side by side with the rest, one of them would keep all.
    let mut again = Vec::with_capacity(groups.len());
    let mut places = Vec::with_capacity(groups.len());
    for start in (0..groups.len()).step_by(AT_ONCE * L::WIDTH) {
        let moves = moved(lanes, groups, start, half, 1);
        for (vector, moved) in moves.into_iter().enumerate() {
            let first = start + vector * L::WIDTH;
            moved.scale.store(&mut found.scales[first..]);
            for (level, stored) in moved.levels.into_iter().zip(levels.iter_mut()) {
                level.store_bytes(&mut stored[first..]);
            }
            let mut restless = moved.restless.bits();
            while restless != 0 {
                let place = first + restless.trailing_zeros() as usize;
                restless &= restless - 1;
                if place < groups.len() {
                    again.push(groups[place]);
                    places.push(place);
                }
            }
        }
    }
    for start in (0..again.len()).step_by(AT_ONCE * L::WIDTH) {
        let moves = moved(lanes, &again, start, half, ROUNDS);
        for (moved, places) in moves.into_iter().zip(places[start..].chunks(L::WIDTH)) {
            let mut scales = [0.0; MOST];
            moved.scale.store(&mut scales);
            for (&place, scale) in places.iter().zip(scales) {
                found.scales[place] = scale;
            }
            for (level, stored) in moved.levels.into_iter().zip(levels.iter_mut()) {
                let mut row = [0; MOST];
                level.store_bytes(&mut row);
                for (&place, level) in places.iter().zip(row) {
                    stored[place] = level;
                }
            }
        }
    }
}

/// Vectors of groups whose levels are moved at a time. A room for [`MOST`] super-blocks holds a
/// whole number of them.
const AT_ONCE: usize = 4;

/// Scales and levels of the groups from `start` on, as many as fill the vectors, after some rounds
/// of moves.
#[inline(always)]
fn moved<L: Lanes>(
    lanes: L,
    groups: &[[f32; 16]],
    start: usize,
    half: i32,
    rounds: usize,
) -> [Moved<L::F, 16>; AT_ONCE] {
    let mut x = [[lanes.splat(0.0); 16]; AT_ONCE];
    for (vector, x) in x.iter_mut().enumerate() {
        *x = columns(lanes, groups, start + vector * L::WIDTH);
    }
    symmetric_by_moves(lanes, x, half, rounds)
}

#[inline(always)]
fn squares<F: Floats, const N: usize>(x: &[F; N]) -> [F; N] {
    let mut out = *x;
    for x in &mut out {
        *x = *x * *x;
    }
    out
}

/// The first of the greatest magnitude among the sixteen scales of each super-block.
#[inline(always)]
pub(super) fn extreme_scales<L: Lanes>(lanes: L, found: &Found) -> [f32; MOST] {
    let lanes = Pair(lanes);
    let mut extreme = lanes.splat(0.0);
    for x in columns(lanes, found.scales.as_chunks::<16>().0, 0) {
        extreme = x.or(x.abs().gt(extreme.abs()), extreme);
    }
    let mut out = [0.0; MOST];
    extreme.store(&mut out);
    out
}

/// One scale for the sixteen scales of each super-block, and the levels they then have.
#[inline(always)]
pub(super) fn scale_of_scales<L: Lanes>(
    lanes: L,
    found: &Found,
    half: i32,
) -> ([f32; MOST], [[u8; 16]; MOST]) {
    let lanes = Pair(lanes);
    let x: [_; 16] = spread_out(lanes, |lane, i| found.scales[16 * lane + i]);
    let w: [_; 16] = spread_out(lanes, |lane, i| found.sums[16 * lane + i]);
    let (scale, inverse) = symmetric(lanes, &x, half, &w);
    let (mut scales, mut inverses) = ([0.0; MOST], [0.0; MOST]);
    scale.store(&mut scales);
    inverse.store(&mut inverses);
    let mut levels = [[0; 16]; MOST];
    for (block, levels) in levels.iter_mut().enumerate() {
        let (of_groups, sums) =
            (&found.scales[16 * block..][..16], &found.sums[16 * block..][..16]);
        if of_groups.iter().all(|scale| scale.is_finite()) {
            multiply(of_groups, inverses[block], half, levels);
        } else {
            // Sums have overflowed: what rounding makes of infinities is for the scalar code to
            // say.
            scales[block] = crate::search::symmetric(of_groups, half, Some(sums), levels);
        }
    }
    (scales, levels)
}

impl Found {
    /// Room for what [`search_by_moves`] finds. It is large, and reused by the next search.
    pub(super) const fn room() -> Self {
        Self {
            scales: [0.0; 16 * MOST],
            sums: [0.0; 16 * MOST],
            levels: Levels::Stored([[0; 16 * MOST]; 16]),
        }
    }

    /// The levels the search had given a group, for the case that its scale is stored as 0.
    fn levels(&self, group: usize, values: &[f32], half: i32, levels: &mut [u8]) {
        match &self.levels {
            Levels::Inverses(inverses) => multiply(values, inverses[group], half, levels),
            Levels::Stored(stored) => {
                levels.iter_mut().zip(stored).for_each(|(level, stored)| *level = stored[group]);
            }
        }
    }

    /// Levels for the scales of a super-block as they are stored. Groups whose scale is 0 keep the
    /// levels they have.
    #[inline(always)]
    pub(super) fn assign<L: Lanes>(
        &self,
        lanes: L,
        index: usize,
        values: &[f32; SUPER],
        scales: [f32; 16],
        half: i32,
    ) -> [u8; SUPER] {
        let mut levels = [0; SUPER];
        let add = lanes.splat(half as f32);
        let ((values, _), (groups, _)) = (values.as_chunks::<16>(), levels.as_chunks_mut::<16>());
        for group in 0..16 {
            let (values, levels) = (&values[group], &mut groups[group]);
            if scales[group] == 0.0 {
                self.levels(16 * index + group, values, half, levels);
                continue;
            }
            let scale = lanes.splat(scales[group]);
            for start in (0..16).step_by(L::WIDTH) {
                ((lanes.load(&values[start..]) / scale).nearest(-half, half - 1) + add)
                    .store_bytes(&mut levels[start..]);
            }
        }
        levels
    }
}

fn multiply(values: &[f32], inverse: f32, half: i32, levels: &mut [u8]) {
    for (level, value) in levels.iter_mut().zip(values) {
        *level = if inverse == 0.0 {
            0
        } else {
            (nearest(inverse * value).clamp(-half, half - 1) + half) as u8
        };
    }
}
