//! Numeric functions of expressions that are computed like the reference: quantiles of the normal
//! distribution, sinusoidal position embeddings, RoPE frequency factors and the blend of YaRN.

use super::evaluate::Outcome;
use crate::value::ParameterValue as Value;

/// Returns the quantile of the standard normal distribution at a probability, as PyTorch computes it in
/// single precision: the inverse error function of `2 p - 1`, times √2. Returns negative infinity for
/// 0, infinity for 1, and NaN outside `[0, 1]`.
///
/// The inverse error function is a rational approximation with two steps of Newton's method (with the
/// coefficients of P. Giles and of PyTorch's `calc_erfinv`), here in double precision and rounded once.
pub(super) fn normal_quantile(probability: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the reference computes so")]
    let (argument, root) = (2.0f32 * probability as f32 - 1.0, 2.0f64.sqrt() as f32);
    #[expect(clippy::cast_possible_truncation, reason = "rounded once")]
    let inverse = inverse_erf(f64::from(argument)) as f32;
    inverse * root
}

const CENTER: [f64; 4] = [0.886_226_899, -1.645_349_621, 0.914_624_893, -0.140_543_331];
const CENTER_BELOW: [f64; 4] = [-2.118_377_725, 1.442_710_462, -0.329_097_515, 0.012_229_801];
const TAIL: [f64; 4] = [-1.970_840_454, -1.624_906_493, 3.429_567_803, 1.641_345_311];
const TAIL_BELOW: [f64; 2] = [3.543_889_200, 1.637_067_800];

/// Returns the inverse error function.
fn inverse_erf(y: f64) -> f64 {
    if y.abs() >= 1.0 {
        return if y.abs() > 1.0 || y.is_nan() { f64::NAN } else { y * f64::INFINITY };
    }
    let polynomial =
        |coefficients: &[f64], x: f64| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
    let mut x = if y.abs() <= 0.7 {
        let z = y * y;
        y * polynomial(&CENTER, z) / (1.0 + z * polynomial(&CENTER_BELOW, z))
    } else {
        let z = (-((1.0 - y.abs()) / 2.0).ln()).sqrt();
        y.signum() * polynomial(&TAIL, z) / (1.0 + z * polynomial(&TAIL_BELOW, z))
    };
    for _ in 0..2 {
        x -= (erf(x) - y) / (core::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp());
    }
    x
}

/// Returns the error function, by its series near zero and its continued fraction elsewhere.
fn erf(x: f64) -> f64 {
    let square = x * x;
    if x.abs() < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            let n = f64::from(n);
            term *= -square / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * core::f64::consts::FRAC_2_SQRT_PI;
    }
    let mut fraction = 0.0;
    for n in (1..80).rev() {
        fraction = f64::from(n) / 2.0 / (x.abs() + fraction);
    }
    let tail = (-square).exp() / (x.abs() + fraction) / core::f64::consts::PI.sqrt();
    x.signum() * (1.0 - tail)
}

/// The maximum number of elements: of 1500 positions with width 1280, two million.
const MAX_NUMBERS: usize = 1 << 21;

/// The step cost of an element, which limits the number of such lists.
const STEPS: usize = 16;

/// Returns a row per position: sines in the first half and cosines in the second, of wavelengths from
/// 2π to 2π times the longest timescale, as in Whisper. `spend` is called with the step cost and may
/// fail.
///
/// Products are computed in single precision in the order of the reference. Exponentials, sines and
/// cosines are correctly rounded; the reference leaves their rounding to the machine.
pub(super) fn sinusoids(
    positions: &Value,
    width: &Value,
    longest: &Value,
    spend: impl Fn(usize) -> Outcome<()>,
) -> Outcome<Vec<Value>> {
    let size = |value: &Value| {
        let size = value.as_u64().and_then(|size| u32::try_from(size).ok());
        size.ok_or_else(|| format!("needs an integer, found {value}"))
    };
    let (positions, width) = (size(positions)?, size(width)?);
    let longest = longest.as_f64().filter(|longest| *longest > 0.0);
    let longest = longest.ok_or("needs a longest timescale above 0")?;
    let half = width / 2;
    let last = half.checked_sub(1).filter(|last| *last > 0 && width % 2 == 0);
    let last = last.ok_or_else(|| format!("needs an even width of 4 or more, found {width}"))?;
    let count = u64::from(positions).saturating_mul(u64::from(width));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > MAX_NUMBERS {
        return Err(format!("needs {count} numbers, the limit is {MAX_NUMBERS}"));
    }
    spend(count.saturating_mul(STEPS))?;
    let step = single(-(longest.ln() / f64::from(last)));
    let rates: Vec<f32> =
        (0..half).map(|number| exact(f64::exp, step * number_of(number))).collect();
    let mut values = Vec::new();
    values
        .try_reserve_exact(count)
        .map_err(|_| format!("needs {count} numbers, for which there is not enough memory"))?;
    for position in 0..positions {
        for function in [f64::sin, f64::cos] {
            let angle = |rate: &f32| number_of(position) * rate;
            values.extend(
                rates.iter().map(|rate| Value::Float(f64::from(exact(function, angle(rate))))),
            );
        }
    }
    Ok(values)
}

