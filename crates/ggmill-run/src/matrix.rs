//! Matrix products with weights that are decoded a few rows at a time.

use ggmill_quant::{Isa, Panels, Rows};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::{ParallelSlice as _, ParallelSliceMut as _};

use crate::error::{Result, try_zeros};
use crate::program::Program;

/// The number of rows of the left operand per task: a multiple of the tile height of every instruction
/// set.
pub(crate) const ROWS_PER_TASK: usize = 48;
/// The number of matrix rows in a panel, which one task decodes.
pub(crate) const PANEL_ROWS: usize = Panels::WIDTH;

/// The approximate number of matrix elements that are decoded at once: 1 MiB, which stays in the cache
/// of a core.
const MAX_DECODED_ELEMENTS: usize = 1 << 18;

/// The instruction set, and a reusable buffer for decoded rows: allocating fresh memory from the system
/// is slow.
#[derive(Debug)]
pub(crate) struct Tiles {
    pub(crate) isa: Isa,
    /// Decoded rows of a matrix, packed into panels.
    pub(crate) panels: Panels,
}

impl Tiles {
    pub(crate) fn new(isa: Isa) -> Self {
        Self { isa, panels: Panels::default() }
    }
}

impl Program<'_> {
    /// Writes the products of all rows of `values` and the rows `first..first + rows` of a matrix.
    pub(crate) fn product(
        &self,
        tiles: &mut Tiles,
        values: &[f32],
        weight: usize,
        [first, rows]: [usize; 2],
        out: &mut [f32],
    ) -> Result<()> {
        let columns = self.row_len(weight);
        let at_once = (MAX_DECODED_ELEMENTS / columns.max(1)).max(1).next_multiple_of(PANEL_ROWS);
        for start in (0..rows).step_by(at_once) {
            let count = at_once.min(rows - start);
            self.decode_panels(tiles, weight, first + start, count)?;
            multiply(tiles, values, [start, count, rows], out)?;
        }
        Ok(())
    }

    /// Computes `linear_taps`: transposes the parts (taps) so that the taps of a channel are adjacent, as
    /// in the kernel, and multiplies by the kernel.
    pub(crate) fn taps_linear(
        &self,
        tiles: &mut Tiles,
        values: &[f32],
        kernel: usize,
        bias: Option<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        let [taps, channels, rows] =
            [self.row_len(kernel), self.dimension(kernel, 1), self.dimension(kernel, 2)];
        let columns = taps * channels;
        let mut transposed = try_zeros(values.len())?;
        let texts = transposed.par_chunks_exact_mut(columns).zip(values.par_chunks_exact(columns));
        texts.for_each(|(out, parts)| {
            for (tap, part) in parts.chunks_exact(channels).enumerate() {
                for (out, &value) in out.iter_mut().skip(tap).step_by(taps).zip(part) {
                    *out = value;
                }
            }
        });
        tiles.panels.pack(&self.decode_weight(kernel)?, columns)?;
        multiply(tiles, &transposed, [0, rows, rows], out)?;
        if let Some(bias) = bias.map(|bias| self.decode_weight(bias)).transpose()? {
            out.par_chunks_mut(rows).for_each(|row| scale_and_add_bias(row, None, Some(&bias)));
        }
        Ok(())
    }

    /// Computes `linear`: the product with a matrix, times a scale, plus a bias.
    pub(crate) fn linear(
        &self,
        tiles: &mut Tiles,
        values: &[f32],
        matrix: usize,
        scale: Option<usize>,
        bias: Option<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        let rows = self.dimension(matrix, 1);
        self.product(tiles, values, matrix, [0, rows], out)?;
        let scale = scale.map(|scale| self.decode_weight(scale)).transpose()?;
        let bias = bias.map(|bias| self.decode_weight(bias)).transpose()?;
        let factor = scale.as_ref().and_then(|scale| scale.first().copied());
        if factor.is_some() || bias.is_some() {
            out.par_chunks_mut(rows)
                .for_each(|row| scale_and_add_bias(row, factor, bias.as_deref()));
        }
        Ok(())
    }

    /// Computes `linear_of`: for each token and each of its experts, the product with the expert's matrix.
    /// A choice is a (token, expert) pair; `used` is the number of experts per token.
    pub(crate) fn expert_linear(
        &self,
        tiles: &mut Tiles,
        values: &[f32],
        experts_of_choices: &[u32],
        used: usize,
        [matrix, scale, bias]: [Option<usize>; 3],
        out: &mut [f32],
    ) -> Result<()> {
        let Some(matrix) = matrix else { return Ok(()) };
        let (columns, rows) = (self.row_len(matrix), self.dimension(matrix, 1));
        let experts = self.dimension(matrix, 2);
        let scale = scale.map(|scale| self.decode_weight(scale)).transpose()?;
        let bias = bias.map(|bias| self.decode_weight(bias)).transpose()?;
        // `values` has a row per choice, or one per token.
        let shared = values.len() / columns < experts_of_choices.len();
        let mut choices = Vec::new();
        for expert in 0..experts {
            choices.clear();
            let is_chosen = |choice: &(usize, &u32)| *choice.1 as usize == expert;
            choices.extend(
                experts_of_choices.iter().enumerate().filter(is_chosen).map(|(choice, _)| choice),
            );
            if choices.is_empty() {
                continue;
            }
            let mut gathered = try_zeros(choices.len() * columns)?;
            for (out, &choice) in gathered.chunks_exact_mut(columns).zip(&choices) {
                let row = if shared { choice / used } else { choice };
                out.copy_from_slice(&values[row * columns..][..columns]);
            }
            let mut products = try_zeros(choices.len() * rows)?;
            self.product(tiles, &gathered, matrix, [expert * rows, rows], &mut products)?;
            let factor = scale.as_ref().map(|scale| scale[expert]);
            let bias = bias.as_ref().map(|bias| &bias[expert * rows..][..rows]);
            for (row, &choice) in products.chunks_exact(rows).zip(&choices) {
                let out = &mut out[choice * rows..][..rows];
                out.copy_from_slice(row);
                scale_and_add_bias(out, factor, bias);
            }
        }
        Ok(())
    }

    /// Computes `linear_heads`: the product of each part with the matrix of its head.
    pub(crate) fn head_linear(
        &self,
        tiles: &mut Tiles,
        values: &[f32],
        matrix: usize,
        heads: usize,
        out: &mut [f32],
    ) -> Result<()> {
        let columns = self.row_len(matrix);
        let rows = self.dimension(matrix, 1) * self.dimension(matrix, 2) / heads.max(1);
        let tokens = values.len() / (columns * heads).max(1);
        let (mut gathered, mut products) =
            (try_zeros(tokens * columns)?, try_zeros(tokens * rows)?);
        for head in 0..heads {
            let parts = values.chunks_exact(columns).skip(head).step_by(heads);
            for (out, part) in gathered.chunks_exact_mut(columns).zip(parts) {
                out.copy_from_slice(part);
            }
            self.product(tiles, &gathered, matrix, [head * rows, rows], &mut products)?;
            let parts = out.chunks_exact_mut(rows).skip(head).step_by(heads);
            for (out, product) in parts.zip(products.chunks_exact(rows)) {
                out.copy_from_slice(product);
            }
        }
        Ok(())
    }

    /// Returns dimension `number` of a weight; 1 beyond its last dimension.
    pub(crate) fn dimension(&self, weight: usize, number: usize) -> usize {
        self.graph.weights()[weight].dimensions.get(number).map_or(1, |&len| len as usize)
    }
}

/// Writes the products of the rows of `values` and the `count` rows in the buffer to the columns from
/// `start` on of `out`, which has `rows` columns.
fn multiply(
    tiles: &Tiles,
    values: &[f32],
    [start, count, rows]: [usize; 3],
    out: &mut [f32],
) -> Result<()> {
    let (isa, panels) = (tiles.isa, &tiles.panels);
    let columns = panels.columns();
    out.par_chunks_mut(ROWS_PER_TASK * rows).enumerate().try_for_each(|(number, out)| {
        let height = out.len() / rows;
        let left = &values[number * ROWS_PER_TASK * columns..];
        let left = Rows::new(left, height, columns, columns)?;
        let out = &mut out[start..];
        panels.multiply_part(isa, 0..count, 0..columns, &left, out, rows)
    })?;
    Ok(())
}

/// Multiplies a row by a factor, then adds a bias.
fn scale_and_add_bias(row: &mut [f32], factor: Option<f32>, bias: Option<&[f32]>) {
    if let Some(factor) = factor {
        for value in row.iter_mut() {
            *value *= factor;
        }
    }
    for (value, bias) in row.iter_mut().zip(bias.unwrap_or_default()) {
        *value += bias;
    }
}
