//! Evaluation of a range of an expression, and reading the source in few pieces.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use ggmill_core::GgmlType;
use ggmill_quant as quant;

use crate::buffers::{BufferPool, resize, zeroed};
use crate::error::{Error, ErrorKind, Result};
use crate::expression::decode::{Elements, Inputs, decode_rows};
use crate::expression::region::{
    Linear, Loop, Out, Region, Stride, from_packed, join, linear_strides, pack, size, strides,
    unflatten,
};
use crate::expression::{CHUNK, Expression, Kind, Values};
use crate::source::Checkpoint;

/// Evaluates expressions over one source, and caches their reductions.
pub(crate) struct Evaluator<'a> {
    pub(super) source: &'a dyn Checkpoint,
    pub(crate) buffers: BufferPool,
    /// By the address of the expression's node, which outlives the evaluator.
    pub(super) reduced: Mutex<BTreeMap<usize, Slot>>,
}

type Slot = Arc<Mutex<Option<Arc<[f32]>>>>;

impl Elements for Evaluator<'_> {
    fn bytes_of(&self, this: &Expression, elements: Range<u64>) -> Result<Vec<u8>> {
        self.bytes(this, elements.start, elements.end)
    }

    fn floats_of(&self, this: &Expression, elements: Range<u64>) -> Result<Vec<f32>> {
        self.values(this, elements.start, elements.end)
    }
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator that keeps at most `buffers` buffers.
    pub(crate) fn new(source: &'a dyn Checkpoint, buffers: usize) -> Self {
        Self { source, buffers: BufferPool::new(buffers), reduced: Mutex::default() }
    }

    /// Computes elements `start..end`, which must be whole blocks: little-endian bytes.
    pub(crate) fn bytes(&self, this: &Expression, start: u64, end: u64) -> Result<Vec<u8>> {
        check(this, start..end)?;
        let (elements, atom) = this.0.block;
        if !start.is_multiple_of(elements) || !end.is_multiple_of(elements) {
            return Err(Error::new(
                ErrorKind::Misuse,
                format!(
                    "elements {start} to {end} are not complete blocks of {}",
                    this.ggml_type()
                ),
            ));
        }
        let (start, end) = (start / elements, end / elements);
        let mut bytes = self.buffers.take(size(end - start).saturating_mul(atom))?;
        let mut out = Out::Bytes { bytes: &mut bytes, atom };
        Region::each(&this.0.extents, start, end, &mut |region| self.fill(this, region, &mut out))?;
        Ok(bytes)
    }

    /// Computes elements `start..end` as `f32`.
    pub(crate) fn values(&self, this: &Expression, start: u64, end: u64) -> Result<Vec<f32>> {
        check(this, start..end)?;
        let mut values = zeroed(size(end - start))?;
        Region::each(&this.dimensions(1), start, end, &mut |region| {
            self.floats(this, region, &mut values)
        })?;
        Ok(values)
    }

    /// Computes the atoms of a region and stores them at their positions in `out`.
    pub(super) fn fill(
        &self,
        this: &Expression,
        mut region: Region,
        out: &mut Out<'_>,
    ) -> Result<()> {
        match &this.0.kind {
            Kind::Tensor { number, .. } => {
                let (start, loops) = region.flatten(&this.0.extents);
                let mut reading = Reading {
                    number: *number,
                    atom: this.0.block.1,
                    out,
                    buffer: self.buffers.take(0)?,
                };
                reading.read(self.source, start, loops, region.to)?;
                self.buffers.put_back(reading.buffer);
                Ok(())
            }
            Kind::Zeros => {
                out.put_zeros(&region.loops, size(region.to));
                Ok(())
            }
            Kind::Axes { child, order } => {
                let at = region.at;
                for (dimension, &child_dimension) in order.iter().enumerate() {
                    region.at[child_dimension] = at[dimension];
                }
                region.loops.iter_mut().for_each(|this| this.dimension = order[this.dimension]);
                self.fill(child, region, out)
            }
            Kind::Reshape { child } => {
                let (start, loops) = region.flatten(&this.0.extents);
                unflatten(&child.0.extents, start, region.to, loops, &mut |region| {
                    self.fill(child, region, out)
                })
            }
            Kind::Slice { child, dimension, start, step } => {
                region.at[*dimension] = start + region.at[*dimension] * step;
                region
                    .loops
                    .iter_mut()
                    .filter(|this| this.dimension == *dimension)
                    .for_each(|this| this.step *= step);
                self.fill(child, region, out)
            }
            Kind::Broadcast { child, dimension } => {
                region.at[*dimension] = 0;
                region
                    .loops
                    .iter_mut()
                    .filter(|this| this.dimension == *dimension)
                    .for_each(|this| this.step = 0);
                self.fill(child, region, out)
            }
            Kind::Join { parts, dimension, ends } => {
                region.split(*dimension, ends, &mut |part, region| {
                    self.fill(&parts[part], region, out)
                })
            }
            Kind::Values(Values::Integers(values)) => {
                let (start, loops) = region.flatten(&this.0.extents);
                visit_loops(&loops, start, region.to, &mut |from, to| {
                    put(out, to, values[size(from)].to_le_bytes());
                });
                Ok(())
            }
            Kind::Values(Values::ComputedIntegers(value)) => {
                let (start, loops) = region.flatten(&this.0.extents);
                visit_loops(&loops, start, region.to, &mut |from, to| {
                    put(out, to, value(from).to_le_bytes());
                });
                Ok(())
            }
            Kind::Encoded { child, encoding, fidelity } => {
                self.encode(this, child, encoding, fidelity, region, out)
            }
            Kind::Decoded { inputs, decoder } => {
                let width = this.0.extents[0];
                self.rows(this, region, out, width, &mut |rows, _, out| {
                    let inputs = Inputs { elements: self, inputs };
                    decode_rows(&**decoder, rows, size(width) * this.0.block.1, &inputs, out)
                })
            }
            Kind::Values(_)
            | Kind::Float { .. }
            | Kind::Map { .. }
            | Kind::Pair { .. }
            | Kind::Reduce { .. }
            | Kind::MatrixProduct { .. } => {
                if this.ggml_type() == GgmlType::F32 {
                    return Self::through_floats(&mut region, out, &mut |region, out| {
                        self.arithmetic(this, region, out)
                    });
                }
                self.through_bytes(&mut region, out, this.0.block.1, &mut |region, out| {
                    let mut values = zeroed(size(region.atoms()))?;
                    self.arithmetic(this, region, &mut values)?;
                    quant::quantize(this.ggml_type(), &values, values.len(), None, out)
                        .map_err(|error| Error::caused(ErrorKind::Unsupported, error))
                })
            }
        }
    }

    /// Computes a packed region of an arithmetic expression as `f32`, one for each element.
    fn arithmetic(&self, this: &Expression, region: &Region, out: &mut [f32]) -> Result<()> {
        match &this.0.kind {
            Kind::Float { child } => self.floats(child, region.clone(), out),
            Kind::Map { child, map } => {
                self.floats(child, region.clone(), out)?;
                map.apply(out);
                Ok(())
            }
            Kind::Pair { operands: [first, second], pair } => {
                self.floats(first, region.clone(), out)?;
                let mut others = zeroed(out.len())?;
                self.floats(second, region.clone(), &mut others)?;
                pair.apply(out, &others);
                Ok(())
            }
            Kind::Reduce { child, reduction } => {
                let numbers = self.reduced(this, child, *reduction)?;
                let (start, loops) = region.flatten(&this.0.extents);
                Out::Floats(out).put_floats(&linear_strides(&loops), &numbers[size(start)..], 0);
                Ok(())
            }
            Kind::Values(Values::Floats(values)) => {
                let (start, loops) = region.flatten(&this.0.extents);
                Out::Floats(out).put_floats(&linear_strides(&loops), &values[size(start)..], 0);
                Ok(())
            }
            Kind::Values(Values::ComputedFloats(value)) => {
                let (start, loops) = region.flatten(&this.0.extents);
                visit_loops(&loops, start, 0, &mut |from, to| out[to] = value(from));
                Ok(())
            }
            Kind::MatrixProduct { factors } => self.matrix_product(this, factors, region, out),
            _ => Err(Error::new(ErrorKind::Misuse, "cannot be computed")),
        }
    }

    /// Computes a region as `f32` and stores it in `out`. The region counts elements, also for a
    /// type with blocks.
    pub(super) fn floats(
        &self,
        this: &Expression,
        mut region: Region,
        out: &mut [f32],
    ) -> Result<()> {
        let (block, atom) = this.0.block;
        if this.ggml_type() == GgmlType::F32 {
            return self.fill(this, region, &mut Out::Floats(out));
        }
        let unsupported = |error| Error::caused(ErrorKind::Unsupported, error);
        if block == 1 {
            return Self::through_floats(&mut region, &mut Out::Floats(out), &mut |region, out| {
                let mut bytes = self.buffers.take(out.len().saturating_mul(atom))?;
                self.fill(this, region.clone(), &mut Out::Bytes { bytes: &mut bytes, atom })?;
                quant::dequantize(this.ggml_type(), &bytes, out).map_err(unsupported)?;
                self.buffers.put_back(bytes);
                Ok(())
            });
        }
        // The range of whole blocks that covers the region.
        let (low, high) = region.range(0);
        let (first, blocks) = (low / block, high.div_ceil(block) - low / block);
        if let Some(halves) = split_large(&mut region, blocks * block) {
            return halves.into_iter().try_for_each(|half| self.floats(this, half, out));
        }
        let mut whole = Region { to: 0, ..region.clone() };
        whole.at[0] = first;
        whole.loops.retain(|this| this.dimension != 0);
        let atoms = pack(&mut whole.loops, blocks);
        let mut strides: Vec<Stride> = from_packed(
            &whole.loops,
            &region.loops.iter().filter(|this| this.dimension != 0).copied().collect::<Vec<_>>(),
        );
        for this in &mut strides {
            this.from *= size(block);
        }
        strides.extend(region.loops.iter().filter(|this| this.dimension == 0).map(|this| Stride {
            count: size(this.count),
            from: size(this.step),
            to: size(this.to),
        }));
        if blocks > 1 {
            whole.loops.insert(0, Loop { count: blocks, dimension: 0, step: 1, to: 1 });
        }
        let mut bytes = self.buffers.take(size(atoms).saturating_mul(atom))?;
        self.fill(this, whole, &mut Out::Bytes { bytes: &mut bytes, atom })?;
        let elements = atoms * block;
        let is_whole = region.atoms() == elements
            && region.is_packed()
            && matches!(region.loops.first(), Some(Loop { dimension: 0, step: 1, .. }));
        if is_whole && region.loops.iter().filter(|this| this.dimension == 0).count() == 1 {
            quant::dequantize(
                this.ggml_type(),
                &bytes,
                &mut out[size(region.to)..][..size(elements)],
            )
            .map_err(unsupported)?;
        } else {
            let mut values = zeroed(size(elements))?;
            quant::dequantize(this.ggml_type(), &bytes, &mut values).map_err(unsupported)?;
            Out::Floats(out).put_floats(
                &strides,
                &values[size(low - first * block)..],
                size(region.to),
            );
        }
        self.buffers.put_back(bytes);
        Ok(())
    }

    /// Computes a region of a matrix product: sums of columns of the first factor, weighted by
    /// elements of the second.
    fn matrix_product(
        &self,
        this: &Expression,
        [first, second]: &[Expression; 2],
        region: &Region,
        out: &mut [f32],
    ) -> Result<()> {
        let mut region = region.clone();
        let (low, high) = region.range(0);
        let width = high - low;
        if let Some(halves) = split_large(&mut region, width) {
            return halves
                .into_iter()
                .try_for_each(|half| self.fill(this, half, &mut Out::Floats(out)));
        }
        let inner = first.extent(1);
        let loop_over = |dimension: usize, count: u64, to: u64| {
            (count > 1).then_some(Loop { count, dimension, step: 1, to })
        };
        let others: Vec<Loop> =
            region.loops.iter().filter(|this| this.dimension != 0).copied().collect();
        let count: u64 = others.iter().map(|this| this.count).product();
        let mut sums = zeroed::<f32>(size(width.saturating_mul(count)))?;
        // A few columns at a time, in order, so that every sum has the same order of additions for
        // any number of columns.
        let max_step = columns_per_step(width.max(count));
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut start = 0;
        while start < inner {
            let step = max_step.min(inner - start);
            let mut at = region.at;
            (at[0], at[1]) = (low, start);
            let columns = Region {
                at,
                loops: loop_over(0, width, 1)
                    .into_iter()
                    .chain(loop_over(1, step, width))
                    .collect(),
                to: 0,
            };
            let mut rows = Region { at: region.at, loops: others.clone(), to: 0 };
            rows.at[0] = start;
            let weights = pack(&mut rows.loops, step);
            rows.loops.extend(loop_over(0, step, 1));
            resize(&mut left, size(width.saturating_mul(step)))?;
            resize(&mut right, size(weights))?;
            self.floats(first, columns, &mut left)?;
            self.floats(second, rows, &mut right)?;
            for (sums, weights) in
                sums.chunks_exact_mut(size(width)).zip(right.chunks_exact(size(step)))
            {
                for (column, weight) in left.chunks_exact(size(width)).zip(weights) {
                    sums.iter_mut().zip(column).for_each(|(sum, value)| *sum += value * weight);
                }
            }
            start += step;
        }
        let mut packed = others.clone();
        pack(&mut packed, width);
        let mut strides = from_packed(&packed, &others);
        strides.extend(region.loops.iter().filter(|this| this.dimension == 0).map(|this| Stride {
            count: size(this.count),
            from: size(this.step),
            to: size(this.to),
        }));
        Out::Floats(out).put_floats(&strides, &sums, size(region.to));
        Ok(())
    }

    /// Computes the whole rows that contain a region of atoms, and stores the requested ones in
    /// `out`. `compute` gets the numbers of the rows, the packed region of rows of `width`
    /// elements, and the bytes to fill.
    pub(super) fn rows(
        &self,
        this: &Expression,
        mut region: Region,
        out: &mut Out<'_>,
        width: u64,
        compute: &mut ComputeRows<'_>,
    ) -> Result<()> {
        let (extent, atom) = (this.0.extents[0], this.0.block.1);
        if let Some(halves) = split_large(&mut region, extent * this.0.block.0) {
            return halves
                .into_iter()
                .try_for_each(|half| self.rows(this, half, out, width, compute));
        }
        let mut whole = Region { to: 0, ..region.clone() };
        whole.at[0] = 0;
        whole.loops.retain(|this| this.dimension != 0);
        let others = whole.loops.clone();
        let atoms = pack(&mut whole.loops, extent);
        let mut strides = from_packed(&whole.loops, &others);
        strides.extend(region.loops.iter().filter(|this| this.dimension == 0).map(|this| Stride {
            count: size(this.count),
            from: size(this.step),
            to: size(this.to),
        }));
        let rows = row_numbers(&whole, &this.0.extents);
        pack(&mut whole.loops, width);
        if width > 1 {
            whole.loops.insert(0, Loop { count: width, dimension: 0, step: 1, to: 1 });
        }
        let is_whole = region.atoms() == atoms
            && region.is_packed()
            && (extent == 1
                || matches!(region.loops.first(), Some(Loop { dimension: 0, step: 1, .. })));
        match out {
            Out::Bytes { bytes, .. }
                if is_whole
                    && region.loops.iter().filter(|this| this.dimension == 0).count() <= 1 =>
            {
                compute(&rows, whole, &mut bytes[size(region.to) * atom..][..size(atoms) * atom])
            }
            _ => {
                let mut bytes = self.buffers.take(size(atoms).saturating_mul(atom))?;
                compute(&rows, whole, &mut bytes)?;
                out.put_bytes(&strides, &bytes[size(region.at[0]) * atom..], size(region.to));
                self.buffers.put_back(bytes);
                Ok(())
            }
        }
    }

    /// Computes a packed region as `f32` and stores it in `out`: directly if the region is packed
    /// there too, otherwise through a buffer.
    fn through_floats(
        region: &mut Region,
        out: &mut Out<'_>,
        compute: &mut dyn FnMut(&Region, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let packed = region.pack();
        let count = size(packed.atoms());
        match out {
            Out::Floats(out) if region.is_packed() => {
                compute(&packed, &mut out[size(region.to)..][..count])
            }
            _ => {
                let mut values = zeroed(count)?;
                compute(&packed, &mut values)?;
                out.put_floats(
                    &from_packed(&packed.loops, &region.loops),
                    &values,
                    size(region.to),
                );
                Ok(())
            }
        }
    }

    /// [`through_floats`](Self::through_floats) for the bytes of atoms.
    pub(super) fn through_bytes(
        &self,
        region: &mut Region,
        out: &mut Out<'_>,
        atom: usize,
        compute: &mut dyn FnMut(&Region, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let packed = region.pack();
        let count = size(packed.atoms()) * atom;
        match out {
            Out::Bytes { bytes, .. } if region.is_packed() => {
                compute(&packed, &mut bytes[size(region.to) * atom..][..count])
            }
            _ => {
                let mut bytes = self.buffers.take(count)?;
                compute(&packed, &mut bytes)?;
                out.put_bytes(&from_packed(&packed.loops, &region.loops), &bytes, size(region.to));
                self.buffers.put_back(bytes);
                Ok(())
            }
        }
    }
}

/// Returns the number of columns of a factor to multiply in one step, if a column has `rows`
/// elements: one chunk, in whole blocks if it has several.
fn columns_per_step(rows: u64) -> u64 {
    /// The longest block of any type.
    const BLOCK: u64 = 256;
    match CHUNK / rows.max(1) {
        few @ 0..BLOCK => few.max(1),
        many => many / BLOCK * BLOCK,
    }
}

type ComputeRows<'c> = dyn FnMut(&[u64], Region, &mut [u8]) -> Result<()> + 'c;

fn check(this: &Expression, range: Range<u64>) -> Result<()> {
    if range.start <= range.end && range.end <= this.shape().elements() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Misuse,
        format!("elements {} to {} of {}", range.start, range.end, this.shape().elements()),
    ))
}

