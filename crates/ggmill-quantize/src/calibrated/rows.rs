//! Rounds some rows of a matrix together.

#![allow(clippy::needless_range_loop, reason = "a lane is that of several arrays")]

use ggmill_pipeline::Result;
use ggmill_quant::{
    BlockCodec, BlockParts, Codes, GroupChoice, GroupSearch, Isa, Panels, PerRow, Rows,
    subtract_products,
};

use super::factor::{Factor, TILE, small_factor};
use super::hessian::of_quant;

/// The number of rows that one task rounds.
pub(super) const ROWS_PER_TASK: usize = 48;
/// The number of rows that vector code rounds at once.
const LANES: usize = 16;
/// The number of passes over the groups of a row after all have codes.
const PASSES: usize = 4;
/// A choice must lose less than the one before by this factor, so that noise of single precision does not
/// change it.
const LESS: f32 = 1.0 - 1e-5;

/// The factors of the scale of a block that are tried: all groups choose their levels again for each.
const SUPER_FACTORS: [f32; 3] = [1.0, 0.9, 1.1];
/// The scales of a group that are tried, as distances from the present one in hundredths of it.
const FREE_STEPS: [i16; 7] = [0, -12, -8, -4, 4, 8, 12];
/// The levels of a scale that are tried, as distances from the present one.
const LEVEL_STEPS: [i16; 5] = [0, -2, -1, 1, 2];

/// The factor, the importance, the codes and the encoder for rounding to a type.
pub(super) struct Method<'r> {
    factor: &'r Factor,
    importance: &'r [f32],
    pub(super) codes: Codes,
    pub(super) encoder: &'static dyn BlockCodec,
    isa: Isa,
    /// The metric of each group while later columns make up for its errors, and when they do not any more;
    /// and its Hessian.
    feedback: Vec<Vec<f32>>,
    own: Vec<Vec<f32>>,
    hessians: Vec<Vec<f32>>,
}

/// Rows that vector code rounds at once.
struct Bundle {
    /// The scale and the minimum of each block.
    supers: Vec<[PerRow; 2]>,
    /// The levels of each group.
    scales: Vec<PerRow<u16>>,
    mins: Vec<PerRow<u16>>,
    /// The unit and the value of each weight.
    units: Vec<PerRow>,
    values: Vec<PerRow>,
}

/// Rows in memory, one after the other.
struct Matrix<'a> {
    values: &'a mut [f32],
    columns: usize,
}

impl Matrix<'_> {
    /// Reads some columns of some rows, which are followed by zeros.
    fn read(&self, first: usize, start: usize, out: &mut [PerRow]) {
        out.fill([0.0; LANES]);
        for (lane, row) in
            self.values.chunks_exact(self.columns).skip(first).take(LANES).enumerate()
        {
            for (out, &value) in out.iter_mut().zip(&row[start..]) {
                out[lane] = value;
            }
        }
    }

    /// Replaces some columns of some rows.
    fn write(&mut self, first: usize, start: usize, values: &[PerRow]) {
        let rows = self.values.chunks_exact_mut(self.columns).skip(first).take(LANES);
        for (lane, row) in rows.enumerate() {
            for (place, value) in row[start..].iter_mut().zip(values) {
                *place = value[lane];
            }
        }
    }
}

impl<'r> Method<'r> {
    pub(super) fn new(
        factor: &'r Factor,
        importance: &'r [f32],
        codes: Codes,
        encoder: &'static dyn BlockCodec,
    ) -> Result<Self> {
        let group = codes.group();
        let parts = |tile: usize| {
            (0..factor.columns).step_by(group).map(move |start| factor.part(tile, start, group))
        };
        let hessians: Vec<Vec<f32>> = parts(0).collect();
        let own = hessians.iter().map(|hessian| small_factor(hessian, group));
        let own = own.collect::<Result<_>>()?;
        let feedback = parts(1).collect();
        let isa = Isa::best();
        Ok(Self { factor, importance, codes, encoder, isa, feedback, own, hessians })
    }

