//! Tensors that no checkpoint has: computed from hyper-parameters.

use crate::error::{Error, ErrorKind, Result, quoted};
use crate::expression::{Expression, Invocation, Scope};

/// How to compute a tensor from hyper-parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Computation {
    /// `llama3_rope_factors`: one factor per pair of rotary dimensions, 1 where the wavelength is
    /// short against the context the model was trained with first, `factor` where it is long,
    /// and a smooth way between.
    Llama3RopeFactors {
        /// Rotary dimensions of a head.
        dimensions: u64,
        /// The base of the frequencies.
        base: f64,
        /// By how much long wavelengths are stretched.
        factor: f64,
        /// The original context divided by this is the wavelength from which on all is stretched.
        low_frequency_factor: f64,
        /// The original context divided by this is the wavelength up to which nothing is.
        high_frequency_factor: f64,
        /// The context the model was trained with first, in tokens.
        original_context: f64,
    },
}

impl Computation {
    /// The name a description writes.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Llama3RopeFactors { .. } => LLAMA3_ROPE_FACTORS,
        }
    }

    /// The elements of the tensor, in stored order.
    ///
    /// The arithmetic is that of the reference, in single precision and in its order; powers, which
    /// it leaves to the machine, are rounded correctly here.
    pub fn values(&self) -> Vec<f32> {
        match *self {
            Self::Llama3RopeFactors {
                dimensions,
                base,
                factor,
                low_frequency_factor,
                high_frequency_factor,
                original_context,
            } => {
                let longest_kept = single(original_context / high_frequency_factor);
                let shortest_stretched = single(original_context / low_frequency_factor);
                let (low, width) = (
                    single(low_frequency_factor),
                    single(high_frequency_factor - low_frequency_factor),
                );
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
    }
}

/// Rotary dimensions of a head, at most. Real heads have 64 to 512.
const MAX_DIMENSIONS: u64 = 1 << 16;

#[expect(clippy::cast_possible_truncation, reason = "the reference computes in single precision")]
fn single(value: f64) -> f32 {
    value as f32
}

const LLAMA3_ROPE_FACTORS: &str = "llama3_rope_factors";

/// A computation as a description writes it, its numbers still expressions.
#[derive(Clone, Debug)]
pub(crate) struct ComputationTemplate(Vec<Expression>);

impl ComputationTemplate {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let Invocation { name, arguments } = Invocation::parse(text)?;
        match (&*name, arguments.len()) {
            (LLAMA3_ROPE_FACTORS, 6) => Ok(Self(arguments)),
            (LLAMA3_ROPE_FACTORS, count) => Err(Error::description(format!(
                "{LLAMA3_ROPE_FACTORS} takes 6 arguments, found {count}"
            ))),
            _ => Err(Error::description(format!("there is no computation {}", quoted(&name)))),
        }
    }

    pub(crate) fn check_names(&self, known: &dyn Fn(&str) -> bool) -> Result<()> {
        self.0.iter().try_for_each(|argument| argument.check_names(known))
    }

    pub(crate) fn resolve(&self, scope: &Scope<'_>) -> Result<Computation> {
        let number = |argument: &Expression| {
            let value = argument.evaluate(scope)?;
            value.as_f64().ok_or_else(|| argument.wrong(&value, "a number"))
        };
        match &*self.0 {
            [dimensions, ..] if dimensions.evaluate_u64(scope)? > MAX_DIMENSIONS => {
                Err(Error::new(
                    ErrorKind::Limit,
                    format!("{} is more than {MAX_DIMENSIONS}", dimensions.text()),
                ))
            }
            [dimensions, base, factor, low, high, original] => Ok(Computation::Llama3RopeFactors {
                dimensions: dimensions.evaluate_u64(scope)?,
                base: number(base)?,
                factor: number(factor)?,
                low_frequency_factor: number(low)?,
                high_frequency_factor: number(high)?,
                original_context: number(original)?,
            }),
            // The number of arguments was checked when the description was loaded.
            _ => Err(Error::description("a computation with the wrong number of arguments")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of the reference with PyTorch 2.11.0.
    #[test]
    fn rope_factors_equal_the_reference() {
        let cases: serde_json::Value =
            serde_json::from_str(include_str!("../tests/fixtures/llama3-rope-factors.json"))
                .unwrap();
        for case in cases.as_array().unwrap() {
            let number = |name: &str| case[name].as_f64().unwrap();
            let computation = Computation::Llama3RopeFactors {
                dimensions: case["dimensions"].as_u64().unwrap(),
                base: number("base"),
                factor: number("factor"),
                low_frequency_factor: number("low"),
                high_frequency_factor: number("high"),
                original_context: number("original"),
            };
            let expected: Vec<f32> = case["factors"]
                .as_array()
                .unwrap()
                .iter()
                .map(|factor| single(factor.as_f64().unwrap()))
                .collect();
            assert_eq!(computation.values(), expected, "{computation:?}");
        }
    }
}
