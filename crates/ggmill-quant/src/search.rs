//! The search for scales: which scale, and which level for each value, keeps the weighted squared
//! error of a group small.
//!
//! Each function mirrors one search of the reference, operation by operation. Sums run in order,
//! one product at a time; nothing may be regrouped, for the last bit of a sum decides which
//! candidate wins.

use crate::numeric::{bounds, extreme, nearest};

/// Groups whose largest magnitude is below this count as all zero.
pub(crate) const NOTHING: f32 = 1e-15;

/// The sums whose quotient is the best scale for given levels: Σ w·x·l and Σ w·l².
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

    /// Whether this fit leaves less error than another: xl²/ll, compared without dividing.
    fn beats(self, other: Self) -> bool {
        self.xl * self.xl * other.ll > other.xl * other.xl * self.ll
    }

    fn scale_or_zero(self) -> f32 {
        if self.ll > 0.0 { self.xl / self.ll } else { 0.0 }
    }
}

/// Levels -`half`..`half` around zero, stored with `half` added: the scale of least error among
/// nineteen candidates near `-half / extreme`.
///
/// Without weights a value counts by its square.
pub(crate) fn symmetric(
    values: &[f32],
    half: i32,
    weights: Option<&[f32]>,
    levels: &mut [u8],
) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < NOTHING {
        levels.fill(0);
        return 0.0;
    }
    let level = |value: f32, inverse: f32| nearest(inverse * value).clamp(-half, half - 1);
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

/// Levels -`half`..`half` around zero, stored with `half` added: one scale, then up to five rounds
/// of moving single levels while that lowers the error. Values count by their squares.
pub(crate) fn symmetric_by_moves(values: &[f32], half: i32, levels: &mut [u8]) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < NOTHING {
        levels.fill(0);
        return 0.0;
    }
    let inverse = -(half as f32) / extreme;
    let mut fit = Fit::ZERO;
    for (stored, &value) in levels.iter_mut().zip(values) {
        let level = nearest(inverse * value).clamp(-half, half - 1);
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
                let better = nearest(value * other.ll / other.xl).clamp(-half, half - 1);
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

/// Levels 0..=`top` for values that are not negative (scales themselves, as a rule): nine
/// candidates, then up to five rounds of moving single levels.
pub(crate) fn positive(values: &[f32], top: i32, weights: &[f32], levels: &mut [u8]) -> f32 {
    let max = values.iter().fold(0.0, |max, &value| if max > value { max } else { value });
    if max < NOTHING {
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
    // The first candidate is judged by its levels as they are stored, in one byte, and not limited.
    let mut best = error(1.0 / inverse, &|value| i32::from(nearest(inverse * value) as u8));
    for step in (-4..=4).filter(|&step| step != 0) {
        let candidate = (0.1 * step as f32 + top as f32) / max;
        let found = error(1.0 / candidate, &|value| nearest(candidate * value).min(top));
        if found < best {
            best = found;
            inverse = candidate;
        }
    }
    let mut fit = Fit::ZERO;
    for ((stored, &value), &weight) in levels.iter_mut().zip(values).zip(weights) {
        let level = nearest(inverse * value).min(top);
        *stored = level as u8;
        fit.add(weight, value, level);
    }
    for _ in 0..5 {
        let mut moved = false;
        for ((stored, &value), &weight) in levels.iter_mut().zip(values).zip(weights) {
            let level = i32::from(*stored);
            let mut other = fit.without(weight, value, level);
            if other.xl > 0.0 && other.ll > 0.0 {
                let better = nearest(value * other.ll / other.xl).min(top);
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

/// How [`affine`] looks for a scale and a minimum.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    /// The first candidate's distance from the top level, in levels.
    pub(crate) first: f32,
    /// From one candidate to the next.
    pub(crate) width: f32,
    /// The number of the last candidate, counted from 0.
    pub(crate) last: i32,
    /// Whether errors count as they are instead of squared.
    pub(crate) absolute: bool,
}

/// A scale and what is subtracted after scaling (never negative): value ≈ `scale` · level - `min`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Affine {
    pub(crate) scale: f32,
    pub(crate) min: f32,
}

/// Levels 0..=`top` over a minimum that is at most zero: each candidate scale assigns levels, least
/// squares then give the scale and the minimum for them.
///
/// At most 32 values, and not none.
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
            *stored = nearest(inverse * (value - min)).clamp(0, top) as u8;
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
    let mut room = [0; 32];
    let trial = &mut room[..values.len()];
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
