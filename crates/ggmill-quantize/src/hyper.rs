//! Properties of the whole model that mixtures depend on.

use ggmill_arch::{MixtureTraits, ModelView};

use crate::layers::layer;

/// The properties of the whole model that a mixture depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hyper {
    /// The special properties of the architecture.
    pub(crate) traits: &'static MixtureTraits,
    /// How many layers a token goes through.
    pub(crate) layers: u64,
    pub(crate) experts: u64,
    /// Query heads that share a key and value head, in the first layer.
    pub(crate) heads_per_kv: u64,
    /// Whether it has the shape that the reference calls 70B.
    pub(crate) is_70b: bool,
}

impl Hyper {
    /// From the metadata of the model; without a depth there, from the names of tensors.
    pub(crate) fn of<'a>(model: &ModelView<'_>, names: impl Iterator<Item = &'a [u8]>) -> Self {
        let traits = MixtureTraits::of(model.architecture());
        let layers = model.block_count().unwrap_or_else(|| {
            names.filter_map(layer).max().map_or(0, |last| last.saturating_add(1))
        });
        let (experts, heads, kv_heads) =
            (model.expert_count(), model.head_count(), model.head_count_kv());
        let is_70b = traits.is_large(
            layers.saturating_sub(model.draft_block_count()),
            heads != kv_heads,
            experts,
        );
        // Blocks that are gone through several times are counted each time.
        let loops = model.integer("num_loops").unwrap_or(1).max(1);
        Self {
            traits,
            layers: layers.saturating_mul(loops),
            experts,
            heads_per_kv: heads.checked_div(kv_heads).unwrap_or(0),
            is_70b,
        }
    }
}
