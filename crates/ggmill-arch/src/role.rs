//! The roles of tensors.

use core::fmt;
use core::str::FromStr;

/// The role of a tensor in a model, which quantization, estimates and reports use in place of its
/// name.
///
/// The list is closed, because a role is a promise that code acts on; an architecture that needs
/// another one adds it here first.
///
/// ```
/// use ggmill_arch::Role;
/// assert_eq!("attention.q".parse::<Role>().ok(), Some(Role::ATTENTION_Q));
/// assert_eq!(Role::FFN_DOWN.to_string(), "ffn.down");
/// assert_eq!("atention.q".parse::<Role>().ok(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(&'static str);

macro_rules! roles {
    ($($constant:ident = $name:literal: $about:literal;)*) => {
        impl Role {
            $(#[doc = concat!("`", $name, "`: ", $about, ".")] pub const $constant: Self = Self($name);)*

            /// Every role with what it means, in the order of the reference page.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$constant, $about)),*];
        }
    };
}

roles! {
    TOKEN_EMBEDDING = "token_embedding": "one row per token";
    POSITION_EMBEDDING = "position_embedding": "one row per position";
    TOKEN_TYPE_EMBEDDING = "token_type_embedding": "one row per segment of the input";
    OUTPUT = "output": "the matrix that turns the last state into scores of tokens";
    NORM = "norm": "the scale of a normalization";
    BIAS = "bias": "what a layer adds, one number per row of its matrix";
    ROPE_FACTORS = "rope_factors": "factors on the frequencies of rotary positions";
    ATTENTION_Q = "attention.q": "queries";
    ATTENTION_K = "attention.k": "keys";
    ATTENTION_V = "attention.v": "values";
    ATTENTION_QKV = "attention.qkv": "queries, keys and values in one matrix";
    ATTENTION_OUTPUT = "attention.output": "from the heads back to the state";
    ATTENTION_Q_A = "attention.q_a": "queries, compressed (latent attention)";
    ATTENTION_Q_B = "attention.q_b": "queries, expanded (latent attention)";
    ATTENTION_KV_A = "attention.kv_a": "keys and values, compressed (latent attention)";
    ATTENTION_KV_B = "attention.kv_b": "keys and values, expanded (latent attention)";
    ATTENTION_GATE = "attention.gate": "a gate on what attention gives";
    ATTENTION_SINKS = "attention.sinks": "one learned score per head that takes up attention";
    FFN_GATE = "ffn.gate": "the gate of a feed-forward layer";
    FFN_UP = "ffn.up": "from the state into a feed-forward layer";
    FFN_DOWN = "ffn.down": "from a feed-forward layer back to the state";
    FFN_GATE_UP = "ffn.gate_up": "gate and up in one matrix";
    FFN_ROUTER = "ffn.router": "the matrix that chooses experts";
    FFN_GATE_EXPERTS = "ffn.gate_experts": "the gates of all experts, expert slowest";
    FFN_UP_EXPERTS = "ffn.up_experts": "up of all experts, expert slowest";
    FFN_DOWN_EXPERTS = "ffn.down_experts": "down of all experts, expert slowest";
    FFN_GATE_UP_EXPERTS = "ffn.gate_up_experts": "gate and up of all experts in one tensor";
    FFN_GATE_SHARED = "ffn.gate_shared": "the gate of the expert every token passes";
    FFN_UP_SHARED = "ffn.up_shared": "up of the expert every token passes";
    FFN_DOWN_SHARED = "ffn.down_shared": "down of the expert every token passes";
    SSM_IN = "ssm.in": "from the state into a state-space layer";
    SSM_OUT = "ssm.out": "from a state-space layer back to the state";
    SSM_CONV = "ssm.conv": "the convolution over time";
    SSM_X = "ssm.x": "what the input says about time step, B and C";
    SSM_DT = "ssm.dt": "the time step";
    SSM_A = "ssm.a": "the decay";
    SSM_D = "ssm.d": "the part of the input that passes by";
    TIME_MIX = "time_mix": "a matrix or vector of time mixing (RWKV)";
    CHANNEL_MIX = "channel_mix": "a matrix or vector of channel mixing (RWKV)";
    CLASSIFIER = "classifier": "a head that gives classes or scores";
    OTHER = "other": "none of these: nothing acts on it";
}

impl Role {
    /// The name a description writes.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// The text is not the name of a [`Role`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRole(());

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no role has this name")
    }
}

impl std::error::Error for UnknownRole {}

impl FromStr for Role {
    type Err = UnknownRole;

    /// The role with this name.
    fn from_str(name: &str) -> Result<Self, UnknownRole> {
        Self::ALL.iter().map(|(role, _)| *role).find(|role| role.0 == name).ok_or(UnknownRole(()))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
