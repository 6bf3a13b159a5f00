//! Mixtures: which type each tensor gets in a file of some type. The knowledge is in the tables;
//! the first rule of a role that holds decides.

use ggmill_core::{FileType, GgmlType};

use crate::family::Family;
use crate::hyper::Hyper;
use crate::layers::layer;

/// In files of these types, a tensor of which all this holds becomes that.
struct Rule(&'static [FileType], &'static [When], GgmlType);

/// A condition of a rule: on the model, the tensor, or its place among those of its role.
#[derive(Clone, Copy, Debug)]
enum When {
    /// This many query heads or more share a key and value head.
    SharedBy(u64),
    Experts(u64),
    NotExperts(u64),
    ManyExperts(u64),
    /// The architecture leaves fewer bits than usual to what leads out of its layers.
    Lean,
    NotLean,
    WithImportance,
    WithoutImportance,
    /// Among the first of its role: one of so many.
    FirstOneIn(u64),
    /// Its place is below this number.
    Below(u64),
    /// Neither in the first eighth nor in the last.
    Middle,
    /// In the first eighth, in the last, and every third between.
    MoreBits,
    /// Several matrices in one, such as those of experts.
    Stacked,
    /// One of the feed-forward network.
    Ffn,
    /// Only matrices of experts are stacked in this architecture.
    StacksExperts,
    /// Its row length is not a multiple of the block size of the type most tensors get.
    Ragged,
}

use FileType as F;
use GgmlType as G;
use When::{
    Below, Experts, Ffn, FirstOneIn, Lean, ManyExperts, Middle, MoreBits, NotExperts, NotLean,
    Ragged, SharedBy, Stacked, StacksExperts, WithImportance, WithoutImportance,
};

/// Files of any type.
const ANY: &[FileType] = &[];

/// Files of less than three bits.
const LOWEST: &[FileType] = &[F::IQ2_XXS, F::IQ2_XS, F::IQ1_S, F::IQ2_S, F::IQ2_M, F::IQ1_M];

/// The type of the output matrix, and an embedding that serves as one.
const OUTPUT: &[Rule] = &[
    Rule(&[F::MXFP4_MOE], &[], G::Q8_0),
    Rule(ANY, &[Lean], G::Q8_0),
    Rule(ANY, &[Ragged], G::Q8_0),
    Rule(
        &[F::IQ2_XXS, F::IQ2_XS, F::IQ3_XXS, F::IQ1_S, F::IQ2_S, F::IQ2_M, F::IQ1_M],
        &[],
        G::Q5_K,
    ),
    Rule(&[F::Q8_0], &[], G::Q8_0),
    Rule(ANY, &[], G::Q6_K),
];

/// The rules for all other tensors, whatever their role.
const EVERY: &[Rule] = &[
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
    Rule(LOWEST, &[SharedBy(4)], G::Q4_K),
    Rule(LOWEST, &[ManyExperts(4)], G::Q4_K),
    Rule(&[F::IQ2_S, F::IQ2_M], &[], G::IQ3_S),
    Rule(LOWEST, &[], G::Q2_K),
    Rule(ANY, &[Experts(8)], G::Q8_0),
    Rule(&[F::Q2_K, F::Q2_K_S, F::IQ3_XXS, F::IQ3_XS, F::IQ3_S], &[SharedBy(4)], G::Q4_K),
    Rule(&[F::Q2_K], &[], G::Q3_K),
    Rule(&[F::IQ3_XXS], &[WithoutImportance], G::IQ3_S),
    Rule(&[F::IQ3_M], &[], G::Q4_K),
    Rule(&[F::Q3_K_M], &[Below(2)], G::Q5_K),
    Rule(&[F::Q3_K_M], &[], G::Q4_K),
    Rule(&[F::Q3_K_L], &[], G::Q5_K),
    Rule(&[F::IQ4_NL, F::IQ4_XS], &[SharedBy(4)], G::Q5_K),
    Rule(&[F::Q4_K_M, F::Q5_K_M], &[MoreBits], G::Q6_K),
    Rule(&[F::Q4_K_S], &[Below(4)], G::Q5_K),
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
    Rule(&[F::IQ2_S, F::IQ2_M], &[FirstOneIn(8)], G::IQ3_S),
    Rule(LOWEST, &[FirstOneIn(8)], G::Q2_K),
    Rule(&[F::Q2_K], &[], G::Q3_K),
    Rule(&[F::Q2_K_S], &[FirstOneIn(8)], G::Q4_K),
    Rule(&[F::IQ3_XXS], &[WithoutImportance, FirstOneIn(8)], G::Q4_K),
    Rule(&[F::IQ3_XXS], &[WithoutImportance], G::Q3_K),
    Rule(&[F::Q3_K_M], &[FirstOneIn(16)], G::Q5_K),
    Rule(&[F::Q3_K_M], &[NotLean], G::Q4_K),
    Rule(&[F::Q3_K_M], &[MoreBits], G::Q4_K),
    Rule(&[F::IQ3_M], &[FirstOneIn(8)], G::Q4_K),
    Rule(&[F::IQ3_M], &[Experts(8), MoreBits], G::Q4_K),
    Rule(&[F::Q3_K_L], &[Lean], G::Q4_K),
    Rule(&[F::Q3_K_L], &[], G::Q5_K),
    Rule(&[F::Q4_K_M], &[Lean, FirstOneIn(16)], G::Q6_K),
    Rule(&[F::Q4_K_M], &[Lean, MoreBits], G::Q5_K),
    Rule(&[F::Q4_K_M], &[NotLean, MoreBits], G::Q6_K),
    Rule(&[F::IQ4_NL, F::IQ4_XS], &[WithoutImportance, FirstOneIn(8)], G::Q5_K),
    Rule(&[F::Q5_K_M], &[MoreBits], G::Q6_K),
    Rule(&[F::Q4_K_S], &[NotLean, FirstOneIn(8)], G::Q5_K),
    // With importance, the first of these can go wrong without an offset.
    Rule(&[F::Q4_0], &[WithImportance, FirstOneIn(8)], G::Q4_1),
    Rule(&[F::Q5_0], &[WithImportance, FirstOneIn(8)], G::Q5_1),
];

