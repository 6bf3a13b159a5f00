//! Products of matrices in single precision.
//!
//! Every element of a product is one sum: it begins with 0, and products are added in the order of
//! the columns, each product and its sum rounded once (a fused multiply-add). So its bits depend
//! neither on the machine nor on how the work is divided; machines without such an instruction
//! compute the same, slowly. Speed comes from elements side by side: a vector has elements of one
//! row, and several rows and vectors are summed at once.

#![allow(
    clippy::inline_always,
    reason = "work has to be inlined into the function that is compiled for its instructions"
)]

use core::ops::Range;

use crate::error::{Detail, Error, Result};
use crate::isa::Isa;
use crate::lanes::{Floats, Lanes, Work};

/// Rows of the right operand side by side.
const WIDE: usize = 32;
/// Columns that are multiplied before the next rows: so much of a panel and of the rows stays in near
/// caches. Sums wait in the result meanwhile, which changes none of their bits.
const DEEP: usize = 512;
/// Columns of one step.
const STEP: usize = 8;

/// Rows of a left operand, where they are: each some numbers of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    values: &'a [f32],
    count: usize,
    stride: usize,
    columns: usize,
}

/// The right operand, arranged for [`multiply`](Self::multiply): rows whose products with each row
/// of the left operand are wanted.
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
    /// Panel after panel: for each column, the values of 32 rows. Then what is left of more rows
    /// than there are now, so that its memory serves again.
    values: Vec<f32>,
    rows: usize,
    columns: usize,
}

/// Some rows of the right operand, at most [`Panels::WIDTH`], that have room but no values yet.
#[derive(Debug)]
pub struct Panel<'a> {
    places: &'a mut [f32],
    rows: usize,
    columns: usize,
}

/// Room for numbers, 0 where there are none yet.
fn room(values: &mut Vec<f32>, len: Option<usize>) -> Result<()> {
    let too_large =
        || Error::new(Detail::Memory { elements: len.map_or(u64::MAX, |len| len as u64) });
    let len = len.ok_or_else(too_large)?;
    if values.len() >= len {
        return Ok(());
    }
    if values.capacity() < len {
        // There is nothing to keep.
        *values = Vec::new();
    }
    values.try_reserve_exact(len - values.len()).map_err(|_| too_large())?;
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

fn length(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::new(Detail::Length { what, found, expected }))
    }
}

/// The numbers that rows reach over.
fn reach(count: usize, stride: usize, columns: usize) -> usize {
    if count == 0 { 0 } else { (count - 1).saturating_mul(stride).saturating_add(columns) }
}

impl<'a> Rows<'a> {
    /// So many rows of so many columns, each `stride` numbers after the one before.
    ///
    /// Fails when rows overlap, and when there are too few values.
    pub fn new(values: &'a [f32], count: usize, stride: usize, columns: usize) -> Result<Self> {
        length("elements from row to row", stride.max(columns), stride)?;
        let needed = reach(count, stride, columns);
        length("elements of rows", values.len().max(needed), values.len())?;
        Ok(Self { values, count, stride, columns })
    }

    #[inline(always)]
    fn row(&self, number: usize, columns: Range<usize>) -> &'a [f32] {
        &self.values[number * self.stride..][columns]
    }
}

impl Panels {
    /// Rows of the right operand that belong together: a part of it begins at a multiple.
    pub const WIDTH: usize = WIDE;

    /// Takes rows of so many columns, in place of those it has.
    ///
    /// Fails when the values are not whole rows, and when there is no memory.
    pub fn pack(&mut self, values: &[f32], columns: usize) -> Result<()> {
        let rows = rows_of(values, columns)?;
        self.pack_rows(&Rows::new(values, rows, columns, columns)?)
    }

