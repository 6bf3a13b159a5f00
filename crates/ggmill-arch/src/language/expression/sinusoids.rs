//! The sines and cosines that stand for positions.

use super::evaluate::Outcome;
use crate::value::ParameterValue as Value;

/// Numbers that a description may ask for at once: of 1500 positions in a width of 1280, two
/// million.
const MAX_NUMBERS: usize = 1 << 21;

/// Steps of evaluation that a number costs: a description cannot ask for many such lists.
const STEPS: usize = 16;

/// One row for each position, the first half of it sines and the second cosines, of wavelengths from
/// 2π to 2π times the longest timescale, as Whisper has them. `spend` is told how many numbers there
/// will be, and may refuse.
///
/// Products are those of the reference, in single precision and in its order. Exponentials, sines
/// and cosines, which it leaves to the machine, are rounded correctly here.
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

/// A function of a number in single precision, rounded once.
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
