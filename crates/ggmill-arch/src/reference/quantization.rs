//! Inputs of the reference's mixtures beside roles and numbers: facts about names, of tensors and
//! of single architectures.

use std::sync::LazyLock;

use crate::data::compiled::{self, table};
use crate::data::tables::{LargeShape, MixtureTraits, Quantization};

static TABLE: LazyLock<Quantization> = LazyLock::new(|| table(compiled::QUANTIZATION));
static USUAL: MixtureTraits = MixtureTraits {
    large: None,
    is_lean: false,
    stacks_others: false,
    eight_bit_parts: Vec::new(),
    keep_parts: Vec::new(),
};

impl MixtureTraits {
    /// Those of the architecture with this name; the usual ones where nothing is special about it.
    pub fn of(architecture: &str) -> &'static Self {
        TABLE.architectures.get(architecture).unwrap_or(&USUAL)
    }

    /// Whether what leads out of attention and feed-forward layers gets fewer bits than usual, and
    /// the output eight.
    pub fn is_lean(&self) -> bool {
        self.is_lean
    }

    /// Whether other matrices than those of experts are stacked.
    pub fn stacks_others(&self) -> bool {
        self.stacks_others
    }

    /// Whether a model of this depth, whose heads share keys and values or do not, with so many
    /// experts, has the shape that is called 70B.
    pub fn is_large(&self, depth: u64, shares_heads: bool, experts: u64) -> bool {
        let has_shape = |large: &LargeShape| {
            depth == large.depth
                && (shares_heads || !large.shared_heads)
                && large.not_experts != Some(experts)
        };
        self.large.as_ref().is_some_and(has_shape)
    }

    /// Whether a tensor of this name stays at eight bits.
    pub fn stays_at_eight_bits(&self, tensor: &str) -> bool {
        self.eight_bit_parts.iter().any(|part| tensor.contains(part.as_str()))
    }

    /// Whether a matrix of this name may be quantized: not what is small, or sensitive, or not
    /// named as weights are.
    pub fn may_quantize(&self, tensor: &str) -> bool {
        let keeps = |part: &String| tensor.contains(part.as_str());
        tensor.ends_with("weight")
            && !TABLE.keep.iter().any(|name| name == tensor)
            && !TABLE.keep_parts.iter().chain(&self.keep_parts).any(keeps)
    }

    /// Whether a name of no convention has a part that says that it is not a matrix of weights;
    /// upper and lower case count alike.
    pub fn names_other_than_weights(tensor: &str) -> bool {
        let tensor = tensor.to_ascii_lowercase();
        TABLE.not_weights.iter().chain(&TABLE.keep_parts).any(|part| tensor.contains(part.as_str()))
    }
}
