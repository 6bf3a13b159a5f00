//! Facts about tensor names and architectures that the reference's quantization mixtures depend on.

use std::sync::LazyLock;

use crate::data::tables::{LargeShape, MixtureTraits, Quantization};
use crate::data::{self, table};
use crate::language::block::block_of;

static TABLE: LazyLock<Quantization> = LazyLock::new(|| table(data::QUANTIZATION));
static USUAL: MixtureTraits = MixtureTraits {
    large: None,
    is_lean: false,
    stacks_others: false,
    eight_bit_parts: Vec::new(),
    keep_parts: Vec::new(),
    weight_scales: Vec::new(),
};

impl MixtureTraits {
    /// Returns the traits of an architecture; the defaults if it has no special ones.
    pub fn of(architecture: &str) -> &'static Self {
        TABLE.architectures.get(architecture).unwrap_or(&USUAL)
    }

    /// Returns `true` if the output projections of attention and feed-forward layers get fewer bits
    /// than usual, and the output matrix eight.
    pub fn is_lean(&self) -> bool {
        self.is_lean
    }

    /// Returns `true` if the architecture has stacked matrices other than experts.
    pub fn stacks_others(&self) -> bool {
        self.stacks_others
    }

    /// Returns `true` if a model has the shape that the reference calls 70B. `shares_heads` is `true`
    /// for grouped-query attention.
    pub fn is_large(&self, depth: u64, shares_heads: bool, experts: u64) -> bool {
        let has_shape = |large: &LargeShape| {
            depth == large.depth
                && (shares_heads || !large.shared_heads)
                && large.not_experts != Some(experts)
        };
        self.large.as_ref().is_some_and(has_shape)
    }

    /// Returns `true` if llama.cpp multiplies the products with the matrix `tensor` by a separate
    /// tensor, the scale of the matrix. Elsewhere it ignores or refuses such a tensor.
    pub fn applies_scale(&self, tensor: &str) -> bool {
        let Some(name) = tensor.strip_suffix(".weight") else { return false };
        let name = block_of(name).map_or(name, |(_, rest)| rest);
        self.weight_scales.iter().any(|known| known == name)
    }

    /// Returns `true` if the tensor keeps eight bits.
    pub fn stays_at_eight_bits(&self, tensor: &str) -> bool {
        self.eight_bit_parts.iter().any(|part| tensor.contains(part.as_str()))
    }

    /// Returns `true` if the matrix may be quantized: its name ends with `weight`, and it is not listed
    /// as small or sensitive.
    pub fn may_quantize(&self, tensor: &str) -> bool {
        let keeps = |part: &String| tensor.contains(part.as_str());
        tensor.ends_with("weight")
            && !TABLE.keep.iter().any(|name| name == tensor)
            && !TABLE.keep_parts.iter().chain(&self.keep_parts).any(keeps)
    }

    /// Returns `true` if a name without a known convention contains a word for something other than a
    /// weight matrix. Ignores case.
    pub fn names_other_than_weights(tensor: &str) -> bool {
        let tensor = tensor.to_ascii_lowercase();
        TABLE.not_weights.iter().chain(&TABLE.keep_parts).any(|part| tensor.contains(part.as_str()))
    }
}
