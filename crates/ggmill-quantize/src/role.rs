//! What a tensor does in its model, as far as its name tells. Names are those of GGUF files, whatever the architecture; rules add others.

use ggmill_arch::{Architecture, Role as Meant};
use ggmill_core::{RawStr, Shape};
use regex_lite::Regex;

use crate::options::words;
use ggmill_pipeline::{Error, ErrorKind, Result};

/// What tensors do whose names do not tell: a role for every tensor in whose name a pattern is found.
#[derive(Clone, Debug)]
pub struct RoleRule {
    pattern: Regex,
    /// `None` for what is never quantized.
    role: Option<Role>,
}

impl RoleRule {
    /// Reads `PATTERN=ROLE`. The pattern is a regular expression, as in [`TensorType::parse`](super::TensorType::parse); the role is one of
    /// [`ggmill_arch::Role::ALL`], by name.
    ///
    /// ```
    /// use ggmill_quantize::RoleRule;
    /// assert!(RoleRule::parse(r"\.mlp\.w2$=ffn.down").is_ok());
    /// assert!(RoleRule::parse("w2=down").unwrap_err().to_string().starts_with(r#""w2=down": "down" is no role, expected one of token_embedding, "#));
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |message: String| Error::new(ErrorKind::Misuse, format!("{:?}: {message}", RawStr::from(text)));
        let parts = text.rsplit_once('=').filter(|(pattern, _)| !pattern.is_empty());
        let (pattern, name) = parts.ok_or_else(|| wrong("expected PATTERN=ROLE".to_owned()))?;
        let meant = Meant::from_name(name).ok_or_else(|| wrong(format!("{:?} is no role, expected one of {}", RawStr::from(name), all_roles())))?;
        let pattern = Regex::new(pattern).map_err(|error| wrong(format!("the pattern is not one: {error}")))?;
        Ok(Self { pattern, role: Role::meant(meant) })
    }

    /// A rule for every tensor an architecture describes, by its whole name.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// use ggmill_quantize::RoleRule;
    /// let llama = Architecture::builtin("llama").ok_or("built in")?;
    /// assert_eq!(RoleRule::of(llama)?.len(), llama.outline().count());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(architecture: &Architecture) -> Result<Vec<Self>> {
        architecture.outline().map(|tensor| Self::of_template(tensor.name, tensor.role)).collect()
    }

    /// A rule for names that have a number for every `{variable}` of a template.
    fn of_template(template: &str, role: Meant) -> Result<Self> {
        let mut pattern = String::from("^");
        for (place, piece) in template.split('{').enumerate() {
            let (number, text) = if place == 0 { ("", piece) } else { ("[0-9]+", piece.split_once('}').map_or("", |(_, text)| text)) };
            pattern += number;
            pattern += &regex_lite::escape(text);
        }
        pattern.push('$');
        let wrong = |error| Error::new(ErrorKind::Misuse, format!("{:?}: {error}", RawStr::from(template)));
        Ok(Self { pattern: Regex::new(&pattern).map_err(wrong)?, role: Role::meant(role) })
    }

    /// Reads a list of them, separated by spaces or lines. An error says which line it is in.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        words(text, Self::parse)
    }

    /// Whether its pattern is found in the name of a tensor.
    pub fn is_for(&self, name: &str) -> bool {
        self.pattern.is_match(name)
    }

    /// The regular expression.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }
}

/// The names of all roles.
fn all_roles() -> String {
    Meant::ALL.iter().map(|(role, _)| role.name()).collect::<Vec<_>>().join(", ")
}

/// What tells roles: rules, the first that is found, and names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles<'a> {
    pub(crate) rules: &'a [RoleRule],
    pub(crate) architecture: &'a str,
    /// Whether the reference knows the architecture.
    pub(crate) is_known: bool,
}

impl Roles<'_> {
    pub(crate) fn of(self, name: &str) -> Role {
        match self.rule(name) {
            Some(rule) => rule.role.unwrap_or(Role::Other),
            None => Role::of(name),
        }
    }

    /// Whether a matrix of this name may be quantized at all.
    pub(crate) fn may_be_quantized(self, name: &str, shape: &Shape) -> bool {
        match self.rule(name) {
            Some(rule) => rule.role.is_some(),
            None => may_be_quantized(name, self.architecture) || (!self.is_known && looks_like_weights(name, shape)),
        }
    }

    pub(crate) fn has_rule(self, name: &str) -> bool {
        self.rule(name).is_some()
    }

    fn rule(&self, name: &str) -> Option<&RoleRule> {
        self.rules.iter().find(|rule| rule.is_for(name))
    }
}

/// What a tensor does, as far as mixtures care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
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

