//! Types whose weights share points of a grid, eight weights at a time.

#![allow(
    clippy::inline_always,
    reason = "vector code is fast only when inlined into the function compiled for its instructions"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "loops over rows of several arrays become vector instructions"
)]
#![allow(clippy::float_cmp, reason = "units and signs are copied, not computed")]

use ggmill_core::GgmlType;

use super::fields::{Part, SECOND, SIGNS};
use super::search::{PerRow, ROWS};
use crate::error::Result;

/// The points that eight weights, or twice four, can have.
#[derive(Debug)]
pub(super) struct Points {
    /// The number of weights of a point: 4 or 8.
    pub(super) dimensions: usize,
    /// The values of the levels, ascending: as they are, and shifted down if the type has that.
    levels: Vec<Vec<f32>>,
    /// The levels of the first and the second half of each point, as the digits of a number.
    halves: Vec<[u8; 2]>,
    /// The index of each combination of levels.
    indices: Vec<u16>,
    signs: Signs,
    /// `true` if eight weights are shifted on their own, not a group together.
    pub(super) shifts_cells: bool,
}

/// The signs of eight weights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Signs {
    /// The levels have signs.
    None,
    /// An even number of weights is negative.
    Even,
    Any,
}

/// Returns the number of weights that have one code: eight, or one.
pub(super) fn cell_len(ggml_type: GgmlType) -> usize {
    use GgmlType as T;
    match ggml_type {
        T::IQ2_XXS | T::IQ2_XS | T::IQ2_S | T::IQ3_XXS | T::IQ3_S | T::IQ1_S | T::IQ1_M => 8,
        _ => 1,
    }
}

/// The combinations of levels of half a point.
const MAX_HALVES: usize = 81;

/// Decodes a block with some numbers and the codes of its cells.
type Decoded<'a> = &'a dyn Fn(&[(Part, u32)], &dyn Fn(usize) -> u32) -> Result<Vec<f32>>;

impl Points {
    /// Returns the points of a type, whose units `values` decodes; `None` if each weight has its own code.
    pub(super) fn of(ggml_type: GgmlType, values: Decoded<'_>) -> Result<Option<Self>> {
        use GgmlType as T;
        let (dimensions, bits, signs) = match ggml_type {
            T::IQ2_XXS => (8, 8, Signs::Even),
            T::IQ2_XS => (8, 9, Signs::Even),
            T::IQ2_S => (8, 10, Signs::Any),
            T::IQ3_XXS => (4, 8, Signs::Even),
            T::IQ3_S => (4, 9, Signs::Any),
            T::IQ1_S | T::IQ1_M => (8, 11, Signs::None),
            _ => return Ok(None),
        };
        let is_shifted = signs == Signs::None;
        let mut of_shifts = Vec::new();
        for down in 0..=u32::from(is_shifted) {
            let mut points = Vec::new();
            while points.len() < 1 << bits {
                // Each cell of the block has another point.
                let code = |cell| (points.len() + cell) as u32 & ((1 << bits) - 1) | down << SIGNS;
                let groups = if ggml_type == T::IQ1_S { 0..8 } else { 0..0 };
                let shift: Vec<_> = groups.map(|group| (Part::Min(group), down)).collect();
                let decoded = values(&shift, &code)?;
                points.extend(decoded.chunks_exact(8).map(|units| units[..dimensions].to_vec()));
            }
            of_shifts.push(points);
        }
        let levels: Vec<Vec<f32>> = of_shifts
            .iter()
            .map(|points| {
                let mut levels = points.concat();
                levels.sort_by(f32::total_cmp);
                levels.dedup();
                levels
            })
            .collect();
        let number = |values: &[f32]| digits(&levels[0], values);
        let points = &of_shifts[0];
        let mut indices = vec![0; levels[0].len().pow(dimensions as u32)];
        for (index, point) in points.iter().enumerate() {
            indices[number(point)] = index as u16;
        }
        let halves = points.iter().map(|point| {
            let (first, second) = point.split_at(dimensions / 2);
            [number(first) as u8, number(second) as u8]
        });
        let halves = halves.collect();
        let shifts_cells = ggml_type == T::IQ1_M;
        Ok(Some(Self { dimensions, levels, halves, indices, signs, shifts_cells }))
    }

    /// Returns the number of shifts.
    pub(super) fn shifts(&self) -> usize {
        self.levels.len()
    }

    /// Returns the code of eight weights with these units, without a shift, and whether they are shifted
    /// down.
    pub(super) fn code(&self, units: &[f32; 8]) -> (u32, bool) {
        let signs =
            (0..).zip(units).fold(0, |signs, (i, unit)| signs | u32::from(*unit < 0.0) << i);
        let is_down = self.levels.len() > 1 && self.levels[1].contains(&units[0]);
        let levels = &self.levels[usize::from(is_down)];
        let index = |units: &[f32]| {
            let point: Vec<f32> = match self.signs {
                Signs::None => units.to_vec(),
                _ => units.iter().map(|unit| unit.abs()).collect(),
            };
            u32::from(self.indices[digits(levels, &point)])
        };
        let code = match self.dimensions {
            4 => index(&units[..4]) | index(&units[4..]) << SECOND,
            _ => index(units),
        };
        (if self.signs == Signs::None { code } else { code | signs << SIGNS }, is_down)
    }

