//! Roles that mixtures treat alike.

use ggmill_arch::Role;

/// The role of a tensor, as far as mixtures distinguish roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    TokenEmbedding,
    AttentionQ,
    AttentionK,
    /// The values, alone or fused with queries and keys: what suffers most.
    AttentionV,
    AttentionOutput,
    FfnUp,
    FfnGate,
    FfnDown,
    Output,
    Other,
}

impl Family {
    /// The family of a role; `None` where its tensors are kept: norms, routing, and what is small
    /// or sensitive.
    pub(crate) fn of(role: Role) -> Option<Self> {
        Some(match role {
            Role::TOKEN_EMBEDDING => Self::TokenEmbedding,
            Role::OUTPUT => Self::Output,
            Role::ATTENTION_Q => Self::AttentionQ,
            Role::ATTENTION_K => Self::AttentionK,
            Role::ATTENTION_V | Role::ATTENTION_QKV | Role::ATTENTION_KV_B => Self::AttentionV,
            Role::ATTENTION_OUTPUT => Self::AttentionOutput,
            Role::FFN_UP
            | Role::FFN_UP_EXPERTS
            | Role::FFN_UP_SHARED
            | Role::FFN_GATE_UP
            | Role::FFN_GATE_UP_EXPERTS => Self::FfnUp,
            Role::FFN_GATE | Role::FFN_GATE_EXPERTS | Role::FFN_GATE_SHARED => Self::FfnGate,
            Role::FFN_DOWN | Role::FFN_DOWN_EXPERTS | Role::FFN_DOWN_SHARED => Self::FfnDown,
            Role::POSITION_EMBEDDING
            | Role::TOKEN_TYPE_EMBEDDING
            | Role::NORM
            | Role::BIAS
            | Role::ROPE_FACTORS
            | Role::ATTENTION_SINKS
            | Role::FFN_ROUTER
            | Role::SSM_CONV
            | Role::SSM_A
            | Role::SSM_D => return None,
            _ => Self::Other,
        })
    }

    pub(crate) fn is_ffn(self) -> bool {
        matches!(self, Self::FfnUp | Self::FfnGate | Self::FfnDown)
    }
}
