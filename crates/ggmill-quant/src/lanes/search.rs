//! The searches of [`search`](crate::search), a group to a lane.
//!
//! Each returns `None` for groups where the order of operations is not all there is to the answer,
//! because a number leaves the range in which rounding is rounding: the scalar code has to answer
//! for them. That takes magnitudes that no model has.

use super::{Floats, Lanes, MAGIC, Mask};
use crate::search::{NOTHING, Steps};

/// The result of [`affine`]: the scales, the minimums (subtracted after scaling), and the numbers
/// that map values to levels: nearest(`inverse` · (x - `offset`)), limited.
pub(crate) struct AffineLanes<F> {
    pub(crate) scale: F,
    pub(crate) min: F,
    pub(crate) inverse: F,
    pub(crate) offset: F,
}

/// To the nearest whole number within limits, for a value that is one and whose magnitude is below
/// 2²².
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
        (value + self.magic).greater(self.low).lesser(self.high) - self.magic
    }
}

/// As [`search::affine`](crate::search::affine).
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
        least = x.lesser(least);
        most = x.greater(most);
        sum_w = sum_w + w;
        sum_x = sum_x + w * x;
    }
    let mut min = zero.or(least.gt(zero), least);
    // In groups without a span every value is the minimum: every level is 0, and no candidate has a
    // determinant.
    let live = most.gt(min);

    let mut inverse = lanes.splat(top) / (most - min).or(live, one);
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
        let trial =
            lanes.splat(steps.first + steps.width * step as f32 + top) / (most - min).or(live, one);
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
        let this_min = zero.or(above, this_min);
        let this_scale = (products / sum_ll).or(above, this_scale);
        let mut found = zero;
        for ((&x, &w), &level) in x.iter().zip(w).zip(&levels) {
            let diff = this_scale * level + this_min - x;
            found = found + w * if steps.absolute { diff.abs() } else { diff * diff };
        }
        let better = solvable.and(found.lt(best));
        best = found.or(better, best);
        scale = this_scale.or(better, scale);
        inverse = trial.or(better, inverse);
        offset = min.or(better, offset);
        min = this_min.or(better, min);
    }
    Some(AffineLanes { scale: scale.or(live, zero), min: -min, inverse, offset })
}

/// As [`search::symmetric`](crate::search::symmetric), with the weights given. Returns scales and
/// what levels come from: nearest(`inverse` · x), limited; where the inverse is 0, the stored
/// levels are 0 instead.
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
    let mut scale = zero.or(ll.eq(zero), xl / ll);
    let mut best = scale * xl;
    for step in (-9..=9).filter(|&step| step != 0) {
        let trial = lanes.splat(-(half as f32 + 0.1 * step as f32)) / extreme;
        let (xl, ll) = fit(zero, &rounding, x, w, trial);
        let better = ll.gt(zero).and((xl * xl).gt(best * ll));
        scale = (xl / ll).or(better, scale);
        best = (scale * xl).or(better, best);
        inverse = trial.or(better, inverse);
    }
    (scale.or(live, zero), inverse.or(live, zero))
}

/// The result of [`symmetric_by_moves`].
#[derive(Clone, Copy)]
pub(crate) struct Moved<F: Floats, const N: usize> {
    pub(crate) scale: F,
    /// As they are stored.
    pub(crate) levels: [F; N],
    /// Where the last round moved a level, so that another round might.
    pub(crate) restless: F::Mask,
}

