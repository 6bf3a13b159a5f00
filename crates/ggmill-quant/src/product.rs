//! Matrix multiplication in single precision.
//!
//! Every element of a product is one sum that starts at 0 and adds the products in column order
//! with a fused multiply-add. So its bits depend neither on the CPU nor on how the work is divided;
//! CPUs without FMA emulate it, slowly. The speed comes from computing independent elements
//! together: a vector holds elements of one row, and several rows and vectors are accumulated at
//! once.

#![allow(
    clippy::inline_always,
    reason = "vector code is fast only when inlined into the function compiled for its instructions"
)]

use core::ops::Range;

use crate::error::{Detail, Error, Result};
use crate::isa::Isa;
use crate::lanes::{Floats, Lanes, Work};

/// Rows of the right operand in a panel.
const PANEL_ROWS: usize = 32;
/// Columns that are multiplied before going on to the next rows, so that this part of the panel and
/// of the rows stays in cache. The partial sums are stored in the result, which keeps their bits.
const COLUMNS_PER_PASS: usize = 512;
/// Columns per unrolled step.
const COLUMNS_PER_STEP: usize = 8;

/// The rows of a left operand: a view of a slice with a row stride.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    values: &'a [f32],
    count: usize,
    stride: usize,
    columns: usize,
}

/// A right operand packed for [`multiply`](Self::multiply). Its rows are multiplied with each row
/// of the left operand, so the product is `left · rightᵀ`.
///
/// ```
/// use ggmill_quant::{Panels, Rows};
/// let mut right = Panels::default();
/// right.pack(&[1.0, 0.0, 1.0, 1.0, 0.5, 0.25], 2)?;
/// let left = Rows::new(&[1.0, 2.0, 3.0, 4.0], 2, 2, 2)?;
/// let mut out = [0.0; 6];
/// right.multiply(&left, &mut out, 3)?;
/// assert_eq!(out, [1.0, 3.0, 1.0, 3.0, 7.0, 2.5]);
/// # Ok::<(), ggmill_quant::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Panels {
    /// One panel after the other: for each column, the values of 32 rows. May be longer than the
    /// current panels, because the allocation is reused.
    values: Vec<f32>,
    rows: usize,
    columns: usize,
}

/// A panel of at most [`Panels::WIDTH`] rows of the right operand, to be filled.
#[derive(Debug)]
pub struct Panel<'a> {
    places: &'a mut [f32],
    rows: usize,
    columns: usize,
}

/// Grows `values` to at least `len` elements. New elements are 0; old ones may be lost.
fn grow(values: &mut Vec<f32>, len: Option<usize>) -> Result<()> {
    let too_large =
        || Error::new(Detail::Memory { elements: len.map_or(u64::MAX, |len| len as u64) });
    let len = len.ok_or_else(too_large)?;
    if values.len() >= len {
        return Ok(());
    }
    if values.capacity() < len {
        // Free the old allocation instead of copying it: its content is not needed.
        *values = Vec::new();
    }
    values.try_reserve_exact(len - values.len()).map_err(|_| too_large())?;
    values.resize(len, 0.0);
    Ok(())
}

/// Returns the number of rows, or an error if the values are not whole rows.
fn row_count(values: &[f32], columns: usize) -> Result<usize> {
    match values.len().checked_div(columns) {
        Some(rows) if rows * columns == values.len() => Ok(rows),
        _ => Err(Error::new(Detail::NotRows { found: values.len(), row_len: columns })),
    }
}

fn check_len(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::new(Detail::Length { what, found, expected }))
    }
}

/// Returns the number of elements from the first to the last of `count` rows.
fn span_len(count: usize, stride: usize, columns: usize) -> usize {
    if count == 0 { 0 } else { (count - 1).saturating_mul(stride).saturating_add(columns) }
}

impl<'a> Rows<'a> {
    /// Views `values` as `count` rows of `columns` elements, whose starts are `stride` elements
    /// apart.
    ///
    /// # Errors
    ///
    /// If the rows overlap or `values` is too short.
    pub fn new(values: &'a [f32], count: usize, stride: usize, columns: usize) -> Result<Self> {
        check_len("elements from row to row", stride.max(columns), stride)?;
        let needed = span_len(count, stride, columns);
        check_len("elements of rows", values.len().max(needed), values.len())?;
        Ok(Self { values, count, stride, columns })
    }

