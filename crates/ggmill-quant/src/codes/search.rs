//! The choice of the scale and the codes of a group, in 16 rows at a time.
//!
//! The metric of a group of weights is an upper triangular matrix *U*: an error *x* loses *|x U⁻¹|²*. Columns
//! are rounded in order, and the columns after each make up for its error. All sums are in a fixed order and
//! without fused operations, so that the result does not depend on the instruction set.

#![allow(
    clippy::inline_always,
    reason = "vector code is fast only when inlined into the function compiled for its instructions"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "loops over rows of several arrays become vector instructions"
)]
#![allow(clippy::float_cmp, reason = "units are copied, not computed")]

use super::{Alphabet, Codes, Units};
use crate::float16::{f16_to_f32, f32_to_f16};
use crate::isa::Isa;
use crate::lanes::{Lanes, MAGIC, Work};

/// LLVM 21 cannot compile these loops for AVX-512 ("Cannot emit physreg copy instruction" in a release build),
/// and would use vectors of 256 bits anyway.
const USES_AVX512: bool = false;

/// The number of rows that are searched together.
pub(super) const ROWS: usize = 16;

/// A number for each of 16 rows.
pub type PerRow<T = f32> = [T; ROWS];

/// The scales and codes of a group in each of 16 rows.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "callers make it")]
pub struct GroupChoice {
    /// The scale and the minimum of the block.
    pub supers: [PerRow; 2],
    /// The level of the scale of the group.
    pub scales: PerRow<u16>,
    /// The level of its minimum.
    pub mins: PerRow<u16>,
    /// The unit of each weight.
    pub units: Vec<PerRow>,
    /// The value of each weight.
    pub values: Vec<PerRow>,
    /// The errors, divided by the diagonal of the metric, for which later columns make up.
    pub errors: Vec<PerRow>,
    /// The loss of the group.
    pub losses: PerRow,
}

impl GroupChoice {
    /// Returns a choice for a group of `len` weights, with an infinite loss.
    pub fn new(len: usize) -> Self {
        let zeros = || vec![[0.0; ROWS]; len];
        Self {
            supers: [[0.0; ROWS]; 2],
            scales: [0; ROWS],
            mins: [0; ROWS],
            units: zeros(),
            values: zeros(),
            errors: zeros(),
            losses: [f32::INFINITY; ROWS],
        }
    }

    /// Replaces rows by those of another choice with a smaller loss.
    #[inline(always)]
    fn improve(&mut self, other: &Self) {
        let mut better = [false; ROWS];
        for row in 0..ROWS {
            better[row] = other.losses[row] < self.losses[row];
        }
        if !better.contains(&true) {
            return;
        }
        for row in 0..ROWS {
            if better[row] {
                self.losses[row] = other.losses[row];
                self.scales[row] = other.scales[row];
                self.mins[row] = other.mins[row];
                self.supers[0][row] = other.supers[0][row];
                self.supers[1][row] = other.supers[1][row];
            }
        }
        select(&better, &other.units, &mut self.units);
        select(&better, &other.values, &mut self.values);
        select(&better, &other.errors, &mut self.errors);
    }
}

#[inline(always)]
fn select(rows: &PerRow<bool>, from: &[PerRow], to: &mut [PerRow]) {
    for (from, to) in from.iter().zip(to) {
        for row in 0..ROWS {
            to[row] = if rows[row] { from[row] } else { to[row] };
        }
    }
}

/// The buffers for choosing the scale and the codes of groups.
#[derive(Debug)]
pub struct GroupSearch<'c> {
    codes: &'c Codes,
    isa: Isa,
    /// The weights, which make up for the errors so far.
    rest: Vec<PerRow>,
    trial: GroupChoice,
    /// The products of units, and of ones, with *U⁻¹*: the losses that they cause.
    units: Vec<PerRow>,
    ones: Vec<f32>,
    gradient: Vec<PerRow>,
}

impl<'c> GroupSearch<'c> {
    /// Returns buffers for the groups of a type.
    pub fn new(codes: &'c Codes, isa: Isa) -> Self {
        let group = codes.group;
        let zeros = || vec![[0.0; ROWS]; group];
        Self {
            codes,
            isa,
            rest: zeros(),
            trial: GroupChoice::new(group),
            units: zeros(),
            ones: vec![0.0; group],
            gradient: zeros(),
        }
    }

