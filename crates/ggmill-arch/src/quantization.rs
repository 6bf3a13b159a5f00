//! Inputs of the reference's mixtures beside roles and numbers: facts about names, of tensors and
//! of single architectures.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::coded::coded;
use crate::data::Table;

/// The table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quantization {
    schema: String,
    keep: Vec<String>,
    keep_parts: Vec<String>,
    not_weights: Vec<String>,
    architectures: BTreeMap<String, MixtureTraits>,
}

coded! { Quantization { schema, keep, keep_parts, not_weights, architectures } }
coded! { MixtureTraits { large, is_lean, stacks_others, eight_bit_parts, keep_parts } }
coded! { Large { depth, shared_heads, not_experts } }

impl Table for Quantization {
    const TEXT: &'static str = include_str!("../data/quantization.toml");
    const SCHEMA: &'static str = "ggmill.quantization/1";
    const CODED: &'static [u8] = crate::tables::QUANTIZATION;

    fn schema(&self) -> &str {
        &self.schema
    }
}

// The build script has read the text, and written what is read here.
static TABLE: LazyLock<Quantization> =
    LazyLock::new(|| Quantization::read().expect("read when it was built"));
static USUAL: MixtureTraits = MixtureTraits {
    large: None,
    is_lean: false,
    stacks_others: false,
    eight_bit_parts: Vec::new(),
    keep_parts: Vec::new(),
};

/// Properties of an architecture on which the reference's mixtures depend, in addition to
/// hyperparameters and tensor roles.
///
/// ```
/// use ggmill_arch::MixtureTraits;
/// let usual = MixtureTraits::of("llama");
/// assert!(!usual.is_lean() && usual.may_quantize("blk.0.attn_q.weight") && !usual.may_quantize("blk.0.attn_norm.weight"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixtureTraits {
    #[serde(default)]
    large: Option<Large>,
    #[serde(default)]
    is_lean: bool,
    #[serde(default)]
    stacks_others: bool,
    #[serde(default)]
    eight_bit_parts: Vec<String>,
    #[serde(default)]
    keep_parts: Vec<String>,
}

/// When a model has the shape that is called 70B.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Large {
    depth: u64,
    #[serde(default)]
    shared_heads: bool,
    #[serde(default)]
    not_experts: Option<u64>,
}

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
        let has_shape = |large: &Large| {
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
