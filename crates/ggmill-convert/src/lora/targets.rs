//! The tensors of a PEFT adapter, by what they are to the base.

use std::collections::BTreeMap;

use ggmill_arch::NameRules;
use ggmill_pipeline::{Checkpoint, Error, ErrorKind, Result};

/// What the names of an adapter begin with: the class that PEFT wraps a model in.
const WRAPPER: &str = "base_model.model.";

/// Endings of the names of factors, with which of the two it is.
const FACTORS: [(&str, Half); 4] = [
    (".lora_A.weight", Half::A),
    (".lora_B.weight", Half::B),
    (".lora_embedding_A", Half::A),
    (".lora_embedding_B", Half::B),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    A,
    B,
}

/// A weight of the base that an adapter changes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The numbers of its factors in the adapter.
    factors: [Option<usize>; 2],
    /// Whether it is an embedding, whose factors are those of the transposed weight.
    pub(super) is_embedding: bool,
    /// A name in the adapter, for messages.
    pub(super) shown: String,
}

impl Target {
    /// The numbers of its factors. Fails when there is only one of them.
    pub(super) fn factors(&self) -> Result<[usize; 2]> {
        match self.factors {
            [Some(a), Some(b)] => Ok([a, b]),
            [a, _] => {
                let missing = if a.is_none() { "A" } else { "B" };
                let message = format!("the adapter has no factor {missing} for it");
                Err(Error::new(ErrorKind::Checkpoint, message).tensor(&self.shown))
            }
        }
    }
}

/// What an adapter has, under the names of the description.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// The names, in the order in which the reference comes to them: norms, then targets.
    pub(super) names: Vec<String>,
    /// The numbers of the norms in the adapter; the first of the names are theirs.
    pub(super) norms: Vec<usize>,
    pub(super) weights: Vec<Target>,
    /// Names of tensors that the base ignores.
    pub(super) ignored: Vec<String>,
}

impl Targets {
    /// Sorts the tensors of an adapter. Fails for one that is neither a factor nor a norm.
    pub(super) fn of(adapter: &dyn Checkpoint, rules: &NameRules) -> Result<Self> {
        let mut this = Self::default();
        let mut norm_names = Vec::new();
        let mut target_names: Vec<String> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (number, tensor) in adapter.tensors().iter().enumerate() {
            let stored = String::from_utf8_lossy(&tensor.name).into_owned();
            let name = rules.renamed(&in_base(&stored));
            if rules.ignores(&name) {
                refuse_output(&name, &stored)?;
                this.ignored.push(stored);
                continue;
            }
            let half = FACTORS.iter().find(|(part, _)| stored.contains(part));
            let Some(&(part, half)) = half else {
                if stored.contains(".base_layer.weight") {
                    continue;
                }
                if stored.contains("_layernorm") || stored.contains(".norm") {
                    norm_names.push(name);
                    this.norms.push(number);
                    continue;
                }
                return Err(unexpected(&stored));
            };
            let place = *places.entry(name).or_insert_with_key(|name| {
                target_names.push(name.clone());
                this.weights.push(Target {
                    factors: [None; 2],
                    is_embedding: part.contains("embedding"),
                    shown: stored.clone(),
                });
                this.weights.len() - 1
            });
            let factor = &mut this.weights[place].factors[usize::from(half == Half::B)];
            if factor.replace(number).is_some() {
                let message = "two factors of the adapter have this name after renaming by the \
                               description";
                return Err(Error::new(ErrorKind::Checkpoint, message).tensor(&stored));
            }
        }
        if this.weights.is_empty() {
            let why = if this.ignored.is_empty() { "" } else { " of the language model" };
            let message = format!("the adapter has no factors{why}");
            return Err(Error::new(ErrorKind::Checkpoint, message));
        }
        norm_names.append(&mut target_names);
        this.names = norm_names;
        Ok(this)
    }
}

/// The name that the weight has in the base.
fn in_base(stored: &str) -> String {
    let mut name = stored.replace(WRAPPER, "");
    for (part, _) in FACTORS {
        name = name.replace(part, ".weight");
    }
    name
}

/// An adapter of the output matrix, where the base computes with its embeddings instead.
fn refuse_output(name: &str, stored: &str) -> Result<()> {
    if name != "lm_head.weight" {
        return Ok(());
    }
    let message = "the base has no output matrix of its own: it uses its token embeddings";
    Err(Error::new(ErrorKind::Unsupported, message).tensor(stored))
}

/// Why a tensor cannot be in a GGUF adapter.
fn unexpected(stored: &str) -> Error {
    let message = if stored.contains(".lora_magnitude_vector") {
        "is a DoRA magnitude, which a GGUF adapter cannot contain; merge the adapter into its base"
    } else if stored.contains(".lora_") {
        "is not a factor that a GGUF adapter can contain, expected lora_A and lora_B of a weight"
    } else if stored.contains("trainable_tokens") {
        "contains trained tokens (trainable_tokens), which a GGUF adapter cannot contain; merge \
         the adapter into its base"
    } else if stored.ends_with(".weight") {
        "was saved in full (modules_to_save, or embeddings for new tokens), which a GGUF adapter \
         cannot contain; merge the adapter into its base"
    } else {
        "is neither a factor of an adapter (lora_A, lora_B) nor a norm"
    };
    Error::new(ErrorKind::Unsupported, message).tensor(stored)
}