    #[inline(always)]
    fn row(&self, number: usize, columns: Range<usize>) -> &'a [f32] {
        &self.values[number * self.stride..][columns]
    }
}

impl Panels {
    /// The number of rows in a panel. Parts of the right operand begin at a multiple of it.
    pub const WIDTH: usize = PANEL_ROWS;

    /// Replaces the content by rows of `columns` values.
    ///
    /// # Errors
    ///
    /// If `values` is not whole rows, or memory cannot be allocated.
    pub fn pack(&mut self, values: &[f32], columns: usize) -> Result<()> {
        let rows = row_count(values, columns)?;
        self.pack_rows(&Rows::new(values, rows, columns, columns)?)
    }

    /// Replaces the content by `rows`. Errors as [`pack`](Self::pack).
    pub fn pack_rows(&mut self, rows: &Rows<'_>) -> Result<()> {
        for (number, panel) in self.parts(rows.count, rows.columns)?.enumerate() {
            let (first, places) = (number * PANEL_ROWS, panel.places);
            Isa::best().run(Pack { rows, first, height: panel.rows, panel: places });
        }
        Ok(())
    }

    /// Resizes to `rows` rows of `columns` columns and returns the panels in order. Fill each with
    /// [`Panel::pack`], on any thread; until all are filled, products are meaningless.
    ///
    /// # Errors
    ///
    /// If memory cannot be allocated.
    pub fn parts(
        &mut self,
        rows: usize,
        columns: usize,
    ) -> Result<impl Iterator<Item = Panel<'_>>> {
        self.begin(rows, columns)?;
        let len = rows.next_multiple_of(PANEL_ROWS) * columns;
        let panels = self.values[..len].chunks_exact_mut((columns * PANEL_ROWS).max(1));
        let panel = move |(number, places)| {
            let rows = PANEL_ROWS.min(rows - number * PANEL_ROWS);
            Panel { places, rows, columns }
        };
        Ok(panels.enumerate().map(panel))
    }

    /// Replaces the content by the transpose of `rows`. Errors as [`pack`](Self::pack).
    pub fn pack_transposed(&mut self, rows: &Rows<'_>) -> Result<()> {
        self.begin(rows.columns, rows.count)?;
        let columns = self.columns;
        for column in 0..columns {
            let row = rows.row(column, 0..rows.columns);
            for (number, values) in row.chunks(PANEL_ROWS).enumerate() {
                let start = (number * columns + column) * PANEL_ROWS;
                let (whole, rest) =
                    self.values[start..start + PANEL_ROWS].split_at_mut(values.len());
                whole.copy_from_slice(values);
                rest.fill(0.0);
            }
        }
        Ok(())
    }

    fn begin(&mut self, rows: usize, columns: usize) -> Result<()> {
        let len =
            rows.checked_next_multiple_of(PANEL_ROWS).and_then(|rows| rows.checked_mul(columns));
        grow(&mut self.values, len)?;
        (self.rows, self.columns) = (rows, columns);
        Ok(())
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Stores the dot product of row `i` of `left` and row `j` of `self` at `out[stride * i + j]`.
    ///
    /// # Errors
    ///
    /// If the operands have different numbers of columns, or `out` or `stride` is too small. On
    /// error nothing has been written.
    pub fn multiply(&self, left: &Rows<'_>, out: &mut [f32], stride: usize) -> Result<()> {
        self.multiply_part(Isa::best(), 0..self.rows, 0..self.columns, left, out, stride)
    }

    /// Multiplies with the rows `rows` and the columns `columns` of `self`, using the instruction
    /// set `isa`, on which the result does not depend. `left` has only these columns, and `out[0]`
    /// is the element of the first of these rows.
    ///
    /// # Errors
    ///
    /// Those of [`multiply`](Self::multiply); also if a range is out of bounds or `rows` does not
    /// start at a multiple of [`WIDTH`](Self::WIDTH).
    pub fn multiply_part(
        &self,
        isa: Isa,
        rows: Range<usize>,
        columns: Range<usize>,
        left: &Rows<'_>,
        out: &mut [f32],
        stride: usize,
    ) -> Result<()> {
        check_len("rows", rows.end.min(self.rows), rows.end)?;
        check_len("rows before the first", rows.start.next_multiple_of(PANEL_ROWS), rows.start)?;
        check_len("columns", columns.end.min(self.columns), columns.end)?;
        check_len("columns", left.columns, columns.len())?;
        check_len("elements from row to row", stride.max(rows.len()), stride)?;
        if left.count == 0 || rows.is_empty() {
            return Ok(());
        }
        let needed = span_len(left.count, stride, rows.len());
        check_len("elements of room", out.len().max(needed), out.len())?;
        isa.run(Product { panels: self, rows, columns, left, out, stride });
        Ok(())
    }
}

