//! Integers of a few bits in words, with a scale and a zero point for each group of columns, as
//! GPTQ, AWQ and compressed-tensors store them.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::copy::size;
use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// The field of a word that has row `i` of eight, in AWQ's order.
const INTERLEAVED: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// A matrix of integers, several in a word, with a scale and a zero point for each group of columns
/// of a row. An element is (level − zero point) × scale, in F32.
///
/// Inputs are, in stored order of dimensions:
///
/// 1. the levels, as integers of any width, the first level of a word in its lowest bits: of shape
///    (words of a row, rows), padded where a row does not fill its last word; or, after
///    [`interleaved`](Self::interleaved), of shape (columns, words of a column);
/// 2. the scales, of shape (groups of a row, rows);
/// 3. after [`with_zeros`](Self::with_zeros), the zero points, packed as levels are, but always
///    several rows in a word: of shape (groups of a row, words of a column);
/// 4. after [`with_group_numbers`](Self::with_group_numbers), the group of each column, as
///    integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedIntegers {
    bits: u32,
    columns: u64,
    rows: u64,
    is_interleaved: bool,
    /// What is added to the zero points that are an input.
    zeros: Option<i16>,
    grouping: Grouping,
}

/// Which group a column belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    /// Groups of so many neighbors.
    Neighbours(u64),
    /// An input says it.
    Numbers,
}

impl PackedIntegers {
    /// Levels of so many bits (1 to 8) for a matrix of this size, with one group for each row and
    /// the zero point in the middle of the range: 8 for four bits.
    pub fn new(bits: u32, columns: u64, rows: u64) -> Self {
        let grouping = Grouping::Neighbours(columns.max(1));
        Self { bits, columns, rows, is_interleaved: false, zeros: None, grouping }
    }

    /// The same with levels of eight neighboring rows in a word of 32 bits, in the order 0, 2, 4,
    /// 6, 1, 3, 5, 7, zero points too: AWQ's. For four bits.
    #[must_use]
    pub fn interleaved(self) -> Self {
        Self { is_interleaved: true, ..self }
    }

    /// The same with zero points as an input, to which this is added.
    #[must_use]
    pub fn with_zeros(self, plus: i16) -> Self {
        Self { zeros: Some(plus), ..self }
    }

    /// The same with groups of so many neighboring columns, the last one shorter where they do not
    /// fill it. Not 0.
    #[must_use]
    pub fn in_groups(self, columns: u64) -> Self {
        Self { grouping: Grouping::Neighbours(columns.max(1)), ..self }
    }

    /// The same with the group of each column as an input.
    #[must_use]
    pub fn with_group_numbers(self) -> Self {
        Self { grouping: Grouping::Numbers, ..self }
    }

    /// The field of a word that has row `row`, of words with so many fields.
    fn field(&self, row: u64, fields: u64) -> u32 {
        let place = u32::try_from(row % fields).unwrap_or(0);
        if self.is_interleaved { INTERLEAVED[place as usize % 8] } else { place }
    }

    /// The level in a field of a word.
    fn level(&self, word: u64, field: u32) -> u8 {
        let mask = (1u64 << self.bits) - 1;
        (word >> (field * self.bits) & mask).to_le_bytes()[0]
    }

    /// Levels in a word of this type.
    fn words(&self, ggml_type: GgmlType) -> Result<u64> {
        let Some(bytes) = bytes_of_integer(ggml_type) else {
            let message = format!("integers of {} bits in words of type {ggml_type}", self.bits);
            return Err(Error::new(ErrorKind::Checkpoint, message));
        };
        Ok(8 * bytes as u64 / u64::from(self.bits))
    }

