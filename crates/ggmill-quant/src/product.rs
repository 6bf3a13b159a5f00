//! Products of matrices in single precision.
//!
//! Every element of a product is one sum: it begins with 0, and products are added in the order of
//! the columns, each rounded, none fused. So its bits depend neither on the machine nor on how the
//! work is divided. Speed comes from elements side by side: 32 of one row in lanes, for six rows.

#![allow(
    clippy::inline_always,
    reason = "work has to be inlined into the function that is compiled for its instructions"
)]

use core::ops::Range;

use crate::error::{Detail, Error, Result};
use crate::isa::{Isa, Kind};
use crate::lanes::{Floats, Lanes, Work};

/// Rows that are multiplied at once.
const HIGH: usize = 6;
/// Elements of the result side by side.
const WIDE: usize = 32;

/// Rows of the left operand, arranged for [`Panels::multiply`].
#[derive(Debug, Default)]
pub struct Tiles {
    /// Tile after tile: for each column, the values of six rows.
    values: Vec<f32>,
    rows: usize,
    columns: usize,
}

/// The right operand, arranged for [`multiply`](Self::multiply): rows whose products with each row
/// of the left operand are wanted.
///
/// ```
/// use ggmill_quant::{Panels, Tiles};
/// let (mut left, mut right) = (Tiles::default(), Panels::default());
/// left.pack(&[1.0, 2.0, 3.0, 4.0], 2)?;
/// right.pack(&[1.0, 0.0, 1.0, 1.0, 0.5, 0.25], 2)?;
/// let mut out = [0.0; 6];
/// right.multiply(&left, 0..2, &mut out, 3)?;
/// assert_eq!(out, [1.0, 3.0, 1.0, 3.0, 7.0, 2.5]);
/// # Ok::<(), ggmill_quant::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Panels {
    /// Panel after panel: for each column, the values of 32 rows.
    values: Vec<f32>,
    rows: usize,
    columns: usize,
}

/// Room for numbers that are all 0.
fn room(values: &mut Vec<f32>, len: Option<usize>) -> Result<()> {
    let too_large =
        || Error::new(Detail::Memory { elements: len.map_or(u64::MAX, |len| len as u64) });
    let len = len.ok_or_else(too_large)?;
    values.clear();
    values.try_reserve_exact(len).map_err(|_| too_large())?;
    values.resize(len, 0.0);
    Ok(())
}

/// The rows in some values.
fn rows_of(values: &[f32], columns: usize) -> Result<usize> {
    match values.len().checked_div(columns) {
        Some(rows) if rows * columns == values.len() => Ok(rows),
        _ => Err(Error::new(Detail::NotRows { found: values.len(), row_len: columns })),
    }
}

impl Tiles {
    /// Rows that belong together: work is best divided at multiples of it.
    pub const HEIGHT: usize = HIGH;

    /// Takes rows of so many columns, in place of those it has.
    ///
    /// Fails when the values are not whole rows, and when there is no memory.
    pub fn pack(&mut self, values: &[f32], columns: usize) -> Result<()> {
        let rows = rows_of(values, columns)?;
        let tiles = rows.div_ceil(HIGH);
        room(&mut self.values, tiles.checked_mul(HIGH).and_then(|rows| rows.checked_mul(columns)))?;
        for (row, values) in values.chunks_exact(columns.max(1)).enumerate() {
            let tile = &mut self.values[row / HIGH * HIGH * columns..];
            for (out, value) in tile[row % HIGH..].iter_mut().step_by(HIGH).zip(values) {
                *out = *value;
            }
        }
        (self.rows, self.columns) = (rows, columns);
        Ok(())
    }
}

impl Panels {
    /// Takes rows of so many columns, in place of those it has; fails as [`Tiles::pack`] does.
    pub fn pack(&mut self, values: &[f32], columns: usize) -> Result<()> {
        let rows = rows_of(values, columns)?;
        self.begin(rows, columns)?;
        for (row, values) in values.chunks_exact(columns.max(1)).enumerate() {
            let panel = &mut self.values[row / WIDE * WIDE * columns..];
            for (out, value) in panel[row % WIDE..].iter_mut().step_by(WIDE).zip(values) {
                *out = *value;
            }
        }
        Ok(())
    }

    /// Takes the columns of rows of this length as its rows; fails as [`Tiles::pack`] does.
    pub fn pack_transposed(&mut self, values: &[f32], row_len: usize) -> Result<()> {
        let columns = rows_of(values, row_len)?;
        self.begin(row_len, columns)?;
        for (column, values) in values.chunks_exact(row_len.max(1)).enumerate() {
            for (number, values) in values.chunks(WIDE).enumerate() {
                let start = (number * columns + column) * WIDE;
                self.values[start..start + values.len()].copy_from_slice(values);
            }
        }
        Ok(())
    }

