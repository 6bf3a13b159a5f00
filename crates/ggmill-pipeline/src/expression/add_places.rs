//! Lists of IDs that are written as distances from their places.

use std::ops::Range;

use ggmill_core::{GgmlType, Shape};

use super::decode::{Decode, Inputs};
use crate::error::{Error, ErrorKind, Result};

/// Adds to each integer its place in the list, counted from 0: the input is I64, and so is the
/// output. Drafts for speculative decoding have the tokens that they know of another vocabulary so.
///
/// The sums are IDs: fails at one that is negative, not below the limit, or there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddPlaces {
    limit: u64,
}

impl AddPlaces {
    /// The decoder, with the number of IDs that there are.
    pub fn new(limit: u64) -> Self {
        Self { limit }
    }
}

impl Decode for AddPlaces {
    fn name(&self) -> &'static str {
        "add_places"
    }

    fn output(&self, inputs: &[(GgmlType, Shape)]) -> Result<(GgmlType, Shape)> {
        match inputs {
            // One row, so that it is decoded as a whole.
            &[(GgmlType::I64, shape)] if shape.row_len() == shape.elements() => {
                Ok((GgmlType::I64, shape))
            }
            _ => Err(Error::new(ErrorKind::Checkpoint, "expected a list of 64-bit integers")),
        }
    }

    fn decode(&self, rows: Range<u64>, inputs: &Inputs<'_>, out: &mut [u8]) -> Result<()> {
        let columns = inputs.shape(0).row_len();
        let bytes = inputs.bytes(0, rows.start * columns..rows.end * columns)?;
        let (numbers, _) = bytes.as_chunks();
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message);
        let mut ids = Vec::new();
        ids.try_reserve_exact(numbers.len())
            .map_err(|_| fault(format!("not enough memory for {} IDs", numbers.len())))?;
        for (place, (&number, out)) in (0i64..).zip(numbers.iter().zip(out.as_chunks_mut().0)) {
            let distance = i64::from_le_bytes(number);
            let id = distance.checked_add(place);
            let id = id.filter(|id| u64::try_from(*id).is_ok_and(|id| id < self.limit));
            let id = id.ok_or_else(|| {
                fault(format!(
                    "element {place} is {distance}: with its index added, expected an ID below {}",
                    self.limit
                ))
            })?;
            *out = id.to_le_bytes();
            ids.push(id);
        }
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(fault(format!("the ID {} occurs twice", pair[0]))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;
    use crate::source::MemorySource;

    #[test]
    fn ids_are_places_and_distances() {
        let decoded = |numbers: &[i64], limit| {
            let shape = Shape::new(&[numbers.len() as u64]).unwrap();
            let mut source = MemorySource::new();
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            source.add("ids", GgmlType::I64, shape, bytes).unwrap();
            let list = Expression::tensor(&source, 0).unwrap();
            let made = Expression::decode(AddPlaces::new(limit), &[list]).unwrap();
            let ids = |bytes: Vec<u8>| -> Vec<i64> {
                bytes.as_chunks().0.iter().map(|&id| i64::from_le_bytes(id)).collect()
            };
            let bytes = made.evaluate(&source, 0..numbers.len() as u64);
            bytes.map(ids).map_err(|error| error.to_string())
        };
        assert_eq!(decoded(&[3, 3, 5, -3], 8), Ok(vec![3, 4, 7, 0]));
        for (numbers, limit, words) in [
            (&[3, 3, 5][..], 7, "element 2 is 5: with its index added, expected an ID below 7"),
            (&[0, -2], 7, "element 1 is -2"),
            (&[i64::MAX, i64::MAX], u64::MAX, "element 1 is 9223372036854775807"),
            (&[4, 2, 2], 7, "the ID 4 occurs twice"),
        ] {
            let error = decoded(numbers, limit).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
