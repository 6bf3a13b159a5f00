//! Mixtures: the type of each tensor in a file of a given file type. The tables contain the rules;
//! the first rule of a role whose conditions hold decides.

use ggmill_arch::{MixtureTraits, ModelView};
use ggmill_core::{FileType, GgmlType};

use crate::layers::layer;
use crate::role::Family;

/// In files of these types, a tensor for which all conditions hold gets this type.
struct Rule(&'static [FileType], &'static [When], GgmlType);

/// A condition on the model, the tensor, or its position among the tensors of its role.
#[derive(Clone, Copy, Debug)]
enum When {
    /// At least this many query heads share a key and value head.
    MinHeadsPerKv(u64),
    Experts(u64),
    NotExperts(u64),
    MinExperts(u64),
    /// The architecture uses fewer bits than usual for the projections out of its layers.
    Lean,
    NotLean,
    WithImportance,
    WithoutImportance,
    /// The position is in the first 1/N of the layers.
    FirstFraction(u64),
    /// The position is below this number.
    IndexBelow(u64),
    /// The position is in neither the first nor the last eighth.
    Middle,
    /// The position is in the first or last eighth, or every third one in between (`use_more_bits`
    /// of the reference).
    MoreBits,
    /// The tensor is a stack of matrices, such as those of experts.
    Stacked,
    /// The tensor belongs to the feed-forward network.
    Ffn,
    /// The architecture stacks only the matrices of experts.
    StacksExperts,
    /// The row length is not a multiple of the block size of the default type.
    RowsNotWholeBlocks,
}

use FileType as F;
use GgmlType as G;
use When::{
    Experts, Ffn, FirstFraction, IndexBelow, Lean, Middle, MinExperts, MinHeadsPerKv, MoreBits,
    NotExperts, NotLean, RowsNotWholeBlocks, Stacked, StacksExperts, WithImportance,
    WithoutImportance,
};

/// Files of any type.
const ANY: &[FileType] = &[];

/// Files of less than three bits.
const LOWEST: &[FileType] = &[F::IQ2_XXS, F::IQ2_XS, F::IQ1_S, F::IQ2_S, F::IQ2_M, F::IQ1_M];

/// The rules for the output matrix, and for an embedding that is also the output matrix.
const OUTPUT: &[Rule] = &[
    Rule(&[F::MXFP4_MOE], &[], G::Q8_0),
    Rule(ANY, &[Lean], G::Q8_0),
    Rule(ANY, &[RowsNotWholeBlocks], G::Q8_0),
    Rule(
        &[F::IQ2_XXS, F::IQ2_XS, F::IQ3_XXS, F::IQ1_S, F::IQ2_S, F::IQ2_M, F::IQ1_M],
        &[],
        G::Q5_K,
    ),
    Rule(&[F::Q8_0], &[], G::Q8_0),
    Rule(ANY, &[], G::Q6_K),
];

/// The rules for tensors of all other roles.
const ALL_ROLES: &[Rule] = &[
    Rule(&[F::MXFP4_MOE], &[Stacked, StacksExperts], G::MXFP4),
    Rule(&[F::MXFP4_MOE], &[Stacked, Ffn], G::MXFP4),
    Rule(&[F::MXFP4_MOE], &[], G::Q8_0),
];

const TOKEN_EMBEDDING: &[Rule] = &[
    Rule(&[F::IQ2_XXS, F::IQ2_XS, F::IQ1_S, F::IQ1_M], &[], G::Q2_K),
    Rule(&[F::IQ2_S, F::IQ2_M, F::IQ3_XXS], &[], G::IQ3_S),
    Rule(&[F::TQ1_0, F::TQ2_0, F::Q2_0], &[], G::Q4_K),
];

