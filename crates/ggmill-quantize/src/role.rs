//! The roles of tensors: as the model says, unless a rule says otherwise.

use std::str::FromStr;

use ggmill_arch::{Architecture, MixtureTraits, ModelView, Role};
use ggmill_core::{RawStr, Shape};
use regex_lite::Regex;

use crate::family::Family;
use crate::layers::layer;
use crate::rule_list::rules_in;
use ggmill_pipeline::{Error, ErrorKind, Result};

/// A role for tensors with unknown names: every tensor in whose name a pattern is found.
#[derive(Clone, Debug)]
pub struct RoleRule {
    pattern: Regex,
    role: Role,
}

impl FromStr for RoleRule {
    type Err = Error;

    /// Reads `PATTERN=ROLE`. The pattern is a regular expression, as of a
    /// [`TensorType`](super::TensorType); the role is one of [`ggmill_arch::Role::ALL`], by
    /// name.
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

    /// Reads a list of them, separated by spaces or lines. An error says which line it is in.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        rules_in(text, str::parse)
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
    Role::ALL.iter().map(|(role, _)| role.name()).collect::<Vec<_>>().join(", ")
}

/// The sources of roles: rules, of which the first match decides, and the model itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles<'a> {
    pub(crate) rules: &'a [RoleRule],
    pub(crate) model: &'a ModelView<'a>,
    pub(crate) traits: &'a MixtureTraits,
    /// Whether the reference knows the architecture.
    pub(crate) is_known: bool,
}

impl Roles<'_> {
    pub(crate) fn of(self, name: &str) -> Family {
        let role = self.rule(name).map_or_else(|| self.model.role(name), |rule| rule.role);
        Family::of(role).unwrap_or(Family::Other)
    }

    /// Whether a matrix of this name may be quantized at all.
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

/// A second table of embeddings, one vector for each layer.
pub(crate) const PER_LAYER_EMBEDDING: &str = "per_layer_token_embd.weight";

/// Whether a matrix of an architecture that is not known holds weights though its name does not end
/// so: names of GGUF files would, others need not. Its rows are whole blocks of 32, the least there
/// is.
fn looks_like_weights(name: &str, shape: &Shape) -> bool {
    const BLOCK: u64 = 32;
    let is_conventional = layer(name.as_bytes()).is_some() || name.ends_with(".weight");
    !is_conventional
        && shape.row_len().is_multiple_of(BLOCK)
        && !MixtureTraits::names_other_than_weights(name)
}
