//! Numbers about a text: means with their errors, and distributions.

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The mean, or what follows from it.
    pub value: f64,
    /// Its standard error, from how much single values differ.
    pub error: f64,
}

/// Values of all positions.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Distribution {
    /// The mean.
    pub mean: Estimate,
    /// The values in order.
    sorted: Vec<f64>,
}

/// Sums from which a mean and its error follow.
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

/// The covariance of the means of two series.
pub(super) fn covariance(left: &[f64], right: &[f64]) -> f64 {
    let count = left.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let products = left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>() / count;
    if count > 1.0 { (products - mean(left) * mean(right)) / (count - 1.0) } else { 0.0 }
}

/// The means of so many equal parts of some values, in order.
pub(super) fn by_part(values: &[f64], parts: usize) -> Vec<f64> {
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    values.chunks((values.len() / parts.max(1)).max(1)).map(mean).collect()
}

impl Distribution {
    /// The shares of values that are reported of a distribution, with their names.
    pub const SHARES: [(&'static str, f64); 9] = [
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

    /// The value that this share of all values is not above, between neighbours in proportion: 0.5
    /// is the median, 1 the greatest.
    pub fn quantile(&self, share: f64) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else { return f64::NAN };
        let place = share.clamp(0.0, 1.0) * last as f64;
        let below = place as usize;
        let rest = place - below as f64;
        self.sorted[below] * (1.0 - rest) + self.sorted[(below + 1).min(last)] * rest
    }
}

/// `exp` of a mean logarithm, with the error that follows.
pub(super) fn exponential(mean: Estimate) -> Estimate {
    let value = mean.value.exp();
    Estimate { value, error: value * mean.error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_between_neighbours() {
        let values = Distribution::of(vec![4.0, 1.0, 3.0, 2.0]);
        let quantiles = [0.0, 0.5, 0.9, 1.0].map(|share| values.quantile(share));
        for (found, expected) in quantiles.into_iter().zip([1.0, 2.5, 3.7, 4.0]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        // Variance 1.25, of four values.
        assert!((values.mean.value - 2.5).abs() < 1e-12);
        assert!((values.mean.error - (1.25f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