    /// Tries scales around that of `best`, and replaces rows of it that lose more. `upper` is the metric by
    /// rows. `steps` are distances from the level of the scale, or from the scale itself if it is
    /// [free](Codes::has_free_scales), in hundredths of it.
    ///
    /// # Panics
    ///
    /// If a slice has not the length of the group.
    pub fn choose(
        &mut self,
        target: &[PerRow],
        upper: &[f32],
        steps: &[i16],
        best: &mut GroupChoice,
    ) {
        assert_eq!((target.len(), upper.len()), (self.codes.group, self.codes.group.pow(2)));
        self.isa.run(Choose { search: self, target, upper, steps, best });
    }

    /// Changes single codes where that lowers the loss. `hessian` is the square of the inverse of the metric.
    ///
    /// # Panics
    ///
    /// If a slice has not the length of the group.
    pub fn descend(&mut self, target: &[PerRow], hessian: &[f32], best: &mut GroupChoice) {
        assert_eq!((target.len(), hessian.len()), (self.codes.group, self.codes.group.pow(2)));
        self.isa.run(Descend { search: self, target, hessian, best });
    }
}

/// Subtracts from each column `j` of `out` the products of `factors` with column `j` of a matrix, whose rows
/// are `stride` apart.
pub fn subtract_products(
    isa: Isa,
    factors: &[PerRow],
    matrix: &[f32],
    stride: usize,
    out: &mut [PerRow],
) {
    isa.run(Subtract { factors, matrix, stride, out });
}

struct Subtract<'a> {
    factors: &'a [PerRow],
    matrix: &'a [f32],
    stride: usize,
    out: &'a mut [PerRow],
}

impl Work for Subtract<'_> {
    const USES_AVX512: bool = USES_AVX512;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { factors, matrix, stride, out } = self;
        let (fours, rest) = out.as_chunks_mut::<4>();
        for (number, out) in fours.iter_mut().enumerate() {
            let mut sums = *out;
            for (factor, row) in factors.iter().zip(matrix.chunks(stride)) {
                let Some(values) = row[4 * number..].first_chunk::<4>() else { continue };
                for (sum, value) in sums.iter_mut().zip(values) {
                    for row in 0..ROWS {
                        sum[row] -= factor[row] * value;
                    }
                }
            }
            *out = sums;
        }
        let first = 4 * fours.len();
        for (column, sum) in (first..).zip(rest) {
            for (factor, values) in factors.iter().zip(matrix.chunks(stride)) {
                for row in 0..ROWS {
                    sum[row] -= factor[row] * values[column];
                }
            }
        }
    }
}

struct Choose<'a, 'c> {
    search: &'a mut GroupSearch<'c>,
    target: &'a [PerRow],
    upper: &'a [f32],
    steps: &'a [i16],
    best: &'a mut GroupChoice,
}

impl Work for Choose<'_, '_> {
    const USES_AVX512: bool = USES_AVX512;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { search, target, upper, steps, best } = self;
        let GroupSearch { codes, rest, trial, units, ones, .. } = search;
        let has_mins = !codes.mins.factors.is_empty();
        let is_free = codes.has_free_scales();
        if has_mins {
            solve_ones(upper, ones);
        }
        let shifts = match &codes.alphabet {
            Alphabet::Points(points) if !points.shifts_cells => points.shifts(),
            _ => 1,
        };
        let (scales, mins, supers) = (best.scales, best.mins, best.supers);
        for &step in steps {
            for shift in 0..shifts {
                (trial.scales, trial.mins, trial.supers) = (scales, mins, supers);
                if is_free {
                    let factor = 1.0 + 0.01 * f32::from(step);
                    for row in 0..ROWS {
                        trial.supers[0][row] = rounded(supers[0][row] * factor);
                    }
                } else {
                    let last = (codes.scales.factors.len() - 1) as u16;
                    for row in 0..ROWS {
                        trial.scales[row] = scales[row].saturating_add_signed(step).min(last);
                    }
                }
                fit(codes, target, upper, shift, rest, trial);
                best.improve(trial);
                if is_free {
                    refit(target, upper, has_mins.then_some(ones.as_slice()), rest, units, trial);
                    best.improve(trial);
                } else if has_mins {
                    better_mins(codes, ones, trial);
                    fit(codes, target, upper, shift, rest, trial);
                    best.improve(trial);
                }
            }
        }
    }
}