    /// The zero points of rows, row after row.
    fn zeros_of(&self, rows: &Range<u64>, inputs: &Inputs<'_>) -> Result<Vec<i16>> {
        let groups = inputs.shape(1).row_len();
        let Some(plus) = self.zeros else {
            let count = size((rows.end - rows.start) * groups);
            return Ok(vec![1 << (self.bits - 1); count]);
        };
        let fields = self.words(inputs.ggml_type(2))?;
        let first = rows.start / fields;
        let words = words_of(inputs, 2, first * groups..rows.end.div_ceil(fields) * groups)?;
        let of_row = |row: u64| {
            let (start, field) = (size((row / fields - first) * groups), self.field(row, fields));
            words[start..][..size(groups)]
                .iter()
                .map(move |&word| i16::from(self.level(word, field)).saturating_add(plus))
        };
        Ok(rows.clone().flat_map(of_row).collect())
    }

    /// The group of each column.
    fn groups_of(&self, inputs: &Inputs<'_>) -> Result<Vec<usize>> {
        let groups = inputs.shape(1).row_len();
        let neighbours = match self.grouping {
            Grouping::Neighbours(columns) => {
                return Ok((0..self.columns).map(|column| size(column / columns)).collect());
            }
            Grouping::Numbers => 2 + usize::from(self.zeros.is_some()),
        };
        let numbers = words_of(inputs, neighbours, 0..self.columns)?;
        let known = |(column, number): (usize, u64)| match number {
            number if number < groups => Ok(size(number)),
            _ => {
                let message =
                    format!("column {column} has a group number beyond the {groups} groups");
                Err(Error::new(ErrorKind::Checkpoint, message))
            }
        };
        numbers.into_iter().enumerate().map(known).collect()
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
        let shape = super::shape_of(&[self.columns, self.rows])?;
        let held = |what: &str, found: &Shape, expected: [u64; 2]| {
            if found.dimensions() == expected {
                return Ok(());
            }
            let [columns, rows] = expected;
            Err(fault(format!(
                "{what} of shape {found} for weights of shape {shape}, expected [{columns}, {rows}]"
            )))
        };
        let ((words, levels), (_, scales)) = (inputs[0], inputs[1]);
        let fields = self.words(words)?;
        if self.is_interleaved && fields != 8 {
            return Err(fault(format!("{fields} levels in a word, expected 8")));
        }
        let expected = if self.is_interleaved {
            [self.columns, self.rows.div_ceil(fields)]
        } else {
            [self.columns.div_ceil(fields), self.rows]
        };
        held("levels", &levels, expected)?;
        let groups = match self.grouping {
            Grouping::Neighbours(columns) => self.columns.div_ceil(columns),
            Grouping::Numbers => scales.row_len(),
        };
        held("scales", &scales, [groups, self.rows])?;
        if self.zeros.is_some() {
            let (words, zeros) = inputs[2];
            let fields_of_zeros = self.words(words)?;
            if self.is_interleaved && fields_of_zeros != 8 {
                return Err(fault(format!("{fields_of_zeros} zero points in a word, expected 8")));
            }
            held("zero points", &zeros, [groups, self.rows.div_ceil(fields_of_zeros)])?;
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
        let fields = self.words(inputs.ggml_type(0))?;
        let across = if self.is_interleaved { fields } else { 1 };
        let (first, stride) = (rows.start / across, inputs.shape(0).row_len());
        let words = words_of(inputs, 0, first * stride..rows.end.div_ceil(across) * stride)?;
        let groups = size(inputs.shape(1).row_len());
        let scales = inputs.floats(1, rows.start * groups as u64..rows.end * groups as u64)?;
        let zeros = self.zeros_of(&rows, inputs)?;
        let group_of = self.groups_of(inputs)?;
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

/// Bytes of an integer of this type.
fn bytes_of_integer(ggml_type: GgmlType) -> Option<usize> {
    match ggml_type {
        GgmlType::I8 => Some(1),
        GgmlType::I16 => Some(2),
        GgmlType::I32 => Some(4),
        GgmlType::I64 => Some(8),
        _ => None,
    }
}

/// Integers of an input as they are stored, without a sign.
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
