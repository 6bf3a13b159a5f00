//! Means with their standard errors, distributions, and the similarity of embeddings.

use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSlice as _;

use super::Measurement;
use crate::error::{Error, ErrorKind, Result};

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The mean, or a function of it.
    pub value: f64,
    /// The standard error, from the variance of the values.
    pub error: f64,
}

/// The distribution of a score over all positions.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Distribution {
    /// The mean.
    pub mean: Estimate,
    /// The values in ascending order.
    sorted: Vec<f64>,
}

/// Sums for a mean and its standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        values.fold(Self::default(), |sums, value| Self {
            count: sums.count + 1.0,
            sum: sums.sum + value,
            squares: sums.squares + value * value,
        })
    }

    pub(super) fn mean(self) -> Estimate {
        let value = self.sum / self.count;
        let variance = self.squares / self.count - value * value;
        let error = if variance > 0.0 && self.count > 1.0 {
            (variance / (self.count - 1.0)).sqrt()
        } else {
            0.0
        };
        Estimate { value, error }
    }
}

/// Returns the covariance of the means of two series.
pub(super) fn covariance_of_means(left: &[f64], right: &[f64]) -> f64 {
    let count = left.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let products = left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>() / count;
    if count > 1.0 { (products - mean(left) * mean(right)) / (count - 1.0) } else { 0.0 }
}

/// Returns the mean of each of `parts` equal consecutive parts.
pub(super) fn means_by_part(values: &[f64], parts: usize) -> Vec<f64> {
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    values.chunks((values.len() / parts.max(1)).max(1)).map(mean).collect()
}

impl Distribution {
    /// The quantiles in reports, with their names.
    pub const QUANTILES: [(&'static str, f64); 9] = [
        ("min", 0.0),
        ("1%", 0.01),
        ("5%", 0.05),
        ("median", 0.5),
        ("90%", 0.9),
        ("95%", 0.95),
        ("99%", 0.99),
        ("99.9%", 0.999),
        ("max", 1.0),
    ];

    pub(super) fn of(mut values: Vec<f64>) -> Self {
        let mean = Sums::of(values.iter().copied()).mean();
        values.sort_unstable_by(f64::total_cmp);
        Self { mean, sorted: values }
    }

    /// Returns a quantile with linear interpolation: 0.5 is the median, 1 the maximum.
    pub fn quantile(&self, share: f64) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else { return f64::NAN };
        let rank = share.clamp(0.0, 1.0) * last as f64;
        let below = rank as usize;
        let rest = rank - below as f64;
        self.sorted[below] * (1.0 - rest) + self.sorted[(below + 1).min(last)] * rest
    }
}

/// Returns `exp` of a mean logarithm, with the propagated error.
pub(super) fn exp_estimate(mean: Estimate) -> Estimate {
    let value = mean.value.exp();
    Estimate { value, error: value * mean.error }
}

/// The similarity of a model's embeddings to the base's embeddings, per token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Similarity {
    /// The cosine of the angle between the two vectors of a token: 1 for the same direction.
    pub cosine: Distribution,
    /// The mean cosine in each chunk.
    pub cosine_by_chunk: Vec<f64>,
}

/// The cosines of all positions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cosines(Vec<f64>);

impl Cosines {
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
        let cosine_by_chunk = means_by_part(&self.0, chunks);
        let similarity = Some(Similarity { cosine_by_chunk, cosine: Distribution::of(self.0) });
        Measurement { chunks, counted, perplexity: None, comparison: None, similarity }
    }
}

/// Returns the cosine similarity of each row and the row of the base.
pub(super) fn cosines(rows: &[f32], base: &[f32], width: usize) -> Result<Vec<f64>> {
    let pairs = rows.par_chunks_exact(width).zip(base.par_chunks_exact(width));
    pairs
        .map(|(ours, theirs)| {
            for (row, owner) in [(ours, "model"), (theirs, "base")] {
                if row.iter().any(|number| !number.is_finite()) {
                    let message = format!("an output of the {owner} is not a finite number");
                    return Err(Error::new(ErrorKind::NotFinite, message));
                }
            }
            Ok(cosine(ours, theirs))
        })
        .collect()
}

/// Returns the cosine of the angle between two vectors: 1 if both are zero, 0 if one is.
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
    fn quantiles_are_interpolated() {
        let values = Distribution::of(vec![4.0, 1.0, 3.0, 2.0]);
        let quantiles = [0.0, 0.5, 0.9, 1.0].map(|share| values.quantile(share));
        for (found, expected) in quantiles.into_iter().zip([1.0, 2.5, 3.7, 4.0]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        // The variance of the four values is 1.25.
        assert!((values.mean.value - 2.5).abs() < 1e-12);
        assert!((values.mean.error - (1.25f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn cosines_are_of_directions() {
        let near = cosines(&[3.0, 4.0, 1.0, 0.0, 0.0, 0.0], &[6.0, 8.0, 0.0, 2.0, 0.0, 0.0], 2);
        assert_eq!(near.unwrap(), [1.0, 0.0, 1.0]);
        assert_eq!(cosines(&[1.0, 0.0], &[-2.0, 0.0], 2).unwrap(), [-1.0]);
        assert_eq!(cosines(&[1.0, 0.0], &[0.0, 0.0], 2).unwrap(), [0.0]);
        let error = cosines(&[1.0, 0.0], &[f32::NAN, 0.0], 2).unwrap_err();
        assert_eq!(error.to_string(), "an output of the base is not a finite number");
    }
}