/// Returns the nearest number of half precision.
#[inline(always)]
fn rounded(value: f32) -> f32 {
    f16_to_f32(f32_to_f16(value))
}

/// Returns the scales and minima of a group.
#[inline(always)]
fn affine(codes: &Codes, choice: &GroupChoice) -> [PerRow; 2] {
    let mut out = choice.supers;
    for row in 0..ROWS {
        out[0][row] *= codes.scales.factors[usize::from(choice.scales[row])];
        out[1][row] = match codes.mins.factors.get(usize::from(choice.mins[row])) {
            Some(factor) => out[1][row] * factor,
            None => 0.0,
        };
    }
    out
}

/// Chooses the units for the scales of `choice`, with feedback of the errors.
#[inline(always)]
fn fit(
    codes: &Codes,
    target: &[PerRow],
    upper: &[f32],
    shift: usize,
    rest: &mut [PerRow],
    choice: &mut GroupChoice,
) {
    let [scales, mins] = affine(codes, choice);
    let mut inverses = [0.0; ROWS];
    for row in 0..ROWS {
        inverses[row] = if scales[row] == 0.0 { 0.0 } else { 1.0 / scales[row] };
    }
    rest.copy_from_slice(target);
    choice.losses = [0.0; ROWS];
    let len = target.len();
    let mut column = 0;
    while column < len {
        match &codes.alphabet {
            Alphabet::Units(units) => {
                let mut x = rest[column];
                for row in 0..ROWS {
                    x[row] = (x[row] - mins[row]) * inverses[row];
                }
                choice.units[column] = units.nearest(&x);
                feed_back(column, &scales, &mins, upper, rest, choice);
                column += 1;
            }
            Alphabet::Points(points) => {
                let (mut x, mut weights) = ([[0.0; ROWS]; 8], [0.0; 8]);
                for place in 0..8 {
                    let diagonal = upper[(column + place) * len + column + place];
                    weights[place] = 1.0 / (diagonal * diagonal);
                    for row in 0..ROWS {
                        x[place][row] = rest[column + place][row] * inverses[row];
                    }
                }
                let mut units = [[0.0; ROWS]; 8];
                points.nearest(&x, &weights, shift, &mut units);
                choice.units[column..column + 8].copy_from_slice(&units);
                for _ in 0..8 {
                    feed_back(column, &scales, &mins, upper, rest, choice);
                    column += 1;
                }
            }
        }
    }
}

/// Sets the value and the error of a column, and changes the columns after it.
#[inline(always)]
fn feed_back(
    column: usize,
    scales: &PerRow,
    mins: &PerRow,
    upper: &[f32],
    rest: &mut [PerRow],
    choice: &mut GroupChoice,
) {
    let len = rest.len();
    let of_column = &upper[column * len..(column + 1) * len];
    let inverse = 1.0 / of_column[column];
    let units = choice.units[column];
    let (mut values, mut errors) = ([0.0; ROWS], [0.0; ROWS]);
    for row in 0..ROWS {
        values[row] = scales[row] * units[row] + mins[row];
        errors[row] = (rest[column][row] - values[row]) * inverse;
        choice.losses[row] += errors[row] * errors[row];
    }
    choice.values[column] = values;
    choice.errors[column] = errors;
    for (rest, factor) in rest[column + 1..].iter_mut().zip(&of_column[column + 1..]) {
        for row in 0..ROWS {
            rest[row] -= errors[row] * factor;
        }
    }
}

/// Computes the product of ones with the inverse of the metric.
#[inline(always)]
fn solve_ones(upper: &[f32], ones: &mut [f32]) {
    let len = ones.len();
    ones.fill(1.0);
    for column in 0..len {
        let of_column = &upper[column * len..(column + 1) * len];
        let value = ones[column] / of_column[column];
        ones[column] = value;
        for (one, factor) in ones[column + 1..].iter_mut().zip(&of_column[column + 1..]) {
            *one -= value * factor;
        }
    }
}

