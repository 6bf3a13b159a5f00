//! Evaluation: the bytes of a range of an expression, from what its parts give.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use ggmill_core::GgmlType;
use ggmill_quant as quant;

use super::copy::{Out, Stride, from_packed, of_linear, size};
use super::decode::{Elements, Inputs, decode_rows};
use super::read::Reading;
use super::region::{Linear, Loop, Region, pack, strides, unflatten};
use super::values::Values;
use super::{CHUNK, Expression, Kind};
use crate::buffers::{BufferPool, resize, zeroed};
use crate::error::{Error, ErrorKind, Result};
use crate::source::Checkpoint;

/// Expressions evaluated over one source, and what is remembered of them.
pub(crate) struct Evaluator<'a> {
    pub(super) source: &'a dyn Checkpoint,
    pub(crate) buffers: BufferPool,
    /// By expression, which stays where it is as long as this lives.
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
    /// For the tensors of this source, keeping so many buffers.
    pub(crate) fn new(source: &'a dyn Checkpoint, buffers: usize) -> Self {
        Self { source, buffers: BufferPool::new(buffers), reduced: Mutex::default() }
    }

    /// The bytes of elements `start..end`, whole blocks, little-endian.
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

    /// Elements `start..end` as numbers.
    pub(super) fn values(&self, this: &Expression, start: u64, end: u64) -> Result<Vec<f32>> {
        check(this, start..end)?;
        let mut values = zeroed(size(end - start))?;
        Region::each(&this.dimensions(1), start, end, &mut |region| {
            self.floats(this, region, &mut values)
        })?;
        Ok(values)
    }

    /// Puts the atoms of a region where they go.
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
                self.buffers.give(reading.buffer);
                Ok(())
            }
            Kind::Zeros => {
                out.put_zeros(&region.loops, size(region.to));
                Ok(())
            }
            Kind::Axes { child, order } => {
                let at = region.at;
                for (dimension, &of_child) in order.iter().enumerate() {
                    region.at[of_child] = at[dimension];
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
                walk(&loops, start, region.to, &mut |from, to| {
                    put(out, to, values[size(from)].to_le_bytes());
                });
                Ok(())
            }
            Kind::Values(Values::ComputedIntegers(value)) => {
                let (start, loops) = region.flatten(&this.0.extents);
                walk(&loops, start, region.to, &mut |from, to| {
                    put(out, to, value(from).to_le_bytes());
                });
                Ok(())
            }
            Kind::Encoded { child, encoding } => self.encode(this, child, encoding, region, out),
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
                        self.numbers(this, region, out)
                    });
                }
                self.through_bytes(&mut region, out, this.0.block.1, &mut |region, out| {
                    let mut values = zeroed(size(region.atoms()))?;
                    self.numbers(this, region, &mut values)?;
                    quant::quantize(this.ggml_type(), &values, values.len(), None, out)
                        .map_err(|error| Error::caused(ErrorKind::Unsupported, error))
                })
            }
        }
    }

    /// The numbers of a packed region of something calculated, one for each element.
    fn numbers(&self, this: &Expression, region: &Region, out: &mut [f32]) -> Result<()> {
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
                Out::Floats(out).put_floats(&of_linear(&loops), &numbers[size(start)..], 0);
                Ok(())
            }
            Kind::Values(Values::Floats(values)) => {
                let (start, loops) = region.flatten(&this.0.extents);
                Out::Floats(out).put_floats(&of_linear(&loops), &values[size(start)..], 0);
                Ok(())
            }
            Kind::Values(Values::ComputedFloats(value)) => {
                let (start, loops) = region.flatten(&this.0.extents);
                walk(&loops, start, 0, &mut |from, to| out[to] = value(from));
                Ok(())
            }
            Kind::MatrixProduct { factors } => self.matrix_product(this, factors, region, out),
            _ => Err(Error::new(ErrorKind::Misuse, "cannot be computed")),
        }
    }

    /// The elements of a region as numbers, where they go in `out`. The region is one of elements,
    /// also where the type has blocks.
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
                self.buffers.give(bytes);
                Ok(())
            });
        }
        // The whole blocks around it.
        let (low, high) = region.range(0);
        let (first, blocks) = (low / block, high.div_ceil(block) - low / block);
        if let Some(halves) = halves(&mut region, blocks * block) {
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
        self.buffers.give(bytes);
        Ok(())
    }

    /// Columns of the first factor, weighted with rows of the second.
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
        if let Some(halves) = halves(&mut region, width) {
            return halves
                .into_iter()
                .try_for_each(|half| self.fill(this, half, &mut Out::Floats(out)));
        }
        let inner = first.extent(1);
        let over = |dimension: usize, count: u64, to: u64| {
            (count > 1).then_some(Loop { count, dimension, step: 1, to })
        };
        let others: Vec<Loop> =
            region.loops.iter().filter(|this| this.dimension != 0).copied().collect();
        let count: u64 = others.iter().map(|this| this.count).product();
        let mut sums = zeroed::<f32>(size(width.saturating_mul(count)))?;
        // Some columns at a time, in their order: what is added to each sum comes in the order it
        // would have with all of them.
        let step = columns_at_once(width.max(count));
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut start = 0;
        while start < inner {
            let some = step.min(inner - start);
            let mut at = region.at;
            (at[0], at[1]) = (low, start);
            let columns = Region {
                at,
                loops: over(0, width, 1).into_iter().chain(over(1, some, width)).collect(),
                to: 0,
            };
            let mut rows = Region { at: region.at, loops: others.clone(), to: 0 };
            rows.at[0] = start;
            let weights = pack(&mut rows.loops, some);
            rows.loops.extend(over(0, some, 1));
            resize(&mut left, size(width.saturating_mul(some)))?;
            resize(&mut right, size(weights))?;
            self.floats(first, columns, &mut left)?;
            self.floats(second, rows, &mut right)?;
            for (sums, weights) in
                sums.chunks_exact_mut(size(width)).zip(right.chunks_exact(size(some)))
            {
                for (column, weight) in left.chunks_exact(size(width)).zip(weights) {
                    sums.iter_mut().zip(column).for_each(|(sum, value)| *sum += value * weight);
                }
            }
            start += some;
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

    /// Has whole rows made for a region of atoms, and puts those that are wanted where they go.
    /// `make` gets the numbers of the rows, the packed region of rows of `width` elements, and
    /// the bytes.
    pub(super) fn rows(
        &self,
        this: &Expression,
        mut region: Region,
        out: &mut Out<'_>,
        width: u64,
        make: &mut MakeRows<'_>,
    ) -> Result<()> {
        let (extent, atom) = (this.0.extents[0], this.0.block.1);
        if let Some(halves) = halves(&mut region, extent * this.0.block.0) {
            return halves.into_iter().try_for_each(|half| self.rows(this, half, out, width, make));
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
                make(&rows, whole, &mut bytes[size(region.to) * atom..][..size(atoms) * atom])
            }
            _ => {
                let mut bytes = self.buffers.take(size(atoms).saturating_mul(atom))?;
                make(&rows, whole, &mut bytes)?;
                out.put_bytes(&strides, &bytes[size(region.at[0]) * atom..], size(region.to));
                self.buffers.give(bytes);
                Ok(())
            }
        }
    }

    /// Has numbers made for a packed region, and puts them where they go: at once where that is one
    /// after the other too.
    fn through_floats(
        region: &mut Region,
        out: &mut Out<'_>,
        make: &mut dyn FnMut(&Region, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let packed = region.pack();
        let count = size(packed.atoms());
        match out {
            Out::Floats(out) if region.is_packed() => {
                make(&packed, &mut out[size(region.to)..][..count])
            }
            _ => {
                let mut values = zeroed(count)?;
                make(&packed, &mut values)?;
                out.put_floats(
                    &from_packed(&packed.loops, &region.loops),
                    &values,
                    size(region.to),
                );
                Ok(())
            }
        }
    }

    /// The same with the bytes of atoms.
    pub(super) fn through_bytes(
        &self,
        region: &mut Region,
        out: &mut Out<'_>,
        atom: usize,
        make: &mut dyn FnMut(&Region, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let packed = region.pack();
        let count = size(packed.atoms()) * atom;
        match out {
            Out::Bytes { bytes, .. } if region.is_packed() => {
                make(&packed, &mut bytes[size(region.to) * atom..][..count])
            }
            _ => {
                let mut bytes = self.buffers.take(count)?;
                make(&packed, &mut bytes)?;
                out.put_bytes(&from_packed(&packed.loops, &region.loops), &bytes, size(region.to));
                self.buffers.give(bytes);
                Ok(())
            }
        }
    }
}

/// How many columns of a factor are multiplied at once, when its part of them or that of the other
/// factor has rows of this many: a chunk's worth, and whole blocks where that is several.
fn columns_at_once(rows: u64) -> u64 {
    /// No type has longer blocks.
    const BLOCK: u64 = 256;
    match CHUNK / rows.max(1) {
        few @ 0..BLOCK => few.max(1),
        many => many / BLOCK * BLOCK,
    }
}

type MakeRows<'m> = dyn FnMut(&[u64], Region, &mut [u8]) -> Result<()> + 'm;

fn check(this: &Expression, range: Range<u64>) -> Result<()> {
    if range.start <= range.end && range.end <= this.shape().elements() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Misuse,
        format!("elements {} to {} of {}", range.start, range.end, this.shape().elements()),
    ))
}