const ATTENTION_V: &[Rule] = &[
    Rule(LOWEST, &[MinHeadsPerKv(4)], G::Q4_K),
    Rule(LOWEST, &[MinExperts(4)], G::Q4_K),
    Rule(&[F::IQ2_S, F::IQ2_M], &[], G::IQ3_S),
    Rule(LOWEST, &[], G::Q2_K),
    Rule(ANY, &[Experts(8)], G::Q8_0),
    Rule(&[F::Q2_K, F::Q2_K_S, F::IQ3_XXS, F::IQ3_XS, F::IQ3_S], &[MinHeadsPerKv(4)], G::Q4_K),
    Rule(&[F::Q2_K], &[], G::Q3_K),
    Rule(&[F::IQ3_XXS], &[WithoutImportance], G::IQ3_S),
    Rule(&[F::IQ3_M], &[], G::Q4_K),
    Rule(&[F::Q3_K_M], &[IndexBelow(2)], G::Q5_K),
    Rule(&[F::Q3_K_M], &[], G::Q4_K),
    Rule(&[F::Q3_K_L], &[], G::Q5_K),
    Rule(&[F::IQ4_NL, F::IQ4_XS], &[MinHeadsPerKv(4)], G::Q5_K),
    Rule(&[F::Q4_K_M, F::Q5_K_M], &[MoreBits], G::Q6_K),
    Rule(&[F::Q4_K_S], &[IndexBelow(4)], G::Q5_K),
];

const ATTENTION_K: &[Rule] = &[
    Rule(LOWEST, &[Experts(8)], G::Q4_K),
    Rule(ANY, &[Experts(8)], G::Q8_0),
    Rule(&[F::IQ3_XS], &[], G::IQ3_XXS),
    Rule(&[F::IQ3_XXS], &[], G::IQ2_S),
];

const ATTENTION_Q: &[Rule] =
    &[Rule(&[F::IQ3_XS], &[], G::IQ3_XXS), Rule(&[F::IQ3_XXS], &[], G::IQ2_S)];

const ATTENTION_OUTPUT: &[Rule] = &[
    Rule(LOWEST, &[Experts(8)], G::Q5_K),
    Rule(&[F::IQ1_S, F::IQ1_M], &[], G::IQ2_XXS),
    Rule(&[F::IQ2_S, F::IQ2_M], &[], G::IQ3_S),
    Rule(&[F::Q3_K_L], &[Lean], G::Q4_K),
    Rule(
        &[
            F::Q2_K,
            F::IQ3_XS,
            F::IQ3_XXS,
            F::Q3_K_S,
            F::Q3_K_M,
            F::IQ4_NL,
            F::Q4_K_S,
            F::Q4_K_M,
            F::IQ3_S,
            F::IQ3_M,
            F::IQ4_XS,
        ],
        &[NotLean, Experts(8)],
        G::Q5_K,
    ),
    Rule(&[F::Q2_K], &[NotLean, NotExperts(8)], G::Q3_K),
    Rule(&[F::IQ3_XXS], &[NotLean, NotExperts(8)], G::IQ3_S),
    Rule(&[F::Q3_K_M, F::IQ3_M], &[NotLean, NotExperts(8)], G::Q4_K),
    Rule(&[F::Q3_K_L], &[NotLean, NotExperts(8)], G::Q5_K),
];

const FFN_DOWN: &[Rule] = &[
    Rule(&[F::IQ2_S, F::IQ2_M], &[FirstFraction(8)], G::IQ3_S),
    Rule(LOWEST, &[FirstFraction(8)], G::Q2_K),
    Rule(&[F::Q2_K], &[], G::Q3_K),
    Rule(&[F::Q2_K_S], &[FirstFraction(8)], G::Q4_K),
    Rule(&[F::IQ3_XXS], &[WithoutImportance, FirstFraction(8)], G::Q4_K),
    Rule(&[F::IQ3_XXS], &[WithoutImportance], G::Q3_K),
    Rule(&[F::Q3_K_M], &[FirstFraction(16)], G::Q5_K),
    Rule(&[F::Q3_K_M], &[NotLean], G::Q4_K),
    Rule(&[F::Q3_K_M], &[MoreBits], G::Q4_K),
    Rule(&[F::IQ3_M], &[FirstFraction(8)], G::Q4_K),
    Rule(&[F::IQ3_M], &[Experts(8), MoreBits], G::Q4_K),
    Rule(&[F::Q3_K_L], &[Lean], G::Q4_K),
    Rule(&[F::Q3_K_L], &[], G::Q5_K),
    Rule(&[F::Q4_K_M], &[Lean, FirstFraction(16)], G::Q6_K),
    Rule(&[F::Q4_K_M], &[Lean, MoreBits], G::Q5_K),
    Rule(&[F::Q4_K_M], &[NotLean, MoreBits], G::Q6_K),
    Rule(&[F::IQ4_NL, F::IQ4_XS], &[WithoutImportance, FirstFraction(8)], G::Q5_K),
    Rule(&[F::Q5_K_M], &[MoreBits], G::Q6_K),
    Rule(&[F::Q4_K_S], &[NotLean, FirstFraction(8)], G::Q5_K),
    // Without a minimum in the blocks, the first of these can have large errors even with
    // importance.
    Rule(&[F::Q4_0], &[WithImportance, FirstFraction(8)], G::Q4_1),
    Rule(&[F::Q5_0], &[WithImportance, FirstFraction(8)], G::Q5_1),
];

