//! Decoders of packed integers: GPTQ, AWQ and compressed-tensors, bitsandbytes, and BitNet.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use crate::error::{Error, ErrorKind, Result};
use crate::expression::decode::{Decode, Inputs};
use crate::expression::region::size;
use crate::expression::shape_of;

/// The field of a word that contains row `i` of eight, in AWQ's order.
const INTERLEAVED: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// A matrix of integers of a few bits, several in a word, with a scale and a zero point for each
/// group of columns of a row. An element is (level − zero point) × scale, in F32.
///
/// Inputs are, in stored order of dimensions:
///
/// 1. the levels, as integers of any width, the first level of a word in its lowest bits: of shape
///    (words per row, rows), with the last word of a row padded; or, after
///    [`interleaved`](Self::interleaved), of shape (columns, words per column);
/// 2. the scales, of shape (groups per row, rows);
/// 3. after [`with_zeros`](Self::with_zeros), the zero points, packed like the levels, but always
///    with several rows in a word: of shape (groups per row, words per column);
/// 4. after [`with_group_numbers`](Self::with_group_numbers), the group of each column, as
///    integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedIntegers {
    bits: u32,
    columns: u64,
    rows: u64,
    is_interleaved: bool,
    /// The offset added to the zero points, if they are an input.
    zeros: Option<i16>,
    grouping: Grouping,
}

/// The assignment of columns to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    /// Groups of this many consecutive columns.
    Consecutive(u64),
    /// An input has the group number of each column.
    Numbers,
}

impl PackedIntegers {
    /// Creates a decoder for levels of `bits` bits (1 to 8) and a matrix of this size, with one
    /// group per row and the zero point in the middle of the range, such as 8 for four bits.
    pub fn new(bits: u32, columns: u64, rows: u64) -> Self {
        let grouping = Grouping::Consecutive(columns.max(1));
        Self { bits, columns, rows, is_interleaved: false, zeros: None, grouping }
    }

    /// Sets AWQ's layout: a 32-bit word has the levels or zero points of eight consecutive rows in
    /// the order 0, 2, 4, 6, 1, 3, 5, 7. Requires four bits.
    #[must_use]
    pub fn interleaved(self) -> Self {
        Self { is_interleaved: true, ..self }
    }

    /// Adds an input of zero points, to which `offset` is added.
    #[must_use]
    pub fn with_zeros(self, offset: i16) -> Self {
        Self { zeros: Some(offset), ..self }
    }

    /// Sets groups of `columns` consecutive columns, not 0. The last group can be shorter.
    #[must_use]
    pub fn in_groups(self, columns: u64) -> Self {
        Self { grouping: Grouping::Consecutive(columns.max(1)), ..self }
    }

    /// Adds an input of the group number of each column.
    #[must_use]
    pub fn with_group_numbers(self) -> Self {
        Self { grouping: Grouping::Numbers, ..self }
    }

    /// Returns the field of a word that contains `row`, if a word has `fields` fields.
    fn field(&self, row: u64, fields: u64) -> u32 {
        let field = u32::try_from(row % fields).unwrap_or(0);
        if self.is_interleaved { INTERLEAVED[field as usize % 8] } else { field }
    }

    /// Returns the level in a field of a word.
    fn level(&self, word: u64, field: u32) -> u8 {
        let mask = (1u64 << self.bits) - 1;
        (word >> (field * self.bits) & mask).to_le_bytes()[0]
    }

    /// Returns the number of levels in a word of this type. Fails if it is not an integer type.
    fn fields_per_word(&self, ggml_type: GgmlType) -> Result<u64> {
        let Some(bytes) = bytes_of_integer(ggml_type) else {
            let message = format!("integers of {} bits in words of type {ggml_type}", self.bits);
            return Err(Error::new(ErrorKind::Checkpoint, message));
        };
        Ok(8 * bytes as u64 / u64::from(self.bits))
    }

