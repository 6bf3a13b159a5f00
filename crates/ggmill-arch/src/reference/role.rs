//! Roles of tensors.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::data::tables::Roles;
use crate::data::{self, table};

/// The role of a tensor in a model. Quantization, estimates and reports use it instead of the tensor
/// name.
///
/// The list is closed, because code depends on each role. An architecture that needs another role adds
/// it here first.
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

            /// All roles with descriptions, in the order of the reference page.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$constant, $about)),*];
        }
    };
}

roles! {
    TOKEN_EMBEDDING = "token_embedding": "one row per token";
    POSITION_EMBEDDING = "position_embedding": "one row per position";
    TOKEN_TYPE_EMBEDDING = "token_type_embedding": "one row per segment of the input";
    OUTPUT = "output": "the matrix that projects the last hidden state to token scores";
    NORM = "norm": "the scale of a normalization";
    BIAS = "bias": "the bias of a layer, one number per row of its matrix";
    ROPE_FACTORS = "rope_factors": "factors for the frequencies of rotary position embeddings";
    ATTENTION_Q = "attention.q": "queries";
    ATTENTION_K = "attention.k": "keys";
    ATTENTION_V = "attention.v": "values";
    ATTENTION_QKV = "attention.qkv": "queries, keys and values in one matrix";
    ATTENTION_OUTPUT = "attention.output": "the output projection of attention";
    ATTENTION_Q_A = "attention.q_a": "queries, compressed (latent attention)";
    ATTENTION_Q_B = "attention.q_b": "queries, expanded (latent attention)";
    ATTENTION_KV_A = "attention.kv_a": "keys and values, compressed (latent attention)";
    ATTENTION_KV_B = "attention.kv_b": "keys and values, expanded (latent attention)";
    ATTENTION_GATE = "attention.gate": "a gate for the output of attention";
    ATTENTION_SINKS = "attention.sinks": "attention sinks, one learned score per head";
    FFN_GATE = "ffn.gate": "the gate projection of a feed-forward layer";
    FFN_UP = "ffn.up": "the up projection of a feed-forward layer";
    FFN_DOWN = "ffn.down": "the down projection of a feed-forward layer";
    FFN_GATE_UP = "ffn.gate_up": "the gate and up projections in one matrix";
    FFN_ROUTER = "ffn.router": "the matrix that selects experts";
    FFN_GATE_EXPERTS = "ffn.gate_experts": "the gate projections of all experts (the expert is the \
                                            slowest dimension)";
    FFN_UP_EXPERTS = "ffn.up_experts": "the up projections of all experts (the expert is the \
                                        slowest dimension)";
    FFN_DOWN_EXPERTS = "ffn.down_experts": "the down projections of all experts (the expert is the \
                                            slowest dimension)";
    FFN_GATE_UP_EXPERTS = "ffn.gate_up_experts": "the gate and up projections of all experts in \
                                                  one tensor";
    FFN_GATE_SHARED = "ffn.gate_shared": "the gate projection of the shared expert";
    FFN_UP_SHARED = "ffn.up_shared": "the up projection of the shared expert";
    FFN_DOWN_SHARED = "ffn.down_shared": "the down projection of the shared expert";
    SSM_IN = "ssm.in": "the input projection of a state-space layer";
    SSM_OUT = "ssm.out": "the output projection of a state-space layer";
    SSM_CONV = "ssm.conv": "the convolution over time";
    SSM_X = "ssm.x": "the projection of the input to the time step, B and C";
    SSM_DT = "ssm.dt": "the time step";
    SSM_A = "ssm.a": "the decay";
    SSM_D = "ssm.d": "the skip connection of a state-space layer";
    TIME_MIX = "time_mix": "a matrix or vector of time mixing (RWKV)";
    CHANNEL_MIX = "channel_mix": "a matrix or vector of channel mixing (RWKV)";
    CLASSIFIER = "classifier": "a head that produces classes or scores";
    OTHER = "other": "none of these: not treated specially";
}

impl Role {
    /// Returns the name in descriptions.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// The error for a text that is not the name of a [`Role`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRole(());

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the name of a role")
    }
}

impl std::error::Error for UnknownRole {}

impl FromStr for Role {
    type Err = UnknownRole;

    /// Returns the role with this name.
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

/// Roles by whole name, by suffix, and by substring.
#[derive(Debug)]
struct StandardRoles {
    names: BTreeMap<String, Role>,
    endings: Vec<(String, Role)>,
    parts: Vec<(String, Role)>,
}

impl StandardRoles {
    /// Decodes the table. A test checks that all its roles exist.
    fn read() -> Self {
        fn roles<T: FromIterator<(String, Role)>>(
            rows: impl IntoIterator<Item = (String, String)>,
        ) -> T {
            let role = |(name, role): (String, String)| {
                (name, role.parse().expect("a test parses every role"))
            };
            rows.into_iter().map(role).collect()
        }
        let file: Roles = table(data::ROLES);
        Self { names: roles(file.names), endings: roles(file.endings), parts: roles(file.parts) }
    }

    fn of(&self, name: &str) -> Option<Role> {
        let whole = self.names.get(name).copied();
        let ending = || {
            self.endings
                .iter()
                .find(|(ending, _)| name.ends_with(ending.as_str()))
                .map(|&(_, role)| role)
        };
        let part = || {
            self.parts.iter().find(|(part, _)| name.contains(part.as_str())).map(|&(_, role)| role)
        };
        whole.or_else(ending).or_else(part)
    }
}

static ROLES: LazyLock<StandardRoles> = LazyLock::new(StandardRoles::read);

impl Role {
    /// Returns the role of a tensor according to the naming convention of GGUF files, for any
    /// architecture; [`Role::OTHER`] if the name does not imply a role.
    ///
    /// ```
    /// use ggmill_arch::Role;
    /// assert_eq!(Role::of_standard_name("blk.7.ffn_down_exps.weight"), Role::FFN_DOWN_EXPERTS);
    /// assert_eq!(Role::of_standard_name("blk.7.attn_norm.weight"), Role::NORM);
    /// assert_eq!(Role::of_standard_name("model.layers.7.mlp.down_proj.weight"), Role::OTHER);
    /// ```
    pub fn of_standard_name(name: &str) -> Self {
        ROLES.of(name).unwrap_or(Self::OTHER)
    }
}