    /// Rounds rows. Returns their blocks.
    pub(super) fn round(&self, values: &[f32]) -> Result<Vec<u8>> {
        let (n, elements) = (self.factor.columns, self.codes.elements());
        let rows = values.len() / n;
        let mut bundles: Vec<Bundle> =
            (0..rows).step_by(LANES).map(|_| Bundle::new(n, &self.codes)).collect();
        let mut search = GroupSearch::new(&self.codes, self.isa);
        // What later columns make up for; then the errors of the rounded weights.
        let mut errors = vec![0.0; values.len()];
        let mut products = vec![0.0; rows * elements];
        let (mut target, mut found) = (vec![[0.0; LANES]; elements], vec![[0.0; LANES]; elements]);
        for start in (0..n).step_by(elements) {
            self.multiply(&self.factor.upper, start, start, &errors, &mut products)?;
            for (product, value) in products.chunks_exact_mut(elements).zip(values.chunks_exact(n))
            {
                for (product, value) in product.iter_mut().zip(&value[start..]) {
                    *product = value - *product;
                }
            }
            for (bundle, first) in bundles.iter_mut().zip((0..rows).step_by(LANES)) {
                let of_block = Matrix { values: &mut products, columns: elements };
                of_block.read(first, 0, &mut target);
                self.round_block(&mut search, bundle, start, &target, &mut found)?;
                Matrix { values: &mut errors, columns: n }.write(first, start, &found);
            }
        }
        for (bundle, first) in bundles.iter().zip((0..rows).step_by(LANES)) {
            Matrix { values: &mut errors, columns: n }.write(first, 0, &bundle.values);
        }
        for (error, value) in errors.iter_mut().zip(values) {
            *error = value - *error;
        }
        for _ in 0..PASSES {
            let mut is_changed = false;
            for start in (0..n).step_by(elements) {
                self.multiply(&self.factor.hessian, start, n, &errors, &mut products)?;
                for (bundle, first) in bundles.iter_mut().zip((0..rows).step_by(LANES)) {
                    let of_block = Matrix { values: &mut products, columns: elements };
                    of_block.read(first, 0, &mut target);
                    if self.improve_block(&mut search, bundle, start, &mut target, &mut found) {
                        is_changed = true;
                        let mut errors = Matrix { values: &mut errors, columns: n };
                        let mut before = vec![[0.0; LANES]; elements];
                        errors.read(first, start, &mut before);
                        for (before, found) in before.iter_mut().zip(&found) {
                            for lane in 0..LANES {
                                before[lane] -= found[lane];
                            }
                        }
                        errors.write(first, start, &before);
                    }
                }
            }
            if !is_changed {
                break;
            }
        }
        let mut blocks = vec![0; rows * n / elements * self.codes.bytes()];
        let row_bytes = n / elements * self.codes.bytes();
        for (number, blocks) in blocks.chunks_exact_mut(row_bytes).enumerate() {
            bundles[number / LANES].write(number % LANES, &self.codes, blocks)?;
        }
        Ok(blocks)
    }

    /// Multiplies the first columns of rows with a matrix, for the columns of a block.
    fn multiply(
        &self,
        matrix: &Panels,
        start: usize,
        columns: usize,
        left: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let (n, elements) = (self.factor.columns, self.codes.elements());
        let left = Rows::new(left, left.len() / n, n, columns).map_err(of_quant)?;
        matrix
            .multiply_part(self.isa, start..start + elements, 0..columns, &left, out, elements)
            .map_err(of_quant)
    }