impl Panel<'_> {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Fills the panel with the values of its rows, using the instruction set `isa`.
    ///
    /// # Errors
    ///
    /// If `values` has another number of elements than the rows.
    pub fn pack(self, isa: Isa, values: &[f32]) -> Result<()> {
        check_len("elements of rows", values.len(), self.rows * self.columns)?;
        let rows = &Rows::new(values, self.rows, self.columns, self.columns)?;
        isa.run(Pack { rows, first: 0, height: self.rows, panel: self.places });
        Ok(())
    }
}

/// Packs the rows of a panel from `first` on, eight columns at a time.
struct Pack<'a> {
    rows: &'a Rows<'a>,
    first: usize,
    height: usize,
    panel: &'a mut [f32],
}

impl Work for Pack<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { rows, first, height, panel } = self;
        let (places, _) = panel.as_chunks_mut::<PANEL_ROWS>();
        let (steps, rest) = places.as_chunks_mut::<COLUMNS_PER_STEP>();
        let mut step_rows = [[0.0; COLUMNS_PER_STEP]; PANEL_ROWS];
        for (step, places) in steps.iter_mut().enumerate() {
            for (row, step_rows) in step_rows.iter_mut().enumerate().take(height) {
                let start = step * COLUMNS_PER_STEP;
                step_rows.copy_from_slice(rows.row(first + row, start..start + COLUMNS_PER_STEP));
            }
            for start in (0..PANEL_ROWS).step_by(L::WIDTH) {
                let vectors = lanes.eight_columns(&step_rows, start, 0);
                for (places, vector) in places.iter_mut().zip(vectors) {
                    vector.store(&mut places[start..]);
                }
            }
        }
        let first_left = rows.columns - rest.len();
        for (column, places) in rest.iter_mut().enumerate() {
            for (row, place) in places.iter_mut().enumerate() {
                let column = first_left + column;
                *place =
                    if row < height { rows.row(first + row, column..column + 1)[0] } else { 0.0 };
            }
        }
    }
}

struct Product<'a> {
    panels: &'a Panels,
    rows: Range<usize>,
    columns: Range<usize>,
    left: &'a Rows<'a>,
    out: &'a mut [f32],
    stride: usize,
}

impl Work for Product<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // Enough accumulators to hide the latency of an addition, and no more than fit into the
        // registers with the operands.
        match L::WIDTH {
            16 => self.by_tiles::<L, 8, 2>(lanes),
            8 => self.by_tiles::<L, 6, 2>(lanes),
            _ => self.by_tiles::<L, 4, 1>(lanes),
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn by_tiles<L: Lanes, const HIGH: usize, const V: usize>(self, lanes: L) {
        let Self { panels, rows, columns, left, out, stride } = self;
        if columns.is_empty() {
            for row in out.chunks_mut(stride).take(left.count) {
                row[..rows.len()].fill(0.0);
            }
            return;
        }
        // The partial sums of a panel stay in the L1 cache between passes over columns.
        for first in rows.clone().step_by(PANEL_ROWS) {
            let width = PANEL_ROWS.min(rows.end - first);
            for start in columns.clone().step_by(COLUMNS_PER_PASS) {
                let pass = start..columns.end.min(start + COLUMNS_PER_PASS);
                let of_left = pass.start - columns.start..pass.end - columns.start;
                // The offset of the panel's first column of this pass.
                let offset = first * panels.columns + pass.start * PANEL_ROWS;
                let panel = &panels.values[offset..][..pass.len() * PANEL_ROWS];
                let (panel, _) = panel.as_chunks::<PANEL_ROWS>();
                for top in (0..left.count).step_by(HIGH) {
                    let last = left.count - 1;
                    let mut tile = [left.row(top, of_left.clone()); HIGH];
                    for (row, values) in tile.iter_mut().enumerate().skip(1) {
                        *values = left.row(last.min(top + row), of_left.clone());
                    }
                    let height = HIGH.min(left.count - top);
                    for lane in (0..width).step_by(V * L::WIDTH) {
                        let at = top * stride + first - rows.start + lane;
                        let mut tile_out = OutputTile {
                            out: &mut out[at..],
                            stride,
                            height,
                            width: (width - lane).min(V * L::WIDTH),
                        };
                        let is_first = start == columns.start;
                        tile_product::<L, HIGH, V>(
                            lanes,
                            &tile,
                            panel,
                            lane,
                            &mut tile_out,
                            is_first,
                        );
                    }
                }
            }
        }
    }
}