/// Applies a function to a single-precision number, rounded once.
fn exact(function: fn(f64) -> f64, value: f32) -> f32 {
    single(function(f64::from(value)))
}

#[expect(clippy::cast_possible_truncation, reason = "the reference computes in single precision")]
fn single(value: f64) -> f32 {
    value as f32
}

#[expect(clippy::cast_precision_loss, reason = "the reference computes in single precision")]
fn number_of(value: u32) -> f32 {
    value as f32
}

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

/// How YaRN blends rotary dimensions: pairs below `low` keep their frequency, pairs from `high` on are
/// stretched by the factor, and the share of the factor grows linearly between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct YarnBlend {
    /// The number of rotary dimensions of a head.
    dimensions: u32,
    /// The base of the frequencies.
    base: f64,
    /// The context length of pretraining, in tokens.
    original_context: f64,
    /// The rotations within the original context above which a pair keeps its frequency.
    beta_fast: f64,
    /// The rotations below which the whole factor applies.
    beta_slow: f64,
    /// If true, the limits are rounded outwards to whole pairs.
    truncate: bool,
}

impl YarnBlend {
    /// Reads the parameters in the order of the function's arguments; `None` if they are not numbers and a
    /// flag, or not in their range.
    pub(crate) fn of(arguments: &[Value]) -> Option<Self> {
        let [numbers @ .., truncate] = arguments else { return None };
        let numbers: Option<Vec<f64>> = numbers.iter().map(Value::as_f64).collect();
        let &[dimensions, base, original_context, beta_fast, beta_slow] = numbers?.as_slice()
        else {
            return None;
        };
        let positive = [original_context, beta_fast, beta_slow].iter().all(|number| *number > 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an integer up to MAX_DIMENSIONS"
        )]
        (dimensions.fract() == 0.0
            && (2.0..=MAX_DIMENSIONS).contains(&dimensions)
            && base > 1.0
            && positive)
            .then_some(Self {
                dimensions: dimensions as u32,
                base,
                original_context,
                beta_fast,
                beta_slow,
                truncate: truncate.as_bool()?,
            })
    }

    /// Returns the step cost of [`Self::context_of_programs`].
    pub(crate) fn steps(&self) -> usize {
        let dimensions = usize::try_from(self.dimensions).unwrap_or(usize::MAX);
        dimensions.saturating_mul(dimensions)
    }

    /// Returns the pairs at which the blend begins and ends.
    fn limits(&self) -> (f64, f64) {
        let limit = |rotations: f64| {
            f64::from(self.dimensions)
                * (self.original_context / (rotations * 2.0 * core::f64::consts::PI)).ln()
                / (2.0 * self.base.ln())
        };
        let (mut low, mut high) = (limit(self.beta_fast), limit(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low.max(0.0), high.min(f64::from(self.dimensions) - 1.0))
    }

    /// Returns the share of the factor for each pair, over a width of the blend.
    fn shares_over(&self, width: f64) -> Vec<f64> {
        let (low, _) = self.limits();
        let share = |pair: u32| ((f64::from(pair) - low) / width).clamp(0.0, 1.0);
        (0..self.dimensions / 2).map(share).collect()
    }

    /// Returns the share of the factor for each pair, as the transformers library computes it.
    #[expect(clippy::float_cmp, reason = "the library widens only a blend whose ends are equal")]
    fn shares(&self) -> Vec<f64> {
        let (low, high) = self.limits();
        self.shares_over(if low == high { 0.001 } else { high - low })
    }

    /// Returns the share of the factor for each pair, as programs compute it (`rope_yarn_ramp` of ggml).
    fn shares_of_programs(&self) -> Vec<f64> {
        let (low, high) = self.limits();
        self.shares_over((high - low).max(0.001))
    }

    /// Returns the number that divides the frequency of each pair.
    pub(crate) fn factors(&self, factor: f64) -> Vec<f32> {
        self.shares().iter().map(|share| single(1.0 / (share / factor + 1.0 - share))).collect()
    }

    /// Returns an original context with which programs that only know the usual betas (32 and 1) and whole
    /// pairs blend every pair alike: the original context itself if it does, else one in the middle of a range
    /// of contexts that do. Returns `None` if there is none.
    pub(crate) fn context_of_programs(&self) -> Option<u32> {
        let wanted = self.shares();
        let usual = |context: u32| Self {
            original_context: f64::from(context),
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
            ..*self
        };
        let blends_alike = |context: u32| usual(context).shares_of_programs() == wanted;
        let whole = |context: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range is compared first"
            )]
            (1.0..=f64::from(u32::MAX)).contains(&context).then_some(context as u32)
        };
        let given = whole(self.original_context);
        if given.is_some_and(blends_alike) {
            return given;
        }
        // Limits are whole numbers of pairs: between these contexts, they do not change.
        let at = |rotations: f64, pair: u32| {
            let exponent = 2.0 * f64::from(pair) / f64::from(self.dimensions);
            rotations * 2.0 * core::f64::consts::PI * self.base.powf(exponent)
        };
        let pairs = 0..=self.dimensions / 2;
        let mut changes: Vec<f64> =
            pairs.flat_map(|pair| [at(32.0, pair), at(1.0, pair)]).chain([1.0]).collect();
        changes.sort_by(f64::total_cmp);
        changes.windows(2).find_map(|range| {
            let [from, to] = *range else { return None };
            let middle = whole((from * to).sqrt().round())?;
            (f64::from(middle) > from && f64::from(middle) < to && blends_alike(middle))
                .then_some(middle)
        })
    }
}