const FFN_GATE_OR_UP: &[Rule] = &[Rule(&[F::IQ3_XS], &[Middle], G::IQ3_XXS)];

/// The replacement of each type with larger blocks, if they do not fit the row length: a type with
/// blocks of 32 and about as many bits.
const FALLBACKS: &[(G, G)] = &[
    (G::IQ1_S, G::IQ4_NL),
    (G::IQ1_M, G::IQ4_NL),
    (G::IQ2_XXS, G::IQ4_NL),
    (G::IQ2_XS, G::IQ4_NL),
    (G::IQ2_S, G::IQ4_NL),
    (G::IQ3_XXS, G::IQ4_NL),
    (G::IQ3_S, G::IQ4_NL),
    (G::IQ4_XS, G::IQ4_NL),
    (G::Q2_0, G::Q4_0),
    (G::Q2_K, G::Q4_0),
    (G::Q3_K, G::Q4_0),
    (G::TQ1_0, G::Q4_0),
    (G::TQ2_0, G::Q4_0),
    (G::Q4_K, G::Q5_0),
    (G::Q5_K, G::Q5_1),
    (G::Q6_K, G::Q8_0),
    // The reference has no replacement for these, and fails.
    (G::Q1_0, G::Q4_0),
    (G::NVFP4, G::MXFP4),
];

/// Returns the wanted type if its blocks fit the row length, else its replacement, else F16.
pub(crate) fn fitting(wanted: GgmlType, row_len: u64) -> GgmlType {
    let fits = |ggml_type: GgmlType| {
        ggml_type.layout().is_some_and(|layout| row_len.is_multiple_of(u64::from(layout.elements)))
    };
    let fallback = FALLBACKS.iter().find(|(from, _)| *from == wanted).map(|&(_, to)| to);
    [Some(wanted), fallback]
        .into_iter()
        .flatten()
        .find(|&ggml_type| fits(ggml_type))
        .unwrap_or(G::F16)
}

/// The properties of the model that a mixture depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hyper {
    /// Properties of the architecture.
    pub(crate) traits: &'static MixtureTraits,
    /// The number of layers that a token passes.
    pub(crate) layers: u64,
    pub(crate) experts: u64,
    /// The number of query heads per key and value head, in the first layer.
    pub(crate) heads_per_kv: u64,
    /// `true` if the model has the shape that the reference calls 70B.
    pub(crate) is_70b: bool,
}

impl Hyper {
    /// Reads the properties from the metadata; without a block count there, counts layers by the
    /// names of tensors.
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
        // Looped blocks count once per loop.
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

/// The properties of a tensor that rules depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MixtureTensor<'a> {
    pub(crate) name: &'a str,
    pub(crate) role: Family,
    pub(crate) row_len: u64,
    pub(crate) is_stacked: bool,
}

/// The state of a mixture, which is applied tensor by tensor in file order and counts positions.
#[derive(Debug)]
pub(crate) struct Mixture<'a> {
    pub(crate) file_type: FileType,
    pub(crate) default_type: GgmlType,
    pub(crate) hyper: &'a Hyper,
    /// The number of layers that positions refer to.
    pub(crate) layers: u64,
    pub(crate) has_importance: bool,
    /// `true` if the embedding is also the output matrix.
    pub(crate) is_tied: bool,
    /// The type that the user requested for the output matrix.
    pub(crate) output_type: Option<GgmlType>,
    /// The number of tensors with the role of attention values.
    pub(crate) attention_v: u64,
    pub(crate) seen: Seen,
}

/// The number of tensors of each role that already have a type.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    attention_v: u64,
    ffn_up: u64,
    ffn_gate: u64,
    ffn_down: u64,
}

/// The position of a tensor among the tensors of its role.
#[derive(Clone, Copy)]
struct Place {
    index: u64,
    of: u64,
}