    /// Returns the zero points of rows, row by row.
    fn zero_points(&self, rows: &Range<u64>, inputs: &Inputs<'_>) -> Result<Vec<i16>> {
        let groups = inputs.shape(1).row_len();
        let Some(offset) = self.zeros else {
            let count = size((rows.end - rows.start) * groups);
            return Ok(vec![1 << (self.bits - 1); count]);
        };
        let fields = self.fields_per_word(inputs.ggml_type(2))?;
        let first = rows.start / fields;
        let words = words_of(inputs, 2, first * groups..rows.end.div_ceil(fields) * groups)?;
        let row_zeros = |row: u64| {
            let (start, field) = (size((row / fields - first) * groups), self.field(row, fields));
            words[start..][..size(groups)]
                .iter()
                .map(move |&word| i16::from(self.level(word, field)).saturating_add(offset))
        };
        Ok(rows.clone().flat_map(row_zeros).collect())
    }

    /// Returns the group of each column.
    fn column_groups(&self, inputs: &Inputs<'_>) -> Result<Vec<usize>> {
        let groups = inputs.shape(1).row_len();
        let input = match self.grouping {
            Grouping::Consecutive(columns) => {
                return Ok((0..self.columns).map(|column| size(column / columns)).collect());
            }
            Grouping::Numbers => 2 + usize::from(self.zeros.is_some()),
        };
        let numbers = words_of(inputs, input, 0..self.columns)?;
        let group = |(column, number): (usize, u64)| match number {
            number if number < groups => Ok(size(number)),
            _ => {
                let message =
                    format!("column {column} has a group number beyond the {groups} groups");
                Err(Error::new(ErrorKind::Checkpoint, message))
            }
        };
        numbers.into_iter().enumerate().map(group).collect()
    }
}

impl Decode for PackedIntegers {
    fn name(&self) -> &'static str {
        "packed integers"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let count =
            2 + usize::from(self.zeros.is_some()) + usize::from(self.grouping == Grouping::Numbers);
        if inputs.len() != count || !(1..=8).contains(&self.bits) {
            return Err(fault(format!("{} inputs of {} bits", inputs.len(), self.bits)));
        }
        let shape = shape_of(&[self.columns, self.rows])?;
        let check_shape = |what: &str, found: &Shape, expected: [u64; 2]| {
            if found.dimensions() == expected {
                return Ok(());
            }
            let [columns, rows] = expected;
            Err(fault(format!(
                "{what} of shape {found} for weights of shape {shape}, expected [{columns}, {rows}]"
            )))
        };
        let ((words, levels), (_, scales)) = (inputs[0], inputs[1]);
        let fields = self.fields_per_word(words)?;
        if self.is_interleaved && fields != 8 {
            return Err(fault(format!("{fields} levels in a word, expected 8")));
        }
        let expected = if self.is_interleaved {
            [self.columns, self.rows.div_ceil(fields)]
        } else {
            [self.columns.div_ceil(fields), self.rows]
        };
        check_shape("levels", &levels, expected)?;
        let groups = match self.grouping {
            Grouping::Consecutive(columns) => self.columns.div_ceil(columns),
            Grouping::Numbers => scales.row_len(),
        };
        check_shape("scales", &scales, [groups, self.rows])?;
        if self.zeros.is_some() {
            let (words, zeros) = inputs[2];
            let fields_of_zeros = self.fields_per_word(words)?;
            if self.is_interleaved && fields_of_zeros != 8 {
                return Err(fault(format!("{fields_of_zeros} zero points in a word, expected 8")));
            }
            check_shape("zero points", &zeros, [groups, self.rows.div_ceil(fields_of_zeros)])?;
        }
        if self.grouping == Grouping::Numbers {
            let (of, numbers) = inputs[count - 1];
            if bytes_of_integer(of).is_none() || numbers.dimensions() != [self.columns] {
                return Err(fault(format!(
                    "groups of {of} of shape {numbers}, expected integers of shape [{}]",
                    self.columns
                )));
            }
        }
        Ok((GgmlType::F32, shape))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let fields = self.fields_per_word(inputs.ggml_type(0))?;
        let across = if self.is_interleaved { fields } else { 1 };
        let (first, stride) = (rows.start / across, inputs.shape(0).row_len());
        let words = words_of(inputs, 0, first * stride..rows.end.div_ceil(across) * stride)?;
        let groups = size(inputs.shape(1).row_len());
        let scales = inputs.floats(1, rows.start * groups as u64..rows.end * groups as u64)?;
        let zeros = self.zero_points(&rows, inputs)?;
        let group_of = self.column_groups(inputs)?;
        let mut levels = vec![0u8; group_of.len()];
        for ((number, row), out) in
            rows.enumerate().zip(out.chunks_exact_mut((4 * group_of.len()).max(1)))
        {
            let words = &words[size((row / across - first) * stride)..][..size(stride)];
            if self.is_interleaved {
                let field = self.field(row, fields);
                for (level, &word) in levels.iter_mut().zip(words) {
                    *level = self.level(word, field);
                }
            } else {
                for (levels, &word) in levels.chunks_mut(size(fields)).zip(words) {
                    for (field, level) in (0u32..).zip(levels) {
                        *level = self.level(word, field);
                    }
                }
            }
            let scales = &scales[number * groups..][..groups];
            let zeros = &zeros[number * groups..][..groups];
            for ((&level, &group), out) in
                levels.iter().zip(&group_of).zip(out.as_chunks_mut::<4>().0)
            {
                let difference = f32::from(i16::from(level).saturating_sub(zeros[group]));
                *out = (scales[group] * difference).to_le_bytes();
            }
        }
        Ok(())
    }
}

