//! How near embeddings are to those of another model.

use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSlice as _;

use super::statistics::by_part;
use super::{Distribution, Measurement};
use crate::error::{Error, ErrorKind, Result};

/// How near the embeddings of a model are to those of another one, the base, token by token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Similarity {
    /// The cosine of the angle between the two vectors of a token: 1 where they have the same
    /// direction.
    pub cosine: Distribution,
    /// Its mean in each chunk.
    pub cosine_by_chunk: Vec<f64>,
}

/// The cosines so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Vectors(Vec<f64>);

impl Vectors {
    pub(super) fn extend(&mut self, cosines: Vec<f64>) {
        self.0.extend(cosines);
    }

    pub(super) fn append(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(super) fn of(cosines: Vec<f64>) -> Self {
        Self(cosines)
    }

    pub(super) fn into_cosines(self) -> Vec<f64> {
        self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn summary(self, chunks: usize) -> Measurement {
        let counted = self.0.len();
        let cosine_by_chunk = by_part(&self.0, chunks);
        let similarity = Some(Similarity { cosine_by_chunk, cosine: Distribution::of(self.0) });
        Measurement { chunks, counted, perplexity: None, comparison: None, similarity }
    }
}

/// The cosine of each row with that of the base.
pub(super) fn compare(rows: &[f32], base: &[f32], width: usize) -> Result<Vec<f64>> {
    let pairs = rows.par_chunks_exact(width).zip(base.par_chunks_exact(width));
    pairs
        .map(|(ours, theirs)| {
            for (row, whose) in [(ours, "model"), (theirs, "base")] {
                if row.iter().any(|number| !number.is_finite()) {
                    let message = format!("an output of the {whose} is not a finite number");
                    return Err(Error::new(ErrorKind::NotFinite, message));
                }
            }
            Ok(cosine(ours, theirs))
        })
        .collect()
}

/// The cosine of the angle between two vectors. One without a direction is like another such one
/// only.
fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let product = |left: &[f32], right: &[f32]| {
        left.iter().zip(right).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>()
    };
    let norms = (product(left, left), product(right, right));
    if norms.0 > 0.0 && norms.1 > 0.0 {
        (product(left, right) / (norms.0.sqrt() * norms.1.sqrt())).clamp(-1.0, 1.0)
    } else {
        f64::from(u8::from(norms.0 <= 0.0 && norms.1 <= 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_of_directions() {
        let near = compare(&[3.0, 4.0, 1.0, 0.0, 0.0, 0.0], &[6.0, 8.0, 0.0, 2.0, 0.0, 0.0], 2);
        assert_eq!(near.unwrap(), [1.0, 0.0, 1.0]);
        assert_eq!(compare(&[1.0, 0.0], &[-2.0, 0.0], 2).unwrap(), [-1.0]);
        assert_eq!(compare(&[1.0, 0.0], &[0.0, 0.0], 2).unwrap(), [0.0]);
        let error = compare(&[1.0, 0.0], &[f32::NAN, 0.0], 2).unwrap_err();
        assert_eq!(error.to_string(), "an output of the base is not a finite number");
    }
}