impl Mixture<'_> {
    /// Chooses the type of the next tensor.
    pub(crate) fn choose(&mut self, tensor: &MixtureTensor<'_>) -> GgmlType {
        if self.hyper.traits.stays_at_eight_bits(tensor.name) {
            return GgmlType::Q8_0;
        }
        if tensor.role == Family::Output || (tensor.role == Family::TokenEmbedding && self.is_tied)
        {
            return self
                .output_type
                .or_else(|| self.first(OUTPUT, tensor, Place::NONE))
                .unwrap_or(self.default_type);
        }
        if let Some(found) = self.first(ALL_ROLES, tensor, Place::NONE) {
            return found;
        }
        let place = self.next_place(tensor);
        let rules = match tensor.role {
            Family::TokenEmbedding => TOKEN_EMBEDDING,
            Family::AttentionQ => ATTENTION_Q,
            Family::AttentionK => ATTENTION_K,
            Family::AttentionV => ATTENTION_V,
            Family::AttentionOutput => ATTENTION_OUTPUT,
            Family::FfnUp | Family::FfnGate => FFN_GATE_OR_UP,
            Family::FfnDown => FFN_DOWN,
            Family::Output | Family::Other => &[],
        };
        let chosen = self.first(rules, tensor, place).unwrap_or(self.default_type);
        match chosen {
            // Eight query heads share the values of a 70B model, so more bits for them are cheap.
            GgmlType::Q3_K | GgmlType::Q4_K
                if tensor.role == Family::AttentionV && self.hyper.is_70b && !self.is_lowest() =>
            {
                GgmlType::Q5_K
            }
            _ => chosen,
        }
    }

    fn is_lowest(&self) -> bool {
        LOWEST.contains(&self.file_type)
    }

    /// Counts the tensor and returns its position among the tensors of its role.
    fn next_place(&mut self, tensor: &MixtureTensor<'_>) -> Place {
        let (seen, of) = match tensor.role {
            Family::AttentionV => (&mut self.seen.attention_v, self.attention_v),
            Family::FfnUp => (&mut self.seen.ffn_up, self.layers),
            Family::FfnGate => (&mut self.seen.ffn_gate, self.layers),
            Family::FfnDown => (&mut self.seen.ffn_down, self.layers),
            _ => return Place::NONE,
        };
        let counted = *seen;
        *seen += 1;
        // Layers with experts have several tensors of a role, so the position comes from the name.
        let by_name = tensor.role.is_ffn() && self.hyper.experts > 1 && !self.is_lowest();
        let index =
            if by_name { layer(tensor.name.as_bytes()).unwrap_or(counted) } else { counted };
        Place { index, of }
    }

    fn first(&self, rules: &[Rule], tensor: &MixtureTensor<'_>, place: Place) -> Option<GgmlType> {
        let holds = |rule: &&Rule| {
            (rule.0.is_empty() || rule.0.contains(&self.file_type))
                && rule.1.iter().all(|&when| self.holds(when, tensor, place))
        };
        rules.iter().find(holds).map(|rule| rule.2)
    }

    fn holds(&self, when: When, tensor: &MixtureTensor<'_>, place: Place) -> bool {
        let Place { index, of } = place;
        let hyper = self.hyper;
        match when {
            MinHeadsPerKv(heads) => hyper.heads_per_kv >= heads,
            Experts(count) => hyper.experts == count,
            NotExperts(count) => hyper.experts != count,
            MinExperts(count) => hyper.experts >= count,
            Lean => hyper.traits.is_lean(),
            NotLean => !hyper.traits.is_lean(),
            WithImportance => self.has_importance,
            WithoutImportance => !self.has_importance,
            FirstFraction(parts) => index < of / parts,
            IndexBelow(number) => index < number,
            Middle => index >= of / 8 && index < last_eighth(of),
            MoreBits => index < of / 8 || index >= last_eighth(of) || (index - of / 8) % 3 == 2,
            Stacked => tensor.is_stacked,
            Ffn => tensor.role.is_ffn(),
            StacksExperts => !hyper.traits.stacks_others(),
            RowsNotWholeBlocks => !self
                .default_type
                .layout()
                .is_some_and(|layout| tensor.row_len.is_multiple_of(u64::from(layout.elements))),
        }
    }
}

impl Place {
    const NONE: Self = Self { index: 0, of: 0 };
}

/// Returns where the last eighth begins, rounded down after the multiplication.
fn last_eighth(of: u64) -> u64 {
    of.saturating_mul(7) / 8
}
