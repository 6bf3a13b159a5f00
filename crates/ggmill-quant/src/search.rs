//! Searches for the scale and the level of each value that minimize the weighted squared error of a
//! group.
//!
//! Each function repeats one search of the reference, operation by operation. Sums are added in
//! order, one product at a time, and must not be regrouped: the last bit of a sum can decide which
//! candidate wins.

use crate::numeric::{bounds, extreme, nearest_int};

/// Groups whose greatest magnitude is below this are treated as zero.
pub(crate) const GROUP_MAX_EPS: f32 = 1e-15;

/// Σ w·x·l and Σ w·l², whose quotient is the best scale for the levels l.
#[derive(Clone, Copy)]
struct Fit {
    xl: f32,
    ll: f32,
}

impl Fit {
    const ZERO: Self = Self { xl: 0.0, ll: 0.0 };

    fn add(&mut self, weight: f32, value: f32, level: i32) {
        let level = level as f32;
        self.xl += weight * value * level;
        self.ll += weight * level * level;
    }

    fn without(self, weight: f32, value: f32, level: i32) -> Self {
        let level = level as f32;
        Self { xl: self.xl - weight * value * level, ll: self.ll - weight * level * level }
    }

    /// Returns `true` if this fit has a smaller error than `other`: the greater xl²/ll, compared
    /// without dividing.
    fn beats(self, other: Self) -> bool {
        self.xl * self.xl * other.ll > other.xl * other.xl * self.ll
    }

    fn scale_or_zero(self) -> f32 {
        if self.ll > 0.0 { self.xl / self.ll } else { 0.0 }
    }
}

/// Finds levels `-half..half`, stored with `half` added, and returns their scale: the best of
/// nineteen candidates near `-half / extreme`.
///
/// Without weights, the weight of a value is its square.
pub(crate) fn symmetric(
    values: &[f32],
    half: i32,
    weights: Option<&[f32]>,
    levels: &mut [u8],
) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < GROUP_MAX_EPS {
        levels.fill(0);
        return 0.0;
    }
    let level = |value: f32, inverse: f32| nearest_int(inverse * value).clamp(-half, half - 1);
    let weight = |index: usize| {
        weights.map_or_else(|| values[index] * values[index], |weights| weights[index])
    };
    let fit = |inverse: f32| {
        let mut fit = Fit::ZERO;
        for (index, &value) in values.iter().enumerate() {
            fit.add(weight(index), value, level(value, inverse));
        }
        fit
    };
    let fill = |levels: &mut [u8], inverse: f32| {
        for (stored, &value) in levels.iter_mut().zip(values) {
            *stored = (level(value, inverse) + half) as u8;
        }
    };

    let inverse = -(half as f32) / extreme;
    fill(levels, inverse);
    let first = fit(inverse);
    let mut scale = if first.ll == 0.0 { 0.0 } else { first.xl / first.ll };
    let mut best = scale * first.xl;
    for step in (-9..=9).filter(|&step| step != 0) {
        let inverse = -(half as f32 + 0.1 * step as f32) / extreme;
        let candidate = fit(inverse);
        if candidate.ll > 0.0 && candidate.xl * candidate.xl > best * candidate.ll {
            fill(levels, inverse);
            scale = candidate.xl / candidate.ll;
            best = scale * candidate.xl;
        }
    }
    scale
}

/// Finds levels `-half..half`, stored with `half` added, and returns their scale. Starts from one
/// scale, then changes single levels in up to five rounds while that lowers the error. The weight
/// of a value is its square.
pub(crate) fn symmetric_by_moves(values: &[f32], half: i32, levels: &mut [u8]) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < GROUP_MAX_EPS {
        levels.fill(0);
        return 0.0;
    }
    let inverse = -(half as f32) / extreme;
    let mut fit = Fit::ZERO;
    for (stored, &value) in levels.iter_mut().zip(values) {
        let level = nearest_int(inverse * value).clamp(-half, half - 1);
        fit.add(value * value, value, level);
        *stored = (level + half) as u8;
    }
    for _ in 0..5 {
        let mut moved = false;
        for (stored, &value) in levels.iter_mut().zip(values) {
            let weight = value * value;
            let level = i32::from(*stored) - half;
            let mut other = fit.without(weight, value, level);
            if other.xl > 0.0 {
                let better = nearest_int(value * other.ll / other.xl).clamp(-half, half - 1);
                if better != level {
                    other.add(weight, value, better);
                    if other.ll > 0.0 && other.beats(fit) {
                        *stored = (better + half) as u8;
                        fit = other;
                        moved = true;
                    }
                }
            }
        }
        if !moved {
            break;
        }
    }
    fit.scale_or_zero()
}