const FFN_GATE_OR_UP: &[Rule] = &[Rule(&[F::IQ3_XS], &[Middle], G::IQ3_XXS)];

/// A tensor as the rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) role: Family,
    pub(crate) row_len: u64,
    pub(crate) is_stacked: bool,
}

/// A mixture being worked through, tensor by tensor in the order of the file: places are counted on
/// the way.
#[derive(Debug)]
pub(crate) struct Mixture<'a> {
    pub(crate) file_type: FileType,
    pub(crate) default_type: GgmlType,
    pub(crate) hyper: &'a Hyper,
    /// How many layers places are counted in.
    pub(crate) layers: u64,
    pub(crate) has_importance: bool,
    /// Whether the embedding serves as the output matrix.
    pub(crate) is_tied: bool,
    /// Asked for by the user for the output matrix.
    pub(crate) output_type: Option<GgmlType>,
    /// All tensors with the role of attention values.
    pub(crate) attention_v: u64,
    pub(crate) seen: Seen,
}

/// How many tensors of a role have been given a type.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    attention_v: u64,
    ffn_up: u64,
    ffn_gate: u64,
    ffn_down: u64,
}

/// The place of a tensor among those of its role.
#[derive(Clone, Copy)]
struct Place {
    index: u64,
    of: u64,
}

impl Mixture<'_> {
    /// The type of the next tensor.
    pub(crate) fn choose(&mut self, tensor: &Subject<'_>) -> GgmlType {
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
        if let Some(found) = self.first(EVERY, tensor, Place::NONE) {
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
            // Eight heads share the values of a 70B model: more bits for them cost next to nothing.
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

    /// Counts the tensor among those of its role.
    fn next_place(&mut self, tensor: &Subject<'_>) -> Place {
        let (seen, of) = match tensor.role {
            Family::AttentionV => (&mut self.seen.attention_v, self.attention_v),
            Family::FfnUp => (&mut self.seen.ffn_up, self.layers),
            Family::FfnGate => (&mut self.seen.ffn_gate, self.layers),
            Family::FfnDown => (&mut self.seen.ffn_down, self.layers),
            _ => return Place::NONE,
        };
        let counted = *seen;
        *seen += 1;
        // Layers with experts have several tensors of a role, so the place comes from the name.
        let by_name = tensor.role.is_ffn() && self.hyper.experts > 1 && !self.is_lowest();
        let index =
            if by_name { layer(tensor.name.as_bytes()).unwrap_or(counted) } else { counted };
        Place { index, of }
    }

    fn first(&self, rules: &[Rule], tensor: &Subject<'_>, place: Place) -> Option<GgmlType> {
        let holds = |rule: &&Rule| {
            (rule.0.is_empty() || rule.0.contains(&self.file_type))
                && rule.1.iter().all(|&when| self.holds(when, tensor, place))
        };
        rules.iter().find(holds).map(|rule| rule.2)
    }

    fn holds(&self, when: When, tensor: &Subject<'_>, place: Place) -> bool {
        let Place { index, of } = place;
        let hyper = self.hyper;
        match when {
            SharedBy(heads) => hyper.heads_per_kv >= heads,
            Experts(count) => hyper.experts == count,
            NotExperts(count) => hyper.experts != count,
            ManyExperts(count) => hyper.experts >= count,
            Lean => hyper.traits.is_lean(),
            NotLean => !hyper.traits.is_lean(),
            WithImportance => self.has_importance,
            WithoutImportance => !self.has_importance,
            FirstOneIn(parts) => index < of / parts,
            Below(number) => index < number,
            Middle => index >= of / 8 && index < last_eighth(of),
            MoreBits => index < of / 8 || index >= last_eighth(of) || (index - of / 8) % 3 == 2,
            Stacked => tensor.is_stacked,
            Ffn => tensor.role.is_ffn(),
            StacksExperts => !hyper.traits.stacks_others(),
            Ragged => !self
                .default_type
                .layout()
                .is_some_and(|layout| tensor.row_len.is_multiple_of(u64::from(layout.elements))),
        }
    }
}

impl Place {
    const NONE: Self = Self { index: 0, of: 0 };
}

/// Where the last eighth begins, rounded down after the multiplication.
fn last_eighth(of: u64) -> u64 {
    of.saturating_mul(7) / 8
}
