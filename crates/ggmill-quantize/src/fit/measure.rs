//! Measures the loss of each candidate type of a tensor on a sample of its rows.

use ggmill_core::GgmlType;
use ggmill_quant as quant;

use crate::loss::{Sums, decoded, weights_of_row};
use ggmill_pipeline::{Checkpoint, Sensitivity, SourceTensor, zeroed};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// Elements in the sample of a tensor, unless a single row has more.
const SAMPLE: u64 = 1 << 18;

/// A tensor and its candidate types.
#[derive(Debug)]
pub(super) struct FitTensor<'a> {
    /// The number in the source.
    pub(super) number: usize,
    /// The name in the output.
    pub(super) name: Vec<u8>,
    pub(super) source: &'a SourceTensor,
    /// The importance weights for encoding.
    pub(super) importance: Option<Vec<f32>>,
    /// The importance weights of errors.
    pub(super) measure: Option<Vec<f32>>,
    pub(super) types: Vec<GgmlType>,
    /// The weight of the tensor. `None` if it is unknown; then there is one type.
    pub(super) error_weight: Option<ErrorWeight>,
}

/// The weight of a tensor's errors.
#[derive(Clone, Copy, Debug)]
pub(super) enum ErrorWeight {
    /// The loss at a noise-to-signal ratio of 1.
    Known(f64),
    /// The weight for which the loss of the measured type is the measured divergence.
    Measured(Sensitivity),
}

/// The measured losses of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// The weight of its errors, finite and not negative. `None` if it is unknown; then there is
    /// one candidate.
    pub(super) weight: Option<f64>,
    pub(super) candidates: Vec<Candidate>,
}

/// A candidate type with its size and loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) ggml_type: GgmlType,
    pub(super) bytes: u64,
    /// The noise-to-signal ratio; 0 for the type of the source.
    pub(super) relative: f64,
}

impl FitTensor<'_> {
    /// Returns the size of the data in the source, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.source
            .ggml_type
            .layout()
            .and_then(|layout| layout.bytes_for(self.source.shape.elements()))
            .unwrap_or(0)
    }

    /// Measures the loss of each candidate type. Omits types that cannot represent the values,
    /// unless there is no other type. If the sensitivity does not give a weight, for example
    /// because it was measured with the type of the source, the tensor keeps its type.
    pub(super) fn measure(&self, checkpoint: &dyn Checkpoint) -> Result<Measurement> {
        let elements = self.source.shape.elements();
        let bytes = |ggml_type: GgmlType| {
            ggml_type.layout().and_then(|layout| layout.bytes_for(elements)).unwrap_or(u64::MAX)
        };
        let unmeasured =
            |ggml_type: GgmlType| Candidate { ggml_type, bytes: bytes(ggml_type), relative: 0.0 };
        if let [only] = self.types[..]
            && only == self.source.ggml_type
        {
            let weight = match self.error_weight {
                Some(ErrorWeight::Known(weight)) => Some(weight),
                Some(ErrorWeight::Measured(_)) | None => None,
            };
            return Ok(Measurement { weight, candidates: vec![unmeasured(only)] });
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
        let weight = match self.error_weight {
            None => None,
            Some(ErrorWeight::Known(weight)) => Some(weight),
            Some(ErrorWeight::Measured(Sensitivity { ggml_type, divergence, .. })) => {
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
        Ok(Measurement { weight, candidates: found })
    }

    /// Reads a sample of rows from all parts of the tensor, with their row numbers.
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

    /// Returns the noise-to-signal ratio of the rows in this type.
    fn relative(&self, rows: &[(u64, Vec<f32>)], ggml_type: GgmlType) -> Result<f64> {
        let unsupported = |error| Error::caused(ErrorKind::Unsupported, error);
        let mut sums = Sums::default();
        // All rows have the same length.
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

/// Returns one row of each of `count` equal ranges of the rows, at a pseudo-random position in the
/// range, so that the sample does not resonate with a pattern in the rows.
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
    fn sampled_rows_are_ascending_and_in_range() {
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