    fn begin(&mut self, rows: usize, columns: usize) -> Result<()> {
        let len = rows.checked_next_multiple_of(WIDE).and_then(|rows| rows.checked_mul(columns));
        room(&mut self.values, len)?;
        (self.rows, self.columns) = (rows, columns);
        Ok(())
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Multiplies: the product of row `i` of these rows of the left operand with row `j` goes to
    /// place `stride * i + j` of `out`, counted from the first of the rows.
    ///
    /// Fails, with nothing written, when the operands have different numbers of columns, when the
    /// rows do not begin at a multiple of [`Tiles::HEIGHT`], and when `out` or `stride` is too short.
    pub fn multiply(
        &self,
        left: &Tiles,
        rows: Range<usize>,
        out: &mut [f32],
        stride: usize,
    ) -> Result<()> {
        self.multiply_with(Isa::best(), left, rows, out, stride)
    }

    /// The same with certain instructions, and no others: with the same result.
    pub fn multiply_with(
        &self,
        isa: Isa,
        left: &Tiles,
        rows: Range<usize>,
        out: &mut [f32],
        stride: usize,
    ) -> Result<()> {
        let length = |what, found, expected| {
            if found == expected {
                Ok(())
            } else {
                Err(Error::new(Detail::Length { what, found, expected }))
            }
        };
        length("columns", left.columns, self.columns)?;
        length("rows", rows.end.min(left.rows), rows.end)?;
        length("rows before the first", rows.start.next_multiple_of(HIGH), rows.start)?;
        length("elements from row to row", stride.max(self.rows), stride)?;
        let count = rows.len();
        let least = count.saturating_sub(1).saturating_mul(stride).saturating_add(self.rows);
        if count == 0 || self.rows == 0 {
            return Ok(());
        }
        length("elements of room", out.len().max(least), out.len())?;
        let tiles = &left.values[rows.start * self.columns..];
        let work = Product { tiles, panels: self, count, out, stride };
        let kind = match isa.kind() {
            // The scalar code would be the same loops.
            Kind::Scalar => Kind::Portable,
            kind => kind,
        };
        if let Err(work) = kind.run(work) {
            // Instructions that this machine does not have.
            let _ = Kind::Portable.run(work);
        }
        Ok(())
    }
}

struct Product<'a> {
    tiles: &'a [f32],
    panels: &'a Panels,
    count: usize,
    out: &'a mut [f32],
    stride: usize,
}

impl Work for Product<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { tiles, panels, count, out, stride } = self;
        let columns = panels.columns;
        if columns == 0 {
            for row in out.chunks_mut(stride).take(count) {
                row[..panels.rows].fill(0.0);
            }
            return;
        }
        for (number, panel) in panels.values.chunks_exact(columns * WIDE).enumerate() {
            let first = number * WIDE;
            let width = WIDE.min(panels.rows - first);
            for (tile, values) in tiles.chunks_exact(columns * HIGH).enumerate() {
                let Some(height) = count.checked_sub(tile * HIGH).filter(|&height| height > 0)
                else {
                    break;
                };
                let mut sums = [[0.0; WIDE]; HIGH];
                if 2 * L::WIDTH <= WIDE {
                    for start in (0..WIDE).step_by(2 * L::WIDTH) {
                        tile_product::<L, 2>(lanes, values, panel, start, &mut sums);
                    }
                } else {
                    tile_product::<L, 1>(lanes, values, panel, 0, &mut sums);
                }
                for (row, sums) in sums.iter().enumerate().take(height) {
                    let start = (tile * HIGH + row) * stride + first;
                    out[start..start + width].copy_from_slice(&sums[..width]);
                }
            }
        }
    }
}

/// The sums of a tile with the places of a panel from `start` on, in `V` vectors.
#[inline(always)]
fn tile_product<L: Lanes, const V: usize>(
    lanes: L,
    tile: &[f32],
    panel: &[f32],
    start: usize,
    out: &mut [[f32; WIDE]; HIGH],
) {
    let mut sums = [[lanes.splat(0.0); V]; HIGH];
    let (tile, _) = tile.as_chunks::<HIGH>();
    let (panel, _) = panel.as_chunks::<WIDE>();
    for (values, places) in tile.iter().zip(panel) {
        let mut right = [lanes.splat(0.0); V];
        for (number, right) in right.iter_mut().enumerate() {
            *right = lanes.load(&places[start + number * L::WIDTH..]);
        }
        for (sums, &value) in sums.iter_mut().zip(values) {
            let value = lanes.splat(value);
            for (sum, &right) in sums.iter_mut().zip(&right) {
                *sum = *sum + value * right;
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(&sums) {
        for (number, sum) in sums.iter().enumerate() {
            sum.store(&mut out[start + number * L::WIDTH..]);
        }
    }
}