/// Changes the levels of the minima to those that suit the units best.
#[inline(always)]
fn better_mins(codes: &Codes, ones: &[f32], choice: &mut GroupChoice) {
    let square: f32 = ones.iter().map(|one| one * one).sum();
    let mut sums = [0.0; ROWS];
    for (errors, one) in choice.errors.iter().zip(ones) {
        for row in 0..ROWS {
            sums[row] += errors[row] * one;
        }
    }
    let factors = &codes.mins.factors;
    let last = factors.len() - 1;
    for row in 0..ROWS {
        let of_block = choice.supers[1][row];
        if of_block != 0.0 {
            // Levels are successive integers.
            let change = sums[row] / square / of_block;
            let level = f32::from(choice.mins[row]) + change;
            choice.mins[row] = level.clamp(0.0, last as f32).round_ties_even() as u16;
        }
    }
}

/// Changes free scales, and minima, to those that suit the units best.
#[inline(always)]
fn refit(
    target: &[PerRow],
    upper: &[f32],
    ones: Option<&[f32]>,
    rest: &mut [PerRow],
    units: &mut [PerRow],
    choice: &mut GroupChoice,
) {
    let len = target.len();
    rest.copy_from_slice(&choice.units);
    for column in 0..len {
        let of_column = &upper[column * len..(column + 1) * len];
        let inverse = 1.0 / of_column[column];
        for row in 0..ROWS {
            units[column][row] = rest[column][row] * inverse;
        }
        for (rest, factor) in rest[column + 1..].iter_mut().zip(&of_column[column + 1..]) {
            for row in 0..ROWS {
                rest[row] -= units[column][row] * factor;
            }
        }
    }
    // The normal equations of the changes of the scale and the minimum.
    let (mut uu, mut ue, mut uo, mut oe) = ([0.0; ROWS], [0.0; ROWS], [0.0; ROWS], [0.0; ROWS]);
    let mut oo = 0.0;
    for (column, (units, errors)) in units.iter().zip(&choice.errors).enumerate() {
        let one = ones.map_or(0.0, |ones| ones[column]);
        oo += one * one;
        for row in 0..ROWS {
            uu[row] += units[row] * units[row];
            ue[row] += units[row] * errors[row];
            uo[row] += units[row] * one;
            oe[row] += one * errors[row];
        }
    }
    let mut changes = [[0.0; ROWS]; 2];
    for row in 0..ROWS {
        let determinant = uu[row] * oo - uo[row] * uo[row];
        let [scale, min] = if determinant > 1e-4 * uu[row] * oo {
            let scale = (ue[row] * oo - oe[row] * uo[row]) / determinant;
            [scale, (oe[row] * uu[row] - ue[row] * uo[row]) / determinant]
        } else {
            [if uu[row] > 0.0 { ue[row] / uu[row] } else { 0.0 }, 0.0]
        };
        for (number, by) in [scale, min].into_iter().enumerate() {
            let before = choice.supers[number][row];
            let after = rounded(before + by);
            choice.supers[number][row] = after;
            changes[number][row] = after - before;
        }
    }
    choice.losses = [0.0; ROWS];
    for column in 0..len {
        let one = ones.map_or(0.0, |ones| ones[column]);
        for row in 0..ROWS {
            let error = choice.errors[column][row]
                - changes[0][row] * units[column][row]
                - changes[1][row] * one;
            choice.errors[column][row] = error;
            choice.losses[row] += error * error;
            choice.values[column][row] =
                choice.supers[0][row] * choice.units[column][row] + choice.supers[1][row];
        }
    }
}

struct Descend<'a, 'c> {
    search: &'a mut GroupSearch<'c>,
    target: &'a [PerRow],
    hessian: &'a [f32],
    best: &'a mut GroupChoice,
}

/// The number of passes over the codes of a group.
const PASSES: usize = 2;

