//! The loss of each type for a tensor, measured on some of its rows.

use ggmill_core::GgmlType;
use ggmill_quant as quant;

use crate::loss::{Sums, decoded, weights_of_row};
use ggmill_pipeline::{Checkpoint, Sensitivity, SourceTensor, zeroed};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// Elements measured of a tensor, unless a single row has more.
const SAMPLE: u64 = 1 << 18;

/// A tensor and what it may become.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    /// Its number in the source.
    pub(super) number: usize,
    /// Its name in the output.
    pub(super) name: Vec<u8>,
    pub(super) source: &'a SourceTensor,
    /// The weights for encoding.
    pub(super) importance: Option<Vec<f32>>,
    /// The weights of errors.
    pub(super) measure: Option<Vec<f32>>,
    pub(super) types: Vec<GgmlType>,
    /// `None` where that is not known; then it has one type.
    pub(super) counts: Option<Counts>,
}

/// How much the errors of a tensor count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counts {
    /// This much for a squared error as large as the numbers.
    Known(f64),
    /// So much that the error of a type is what was measured with it.
    Measured(Sensitivity),
}

/// What is known of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// How much its errors count: finite, and not less than 0. `None` where that is not known; then
    /// there is one candidate.
    pub(super) weight: Option<f64>,
    pub(super) candidates: Vec<Candidate>,
}

/// A type it may become, and what that means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) ggml_type: GgmlType,
    pub(super) bytes: u64,
    /// Noise to signal; 0 for a type that holds every number as it is.
    pub(super) relative: f64,
}

impl Subject<'_> {
    /// Bytes of its data in the source.
    pub(super) fn size(&self) -> u64 {
        self.source
            .ggml_type
            .layout()
            .and_then(|layout| layout.bytes_for(self.source.shape.elements()))
            .unwrap_or(0)
    }

    /// The loss of each type. A type that cannot represent the numbers is left out, unless there is
    /// no other. Where what was measured does not say how much errors count, as with a type that
    /// the tensor already has, it keeps its type like one that was not measured.
    pub(super) fn measure(&self, checkpoint: &dyn Checkpoint) -> Result<Measured> {
        let elements = self.source.shape.elements();
        let bytes = |ggml_type: GgmlType| {
            ggml_type.layout().and_then(|layout| layout.bytes_for(elements)).unwrap_or(u64::MAX)
        };
        let unmeasured =
            |ggml_type: GgmlType| Candidate { ggml_type, bytes: bytes(ggml_type), relative: 0.0 };
        if let [only] = self.types[..]
            && only == self.source.ggml_type
        {
            let weight = match self.counts {
                Some(Counts::Known(weight)) => Some(weight),
                Some(Counts::Measured(_)) | None => None,
            };
            return Ok(Measured { weight, candidates: vec![unmeasured(only)] });
        }
        let rows = self.sample(checkpoint)?;
        let mut found = Vec::with_capacity(self.types.len());
        for &ggml_type in &self.types {
            if ggml_type == self.source.ggml_type {
                found.push(unmeasured(ggml_type));
                continue;
            }
            let relative = self.relative(&rows, ggml_type)?;
            if relative.is_finite() || self.types.len() == 1 {
                found.push(Candidate {
                    relative: if relative.is_finite() { relative } else { 0.0 },
                    ..unmeasured(ggml_type)
                });
            }
        }
        let weight = match self.counts {
            None => None,
            Some(Counts::Known(weight)) => Some(weight),
            Some(Counts::Measured(Sensitivity { ggml_type, divergence, .. })) => {
                let known = found.iter().find(|candidate| candidate.ggml_type == ggml_type);
                let relative = match known {
                    Some(candidate) => candidate.relative,
                    None => self.relative(&rows, ggml_type)?,
                };
                let is_known = relative > 0.0 && relative.is_finite();
                Some(divergence / relative).filter(|weight| is_known && weight.is_finite())
            }
        };
        if weight.is_none() && self.types.len() > 1 {
            found.retain(|candidate| candidate.ggml_type == self.source.ggml_type);
        }
        Ok(Measured { weight, candidates: found })
    }

    /// Some rows, from all over the tensor, with their numbers.
    fn sample(&self, checkpoint: &dyn Checkpoint) -> Result<Vec<(u64, Vec<f32>)>> {
        let row_len = self.source.shape.row_len().max(1);
        let rows = self.source.shape.elements() / row_len;
        let count = (SAMPLE / row_len).clamp(1, rows.max(1)).min(rows);
        (0..count)
            .map(|place| row_at(place, count, rows))
            .map(|row| Ok((row, self.row(checkpoint, row, row_len)?)))
            .collect()
    }

    fn row(&self, checkpoint: &dyn Checkpoint, row: u64, row_len: u64) -> Result<Vec<f32>> {
        let values = decoded(
            checkpoint,
            self.number,
            self.source.ggml_type,
            row * row_len,
            (row + 1) * row_len,
        )?;
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(column) => {
                let message = format!(
                    "row {row}, column {column} is {}, expected a finite number",
                    values[column]
                );
                Err(Error::new(ErrorKind::NonFinite, message))
            }
        }
    }

    /// Noise to signal of the rows as this type.
    fn relative(&self, rows: &[(u64, Vec<f32>)], ggml_type: GgmlType) -> Result<f64> {
        let unsupported = |error| Error::caused(ErrorKind::Unsupported, error);
        let mut sums = Sums::default();
        // All rows have one length.
        let width = rows.first().map_or(0, |(_, values)| values.len());
        let size = ggml_type
            .layout()
            .and_then(|layout| layout.bytes_for(width as u64))
            .and_then(|size| usize::try_from(size).ok());
        let (mut blocks, mut back) = (zeroed(size.unwrap_or(0))?, zeroed(width)?);
        for (row, values) in rows {
            let weights = weights_of_row(self.importance.as_deref(), &self.source.shape, *row);
            let for_encoding = weights.filter(|_| ggml_type.is_quantized());
            quant::quantize(ggml_type, values, values.len(), for_encoding, &mut blocks)
                .map_err(unsupported)?;
            quant::dequantize(ggml_type, &blocks, &mut back).map_err(unsupported)?;
            sums.add_row(
                values,
                &back,
                weights_of_row(self.measure.as_deref(), &self.source.shape, *row),
            );
        }
        Ok(sums.relative())
    }
}

/// One row of each of `count` stretches of all rows. Which one within its stretch jumps about, so
/// that no pattern in the rows is met again and again.
fn row_at(place: u64, count: u64, rows: u64) -> u64 {
    let bound = |place: u64| {
        u64::try_from(u128::from(place) * u128::from(rows) / u128::from(count.max(1))).unwrap_or(0)
    };
    let (start, end) = (bound(place), bound(place + 1));
    start + (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % (end - start).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_from_everywhere_and_no_row_twice() {
        for (count, rows) in [(1, 1), (7, 7), (3, 100), (64, 4096), (100, 101)] {
            let taken: Vec<u64> = (0..count).map(|place| row_at(place, count, rows)).collect();
            assert!(
                taken.windows(2).all(|pair| pair[0] < pair[1])
                    && taken.iter().all(|&row| row < rows),
                "{taken:?}"
            );
        }
    }
}
