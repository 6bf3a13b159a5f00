//! The searches of [`search`](crate::search), with one group per lane.
//!
//! Each returns `None` if a number leaves the range in which the rounding used here equals
//! [`nearest_int`](crate::numeric::nearest_int): the scalar code must then encode the groups. Real
//! models have no such magnitudes.

use super::{Floats, Lanes, MAGIC, Mask};
use crate::search::{GROUP_MAX_EPS, Steps};

/// The result of [`affine`]: the scales, the minima (subtracted after scaling), and the numbers
/// that map a value x to its level: nearest_int(`inverse` · (x - `offset`)), clamped.
pub(crate) struct AffineLanes<F> {
    pub(crate) scale: F,
    pub(crate) min: F,
    pub(crate) inverse: F,
    pub(crate) offset: F,
}

/// Rounds to the nearest integer and clamps. The value must not be NaN, and its magnitude must be
/// below 2²².
struct Rounding<F> {
    magic: F,
    low: F,
    high: F,
}

impl<F: Floats> Rounding<F> {
    #[inline(always)]
    fn new<L: Lanes<F = F>>(lanes: L, low: i32, high: i32) -> Self {
        Self {
            magic: lanes.splat(MAGIC),
            low: lanes.splat(MAGIC + low as f32),
            high: lanes.splat(MAGIC + high as f32),
        }
    }

    #[inline(always)]
    fn nearest(&self, value: F) -> F {
        (value + self.magic).max(self.low).min(self.high) - self.magic
    }
}

/// Does what [`search::affine`](crate::search::affine) does.
#[inline(always)]
pub(crate) fn affine<L: Lanes, const N: usize>(
    lanes: L,
    x: &[L::F; N],
    w: &[L::F; N],
    top: i32,
    steps: Steps,
) -> Option<AffineLanes<L::F>> {
    let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
    let rounding = Rounding::new(lanes, 0, top);
    let top = top as f32;

    let (mut least, mut most) = (x[0], x[0]);
    let mut sum_w = w[0];
    let mut sum_x = sum_w * x[0];
    for (&x, &w) in x.iter().zip(w).skip(1) {
        least = x.min(least);
        most = x.max(most);
        sum_w = sum_w + w;
        sum_x = sum_x + w * x;
    }
    let mut min = zero.select(least.gt(zero), least);
    // If all values of a group are equal, every level is 0 and no candidate has a positive
    // determinant.
    let live = most.gt(min);

    let mut inverse = lanes.splat(top) / (most - min).select(live, one);
    if !in_range(lanes, inverse, least - min, most - min) {
        return None;
    }
    let mut offset = min;
    let mut scale = one / inverse;
    let mut best = zero;
    for (&x, &w) in x.iter().zip(w) {
        let diff = scale * rounding.nearest(inverse * (x - min)) + min - x;
        best = best + w * if steps.absolute { diff.abs() } else { diff * diff };
    }
    let mut levels = [zero; N];
    for step in 0..=steps.last {
        // The candidates start from the best minimum so far.
        let trial = lanes.splat(steps.first + steps.width * step as f32 + top)
            / (most - min).select(live, one);
        if !in_range(lanes, trial, least - min, most - min) {
            return None;
        }
        let (mut sum_l, mut sum_ll, mut products) = (zero, zero, zero);
        for ((&x, &w), level) in x.iter().zip(w).zip(&mut levels) {
            *level = rounding.nearest(trial * (x - min));
            let weighted = w * *level;
            sum_l = sum_l + weighted;
            sum_ll = sum_ll + weighted * *level;
            products = products + weighted * x;
        }
        let determinant = sum_w * sum_ll - sum_l * sum_l;
        let solvable = determinant.gt(zero);
        let this_scale = (sum_w * products - sum_x * sum_l) / determinant;
        let this_min = (sum_ll * sum_x - sum_l * products) / determinant;
        let above = this_min.gt(zero);
        let this_min = zero.select(above, this_min);
        let this_scale = (products / sum_ll).select(above, this_scale);
        let mut found = zero;
        for ((&x, &w), &level) in x.iter().zip(w).zip(&levels) {
            let diff = this_scale * level + this_min - x;
            found = found + w * if steps.absolute { diff.abs() } else { diff * diff };
        }
        let better = solvable.and(found.lt(best));
        best = found.select(better, best);
        scale = this_scale.select(better, scale);
        inverse = trial.select(better, inverse);
        offset = min.select(better, offset);
        min = this_min.select(better, min);
    }
    Some(AffineLanes { scale: scale.select(live, zero), min: -min, inverse, offset })
}

