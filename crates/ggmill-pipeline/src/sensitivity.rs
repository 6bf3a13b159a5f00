//! How much the quantization of a tensor matters, as it was measured.

use ggmill_core::GgmlType;

/// What the quantization of one tensor alone does to the output of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sensitivity {
    /// The type that it had in the measurement.
    pub ggml_type: GgmlType,
    /// The mean KL divergence of the output from that of the model as it is, in nats.
    pub divergence: f64,
    /// Whether it was quantized with importance weights.
    pub with_importance: bool,
}

impl Sensitivity {
    /// What a measurement without importance weights found. `None` for a divergence that is infinite or not a number; what is
    /// below zero, as rounding can make it, is zero.
    pub fn new(ggml_type: GgmlType, divergence: f64) -> Option<Self> {
        let divergence = divergence.is_finite().then_some(divergence.max(0.0))?;
        Some(Self { ggml_type, divergence, with_importance: false })
    }

    /// The same with importance weights, or without them.
    #[must_use]
    pub fn with_importance(self, with_importance: bool) -> Self {
        Self { with_importance, ..self }
    }
}