    /// Takes rows in place of those it has; fails as [`pack`](Self::pack) does.
    pub fn pack_rows(&mut self, rows: &Rows<'_>) -> Result<()> {
        for (number, panel) in self.parts(rows.count, rows.columns)?.enumerate() {
            let (first, places) = (number * WIDE, panel.places);
            Isa::best().run(Pack { rows, first, height: panel.rows, panel: places });
        }
        Ok(())
    }

    /// Makes room for so many rows of so many columns in place of those it has: the panels in order,
    /// each of which takes its rows by [`Panel::pack`], on any thread. Until all have them, products
    /// mean nothing.
    ///
    /// Fails when there is no memory.
    pub fn parts(
        &mut self,
        rows: usize,
        columns: usize,
    ) -> Result<impl Iterator<Item = Panel<'_>>> {
        self.begin(rows, columns)?;
        let len = rows.next_multiple_of(WIDE) * columns;
        let panels = self.values[..len].chunks_exact_mut((columns * WIDE).max(1));
        let panel = move |(number, places)| {
            let rows = WIDE.min(rows - number * WIDE);
            Panel { places, rows, columns }
        };
        Ok(panels.enumerate().map(panel))
    }

    /// Takes the columns of some rows as its rows; fails as [`pack`](Self::pack) does.
    pub fn pack_transposed(&mut self, rows: &Rows<'_>) -> Result<()> {
        self.begin(rows.columns, rows.count)?;
        let columns = self.columns;
        for column in 0..columns {
            let row = rows.row(column, 0..rows.columns);
            for (number, values) in row.chunks(WIDE).enumerate() {
                let start = (number * columns + column) * WIDE;
                let (whole, rest) = self.values[start..start + WIDE].split_at_mut(values.len());
                whole.copy_from_slice(values);
                rest.fill(0.0);
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

    /// How many columns they have.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Multiplies: the product of row `i` of the left operand with row `j` of this one goes to place
    /// `stride * i + j` of `out`.
    ///
    /// Fails, with nothing written, when the operands have different numbers of columns, and when
    /// `out` or `stride` is too short.
    pub fn multiply(&self, left: &Rows<'_>, out: &mut [f32], stride: usize) -> Result<()> {
        self.multiply_part(Isa::best(), 0..self.rows, 0..self.columns, left, out, stride)
    }

    /// The same with some of the rows, some of the columns and certain instructions: with the same
    /// result for any instructions. Place 0 of `out` is of the first of these rows; the left operand
    /// has these columns alone.
    ///
    /// Fails also when there are no such rows or columns, and when the rows do not begin at a
    /// multiple of [`WIDTH`](Self::WIDTH).
    pub fn multiply_part(
        &self,
        isa: Isa,
        rows: Range<usize>,
        columns: Range<usize>,
        left: &Rows<'_>,
        out: &mut [f32],
        stride: usize,
    ) -> Result<()> {
        length("rows", rows.end.min(self.rows), rows.end)?;
        length("rows before the first", rows.start.next_multiple_of(WIDE), rows.start)?;
        length("columns", columns.end.min(self.columns), columns.end)?;
        length("columns", left.columns, columns.len())?;
        length("elements from row to row", stride.max(rows.len()), stride)?;
        if left.count == 0 || rows.is_empty() {
            return Ok(());
        }
        let needed = reach(left.count, stride, rows.len());
        length("elements of room", out.len().max(needed), out.len())?;
        isa.run(Product { panels: self, rows, columns, left, out, stride });
        Ok(())
    }
}

impl Panel<'_> {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the values of its rows, with certain instructions.
    ///
    /// Fails when there are more or fewer.
    pub fn pack(self, isa: Isa, values: &[f32]) -> Result<()> {
        length("elements of rows", values.len(), self.rows * self.columns)?;
        let rows = &Rows::new(values, self.rows, self.columns, self.columns)?;
        isa.run(Pack { rows, first: 0, height: self.rows, panel: self.places });
        Ok(())
    }
}

/// Arranges the rows of a panel, which begin at `first`: eight columns at a time.
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
        let (places, _) = panel.as_chunks_mut::<WIDE>();
        let (steps, rest) = places.as_chunks_mut::<STEP>();
        let mut some = [[0.0; STEP]; WIDE];
        for (step, places) in steps.iter_mut().enumerate() {
            for (row, some) in some.iter_mut().enumerate().take(height) {
                let start = step * STEP;
                some.copy_from_slice(rows.row(first + row, start..start + STEP));
            }
            for start in (0..WIDE).step_by(L::WIDTH) {
                let vectors = lanes.eight_columns(&some, start, 0);
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
        // Enough sums that none waits for the one before, and as many as there are registers for
        // beside the other operands.
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
        // The sums of a panel stay in the nearest cache from some columns to the next.
        for first in rows.clone().step_by(WIDE) {
            let width = WIDE.min(rows.end - first);
            for start in columns.clone().step_by(DEEP) {
                let some = start..columns.end.min(start + DEEP);
                let of_left = some.start - columns.start..some.end - columns.start;
                // The first number of a panel's columns.
                let place = first * panels.columns + some.start * WIDE;
                let panel = &panels.values[place..][..some.len() * WIDE];
                let (panel, _) = panel.as_chunks::<WIDE>();
                for top in (0..left.count).step_by(HIGH) {
                    let last = left.count - 1;
                    let mut tile = [left.row(top, of_left.clone()); HIGH];
                    for (row, values) in tile.iter_mut().enumerate().skip(1) {
                        *values = left.row(last.min(top + row), of_left.clone());
                    }
                    let height = HIGH.min(left.count - top);
                    for lane in (0..width).step_by(V * L::WIDTH) {
                        let at = top * stride + first - rows.start + lane;
                        let mut room = Room {
                            out: &mut out[at..],
                            stride,
                            height,
                            width: (width - lane).min(V * L::WIDTH),
                        };
                        let is_first = start == columns.start;
                        tile_product::<L, HIGH, V>(lanes, &tile, panel, lane, &mut room, is_first);
                    }
                }
            }
        }
    }
}

/// Where the sums of a tile are.
struct Room<'a> {
    out: &'a mut [f32],
    stride: usize,
    height: usize,
    width: usize,
}

