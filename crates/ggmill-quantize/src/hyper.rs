//! The hyper-parameters that mixtures depend on.

use ggmill_core::{MetadataBuf, Value, keys};

use crate::role::layer;

/// What a mixture wants to know of the model as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hyper {
    pub(crate) architecture: String,
    pub(crate) layers: u64,
    pub(crate) experts: u64,
    /// Query heads that share a key and value head, in the first layer.
    pub(crate) heads_per_kv: u64,
    /// Whether it has the shape that the reference calls 70B.
    pub(crate) is_70b: bool,
}

/// Architectures of which a depth means 70B. In the first two this needs shared key and value heads, too, and not eight experts.
const DEPTH_OF_70B: &[(&str, u64)] = &[("llama", 80), ("llama-embed", 80), ("qwen2", 80), ("deci", 80), ("olmo", 80), ("jais2", 68)];

impl Hyper {
    /// What the metadata say; the depth comes from the names of tensors where they do not say it.
    pub(crate) fn of<'a>(metadata: &MetadataBuf, names: impl Iterator<Item = &'a [u8]>) -> Self {
        let architecture = metadata.get(keys::GENERAL_ARCHITECTURE).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
        let number = |key: &str| metadata.get(format!("{architecture}.{key}")).and_then(|value| first(&value));
        let layers = number("block_count").unwrap_or_else(|| names.filter_map(layer).max().map_or(0, |last| last.saturating_add(1)));
        let experts = number("expert_count").unwrap_or(0);
        let heads = number("attention.head_count").unwrap_or(0);
        let kv_heads = number("attention.head_count_kv").unwrap_or(heads);
        let depth = layers.saturating_sub(number("nextn_predict_layers").unwrap_or(0));
        let by_depth = DEPTH_OF_70B.iter().any(|&(name, layers)| name == architecture && layers == depth);
        let is_llama = matches!(&*architecture, "llama" | "llama-embed");
        let is_70b = by_depth && (!is_llama || (heads != kv_heads && experts != 8));
        Self { layers, experts, heads_per_kv: heads.checked_div(kv_heads).unwrap_or(0), is_70b, architecture }
    }
}

/// An integer, or the first of an array of them: one for each layer.
fn first(value: &Value<'_>) -> Option<u64> {
    match value.as_array() {
        Some(array) => array.iter().next()?.ok()?.as_u64(),
        None => value.as_u64(),
    }
}