    /// Chooses the units of eight weights in each of 16 rows: the point nearest to `x`, with squared errors
    /// weighted by `weights`. `shift` is the shift of the group.
    #[inline(always)]
    pub(super) fn nearest(
        &self,
        x: &[PerRow; 8],
        weights: &[f32; 8],
        shift: usize,
        units: &mut [PerRow; 8],
    ) {
        let mut magnitudes = *x;
        let mut signs = [[1.0; ROWS]; 8];
        if self.signs != Signs::None {
            self.split_signs(&mut magnitudes, &mut signs, weights);
        }
        let mut tables = [[[0.0; ROWS]; MAX_HALVES]; 2];
        let shifts = if self.shifts_cells { 0..self.levels.len() } else { shift..shift + 1 };
        for start in (0..8).step_by(self.dimensions) {
            let (mut least, mut found) = ([f32::INFINITY; ROWS], [0.0; ROWS]);
            let mut index = 0.0;
            for shift in shifts.clone() {
                let half = self.dimensions / 2;
                for (number, table) in tables.iter_mut().enumerate() {
                    let first = start + number * half;
                    fill(
                        &magnitudes[first..first + half],
                        &weights[first..first + half],
                        &self.levels[shift],
                        table,
                    );
                }
                for &[first, second] in &self.halves {
                    let (a, b) = (&tables[0][usize::from(first)], &tables[1][usize::from(second)]);
                    for row in 0..ROWS {
                        let loss = a[row] + b[row];
                        let better = loss < least[row];
                        least[row] = if better { loss } else { least[row] };
                        found[row] = if better { index } else { found[row] };
                    }
                    index += 1.0;
                }
            }
            for row in 0..ROWS {
                // The index counts the points of all shifts.
                let (index, count) = (found[row] as usize, self.halves.len());
                let [first, second] = self.halves[index % count];
                let levels = &self.levels[shifts.start + index / count];
                let mut digits = [usize::from(first), usize::from(second)];
                for place in 0..self.dimensions {
                    let rest = &mut digits[place / (self.dimensions / 2)];
                    let level = levels[*rest % levels.len()];
                    *rest /= levels.len();
                    units[start + place][row] = level * signs[start + place][row];
                }
            }
        }
    }

    /// Replaces numbers by their magnitudes. If the signs must be even and are not, the sign of the number
    /// that loses least is changed.
    #[inline(always)]
    fn split_signs(&self, x: &mut [PerRow; 8], signs: &mut [PerRow; 8], weights: &[f32; 8]) {
        let (mut parity, mut least, mut place) = ([1.0; ROWS], [f32::INFINITY; ROWS], [0.0; ROWS]);
        for i in 0..8 {
            for row in 0..ROWS {
                let sign = if x[i][row] < 0.0 { -1.0 } else { 1.0 };
                signs[i][row] = sign;
                x[i][row] *= sign;
                parity[row] *= sign;
                let loss = x[i][row] * weights[i];
                let better = loss < least[row];
                least[row] = if better { loss } else { least[row] };
                place[row] = if better { i as f32 } else { place[row] };
            }
        }
        if self.signs == Signs::Even {
            for i in 0..8 {
                for row in 0..ROWS {
                    let flip = parity[row] < 0.0 && place[row] == i as f32;
                    let sign = if flip { -1.0 } else { 1.0 };
                    signs[i][row] *= sign;
                    x[i][row] *= sign;
                }
            }
        }
    }
}

/// Returns the number whose digits are the levels of values, the first lowest.
fn digits(levels: &[f32], values: &[f32]) -> usize {
    values.iter().rfold(0, |number, value| {
        let level = levels.iter().position(|level| level == value).unwrap_or(0);
        number * levels.len() + level
    })
}

/// Computes the loss of each combination of levels.
#[inline(always)]
fn fill(x: &[PerRow], weights: &[f32], levels: &[f32], table: &mut [PerRow; MAX_HALVES]) {
    let mut count = 1;
    table[0] = [0.0; ROWS];
    for (x, &weight) in x.iter().zip(weights) {
        // From the last level on: the combinations so far are those of the first level.
        for (number, &level) in levels.iter().enumerate().rev() {
            for combination in 0..count {
                for row in 0..ROWS {
                    let error = level - x[row];
                    table[number * count + combination][row] =
                        table[combination][row] + weight * error * error;
                }
            }
        }
        count *= levels.len();
    }
}