/// The sums of some rows with the places of a panel from `lane` on, in `V` vectors for each row.
#[inline(always)]
fn tile_product<L: Lanes, const HIGH: usize, const V: usize>(
    lanes: L,
    tile: &[&[f32]; HIGH],
    panel: &[[f32; WIDE]],
    lane: usize,
    room: &mut Room<'_>,
    is_first: bool,
) {
    let is_whole = room.width == V * L::WIDTH;
    let mut sums = [[lanes.splat(0.0); V]; HIGH];
    if !is_first {
        for (row, sums) in sums.iter_mut().enumerate().take(room.height) {
            let out = &room.out[row * room.stride..][..room.width];
            if is_whole {
                load(lanes, out, sums);
            } else {
                let mut held = [0.0; WIDE];
                held[..room.width].copy_from_slice(out);
                load(lanes, &held, sums);
            }
        }
    }
    let (steps, rest) = panel.as_chunks::<STEP>();
    let mut rows: [&[[f32; STEP]]; HIGH] = [&[]; HIGH];
    for (row, values) in rows.iter_mut().zip(tile) {
        *row = &values.as_chunks::<STEP>().0[..steps.len()];
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
    for (column, places) in (steps.len() * STEP..).zip(rest) {
        for (sums, row) in sums.iter_mut().zip(tile) {
            let value = lanes.splat(row[column]);
            for (number, sum) in sums.iter_mut().enumerate() {
                *sum = value.fused(lanes.load(&places[lane + number * L::WIDTH..]), *sum);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate().take(room.height) {
        let out = &mut room.out[row * room.stride..][..room.width];
        if is_whole {
            store(sums, out);
        } else {
            let mut held = [0.0; WIDE];
            store(sums, &mut held);
            out.copy_from_slice(&held[..room.width]);
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
