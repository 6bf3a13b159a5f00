//! How much of a tensor an encoding keeps.
//!
//! A type holds values of a certain range. Weights that are far below it become zeros without any
//! error of the codec, so the result is compared with the values: a sample of the rows, which costs
//! a fraction of the encoding, and all of them for the question whether everything became zero.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ggmill_core::{BlockLayout, GgmlType};
use ggmill_quant as quant;

/// The most rows of a tensor that are compared.
const SAMPLE: u64 = 64;

/// The measured errors of the encoding of one tensor.
#[derive(Debug, Default)]
pub(crate) struct Fidelity {
    /// The squared sums of errors and of values by row. Sorted, so that the result does not depend
    /// on the order in which threads finish.
    rows: Mutex<BTreeMap<u64, (f64, f64)>>,
    has_value: AtomicBool,
    keeps_value: AtomicBool,
    /// The number of values that are not finite.
    non_finite: AtomicU64,
    /// `u64::MAX` minus the index of the first of them.
    first: AtomicU64,
}

/// The loss of an encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loss {
    /// All values became zero, and not all were.
    Everything,
    /// The root of the error's energy relative to that of the values.
    Error(f64),
}

/// Describes a tensor of which an encoding leaves only zeros.
pub(crate) fn all_zeros(ggml_type: GgmlType) -> String {
    format!(
        "every value becomes zero in {ggml_type}: the values are below the range of the type; BF16 or \
         F32 holds them"
    )
}

impl Loss {
    /// Returns the lost share of the values' energy.
    pub(crate) fn energy(self) -> f64 {
        match self {
            Self::Everything => f64::INFINITY,
            Self::Error(error) => error,
        }
    }
}

impl Fidelity {
    /// Discards all measurements.
    pub(crate) fn reset(&self) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.has_value.store(false, Ordering::Relaxed);
        self.keeps_value.store(false, Ordering::Relaxed);
        self.non_finite.store(0, Ordering::Relaxed);
        self.first.store(0, Ordering::Relaxed);
    }

    /// Returns `true` if the encoding of row `row` of `rows` is compared.
    pub(crate) fn samples(row: u64, rows: u64) -> bool {
        row.is_multiple_of((rows / SAMPLE).max(1))
    }

    /// Compares values with their encoding: of the rows that are sampled, and until one value is
    /// kept, of all.
    pub(crate) fn compare(&self, to: GgmlType, values: &[f32], encoded: &[u8], row: Option<u64>) {
        let is_open =
            !self.keeps_value.load(Ordering::Relaxed) && values.iter().any(|value| *value != 0.0);
        if row.is_none() && !is_open {
            return;
        }
        let mut decoded = vec![0.0; values.len()];
        if quant::dequantize(to, encoded, &mut decoded).is_err() {
            return;
        }
        if is_open {
            self.has_value.store(true, Ordering::Relaxed);
            if decoded.iter().any(|value| *value != 0.0) {
                self.keeps_value.store(true, Ordering::Relaxed);
            }
        }
        if let Some(row) = row {
            let (mut error, mut energy) = (0.0, 0.0);
            for (value, decoded) in values.iter().zip(&decoded) {
                let (value, decoded) = (f64::from(*value), f64::from(*decoded));
                error += (value - decoded) * (value - decoded);
                energy += value * value;
            }
            self.rows.lock().unwrap_or_else(PoisonError::into_inner).insert(row, (error, energy));
        }
    }

    /// Notes whether doubles, little-endian, have values other than zero, and whether F32 keeps one.
    pub(crate) fn compare_doubles(&self, to: GgmlType, doubles: &[u8], values: &[f32]) {
        let is_value = |bytes: &[u8; 8]| f64::from_le_bytes(*bytes) != 0.0;
        if doubles.as_chunks::<8>().0.iter().any(is_value) {
            self.has_value.store(true, Ordering::Relaxed);
        }
        if to == GgmlType::F32 && values.iter().any(|value| *value != 0.0) {
            self.keeps_value.store(true, Ordering::Relaxed);
        }
    }

    /// Counts the values that are not finite; `index` returns the index of a value in the tensor.
    pub(crate) fn count_non_finite(&self, values: &[f32], index: impl Fn(usize) -> u64) {
        // Most chunks have none, and are tested without a branch for each value.
        let count = values.iter().fold(0u64, |sum, value| sum + u64::from(!value.is_finite()));
        if count == 0 {
            return;
        }
        self.non_finite.fetch_add(count, Ordering::Relaxed);
        let first = values.iter().position(|value| !value.is_finite()).map_or(0, index);
        self.first.fetch_max(u64::MAX - first, Ordering::Relaxed);
    }

    /// Returns the number of values that are not finite, and the index of the first.
    pub(crate) fn non_finite(&self) -> Option<(u64, u64)> {
        let count = self.non_finite.load(Ordering::Relaxed);
        (count > 0).then(|| (count, u64::MAX - self.first.load(Ordering::Relaxed)))
    }

    /// Returns the loss if it is more than the type has for values in its range.
    pub(crate) fn loss(&self, to: GgmlType) -> Option<Loss> {
        if self.has_value.load(Ordering::Relaxed) && !self.keeps_value.load(Ordering::Relaxed) {
            return Some(Loss::Everything);
        }
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |(error, energy): (f64, f64), row: &(f64, f64)| (error + row.0, energy + row.1);
        let (error, energy) = rows.values().fold((0.0, 0.0), sum);
        let relative = (error / energy).sqrt();
        (relative > error_bound(to)).then_some(Loss::Error(relative))
    }
}

/// Returns the greatest relative error of a type for weights in its range: several times that of
/// normally distributed ones.
pub fn error_bound(to: GgmlType) -> f64 {
    let bits = to.layout().map_or(32.0, BlockLayout::bits_per_weight);
    match to {
        GgmlType::TQ1_0 | GgmlType::TQ2_0 => 0.95,
        _ if bits < 2.1 => 0.95,
        _ if bits < 3.0 => 0.75,
        _ if bits < 4.0 => 0.5,
        _ if bits < 5.0 => 0.35,
        _ if bits < 6.0 => 0.2,
        _ if bits < 8.0 => 0.1,
        _ if bits < 16.0 => 0.05,
        _ => 0.02,
    }
}