/// Sorts the loops of a region by their step in the output. If its rows of `width` elements exceed
/// two chunks, returns it in two halves.
fn split_large(region: &mut Region, width: u64) -> Option<[Region; 2]> {
    region.loops.sort_by_key(|this| this.to);
    let rows = region.loops.iter().enumerate().filter(|(_, this)| this.dimension != 0);
    let count: u64 = rows.clone().map(|(_, this)| this.count).product();
    let (longest, _) = rows
        .max_by_key(|(_, this)| this.count)
        .filter(|_| width.saturating_mul(count) > 2 * CHUNK)?;
    Some(region.clone().halves(longest))
}

/// Returns the numbers of the rows in a region, counted over all dimensions but the first.
fn row_numbers(region: &Region, extents: &[u64]) -> Vec<u64> {
    let strides = strides(extents);
    let row = extents[0].max(1);
    let first =
        region.at.iter().zip(strides).skip(1).map(|(at, stride)| at * stride).sum::<u64>() / row;
    let mut rows = vec![first];
    for this in &region.loops {
        let (step, len) = (this.step * strides[this.dimension] / row, rows.len());
        for i in 1..this.count {
            rows.extend_from_within(..len);
            let new = rows.len() - len;
            rows[new..].iter_mut().for_each(|row| *row += i * step);
        }
    }
    rows
}