/// Does what [`search::symmetric`](crate::search::symmetric) does with weights. Returns the scales
/// and the inverses that map a value x to its level: nearest_int(`inverse` · x), clamped. If the
/// inverse is 0, all stored levels are 0.
#[inline(always)]
pub(crate) fn symmetric<L: Lanes, const N: usize>(
    lanes: L,
    x: &[L::F; N],
    half: i32,
    w: &[L::F; N],
) -> (L::F, L::F) {
    let zero = lanes.splat(0.0);
    let rounding = Rounding::new(lanes, -half, half - 1);
    let (extreme, live) = extreme(lanes, x);
    let mut inverse = lanes.splat(-(half as f32)) / extreme;
    let (xl, ll) = fit(zero, &rounding, x, w, inverse);
    let mut scale = zero.select(ll.eq(zero), xl / ll);
    let mut best = scale * xl;
    for step in (-9..=9).filter(|&step| step != 0) {
        let trial = lanes.splat(-(half as f32 + 0.1 * step as f32)) / extreme;
        let (xl, ll) = fit(zero, &rounding, x, w, trial);
        let better = ll.gt(zero).and((xl * xl).gt(best * ll));
        scale = (xl / ll).select(better, scale);
        best = (scale * xl).select(better, best);
        inverse = trial.select(better, inverse);
    }
    (scale.select(live, zero), inverse.select(live, zero))
}

/// The result of [`symmetric_by_moves`].
#[derive(Clone, Copy)]
pub(crate) struct MovedGroups<F: Floats, const N: usize> {
    pub(crate) scale: F,
    /// The levels as stored, from 0.
    pub(crate) levels: [F; N],
    /// The groups in which the last round changed a level, so that another round may change more.
    pub(crate) unsettled: F::Mask,
}

/// Does what [`search::symmetric_by_moves`](crate::search::symmetric_by_moves) does in `rounds`
/// rounds, for `K` vectors of groups: a change depends on the one before it, so interleaving
/// independent vectors hides the latency.
#[inline(always)]
pub(crate) fn symmetric_by_moves<L: Lanes, const N: usize, const K: usize>(
    lanes: L,
    mut x: [[L::F; N]; K],
    half: i32,
    rounds: usize,
) -> [MovedGroups<L::F, N>; K] {
    let zero = lanes.splat(0.0);
    let rounding = Rounding::new(lanes, -half, half - 1);
    let (mut xl, mut ll) = ([zero; K], [zero; K]);
    let mut levels = [[zero; N]; K];
    let mut live = [zero.ne(zero); K];
    let mut unsettled = live;
    for (k, x) in x.iter_mut().enumerate() {
        let (extreme, alive) = extreme(lanes, x);
        live[k] = alive;
        if !alive.all() {
            // Levels of zeros do not change, because their sums stay 0.
            for x in &mut *x {
                *x = x.select(alive, zero);
            }
        }
        let inverse = lanes.splat(-(half as f32)) / extreme;
        for (&mut x, level) in x.iter_mut().zip(&mut levels[k]) {
            *level = rounding.nearest(inverse * x);
            let w = x * x;
            xl[k] = xl[k] + w * x * *level;
            ll[k] = ll[k] + w * *level * *level;
        }
    }
    for _ in 0..rounds {
        // A group that did not change does not change in later rounds either, so all groups
        // continue until none changes.
        unsettled = [zero.ne(zero); K];
        for i in 0..N {
            for k in 0..K {
                let (x, level) = (x[k][i], levels[k][i]);
                let w = x * x;
                let (other_xl, other_ll) = (xl[k] - w * x * level, ll[k] - w * level * level);
                let better = (x * other_ll / other_xl).nearest(-half, half - 1);
                let changed = other_xl.gt(zero).and(better.ne(level));
                let (other_xl, other_ll) =
                    (other_xl + w * x * better, other_ll + w * better * better);
                let accepted = changed
                    .and(other_ll.gt(zero))
                    .and((other_xl * other_xl * ll[k]).gt(xl[k] * xl[k] * other_ll));
                unsettled[k] = unsettled[k].or(accepted);
                levels[k][i] = better.select(accepted, level);
                xl[k] = other_xl.select(accepted, xl[k]);
                ll[k] = other_ll.select(accepted, ll[k]);
            }
        }
        let mut moved = unsettled[0];
        for unsettled in unsettled {
            moved = moved.or(unsettled);
        }
        if !moved.any() {
            break;
        }
    }
    let mut out = [MovedGroups { scale: zero, levels: [zero; N], unsettled: live[0] }; K];
    let half = lanes.splat(half as f32);
    for (k, out) in out.iter_mut().enumerate() {
        out.scale = (xl[k] / ll[k]).select(ll[k].gt(zero).and(live[k]), zero);
        out.unsettled = unsettled[k];
        for (stored, &level) in out.levels.iter_mut().zip(&levels[k]) {
            *stored = (level + half).select(live[k], zero);
        }
    }
    out
}

