//! Sinusoidal position embeddings.

use super::evaluate::Outcome;
use crate::value::ParameterValue as Value;

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