/// As [`search::symmetric_by_moves`](crate::search::symmetric_by_moves), with a number of rounds,
/// for several vectors of groups: a move waits for the one before, and what other vectors do fills
/// the time.
#[inline(always)]
pub(crate) fn symmetric_by_moves<L: Lanes, const N: usize, const K: usize>(
    lanes: L,
    mut x: [[L::F; N]; K],
    half: i32,
    rounds: usize,
) -> [Moved<L::F, N>; K] {
    let zero = lanes.splat(0.0);
    let rounding = Rounding::new(lanes, -half, half - 1);
    let (mut xl, mut ll) = ([zero; K], [zero; K]);
    let mut levels = [[zero; N]; K];
    let mut live = [zero.ne(zero); K];
    let mut restless = live;
    for (k, x) in x.iter_mut().enumerate() {
        let (extreme, alive) = extreme(lanes, x);
        live[k] = alive;
        if !alive.all() {
            // Of zeros nothing moves, since their sums stay 0.
            for x in &mut *x {
                *x = x.or(alive, zero);
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
        // A group in which nothing moves stays as it is in later rounds, so that all may go on
        // until none moves.
        restless = [zero.ne(zero); K];
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
                restless[k] = restless[k].or(accepted);
                levels[k][i] = better.or(accepted, level);
                xl[k] = other_xl.or(accepted, xl[k]);
                ll[k] = other_ll.or(accepted, ll[k]);
            }
        }
        let mut moved = restless[0];
        for restless in restless {
            moved = moved.or(restless);
        }
        if !moved.any() {
            break;
        }
    }
    let mut out = [Moved { scale: zero, levels: [zero; N], restless: live[0] }; K];
    let half = lanes.splat(half as f32);
    for (k, out) in out.iter_mut().enumerate() {
        out.scale = (xl[k] / ll[k]).or(ll[k].gt(zero).and(live[k]), zero);
        out.restless = restless[k];
        for (stored, &level) in out.levels.iter_mut().zip(&levels[k]) {
            *stored = (level + half).or(live[k], zero);
        }
    }
    out
}

/// As [`search::positive`](crate::search::positive). Returns scales and levels.
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
        most = most.greater(x);
        bad = bad.or(zero.gt(x)).or(x.gt(greatest)).or(x.ne(x));
    }
    if bad.any() {
        return None;
    }
    let live = most.lt(lanes.splat(NOTHING)).not();
    let most = most.or(live, one);
    let mut inverse = lanes.splat(top as f32) / most;
    let mut best = positive_error(&rounding, x, w, one / inverse, inverse, zero);
    for step in (-4..=4).filter(|&step| step != 0) {
        let trial = lanes.splat(0.1 * step as f32 + top as f32) / most;
        let found = positive_error(&rounding, x, w, one / trial, trial, zero);
        let better = found.lt(best);
        best = found.or(better, best);
        inverse = trial.or(better, inverse);
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
                // A level that a byte does not hold would be another one in the next round.
                if accepted.and(better.lt(zero)).any() {
                    return None;
                }
                moved |= accepted.any();
                *level = better.or(accepted, *level);
                xl = other_xl.or(accepted, xl);
                ll = other_ll.or(accepted, ll);
            }
        }
        if !moved {
            break;
        }
    }
    let scale = (xl / ll).or(ll.gt(zero).and(live), zero);
    for level in &mut levels {
        *level = level.or(live, zero);
    }
    Some((scale, levels))
}

/// Σ w·x·l and Σ w·l² for the levels that a scale gives.
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

/// The weighted squared error of a scale.
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

/// Whether rounding is exact for a group whose least and greatest distance from the minimum are
/// these. Rounding and products keep order, so that all values between are in range as well.
#[inline(always)]
fn in_range<L: Lanes>(lanes: L, inverse: L::F, least: L::F, most: L::F) -> bool {
    let tame = lanes.splat(2_097_152.0);
    (inverse * least).abs().lt(tame).and((inverse * most).abs().lt(tame)).all()
}

/// The first value of the greatest magnitude, with its sign, or 1 where that counts as nothing; and
/// where it does not.
#[inline(always)]
fn extreme<L: Lanes, const N: usize>(lanes: L, x: &[L::F; N]) -> (L::F, <L::F as Floats>::Mask) {
    let mut extreme = lanes.splat(0.0);
    for &x in x {
        extreme = x.or(x.abs().gt(extreme.abs()), extreme);
    }
    let live = extreme.abs().lt(lanes.splat(NOTHING)).not();
    (extreme.or(live, lanes.splat(1.0)), live)
}