/// Calls `visit` with the index in the array and in the output of every iteration.
fn visit_loops(loops: &[Linear], from: u64, to: u64, visit: &mut dyn FnMut(u64, usize)) {
    let Some((last, rest)) = loops.split_last() else { return visit(from, size(to)) };
    for i in 0..last.count {
        visit_loops(rest, from + i * last.step, to + i * last.to, visit);
    }
}

fn put(out: &mut Out<'_>, to: usize, bytes: [u8; 4]) {
    out.put_bytes(&[], &bytes, to);
}

/// A gap of up to this many bytes is read rather than skipped, because skipping costs a system
/// call.
const GAP: u64 = 2048;

/// Bytes converted to `f32` at once, so that they stay in the L2 cache.
const CONVERT_BYTES: usize = 1 << 16;

/// A read of elements of one source tensor.
struct Reading<'a, 'o> {
    number: usize,
    /// Bytes of an atom.
    atom: usize,
    out: &'a mut Out<'o>,
    /// Bytes that are read before they are scattered.
    buffer: Vec<u8>,
}

impl Reading<'_, '_> {
    /// Reads the atoms that the loops visit from `start` on.
    fn read(
        &mut self,
        source: &dyn Checkpoint,
        start: u64,
        mut loops: Vec<Linear>,
        to: u64,
    ) -> Result<()> {
        join(&mut loops);
        let atom = self.atom as u64;
        let run = match *loops {
            [] => Some(1),
            [Linear { count, step: 1, to: 1 }] => Some(count),
            _ => None,
        };
        if let Some(count) = run {
            return self.read_run(source, start, count, to);
        }
        let requested: u64 =
            loops.iter().filter(|this| this.step > 0).map(|this| this.count).product();
        let span: u64 = loops.iter().map(|this| (this.count - 1) * this.step).sum::<u64>() + 1;
        let Some(last) = loops.last().copied() else { return Ok(()) };
        let is_dense = (span.saturating_sub(requested)).saturating_mul(atom)
            <= requested.saturating_mul(atom).max(GAP.saturating_mul(last.count));
        if is_dense && span <= 2 * CHUNK || last.step <= 1 {
            resize(&mut self.buffer, size(span.saturating_mul(atom)))?;
            source.read(self.number, start * atom, &mut self.buffer)?;
            self.out.put_bytes(&linear_strides(&loops), &self.buffer, size(to));
            return Ok(());
        }
        loops.pop();
        if is_dense && last.count > 2 {
            for (first, count) in
                [(0, last.count / 2), (last.count / 2, last.count - last.count / 2)]
            {
                let half = loops.iter().copied().chain([Linear { count, ..last }]).collect();
                self.read(source, start + first * last.step, half, to + first * last.to)?;
            }
            return Ok(());
        }
        for i in 0..last.count {
            self.read(source, start + i * last.step, loops.clone(), to + i * last.to)?;
        }
        Ok(())
    }

    /// Reads contiguous atoms to contiguous positions.
    fn read_run(&mut self, source: &dyn Checkpoint, start: u64, count: u64, to: u64) -> Result<()> {
        let (count, to, atom) = (size(count), size(to), self.atom);
        match &mut *self.out {
            Out::Bytes { bytes, .. } => source.read(
                self.number,
                start * atom as u64,
                &mut bytes[to * atom..][..count * atom],
            ),
            Out::Floats(floats) => {
                let mut at = start * 4;
                for floats in floats[to..][..count].chunks_mut(CONVERT_BYTES / 4) {
                    self.buffer.resize(4 * floats.len(), 0);
                    source.read(self.number, at, &mut self.buffer)?;
                    for (float, &bytes) in floats.iter_mut().zip(self.buffer.as_chunks::<4>().0) {
                        *float = f32::from_le_bytes(bytes);
                    }
                    at += self.buffer.len() as u64;
                }
                Ok(())
            }
        }
    }
}