/// Parts of names that tell the role; the first that is found does.
const BY_PART: &[(&str, Role)] = &[
    ("attn_qkv.weight", Role::AttentionV),
    ("attn_kv_b.weight", Role::AttentionV),
    ("attn_v.weight", Role::AttentionV),
    ("attn_k.weight", Role::AttentionK),
    ("attn_q.weight", Role::AttentionQ),
    ("attn_output.weight", Role::AttentionOutput),
    ("ffn_up", Role::FfnUp),
    ("ffn_gate", Role::FfnGate),
    ("ffn_down", Role::FfnDown),
];

/// Tensors kept as they are, though they are matrices of weights: positions and token types.
const KEPT: &[&str] = &["position_embd.weight", "token_types.weight"];

/// The same, by parts of names: norms, routing, and what is small or sensitive.
const KEPT_PARTS: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// What single architectures keep besides.
const KEPT_PARTS_OF: &[(&str, &[&str])] = &[(
    "glm5-next",
    &[
        "hc_",
        "indexer.attn_q_b",
        "indexer.attn_k",
        "indexer.proj",
        "indexer_compressor_gate",
        "indexer_compressor_ape",
        "ssm_f_a.weight",
        "ssm_f_b.weight",
        "ssm_g_a.weight",
        "ssm_g_b.weight",
        "ssm_beta.weight",
        "attn_kv_a_mqa.weight",
        "attn_k_b.weight",
        "attn_v_b.weight",
    ],
)];

impl Role {
    /// What a role of the catalogue is to mixtures; `None` where its tensors are kept: norms, routing, and what is small or sensitive.
    fn meant(role: Meant) -> Option<Self> {
        Some(match role {
            Meant::TOKEN_EMBEDDING => Self::TokenEmbedding,
            Meant::OUTPUT => Self::Output,
            Meant::ATTENTION_Q => Self::AttentionQ,
            Meant::ATTENTION_K => Self::AttentionK,
            Meant::ATTENTION_V | Meant::ATTENTION_QKV | Meant::ATTENTION_KV_B => Self::AttentionV,
            Meant::ATTENTION_OUTPUT => Self::AttentionOutput,
            Meant::FFN_UP | Meant::FFN_UP_EXPERTS | Meant::FFN_UP_SHARED | Meant::FFN_GATE_UP | Meant::FFN_GATE_UP_EXPERTS => Self::FfnUp,
            Meant::FFN_GATE | Meant::FFN_GATE_EXPERTS | Meant::FFN_GATE_SHARED => Self::FfnGate,
            Meant::FFN_DOWN | Meant::FFN_DOWN_EXPERTS | Meant::FFN_DOWN_SHARED => Self::FfnDown,
            Meant::POSITION_EMBEDDING
            | Meant::TOKEN_TYPE_EMBEDDING
            | Meant::NORM
            | Meant::BIAS
            | Meant::ROPE_FACTORS
            | Meant::ATTENTION_SINKS
            | Meant::FFN_ROUTER
            | Meant::SSM_CONV
            | Meant::SSM_A
            | Meant::SSM_D => return None,
            _ => Self::Other,
        })
    }

    fn of(name: &str) -> Self {
        match name {
            "output.weight" => Self::Output,
            "token_embd.weight" | PER_LAYER_EMBEDDING => Self::TokenEmbedding,
            _ => BY_PART.iter().find(|(part, _)| name.contains(part)).map_or(Self::Other, |&(_, role)| role),
        }
    }

    pub(crate) fn is_ffn(self) -> bool {
        matches!(self, Self::FfnUp | Self::FfnGate | Self::FfnDown)
    }
}

/// A second table of embeddings, one vector for each layer.
pub(crate) const PER_LAYER_EMBEDDING: &str = "per_layer_token_embd.weight";

fn may_be_quantized(name: &str, architecture: &str) -> bool {
    let of_architecture = KEPT_PARTS_OF.iter().filter(|(of, _)| *of == architecture).flat_map(|(_, parts)| *parts);
    name.ends_with("weight") && !KEPT.contains(&name) && !KEPT_PARTS.iter().chain(of_architecture).any(|part| name.contains(part))
}

/// Parts of names that are no weights in anybody's convention.
const NO_WEIGHTS: &[&str] = &["norm", "bias", "pos_emb", "position", "rope", "freqs", "running_", "num_batches"];

/// Whether a matrix of an architecture that nobody knows holds weights though its name does not end so: names of GGUF files would, others need not. Its rows
/// are whole blocks of 32, the least there is.
fn looks_like_weights(name: &str, shape: &Shape) -> bool {
    const BLOCK: u64 = 32;
    let lower = name.to_ascii_lowercase();
    let is_conventional = layer(name.as_bytes()).is_some() || name.ends_with(".weight");
    !is_conventional && shape.row_len().is_multiple_of(BLOCK) && !NO_WEIGHTS.iter().chain(KEPT_PARTS).any(|part| lower.contains(part))
}

/// The number of the layer a tensor belongs to: `blk.N.` at the beginning of its name.
pub(crate) fn layer(name: &[u8]) -> Option<u64> {
    let rest = name.strip_prefix(b"blk.")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}