/// Finds levels `0..=top` for values that are not negative (usually scales) and returns their
/// scale: the best of nine candidates, then up to five rounds of changing single levels.
pub(crate) fn positive(values: &[f32], top: i32, weights: &[f32], levels: &mut [u8]) -> f32 {
    let max = values.iter().fold(0.0, |max, &value| if max > value { max } else { value });
    if max < GROUP_MAX_EPS {
        levels.fill(0);
        return 0.0;
    }
    let error = |scale: f32, level: &dyn Fn(f32) -> i32| {
        values.iter().zip(weights).fold(0.0, |error, (&value, &weight)| {
            let diff = value - scale * level(value) as f32;
            error + weight * diff * diff
        })
    };
    let mut inverse = top as f32 / max;
    // The reference judges the first candidate by its levels truncated to a byte, without clamping.
    let mut best = error(1.0 / inverse, &|value| i32::from(nearest_int(inverse * value) as u8));
    for step in (-4..=4).filter(|&step| step != 0) {
        let candidate = (0.1 * step as f32 + top as f32) / max;
        let found = error(1.0 / candidate, &|value| nearest_int(candidate * value).min(top));
        if found < best {
            best = found;
            inverse = candidate;
        }
    }
    let mut fit = Fit::ZERO;
    for ((stored, &value), &weight) in levels.iter_mut().zip(values).zip(weights) {
        let level = nearest_int(inverse * value).min(top);
        *stored = level as u8;
        fit.add(weight, value, level);
    }
    for _ in 0..5 {
        let mut moved = false;
        for ((stored, &value), &weight) in levels.iter_mut().zip(values).zip(weights) {
            let level = i32::from(*stored);
            let mut other = fit.without(weight, value, level);
            if other.xl > 0.0 && other.ll > 0.0 {
                let better = nearest_int(value * other.ll / other.xl).min(top);
                if better != level {
                    other.add(weight, value, better);
                    if other.beats(fit) {
                        *stored = better as u8;
                        fit = other;
                        moved = true;
                    }
                }
            }
        }
        if !moved {
            break;
        }
    }
    fit.scale_or_zero()
}

/// The candidates that [`affine`] tries.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// The distance of the first candidate from the top level, in levels.
    pub(crate) first: f32,
    /// The distance between candidates, in levels.
    pub(crate) width: f32,
    /// The index of the last candidate, from 0.
    pub(crate) last: i32,
    /// If true, minimizes the sum of absolute errors instead of squared errors.
    pub(crate) absolute: bool,
}

/// A scale and a minimum, which is never negative: value ≈ `scale` · level - `min`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Affine {
    pub(crate) scale: f32,
    pub(crate) min: f32,
}

/// Finds levels `0..=top` above a minimum that is at most zero. Each candidate scale assigns
/// levels, for which least squares give the scale and the minimum.
///
/// There must be 1 to 32 values.
pub(crate) fn affine(
    values: &[f32],
    top: i32,
    weights: &[f32],
    steps: Steps,
    levels: &mut [u8],
) -> Affine {
    let (min, max) = bounds(values);
    let mut sum_w = weights[0];
    let mut sum_x = sum_w * values[0];
    for (&value, &weight) in values.iter().zip(weights).skip(1) {
        sum_w += weight;
        sum_x += weight * value;
    }
    let mut min = if min > 0.0 { 0.0 } else { min };
    if max <= min {
        levels.fill(0);
        return Affine { scale: 0.0, min: -min };
    }
    let assign = |levels: &mut [u8], inverse: f32, min: f32| {
        for (stored, &value) in levels.iter_mut().zip(values) {
            *stored = nearest_int(inverse * (value - min)).clamp(0, top) as u8;
        }
    };
    let error = |levels: &[u8], scale: f32, min: f32| {
        values.iter().zip(weights).zip(levels).fold(0.0, |error, ((&value, &weight), &level)| {
            let diff = scale * f32::from(level) + min - value;
            error + weight * if steps.absolute { diff.abs() } else { diff * diff }
        })
    };

    let inverse = top as f32 / (max - min);
    let mut scale = 1.0 / inverse;
    assign(levels, inverse, min);
    let mut best = error(levels, scale, min);
    let mut buffer = [0; 32];
    let trial = &mut buffer[..values.len()];
    for step in 0..=steps.last {
        // The candidates start from the best minimum so far, not from the least value.
        assign(trial, (steps.first + steps.width * step as f32 + top as f32) / (max - min), min);
        let (mut sum_l, mut sum_ll, mut products) = (0.0, 0.0, 0.0);
        for ((&value, &weight), &level) in values.iter().zip(weights).zip(trial.iter()) {
            let level = f32::from(level);
            sum_l += weight * level;
            sum_ll += weight * level * level;
            products += weight * level * value;
        }
        let determinant = sum_w * sum_ll - sum_l * sum_l;
        if determinant > 0.0 {
            let mut this_scale = (sum_w * products - sum_x * sum_l) / determinant;
            let mut this_min = (sum_ll * sum_x - sum_l * products) / determinant;
            if this_min > 0.0 {
                this_min = 0.0;
                this_scale = products / sum_ll;
            }
            let found = error(trial, this_scale, this_min);
            if found < best {
                levels.copy_from_slice(trial);
                best = found;
                scale = this_scale;
                min = this_min;
            }
        }
    }
    Affine { scale, min: -min }
}
