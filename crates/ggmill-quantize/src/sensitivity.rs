//! The sensitivity of the output to quantization errors of each tensor.

use std::collections::BTreeMap;

use ggmill_core::GgmlType;
use ggmill_pipeline::planned_sensitivities;
use ggmill_pipeline::{Error, ErrorKind, PlanDocumentError, Result, Sensitivity};

/// The weight of each tensor's error when types are chosen for a size.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Weighing {
    /// The number of elements: minimizes the mean error over all weights.
    #[default]
    Even,
    /// The sensitivities that were measured for this model: minimizes the predicted KL divergence.
    Measured(Sensitivities),
}

/// The sensitivities of the tensors of a model.
///
/// To a good approximation, the KL divergence that the quantization of a tensor causes is
/// proportional to its relative squared error, and the divergences of all tensors add up. So one
/// measurement of each tensor predicts the divergence of any choice of types.
///
/// ```
/// use ggmill_quantize::Sensitivities;
/// let plan = br#"{"schema": "ggmill.plan/1", "tensors": [{"name": "output.weight", "type": "Q6_K",
///     "sensitivity": {"type": "Q4_0", "kl_divergence": 0.01}}]}"#;
/// let found = Sensitivities::parse(plan)?;
/// assert_eq!(found.get(b"output.weight").map(|found| found.divergence), Some(0.01));
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sensitivities(BTreeMap<Vec<u8>, Sensitivity>);

impl Sensitivities {
    /// Parses the sensitivities in a plan, `ggmill.plan/1`, or in the plans of a set of shards.
    ///
    /// # Errors
    ///
    /// Fails for a document that is not a plan, or has no sensitivities, and for a sensitivity that is not
    /// a type and a finite number of at least 0.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let wrong = |error: PlanDocumentError| match &error {
            PlanDocumentError::Sensitivity { tensor } => {
                let tensor = tensor.clone();
                Error::caused(ErrorKind::Types, error).tensor(tensor)
            }
            _ => Error::caused(ErrorKind::Types, error),
        };
        let found: Self = planned_sensitivities(json).map_err(wrong)?.into_iter().collect();
        if found.0.is_empty() {
            return Err(Error::new(ErrorKind::Types, "has no sensitivities"));
        }
        Ok(found)
    }

    /// Returns the sensitivity of a tensor, by its name in the output.
    pub fn get(&self, name: &[u8]) -> Option<Sensitivity> {
        self.0.get(name).copied()
    }

    /// Returns `true` if any sensitivity was measured with importance weights. Predictions are then
    /// valid for quantizations with the same weights.
    pub fn with_importance(&self) -> bool {
        self.0.values().any(|found| found.with_importance)
    }

    /// Returns the number of sensitivities.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an error if a sensitivity is for none of these tensors.
    pub(crate) fn check<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Result<()> {
        let names: std::collections::BTreeSet<&[u8]> = names.collect();
        match self.0.keys().find(|name| !names.contains(name.as_slice())) {
            Some(name) => {
                let message = "has a sensitivity, and is not in the model";
                Err(Error::new(ErrorKind::Types, message).tensor(name))
            }
            None => Ok(()),
        }
    }
}

impl FromIterator<(Vec<u8>, Sensitivity)> for Sensitivities {
    fn from_iter<T: IntoIterator<Item = (Vec<u8>, Sensitivity)>>(found: T) -> Self {
        Self(found.into_iter().collect())
    }
}

/// A tensor whose sensitivity is to be measured.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToMeasure {
    /// The name of the tensor.
    pub name: Vec<u8>,
    /// The type to quantize it to for the measurement.
    pub ggml_type: GgmlType,
    /// The importance weights for the quantization, one row for each matrix of the tensor.
    pub importance: Option<Vec<f32>>,
}

/// Returns the type that a tensor is measured with: of the candidates after its current type, the
/// one closest to 4.5 bits per weight. Smaller errors would be lost among rounding errors of the
/// computation, and larger errors would no longer be proportional to the divergence.
pub(crate) fn type_to_measure(types: &[GgmlType]) -> Option<GgmlType> {
    const BITS: f64 = 4.5;
    let distance = |ggml_type: &GgmlType| {
        let bits = ggml_type.layout().map_or(f64::INFINITY, |layout| {
            f64::from(layout.bytes) * 8.0 / f64::from(layout.elements)
        });
        (bits - BITS).abs()
    };
    // The first of equally close types.
    let smaller = types.get(1..).unwrap_or_default();
    smaller.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_is_measured_with_a_type_of_about_4_bits() {
        let [plain, bf16, f16] = [GgmlType::F32, GgmlType::BF16, GgmlType::F16];
        let [q8_0, q4_k, q4_0] = [GgmlType::Q8_0, GgmlType::Q4_K, GgmlType::Q4_0];
        let measured = [
            (&[plain, bf16, f16, q8_0, q4_k, q4_0, GgmlType::IQ4_NL][..], Some(q4_k)),
            (&[plain, bf16, f16, q8_0, q4_0, GgmlType::IQ4_NL], Some(q4_0)),
            (&[plain, bf16, f16], Some(bf16)),
            (&[q4_0, GgmlType::Q2_K, GgmlType::Q3_K], Some(GgmlType::Q3_K)),
            (&[plain], None),
        ];
        for (types, expected) in measured {
            assert_eq!(type_to_measure(types), expected, "{types:?}");
        }
    }
}
