//! Products with matrices.

use ggmill_quant::{Isa, Panels, Rows};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::{ParallelSlice as _, ParallelSliceMut as _};

use crate::error::{Result, room};
use crate::program::Program;

/// Rows of the left operand that one task multiplies: a multiple of the tile height of every
/// instruction set.
pub(crate) const HIGH: usize = 48;
/// Rows of a matrix that one task decodes.
pub(crate) const ROWS: usize = Panels::WIDTH;

/// The approximate number of elements of a matrix that are decoded at once: 1 MiB, which stays in the
/// cache of a core.
const DECODED: usize = 1 << 18;

/// The instruction set and the buffer for the tiles of a matrix. The buffer is reused, because fresh
/// memory from the system is slow.
#[derive(Debug)]
pub(crate) struct Tiles {
    pub(crate) isa: Isa,
    /// Rows of a matrix, decoded and arranged.
    pub(crate) panels: Panels,
}

impl Tiles {
    pub(crate) fn new(isa: Isa) -> Self {
        Self { isa, panels: Panels::default() }
    }
}

impl Program<'_> {
    /// Writes the products of all rows of `values` with the rows `first..first + rows` of a matrix.
    pub(crate) fn product(
        &self,
        tiles: &mut Tiles,
        values: &[f32],
        weight: usize,
        [first, rows]: [usize; 2],
        out: &mut [f32],
    ) -> Result<()> {
        let columns = self.row_len(weight);
        let at_once = (DECODED / columns.max(1)).max(1).next_multiple_of(ROWS);
        for start in (0..rows).step_by(at_once) {
            let count = at_once.min(rows - start);
            self.decode(tiles, weight, first + start, count)?;
            multiply(tiles, values, [start, count, rows], out)?;
        }
        Ok(())
    }

    /// `linear_taps`: the product of the transposed parts with a kernel, in which the taps of a channel
    /// are neighbors.
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
        let mut arranged = room(values.len())?;
        let texts = arranged.par_chunks_exact_mut(columns).zip(values.par_chunks_exact(columns));
        texts.for_each(|(out, parts)| {
            for (tap, part) in parts.chunks_exact(channels).enumerate() {
                for (out, &value) in out.iter_mut().skip(tap).step_by(taps).zip(part) {
                    *out = value;
                }
            }
        });
        tiles.panels.pack(&self.whole(kernel)?, columns)?;
        multiply(tiles, &arranged, [0, rows, rows], out)?;
        if let Some(bias) = bias.map(|bias| self.whole(bias)).transpose()? {
            out.par_chunks_mut(rows).for_each(|row| finish(row, None, Some(&bias)));
        }
        Ok(())
    }

    /// `linear`: a product with all of a matrix, times a scale, plus a bias.
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
        let scale = scale.map(|scale| self.whole(scale)).transpose()?;
        let bias = bias.map(|bias| self.whole(bias)).transpose()?;
        let factor = scale.as_ref().and_then(|scale| scale.first().copied());
        if factor.is_some() || bias.is_some() {
            out.par_chunks_mut(rows).for_each(|row| finish(row, factor, bias.as_deref()));
        }
        Ok(())
    }

    /// `linear_of`: for each token and each of its experts, the product with the expert's matrix.
    pub(crate) fn expert_linear(
        &self,
        tiles: &mut Tiles,
        values: &[f32],
        places: &[u32],
        used: usize,
        [matrix, scale, bias]: [Option<usize>; 3],
        out: &mut [f32],
    ) -> Result<()> {
        let Some(matrix) = matrix else { return Ok(()) };
        let (columns, rows) = (self.row_len(matrix), self.dimension(matrix, 1));
        let experts = self.dimension(matrix, 2);
        let scale = scale.map(|scale| self.whole(scale)).transpose()?;
        let bias = bias.map(|bias| self.whole(bias)).transpose()?;
        // One row for each choice, or one for each token.
        let shared = values.len() / columns < places.len();
        let mut taken = Vec::new();
        for expert in 0..experts {
            taken.clear();
            let is_chosen = |choice: &(usize, &u32)| *choice.1 as usize == expert;
            taken.extend(places.iter().enumerate().filter(is_chosen).map(|(choice, _)| choice));
            if taken.is_empty() {
                continue;
            }
            let mut gathered = room(taken.len() * columns)?;
            for (out, &choice) in gathered.chunks_exact_mut(columns).zip(&taken) {
                let row = if shared { choice / used } else { choice };
                out.copy_from_slice(&values[row * columns..][..columns]);
            }
            let mut products = room(taken.len() * rows)?;
            self.product(tiles, &gathered, matrix, [expert * rows, rows], &mut products)?;
            let factor = scale.as_ref().map(|scale| scale[expert]);
            let bias = bias.as_ref().map(|bias| &bias[expert * rows..][..rows]);
            for (row, &choice) in products.chunks_exact(rows).zip(&taken) {
                let out = &mut out[choice * rows..][..rows];
                out.copy_from_slice(row);
                finish(out, factor, bias);
            }
        }
        Ok(())
    }

    /// `linear_heads`: the product of each part with its matrix.
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
        let (mut gathered, mut products) = (room(tokens * columns)?, room(tokens * rows)?);
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

    pub(crate) fn dimension(&self, weight: usize, number: usize) -> usize {
        self.graph.weights()[weight].dimensions.get(number).map_or(1, |&len| len as usize)
    }
}

/// Writes the products of the rows of `values` with the `count` rows in the tiles to the columns from
/// `start` on of a result with `rows` columns.
fn multiply(
    tiles: &Tiles,
    values: &[f32],
    [start, count, rows]: [usize; 3],
    out: &mut [f32],
) -> Result<()> {
    let (isa, panels) = (tiles.isa, &tiles.panels);
    let columns = panels.columns();
    out.par_chunks_mut(HIGH * rows).enumerate().try_for_each(|(number, out)| {
        let height = out.len() / rows;
        let left = &values[number * HIGH * columns..];
        let left = Rows::new(left, height, columns, columns)?;
        let out = &mut out[start..];
        panels.multiply_part(isa, 0..count, 0..columns, &left, out, rows)
    })?;
    Ok(())
}

/// Multiplies a row by a factor, then adds a bias.
fn finish(row: &mut [f32], factor: Option<f32>, bias: Option<&[f32]>) {
    if let Some(factor) = factor {
        for value in row.iter_mut() {
            *value *= factor;
        }
    }
    for (value, bias) in row.iter_mut().zip(bias.unwrap_or_default()) {
        *value += bias;
    }
}