/// The part of the output that a tile accumulates into.
struct OutputTile<'a> {
    out: &'a mut [f32],
    stride: usize,
    height: usize,
    width: usize,
}

/// Accumulates the products of `HIGH` rows with `V` vectors of a panel's rows from `lane` on.
#[inline(always)]
fn tile_product<L: Lanes, const HIGH: usize, const V: usize>(
    lanes: L,
    tile: &[&[f32]; HIGH],
    panel: &[[f32; PANEL_ROWS]],
    lane: usize,
    tile_out: &mut OutputTile<'_>,
    is_first: bool,
) {
    let is_whole = tile_out.width == V * L::WIDTH;
    let mut sums = [[lanes.splat(0.0); V]; HIGH];
    if !is_first {
        for (row, sums) in sums.iter_mut().enumerate().take(tile_out.height) {
            let out = &tile_out.out[row * tile_out.stride..][..tile_out.width];
            if is_whole {
                load(lanes, out, sums);
            } else {
                let mut padded = [0.0; PANEL_ROWS];
                padded[..tile_out.width].copy_from_slice(out);
                load(lanes, &padded, sums);
            }
        }
    }
    let (steps, rest) = panel.as_chunks::<COLUMNS_PER_STEP>();
    let mut rows: [&[[f32; COLUMNS_PER_STEP]]; HIGH] = [&[]; HIGH];
    for (row, values) in rows.iter_mut().zip(tile) {
        *row = &values.as_chunks::<COLUMNS_PER_STEP>().0[..steps.len()];
    }
    for (step, places) in steps.iter().enumerate() {
        let mut now = [&rows[0][step]; HIGH];
        #[allow(
            clippy::needless_range_loop,
            reason = "LLVM unrolls a loop that counts, and the rows stay in registers"
        )]
        for row in 1..HIGH {
            now[row] = &rows[row][step];
        }
        for (column, places) in places.iter().enumerate() {
            let mut right = [lanes.splat(0.0); V];
            for (number, right) in right.iter_mut().enumerate() {
                *right = lanes.load(&places[lane + number * L::WIDTH..]);
            }
            for (sums, row) in sums.iter_mut().zip(&now) {
                let value = lanes.splat(row[column]);
                for (sum, &right) in sums.iter_mut().zip(&right) {
                    *sum = value.fused(right, *sum);
                }
            }
        }
    }
    for (column, places) in (steps.len() * COLUMNS_PER_STEP..).zip(rest) {
        for (sums, row) in sums.iter_mut().zip(tile) {
            let value = lanes.splat(row[column]);
            for (number, sum) in sums.iter_mut().enumerate() {
                *sum = value.fused(lanes.load(&places[lane + number * L::WIDTH..]), *sum);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate().take(tile_out.height) {
        let out = &mut tile_out.out[row * tile_out.stride..][..tile_out.width];
        if is_whole {
            store(sums, out);
        } else {
            let mut padded = [0.0; PANEL_ROWS];
            store(sums, &mut padded);
            out.copy_from_slice(&padded[..tile_out.width]);
        }
    }
}

#[inline(always)]
fn load<L: Lanes, const V: usize>(lanes: L, values: &[f32], sums: &mut [L::F; V]) {
    for (number, sum) in sums.iter_mut().enumerate() {
        *sum = lanes.load(&values[number * L::WIDTH..]);
    }
}

#[inline(always)]
fn store<F: Floats, const V: usize>(sums: &[F; V], out: &mut [f32]) {
    for (number, sum) in sums.iter().enumerate() {
        sum.store(&mut out[number * F::WIDTH..]);
    }
}