/// Returns the size of an integer type in bytes; `None` for other types.
fn bytes_of_integer(ggml_type: GgmlType) -> Option<usize> {
    match ggml_type {
        GgmlType::I8 => Some(1),
        GgmlType::I16 => Some(2),
        GgmlType::I32 => Some(4),
        GgmlType::I64 => Some(8),
        _ => None,
    }
}

/// Returns integers of an input, zero-extended.
fn words_of(inputs: &Inputs<'_>, number: usize, elements: Range<u64>) -> Result<Vec<u64>> {
    let bytes = inputs.bytes(number, elements)?;
    let len = bytes_of_integer(inputs.ggml_type(number)).unwrap_or(1);
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    Ok(bytes.chunks_exact(len).map(word).collect())
}

/// 4-bit indices into a codebook of 16 values with a scale for each block, as bitsandbytes stores
/// them. Two indices share a byte, the first in the high nibble; blocks can span rows. The output
/// is value × scale, in F32.
///
/// Inputs are the indices (I8, of any shape with half as many bytes as elements), the codebook
/// (16), and the scales, one for each block in order. After
/// [`with_coded_scales`](Self::with_coded_scales) the scales are indices (I8) too, and their
/// codebook (256) and the scales of their blocks follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodedBlocks {
    shape: Shape,
    block: u64,
    /// For quantized scales: their block size, and the offset added to each scale.
    coded: Option<(u64, f32)>,
}

impl CodedBlocks {
    /// Creates a decoder for an array of this shape with blocks of `block` elements, not 0.
    pub fn new(shape: Shape, block: u64) -> Self {
        Self { shape, block: block.max(1), coded: None }
    }

    /// Sets quantized scales: indices into a codebook, in blocks of `block` scales with a scale
    /// each. A scale is value × block scale + `offset`.
    #[must_use]
    pub fn with_coded_scales(self, block: u64, offset: f32) -> Self {
        Self { coded: Some((block.max(1), offset)), ..self }
    }

    /// Returns the scales of blocks.
    fn scales(&self, blocks: Range<u64>, inputs: &Inputs<'_>) -> Result<Vec<f32>> {
        let Some((block, offset)) = self.coded else { return inputs.floats(2, blocks) };
        let indices = inputs.bytes(2, blocks.clone())?;
        let codebook = inputs.floats(3, 0..256)?;
        let first = blocks.start / block;
        let scales = inputs.floats(4, first..blocks.end.div_ceil(block))?;
        let scale = |(number, index): (u64, u8)| {
            let scale = scales[size(number / block - first)];
            codebook[usize::from(index)] * scale + offset
        };
        Ok(blocks.zip(indices).map(scale).collect())
    }
}