/// Sorts the loops of a region by where they lead. Where rows of this width are needed for it and
/// they are more than a chunk or two, gives it in two halves.
fn halves(region: &mut Region, width: u64) -> Option<[Region; 2]> {
    region.loops.sort_by_key(|this| this.to);
    let rows = region.loops.iter().enumerate().filter(|(_, this)| this.dimension != 0);
    let count: u64 = rows.clone().map(|(_, this)| this.count).product();
    let (longest, _) = rows
        .max_by_key(|(_, this)| this.count)
        .filter(|_| width.saturating_mul(count) > 2 * CHUNK)?;
    Some(region.clone().halves(longest))
}

/// The numbers of the rows that the loops over all dimensions but the first lead to, counted over
/// all these dimensions.
fn row_numbers(region: &Region, extents: &[u64]) -> Vec<u64> {
    let strides = strides(extents);
    let row = extents[0].max(1);
    let first =
        region.at.iter().zip(strides).skip(1).map(|(at, stride)| at * stride).sum::<u64>() / row;
    let mut rows = vec![first];
    for this in &region.loops {
        let (step, before) = (this.step * strides[this.dimension] / row, rows.len());
        for i in 1..this.count {
            rows.extend_from_within(..before);
            let new = rows.len() - before;
            rows[new..].iter_mut().for_each(|row| *row += i * step);
        }
    }
    rows
}

/// Calls `visit` with the place in the array and in the output of every iteration.
fn walk(loops: &[Linear], from: u64, to: u64, visit: &mut dyn FnMut(u64, usize)) {
    let Some((last, rest)) = loops.split_last() else { return visit(from, size(to)) };
    for i in 0..last.count {
        walk(rest, from + i * last.step, to + i * last.to, visit);
    }
}

fn put(out: &mut Out<'_>, to: usize, bytes: [u8; 4]) {
    out.put_bytes(&[], &bytes, to);
}
