//! The tables of facts in `data/`, in the schema of their TOML files. The build script parses the files
//! with this module and encodes them with [`coded`](crate::data::coded).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::data::coded::{Coded, coded};

/// A table of facts.
pub(crate) trait Table: Coded {
    /// The schema name that the file must have.
    #[allow(dead_code, reason = "the build script and a test read the files")]
    const SCHEMA: &'static str;

    /// Returns the schema name in the file.
    #[allow(dead_code, reason = "the build script and a test read the files")]
    fn schema(&self) -> &str;
}

macro_rules! table {
    ($name:ident, $schema:literal) => {
        impl Table for $name {
            const SCHEMA: &'static str = $schema;

            fn schema(&self) -> &str {
                &self.schema
            }
        }
    };
}

/// `kinds.toml`: the `general.type` of architectures that are not language models.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kinds {
    schema: String,
    pub(crate) kinds: BTreeMap<String, String>,
}

table!(Kinds, "ggmill.kinds/1");
coded! { Kinds { schema, kinds } }

/// `names.toml`: the tensor names of architectures. `python3 conformance/run.py architectures` writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    schema: String,
    pub(crate) sources: Vec<String>,
    pub(crate) architectures: BTreeMap<String, TensorNames>,
}

table!(Names, "ggmill.architecture-names/1");
coded! { Names { schema, sources, architectures } }

/// The tensor names of an architecture, without block numbers and without `.weight` or `.bias`.
///
/// ```
/// use ggmill_arch::TensorNames;
/// let plamo = TensorNames::of("plamo").ok_or("known")?;
/// assert!(plamo.contains("blk.31.attn_q.weight") && plamo.contains("output_norm.bias"));
/// assert!(!plamo.contains("model.layers.31.self_attn.q_proj.weight"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorNames {
    /// Names of tensors outside blocks. `{bid}` and other names in braces stand for a number.
    pub(crate) model: Vec<String>,
    /// Names of tensors in a block, without `blk.N.`.
    pub(crate) block: Vec<String>,
}

coded! { TensorNames { model, block } }

/// `quantization.toml`: facts that the reference's mixtures of types depend on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quantization {
    schema: String,
    pub(crate) keep: Vec<String>,
    pub(crate) keep_parts: Vec<String>,
    pub(crate) not_weights: Vec<String>,
    pub(crate) architectures: BTreeMap<String, MixtureTraits>,
}

table!(Quantization, "ggmill.quantization/1");
coded! { Quantization { schema, keep, keep_parts, not_weights, architectures } }

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
    pub(crate) large: Option<LargeShape>,
    #[serde(default)]
    pub(crate) is_lean: bool,
    #[serde(default)]
    pub(crate) stacks_others: bool,
    #[serde(default)]
    pub(crate) eight_bit_parts: Vec<String>,
    #[serde(default)]
    pub(crate) keep_parts: Vec<String>,
    #[serde(default)]
    pub(crate) weight_scales: Vec<String>,
}

coded! {
    MixtureTraits { large, is_lean, stacks_others, eight_bit_parts, keep_parts, weight_scales }
}

/// The shape of models that the reference calls 70B.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LargeShape {
    pub(crate) depth: u64,
    #[serde(default)]
    pub(crate) shared_heads: bool,
    #[serde(default)]
    pub(crate) not_experts: Option<u64>,
}

coded! { LargeShape { depth, shared_heads, not_experts } }

/// `refused.toml`: checkpoint classes that are known and not converted, with the reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refused {
    schema: String,
    pub(crate) models: BTreeMap<String, String>,
    pub(crate) projectors: BTreeMap<String, String>,
}

table!(Refused, "ggmill.refused-classes/1");
coded! { Refused { schema } of checkpoints { models, projectors } }

/// `roles.toml`: the roles of tensors by whole name, by ending, and by a part of the name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Roles {
    schema: String,
    pub(crate) endings: Vec<(String, String)>,
    pub(crate) parts: Vec<(String, String)>,
    pub(crate) names: BTreeMap<String, String>,
}

table!(Roles, "ggmill.roles/1");
coded! { Roles { schema, endings, parts, names } }

/// `keep-f32.toml`: the tensors that stay F32.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepF32 {
    schema: String,
    pub(crate) endings: Vec<String>,
    pub(crate) quantized_endings: Vec<String>,
    pub(crate) names: Vec<String>,
}

table!(KeepF32, "ggmill.keep-f32/1");
coded! { KeepF32 { schema, endings, quantized_endings, names } }