impl Decode for CodedBlocks {
    fn name(&self) -> &'static str {
        "coded blocks"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let blocks = self.shape.elements().div_ceil(self.block);
        let mut expected = vec![
            ("weights", self.shape.elements().div_ceil(2)),
            ("numbers in the table", 16),
            ("scales", blocks),
        ];
        if let Some((block, _)) = self.coded {
            expected.push(("numbers in the table of scales", 256));
            expected.push(("scales of scales", blocks.div_ceil(block)));
        }
        let fault = |message: String| Err(Error::new(ErrorKind::Checkpoint, message));
        if inputs.len() != expected.len() {
            return fault(format!("{} inputs, expected {}", inputs.len(), expected.len()));
        }
        for ((ggml_type, found), (what, expected)) in inputs.iter().zip(&expected) {
            let is_code = *what == "weights" || *what == "scales" && self.coded.is_some();
            if found.elements() != *expected || is_code && *ggml_type != GgmlType::I8 {
                return fault(format!(
                    "{what} of type {ggml_type} and shape {found}, expected {expected} for \
                     weights of shape {}",
                    self.shape
                ));
            }
        }
        Ok((GgmlType::F32, self.shape))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = self.shape.row_len();
        let elements = rows.start * columns..rows.end * columns;
        if elements.is_empty() {
            return Ok(());
        }
        let bytes = inputs.bytes(0, elements.start / 2..elements.end.div_ceil(2))?;
        let codebook = inputs.floats(1, 0..16)?;
        let first = elements.start / self.block;
        let scales = self.scales(first..elements.end.div_ceil(self.block), inputs)?;
        let skipped = elements.start / 2;
        for (element, out) in elements.zip(out.as_chunks_mut::<4>().0) {
            let byte = bytes[size(element / 2 - skipped)];
            let index = if element % 2 == 0 { byte >> 4 } else { byte & 15 };
            let scale = scales[size(element / self.block - first)];
            *out = (codebook[usize::from(index)] * scale).to_le_bytes();
        }
        Ok(())
    }
}

/// A matrix of −1, 0 and 1 in two bits each, divided by one scale, as BitNet checkpoints store it.
/// Inputs are the weights, of shape (columns, rows / 4) as I8, and the scale, one number. Bits 2i
/// and 2i + 1 of byte (c, r) are the element in column c of row i × (rows / 4) + r. The output is
/// F32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TernaryRows;

impl TernaryRows {
    /// Creates the decoder.
    pub fn new() -> Self {
        Self
    }
}

impl Decode for TernaryRows {
    fn name(&self) -> &'static str {
        "ternary rows"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let &[(GgmlType::I8, weights), (_, scale)] = inputs else {
            return Err(fault("expected weights of one byte and a scale".to_owned()));
        };
        if scale.elements() != 1 {
            return Err(fault(format!("a scale of shape {scale}, expected one number")));
        }
        let &[columns, bytes] = weights.dimensions() else {
            return Err(fault(format!("weights of shape {weights}, expected a matrix")));
        };
        let rows = bytes.checked_mul(4).ok_or_else(|| fault("too many elements".to_owned()))?;
        Ok((GgmlType::F32, shape_of(&[columns, rows])?))
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let quarter = inputs.shape(0).dimensions().get(1).copied().unwrap_or(0).max(1);
        let scale = inputs.floats(1, 0..1)?.first().copied().unwrap_or(1.0);
        let width = size(columns.saturating_mul(4)).max(1);
        let mut start = rows.start;
        let mut out = out.chunks_exact_mut(width);
        while start < rows.end {
            // Rows of one bit pair are consecutive.
            let (shift, end) = (start / quarter * 2, (start / quarter + 1) * quarter);
            let (from, count) = (start % quarter, end.min(rows.end) - start);
            let bytes = inputs.bytes(0, from * columns..(from + count) * columns)?;
            for (bytes, out) in bytes.chunks_exact(width / 4).zip(&mut out) {
                for (byte, out) in bytes.iter().zip(out.as_chunks_mut::<4>().0) {
                    *out = ((f32::from(byte >> shift & 3) - 1.0) / scale).to_le_bytes();
                }
            }
            start += count;
        }
        Ok(())
    }
}