/// The maximum number of rotary dimensions of a head. Real heads have 64 to 512.
const MAX_DIMENSIONS: f64 = 65536.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.distributions.Normal(0, 1).icdf` of PyTorch 2.11.0 in single precision.
    #[test]
    fn quantiles_equal_the_reference() {
        for (probability, expected) in REFERENCE {
            let found = normal_quantile(probability);
            assert_eq!(found.to_bits(), expected.to_bits(), "{probability}: {found} {expected}");
        }
        assert!(normal_quantile(0.0).is_infinite() && normal_quantile(2.0).is_nan());
    }

    #[expect(
        clippy::unreadable_literal,
        clippy::excessive_precision,
        reason = "as PyTorch prints them"
    )]
    const REFERENCE: [(f64, f32); 10] = [
        (0.95, 1.6448535919189453),
        (0.9, 1.281551480293274),
        (0.75, 0.6744897365570068),
        (0.5, 0.0),
        (0.3, -0.5244004726409912),
        (0.05, -1.6448535919189453),
        (0.01, -2.326348304748535),
        (0.99, 2.326348304748535),
        (0.999, 3.090236186981201),
        (0.125, -1.1503493785858154),
    ];

    fn yarn(original_context: u32, beta_fast: f64, beta_slow: f64, truncate: bool) -> YarnBlend {
        YarnBlend {
            dimensions: 128,
            base: 1e6,
            original_context: f64::from(original_context),
            beta_fast,
            beta_slow,
            truncate,
        }
    }

    #[test]
    fn usual_betas_keep_the_original_context() {
        for context in [32, 4096, 32768, 1 << 20, u32::MAX] {
            assert_eq!(yarn(context, 32.0, 1.0, true).context_of_programs(), Some(context));
        }
    }

    #[test]
    fn betas_in_the_usual_ratio_give_another_context() {
        let wanted = yarn(32768, 64.0, 2.0, true);
        let context = wanted.context_of_programs().unwrap();
        // 32768 / 2, within what rounding to whole pairs allows.
        assert!((14000..19000).contains(&context), "{context}");
        assert_eq!(yarn(context, 32.0, 1.0, true).shares_of_programs(), wanted.shares());
    }

    #[test]
    fn a_different_width_has_no_context() {
        assert_eq!(yarn(32768, 8.0, 1.0, true).context_of_programs(), None);
        assert_eq!(yarn(32768, 32.0, 1.0, false).context_of_programs(), None);
    }

    /// Short contexts, in which no pair turns often: only the slow limit counts.
    #[test]
    fn limits_without_pairs_do_not_count() {
        let small = |beta_fast, beta_slow| YarnBlend {
            dimensions: 16,
            base: 1e4,
            original_context: 32.0,
            beta_fast,
            beta_slow,
            truncate: true,
        };
        assert_eq!(small(8.0, 1.0).context_of_programs(), Some(32));
        let context = small(32.0, 2.0).context_of_programs().unwrap();
        assert_ne!(context, 32);
        let programs = YarnBlend { original_context: f64::from(context), ..small(32.0, 1.0) };
        assert_eq!(programs.shares_of_programs(), small(32.0, 2.0).shares());
    }

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
