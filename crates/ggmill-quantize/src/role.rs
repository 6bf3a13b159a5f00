//! The roles of tensors: from user rules, else from the model's architecture.

use std::str::FromStr;

use ggmill_arch::{Architecture, MixtureTraits, ModelView, Role};
use ggmill_core::{RawStr, Shape};
use regex_lite::Regex;

use crate::layers::layer;
use crate::options::rules_in;
use ggmill_pipeline::{Error, ErrorKind, Result};

/// A rule that gives a role to every tensor whose name matches a pattern, for tensors with unknown
/// names.
#[derive(Clone, Debug)]
pub struct RoleRule {
    pattern: Regex,
    role: Role,
}

impl FromStr for RoleRule {
    type Err = Error;

    /// Parses `PATTERN=ROLE`. The pattern is a regular expression as in
    /// [`TensorType`](super::TensorType); the role is the name of one of
    /// [`ggmill_arch::Role::ALL`].
    ///
    /// ```
    /// use ggmill_quantize::RoleRule;
    /// assert!(r"\.mlp\.w2$=ffn.down".parse::<RoleRule>().is_ok());
    /// assert!("w2=down".parse::<RoleRule>().unwrap_err().to_string().starts_with(r#""w2=down": "down" is not a role, expected one of token_embedding, "#));
    /// ```
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |message: String| {
            Error::new(ErrorKind::Misuse, format!("{:?}: {message}", RawStr::from(text)))
        };
        let parts = text.rsplit_once('=').filter(|(pattern, _)| !pattern.is_empty());
        let (pattern, name) = parts.ok_or_else(|| wrong("expected PATTERN=ROLE".to_owned()))?;
        let role = name.parse::<Role>().map_err(|_| {
            wrong(format!(
                "{:?} is not a role, expected one of {}",
                RawStr::from(name),
                all_roles()
            ))
        })?;
        let pattern = Regex::new(pattern)
            .map_err(|error| wrong(format!("the pattern is invalid: {error}")))?;
        Ok(Self { pattern, role })
    }
}

impl RoleRule {
    /// Returns a rule for every tensor that an architecture describes, which matches the whole
    /// name.
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

    /// Returns a rule for a template. Each `{variable}` matches a number.
    fn of_template(template: &str, role: Role) -> Result<Self> {
        let mut pattern = String::from("^");
        for (place, piece) in template.split('{').enumerate() {
            let (number, text) = if place == 0 {
                ("", piece)
            } else {
                ("[0-9]+", piece.split_once('}').map_or("", |(_, text)| text))
            };
            pattern += number;
            pattern += &regex_lite::escape(text);
        }
        pattern.push('$');
        let wrong =
            |error| Error::new(ErrorKind::Misuse, format!("{:?}: {error}", RawStr::from(template)));
        Ok(Self { pattern: Regex::new(&pattern).map_err(wrong)?, role })
    }

    /// Parses a list of rules separated by spaces or lines. Errors name the line.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        rules_in(text, str::parse)
    }

    /// Returns `true` if the pattern matches part of a tensor name.
    pub fn is_for(&self, name: &str) -> bool {
        self.pattern.is_match(name)
    }

    /// Returns the regular expression.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }
}

/// Returns the names of all roles.
fn all_roles() -> String {
    Role::ALL.iter().map(|(role, _)| role.name()).collect::<Vec<_>>().join(", ")
}

/// The roles that mixtures distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    TokenEmbedding,
    AttentionQ,
    AttentionK,
    /// The values, separate or fused with queries and keys. The most sensitive to quantization.
    AttentionV,
    AttentionOutput,
    FfnUp,
    FfnGate,
    FfnDown,
    Output,
    Other,
}

impl Family {
    /// Returns the family of a role, or `None` for roles that are never quantized: norms, routers,
    /// and small or sensitive tensors.
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

/// The sources of roles: rules, of which the first match decides, then the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles<'a> {
    pub(crate) rules: &'a [RoleRule],
    pub(crate) model: &'a ModelView<'a>,
    pub(crate) traits: &'a MixtureTraits,
    /// `true` if the reference supports the architecture.
    pub(crate) is_known: bool,
}

impl Roles<'_> {
    pub(crate) fn of(self, name: &str) -> Family {
        let role = self.rule(name).map_or_else(|| self.model.role(name), |rule| rule.role);
        Family::of(role).unwrap_or(Family::Other)
    }

    /// Returns `true` if a matrix with this name and shape may be quantized.
    pub(crate) fn may_be_quantized(self, name: &str, shape: &Shape) -> bool {
        match self.rule(name) {
            Some(rule) => Family::of(rule.role).is_some(),
            None => {
                self.traits.may_quantize(name)
                    || (!self.is_known && looks_like_weights(name, shape))
            }
        }
    }

    pub(crate) fn has_rule(self, name: &str) -> bool {
        self.rule(name).is_some()
    }

    fn rule(&self, name: &str) -> Option<&RoleRule> {
        self.rules.iter().find(|rule| rule.is_for(name))
    }
}

/// A second embedding table, with one vector per layer for each token.
pub(crate) const PER_LAYER_EMBEDDING: &str = "per_layer_token_embd.weight";

/// Returns `true` if a matrix of an unknown architecture probably holds weights although its name
/// does not follow the GGUF convention (`blk.N.`, or `.weight` at the end). Its rows must be whole
/// blocks of 32, the smallest block size of usual types.
fn looks_like_weights(name: &str, shape: &Shape) -> bool {
    const BLOCK: u64 = 32;
    let is_conventional = layer(name.as_bytes()).is_some() || name.ends_with(".weight");
    !is_conventional
        && shape.row_len().is_multiple_of(BLOCK)
        && !MixtureTraits::names_other_than_weights(name)
}