/// Does what [`search::positive`](crate::search::positive) does. Returns scales and levels.
#[inline(always)]
pub(crate) fn positive<L: Lanes, const N: usize>(
    lanes: L,
    x: &[L::F; N],
    top: i32,
    w: &[L::F; N],
) -> Option<(L::F, [L::F; N])> {
    let (zero, one, greatest) = (lanes.splat(0.0), lanes.splat(1.0), lanes.splat(f32::MAX));
    let rounding = Rounding::new(lanes, 0, top);
    let (mut most, mut bad) = (zero, zero.ne(zero));
    for &x in x {
        most = most.max(x);
        bad = bad.or(zero.gt(x)).or(x.gt(greatest)).or(x.ne(x));
    }
    if bad.any() {
        return None;
    }
    let live = most.lt(lanes.splat(GROUP_MAX_EPS)).not();
    let most = most.select(live, one);
    let mut inverse = lanes.splat(top as f32) / most;
    let mut best = positive_error(&rounding, x, w, one / inverse, inverse, zero);
    for step in (-4..=4).filter(|&step| step != 0) {
        let trial = lanes.splat(0.1 * step as f32 + top as f32) / most;
        let found = positive_error(&rounding, x, w, one / trial, trial, zero);
        let better = found.lt(best);
        best = found.select(better, best);
        inverse = trial.select(better, inverse);
    }
    let (mut xl, mut ll) = (zero, zero);
    let mut levels = [zero; N];
    for ((&x, &w), level) in x.iter().zip(w).zip(&mut levels) {
        *level = rounding.nearest(inverse * x);
        xl = xl + w * x * *level;
        ll = ll + w * *level * *level;
    }
    for _ in 0..5 {
        let mut moved = false;
        for ((&x, &w), level) in x.iter().zip(w).zip(&mut levels) {
            let (other_xl, other_ll) = (xl - w * x * *level, ll - w * *level * *level);
            let better = (x * other_ll / other_xl).nearest(-0x0040_0000, top);
            let changed = other_xl.gt(zero).and(other_ll.gt(zero)).and(live).and(better.ne(*level));
            if changed.any() {
                let (other_xl, other_ll) =
                    (other_xl + w * x * better, other_ll + w * better * better);
                let accepted = changed.and((other_xl * other_xl * ll).gt(xl * xl * other_ll));
                // The scalar code stores levels as bytes, so a negative level would differ in the
                // next round.
                if accepted.and(better.lt(zero)).any() {
                    return None;
                }
                moved |= accepted.any();
                *level = better.select(accepted, *level);
                xl = other_xl.select(accepted, xl);
                ll = other_ll.select(accepted, ll);
            }
        }
        if !moved {
            break;
        }
    }
    let scale = (xl / ll).select(ll.gt(zero).and(live), zero);
    for level in &mut levels {
        *level = level.select(live, zero);
    }
    Some((scale, levels))
}

/// Returns Σ w·x·l and Σ w·l² for the levels that an inverse scale gives.
#[inline(always)]
fn fit<F: Floats, const N: usize>(
    zero: F,
    rounding: &Rounding<F>,
    x: &[F; N],
    w: &[F; N],
    inverse: F,
) -> (F, F) {
    let (mut xl, mut ll) = (zero, zero);
    for (&x, &w) in x.iter().zip(w) {
        let level = rounding.nearest(inverse * x);
        xl = xl + w * x * level;
        ll = ll + w * level * level;
    }
    (xl, ll)
}

/// Returns the weighted squared error of a scale.
#[inline(always)]
fn positive_error<F: Floats, const N: usize>(
    rounding: &Rounding<F>,
    x: &[F; N],
    w: &[F; N],
    scale: F,
    inverse: F,
    zero: F,
) -> F {
    let mut error = zero;
    for (&x, &w) in x.iter().zip(w) {
        let diff = x - scale * rounding.nearest(inverse * x);
        error = error + w * diff * diff;
    }
    error
}

/// Returns `true` if rounding is exact for groups with these least and greatest distances from the
/// minimum. Products and rounding are monotonic, so all values in between are in range too.
#[inline(always)]
fn in_range<L: Lanes>(lanes: L, inverse: L::F, least: L::F, most: L::F) -> bool {
    let tame = lanes.splat(2_097_152.0);
    (inverse * least).abs().lt(tame).and((inverse * most).abs().lt(tame)).all()
}

/// Returns the first value of the greatest magnitude, with its sign, or 1 in groups that are
/// treated as zero; and the mask of the groups that are not.
#[inline(always)]
fn extreme<L: Lanes, const N: usize>(lanes: L, x: &[L::F; N]) -> (L::F, <L::F as Floats>::Mask) {
    let mut extreme = lanes.splat(0.0);
    for &x in x {
        extreme = x.select(x.abs().gt(extreme.abs()), extreme);
    }
    let live = extreme.abs().lt(lanes.splat(GROUP_MAX_EPS)).not();
    (extreme.select(live, lanes.splat(1.0)), live)
}