    /// Chooses the scales and codes of the block of columns from `start` on. Writes what later columns make
    /// up for to `errors`.
    fn round_block(
        &self,
        search: &mut GroupSearch<'_>,
        bundle: &mut Bundle,
        start: usize,
        target: &[PerRow],
        errors: &mut [PerRow],
    ) -> Result<()> {
        let (elements, group, bytes) =
            (self.codes.elements(), self.codes.group(), self.codes.bytes());
        let mut rows = vec![0.0; LANES * elements];
        Matrix { values: &mut rows, columns: elements }.write(0, 0, target);
        for row in rows.chunks_exact_mut(elements) {
            // Such a row keeps the plain encoding.
            if row.iter().any(|value| !value.is_finite()) {
                row.fill(0.0);
            }
        }
        let mut blocks = vec![0; LANES * bytes];
        let importance = Some(&self.importance[start..start + elements]);
        self.encoder.quantize(&rows, elements, importance, &mut blocks).map_err(of_quant)?;
        let mut starts = vec![GroupChoice::new(group); elements / group];
        for (lane, block) in blocks.chunks_exact(bytes).enumerate() {
            let [scale, min] = self.codes.supers(block);
            for (number, choice) in starts.iter_mut().enumerate() {
                (choice.supers[0][lane], choice.supers[1][lane]) = (scale, min);
                [choice.scales[lane], choice.mins[lane]] = self.codes.levels(block, number);
            }
        }
        let factors: &[f32] = if self.codes.has_super_scale() { &SUPER_FACTORS } else { &[1.0] };
        let mut least = [f32::INFINITY; LANES];
        let mut rest = target.to_vec();
        for &factor in factors {
            rest.copy_from_slice(target);
            let mut losses = [0.0; LANES];
            let mut choices = starts.clone();
            for (number, choice) in choices.iter_mut().enumerate() {
                self.codes.scale(choice, factor);
                let first = number * group;
                let metric = &self.feedback[start / group + number];
                search.choose(&rest[first..first + group], metric, self.steps(), choice);
                for lane in 0..LANES {
                    losses[lane] += choice.losses[lane];
                }
                let after = (start + first) % TILE + group;
                let upper = &self.factor.tiles[1][(start + first) * TILE + after..];
                let rest = &mut rest[first + group..];
                if !rest.is_empty() {
                    subtract_products(self.isa, &choice.errors, upper, TILE, rest);
                }
            }
            for lane in 0..LANES {
                if losses[lane] < least[lane] {
                    least[lane] = losses[lane];
                    bundle.take(lane, start, &self.codes, &choices);
                    for (errors, choice) in errors.chunks_exact_mut(group).zip(&choices) {
                        for (error, found) in errors.iter_mut().zip(&choice.errors) {
                            error[lane] = found[lane];
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Chooses the scales and codes of the groups of a block again where that lowers the loss. `gradient` is
    /// that of the loss. Writes the changes of the values to `changes`, and returns `false` if there are
    /// none.
    fn improve_block(
        &self,
        search: &mut GroupSearch<'_>,
        bundle: &mut Bundle,
        start: usize,
        gradient: &mut [PerRow],
        changes: &mut [PerRow],
    ) -> bool {
        let group = self.codes.group();
        let mut is_changed = false;
        for first in (0..self.codes.elements()).step_by(group) {
            let number = (start + first) / group;
            let (metric, hessian) = (&self.own[number], &self.hessians[number]);
            let mut choice = bundle.choice(start + first, &self.codes);
            let (target, losses) = minimum(metric, &gradient[first..first + group], &choice.values);
            choice.losses = losses.map(|loss| loss * LESS);
            search.choose(&target, metric, self.steps(), &mut choice);
            search.descend(&target, hessian, &mut choice);
            let columns = start + first..start + first + group;
            let of_group = &mut changes[first..first + group];
            for ((change, after), before) in
                of_group.iter_mut().zip(&choice.values).zip(&bundle.values[columns])
            {
                for lane in 0..LANES {
                    change[lane] = after[lane] - before[lane];
                }
            }
            if of_group.iter().flatten().any(|&change| change != 0.0) {
                is_changed = true;
                bundle.put(start + first, &self.codes, &choice);
                let tile = (start + first) * TILE + start % TILE;
                let hessian = &self.factor.tiles[0][tile..];
                subtract_products(self.isa, of_group, hessian, TILE, gradient);
            }
        }
        is_changed
    }

    fn steps(&self) -> &'static [i16] {
        if self.codes.has_free_scales() { &FREE_STEPS } else { &LEVEL_STEPS }
    }
}

/// Returns the weights of a group at which the loss is least, and the loss of its values relative to that.
fn minimum(metric: &[f32], gradient: &[PerRow], values: &[PerRow]) -> (Vec<PerRow>, PerRow) {
    let len = values.len();
    let mut target = values.to_vec();
    let mut losses = [0.0; LANES];
    for (row, upper) in metric.chunks_exact(len).enumerate() {
        let mut product = [0.0; LANES];
        for (factor, gradient) in upper[row..].iter().zip(&gradient[row..]) {
            for lane in 0..LANES {
                product[lane] += factor * gradient[lane];
            }
        }
        for (factor, target) in upper[row..].iter().zip(&mut target[row..]) {
            for lane in 0..LANES {
                target[lane] += factor * product[lane];
            }
        }
        for lane in 0..LANES {
            losses[lane] += product[lane] * product[lane];
        }
    }
    (target, losses)
}

impl Bundle {
    fn new(columns: usize, codes: &Codes) -> Self {
        let groups = columns / codes.group();
        Self {
            supers: vec![[[0.0; LANES]; 2]; columns / codes.elements()],
            scales: vec![[0; LANES]; groups],
            mins: vec![[0; LANES]; groups],
            units: vec![[0.0; LANES]; columns],
            values: vec![[0.0; LANES]; columns],
        }
    }

    /// Takes a row of the choices for the groups of a block.
    fn take(&mut self, lane: usize, start: usize, codes: &Codes, choices: &[GroupChoice]) {
        let (block, group) = (start / codes.elements(), start / codes.group());
        for (number, choice) in choices.iter().enumerate() {
            for (to, from) in self.supers[block].iter_mut().zip(&choice.supers) {
                to[lane] = from[lane];
            }
            self.scales[group + number][lane] = choice.scales[lane];
            self.mins[group + number][lane] = choice.mins[lane];
            let columns = start + number * codes.group()..start + (number + 1) * codes.group();
            for (to, from) in self.units[columns.clone()].iter_mut().zip(&choice.units) {
                to[lane] = from[lane];
            }
            for (to, from) in self.values[columns].iter_mut().zip(&choice.values) {
                to[lane] = from[lane];
            }
        }
    }

    /// Returns the choice for the group from column `start` on.
    fn choice(&self, start: usize, codes: &Codes) -> GroupChoice {
        let columns = start..start + codes.group();
        let mut choice = GroupChoice::new(codes.group());
        choice.supers = self.supers[start / codes.elements()];
        choice.scales = self.scales[start / codes.group()];
        choice.mins = self.mins[start / codes.group()];
        choice.units.copy_from_slice(&self.units[columns.clone()]);
        choice.values.copy_from_slice(&self.values[columns]);
        choice
    }

    /// Replaces the choice for the group from column `start` on.
    fn put(&mut self, start: usize, codes: &Codes, choice: &GroupChoice) {
        let columns = start..start + codes.group();
        self.supers[start / codes.elements()] = choice.supers;
        self.scales[start / codes.group()] = choice.scales;
        self.mins[start / codes.group()] = choice.mins;
        self.units[columns.clone()].copy_from_slice(&choice.units);
        self.values[columns].copy_from_slice(&choice.values);
    }

    /// Writes the blocks of a row.
    fn write(&self, lane: usize, codes: &Codes, blocks: &mut [u8]) -> Result<()> {
        let of_lane = |levels: &[PerRow<u16>]| -> Vec<u16> {
            levels.iter().map(|level| level[lane]).collect()
        };
        let units: Vec<f32> = self.units.iter().map(|unit| unit[lane]).collect();
        let (scales, mins) = (of_lane(&self.scales), of_lane(&self.mins));
        let groups = codes.elements() / codes.group();
        let parts =
            units.chunks(codes.elements()).zip(scales.chunks(groups).zip(mins.chunks(groups)));
        for ((block, supers), (units, (scales, mins))) in
            blocks.chunks_exact_mut(codes.bytes()).zip(&self.supers).zip(parts)
        {
            let supers = supers.map(|of_rows| of_rows[lane]);
            let parts = BlockParts { supers, scales, mins, units };
            codes.write(&parts, block).map_err(of_quant)?;
        }
        Ok(())
    }
}
