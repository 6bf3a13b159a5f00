//! The RoPE frequency factors of Llama 3.

/// The parameters of the factors. There is one factor per pair of rotary dimensions: 1 for wavelengths
/// that are short compared with the original context, `factor` for long ones, and a smooth transition
/// between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Llama3RopeFactors {
    /// The number of rotary dimensions of a head.
    dimensions: u64,
    /// The base of the frequencies.
    base: f64,
    /// The factor of long wavelengths.
    factor: f64,
    /// The original context divided by this is the wavelength above which `factor` applies.
    low_frequency_factor: f64,
    /// The original context divided by this is the wavelength below which the factor is 1.
    high_frequency_factor: f64,
    /// The context length of pretraining, in tokens.
    original_context: f64,
}

impl Llama3RopeFactors {
    /// Reads the parameters in the order of the function's arguments; `None` if the first is not a
    /// valid number of dimensions.
    pub(crate) fn of(numbers: &[f64]) -> Option<Self> {
        let &[dimensions, base, factor, low, high, original] = numbers else { return None };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an integer up to MAX_DIMENSIONS"
        )]
        (dimensions.fract() == 0.0 && (0.0..=MAX_DIMENSIONS).contains(&dimensions)).then_some(
            Self {
                dimensions: dimensions as u64,
                base,
                factor,
                low_frequency_factor: low,
                high_frequency_factor: high,
                original_context: original,
            },
        )
    }

    /// Returns the factors in stored order.
    ///
    /// The arithmetic is in single precision in the order of the reference. Powers are correctly
    /// rounded; the reference leaves their rounding to the machine.
    pub(crate) fn values(&self) -> Vec<f32> {
        let &Self {
            dimensions,
            base,
            factor,
            low_frequency_factor,
            high_frequency_factor,
            original_context,
        } = self;
        let longest_kept = single(original_context / high_frequency_factor);
        let shortest_stretched = single(original_context / low_frequency_factor);
        let (low, width) =
            (single(low_frequency_factor), single(high_frequency_factor - low_frequency_factor));
        let one = |pair: u64| {
            #[expect(
                clippy::cast_precision_loss,
                reason = "at most MAX_DIMENSIONS, which is exact"
            )]
            let exponent = pair.saturating_mul(2) as f32 / dimensions as f32;
            let frequency = 1.0 / single(base.powf(f64::from(exponent)));
            let wavelength = (1.0 / frequency) * single(2.0 * core::f64::consts::PI);
            if wavelength < longest_kept {
                return 1.0;
            }
            if wavelength > shortest_stretched {
                return single(factor);
            }
            let smooth = ((1.0 / wavelength) * single(original_context) - low) / width;
            1.0 / ((1.0 - smooth) / single(factor) + smooth)
        };
        (0..dimensions / 2).map(one).collect()
    }
}

/// The maximum number of rotary dimensions of a head. Real heads have 64 to 512.
const MAX_DIMENSIONS: f64 = 65536.0;

#[expect(clippy::cast_possible_truncation, reason = "the reference computes in single precision")]
fn single(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixture is the result of the reference with PyTorch 2.11.0.
    #[test]
    fn rope_factors_equal_the_reference() {
        let cases: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/llama3-rope-factors.json"))
                .unwrap();
        for case in cases.as_array().unwrap() {
            let number = |name: &str| case[name].as_f64().unwrap();
            let factors = Llama3RopeFactors::of(&[
                number("dimensions"),
                number("base"),
                number("factor"),
                number("low"),
                number("high"),
                number("original"),
            ])
            .unwrap();
            let expected: Vec<f32> = case["factors"]
                .as_array()
                .unwrap()
                .iter()
                .map(|factor| single(factor.as_f64().unwrap()))
                .collect();
            assert_eq!(factors.values(), expected, "{factors:?}");
        }
    }
}
