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
}

impl Sensitivity {
    /// What a measurement found. `None` for a divergence that is infinite or not a number; what is
    /// below zero, as rounding can make it, is zero.
    pub fn new(ggml_type: GgmlType, divergence: f64) -> Option<Self> {
        divergence.is_finite().then_some(Self { ggml_type, divergence: divergence.max(0.0) })
    }
}