impl Work for Descend<'_, '_> {
    const USES_AVX512: bool = USES_AVX512;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { search, target, hessian, best } = self;
        let GroupSearch { codes, gradient, .. } = search;
        let cell = match &codes.alphabet {
            Alphabet::Units(_) => 1,
            // The shift of a group would have to stay.
            Alphabet::Points(points) if points.shifts() > 1 && !points.shifts_cells => return,
            Alphabet::Points(_) => 8,
        };
        let len = target.len();
        gradient.fill([0.0; ROWS]);
        for column in 0..len {
            let mut errors = target[column];
            for row in 0..ROWS {
                errors[row] -= best.values[column][row];
            }
            for (gradient, factor) in gradient.iter_mut().zip(&hessian[column * len..][..len]) {
                for row in 0..ROWS {
                    gradient[row] += errors[row] * factor;
                }
            }
        }
        let [scales, mins] = affine(codes, best);
        let mut inverses = [0.0; ROWS];
        for row in 0..ROWS {
            inverses[row] = if scales[row] == 0.0 { 0.0 } else { 1.0 / scales[row] };
        }
        for _ in 0..PASSES {
            let mut is_changed = false;
            for first in (0..len).step_by(cell) {
                let (mut x, mut curvatures) = ([[0.0; ROWS]; 8], [0.0; 8]);
                for place in 0..cell {
                    let column = first + place;
                    curvatures[place] = hessian[column * len + column];
                    let inverse = 1.0 / curvatures[place];
                    for row in 0..ROWS {
                        let wanted = best.values[column][row] + gradient[column][row] * inverse;
                        x[place][row] = (wanted - mins[row]) * inverses[row];
                    }
                }
                let mut found = [[0.0; ROWS]; 8];
                match &codes.alphabet {
                    Alphabet::Units(units) => found[0] = units.nearest(&x[0]),
                    Alphabet::Points(points) => points.nearest(&x, &curvatures, 0, &mut found),
                }
                // The change of the loss, halved.
                let mut gains = [0.0; ROWS];
                let mut changes = [[0.0; ROWS]; 8];
                for place in 0..cell {
                    let column = first + place;
                    for row in 0..ROWS {
                        let value = scales[row] * found[place][row] + mins[row];
                        changes[place][row] = value - best.values[column][row];
                    }
                    let mut product = gradient[column];
                    for before in 0..=place {
                        let factor = hessian[column * len + first + before];
                        let factor = if before == place { 0.5 * factor } else { factor };
                        for row in 0..ROWS {
                            product[row] -= factor * changes[before][row];
                        }
                    }
                    for row in 0..ROWS {
                        gains[row] += product[row] * changes[place][row];
                    }
                }
                let (mut better, mut any) = ([false; ROWS], false);
                for row in 0..ROWS {
                    better[row] = gains[row] > 0.0;
                    any |= better[row];
                }
                if !any {
                    continue;
                }
                let mut is_different = false;
                for place in 0..cell {
                    let column = first + place;
                    for row in 0..ROWS {
                        let is_new = better[row] && found[place][row] != best.units[column][row];
                        is_different |= is_new;
                        let change = if is_new { changes[place][row] } else { 0.0 };
                        changes[place][row] = change;
                        best.values[column][row] += change;
                        best.units[column][row] =
                            if is_new { found[place][row] } else { best.units[column][row] };
                    }
                }
                if !is_different {
                    continue;
                }
                is_changed = true;
                for place in 0..cell {
                    let of_column = &hessian[(first + place) * len..][..len];
                    for (gradient, factor) in gradient.iter_mut().zip(of_column) {
                        for row in 0..ROWS {
                            gradient[row] -= changes[place][row] * factor;
                        }
                    }
                }
            }
            if !is_changed {
                break;
            }
        }
    }
}

impl Units {
    /// Returns the nearest unit of each number.
    #[inline(always)]
    fn nearest(&self, x: &PerRow) -> PerRow {
        let mut found = [self.units[0]; ROWS];
        if self.are_integers {
            let (low, high) = (self.units[0], self.units[self.units.len() - 1]);
            for row in 0..ROWS {
                let value = if x[row] > low { x[row] } else { low };
                let value = if value < high { value } else { high };
                found[row] = value + MAGIC - MAGIC;
            }
        } else {
            for (border, unit) in self.borders.iter().zip(&self.units[1..]) {
                for row in 0..ROWS {
                    found[row] = if x[row] > *border { *unit } else { found[row] };
                }
            }
        }
        found
    }
}
