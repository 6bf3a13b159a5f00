//! A description to begin with, for checkpoints of a class that no description is for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ggmill_core::is_digits;
use serde_json::{Value as Json, json};

use crate::architecture::Architecture;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::distance::distance;
use crate::error::{Error, ErrorKind};
use crate::resolve::Resolved;
use crate::tensor::Origin;

/// Names that are compared of a checkpoint: further names in a file are ignored.
const MAX_NAMES: usize = 20_000;
/// Tensors that the names are compared with, in all descriptions together: a configuration can ask
/// for any number.
const MAX_TENSORS: usize = 1 << 18;
/// Bytes of a class name that are compared: no class has more, and a file can have any number.
const MAX_CLASS: usize = 96;
/// Lines of one list in the comments.
const MAX_LISTED: usize = 60;

/// A description to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartingDescription {
    /// The class of the checkpoint, or its model type where it names none.
    pub class: String,
    /// The name of the architecture that it is derived from.
    pub nearest: String,
    /// The description, in TOML: that of the nearest architecture for this class, after comments
    /// with what the checkpoint has more and what it lacks.
    pub text: String,
}

/// How well a description suits a checkpoint.
struct Suited<'a> {
    /// How far the class is from the nearest of its own, as a distance of texts.
    spelling: usize,
    architecture: &'a Architecture,
    /// What the description does not know or the checkpoint lacks, or why it cannot be applied.
    fit: Result<Misfit, Error>,
}

/// The names of tensors that are on one side alone.
struct Misfit {
    unknown: BTreeSet<String>,
    missing: BTreeSet<String>,
    known: usize,
}

/// From this distance on the spelling of a class says nothing.
const UNLIKE: usize = 4;

impl Catalogue {
    /// A description to begin with for a checkpoint with this `config.json` and tensors of these
    /// names: that of the built-in architecture whose tensors have the same names, as far as any
    /// has. `None` where the configuration names neither a class nor a model type.
    ///
    /// ```
    /// use ggmill_arch::{Architecture, Catalogue};
    /// let config = serde_json::json!({
    ///     "architectures": ["NewForCausalLM"], "vocab_size": 512, "num_hidden_layers": 1,
    ///     "hidden_size": 64, "intermediate_size": 172, "num_attention_heads": 8,
    ///     "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
    /// });
    /// let of_block = [
    ///     "input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
    ///     "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
    /// ];
    /// let mut names = vec!["model.embed_tokens.weight".to_owned(), "model.norm.weight".to_owned()];
    /// names.extend(of_block.map(|name| format!("model.layers.0.{name}.weight")));
    /// names.push("model.gate.weight".to_owned());
    /// let start = Catalogue::new().starting_description(&config, &names).ok_or("named")?;
    /// assert!(start.text.contains("#   model.gate.weight\n"), "{}", start.text);
    /// let new = Architecture::parse(&start.text)?;
    /// assert_eq!(Catalogue::new().with(new).for_checkpoint(&config)?.name(), start.nearest);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn starting_description(
        &self,
        config: &Json,
        names: &[impl AsRef<str>],
    ) -> Option<StartingDescription> {
        let read = Config::new(config);
        let is_class = read.class().is_some();
        let class = read.class().or(read.model_type())?.to_owned();
        let names: Vec<&str> = names.iter().take(MAX_NAMES).map(AsRef::as_ref).collect();
        let mut left = MAX_TENSORS;
        // Those whose classes are spelt alike go first, then those of most classes: the plain ones.
        let mut known: Vec<(usize, &Architecture)> = Architecture::builtins()
            .filter_map(|architecture| {
                let spelling = spelling(architecture, &class)?;
                let spelling = if is_class { spelling.min(UNLIKE) } else { UNLIKE };
                Some((spelling, architecture))
            })
            .collect();
        known.sort_by_key(|(spelling, architecture)| {
            let classes = architecture.checkpoint_classes().count();
            (*spelling, core::cmp::Reverse(classes), architecture.name())
        });
        let best = known
            .into_iter()
            .map(|(spelling, architecture)| Suited {
                spelling,
                architecture,
                fit: misfit(architecture, config, &names, &mut left),
            })
            .min_by_key(Suited::order)?;
        let text = Architecture::builtin_text(best.architecture.name())?;
        let text = for_class(text, &class, is_class);
        // What cannot be read is nothing to begin with.
        Architecture::parse(&text).ok()?;
        let nearest = best.architecture.name().to_owned();
        Some(StartingDescription { text: best.comments(&class) + &text, class, nearest })
    }
}

impl Suited<'_> {
    /// Less is better: names that do not fit, then the spelling of the class.
    fn order(&self) -> (bool, usize, usize) {
        let wrong = match &self.fit {
            Ok(fit) if fit.known > 0 => Some(fit.unknown.len().saturating_add(fit.missing.len())),
            _ => None,
        };
        (wrong.is_none(), wrong.unwrap_or(0), self.spelling)
    }

    /// The beginning of the description: what is left to be done.
    fn comments(&self, class: &str) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# A first draft of a description for checkpoints of {}, derived from that of {} \
             ({}),\n# whose tensors have the most similar names. The name determines which program \
             code loads the model; change it\n# only for a program that knows the new name.\n",
            commented(class),
            self.architecture.name(),
            self.architecture.title()
        );
        match &self.fit {
            Ok(fit) if fit.unknown.is_empty() && fit.missing.is_empty() => {
                text.push_str("# Every tensor of the checkpoint is described.\n");
            }
            Ok(fit) => {
                list(&mut text, "Tensors of the checkpoint that are not described", &fit.unknown);
                list(
                    &mut text,
                    "Required tensors that are missing from the checkpoint",
                    &fit.missing,
                );
            }
            Err(error) => {
                let _ = writeln!(
                    text,
                    "# The description does not match the checkpoint yet: {}.",
                    commented(&error.to_string())
                );
            }
        }
        text.push('\n');
        text
    }
}

/// Text from a file, fit for the line of a comment.
fn commented(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn list(text: &mut String, heading: &str, names: &BTreeSet<String>) {
    if names.is_empty() {
        return;
    }
    let _ = writeln!(text, "# {heading}:");
    for name in names.iter().take(MAX_LISTED) {
        let _ = writeln!(text, "#   {}", commented(name));
    }
    if let Some(more) = names.len().checked_sub(MAX_LISTED).filter(|&more| more > 0) {
        let _ = writeln!(text, "#   and {more} more");
    }
}

/// The distance of a class from the nearest of an architecture; `None` where it has none.
fn spelling(architecture: &Architecture, class: &str) -> Option<usize> {
    let class = class.as_bytes();
    let class = class.get(..MAX_CLASS).unwrap_or(class);
    architecture.checkpoint_classes().map(|known| distance(known.as_bytes(), class)).min()
}

/// The names that do not fit when the checkpoint is read as one of the architecture.
fn misfit(
    architecture: &Architecture,
    config: &Json,
    names: &[&str],
    left: &mut usize,
) -> Result<Misfit, Error> {
    if *left == 0 {
        let message = "the model has too many tensors to be compared with every description";
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let mut config = config.clone();
    let class = architecture.checkpoint_classes().next().unwrap_or_default();
    if let Some(object) = config.as_object_mut() {
        object.insert("architectures".to_owned(), json!([class]));
    }
    let resolved = architecture.resolve(&config)?;
    *left = left.saturating_sub(resolved.tensors().len());
    Ok(compare(&resolved, names))
}

fn compare(resolved: &Resolved<'_>, names: &[&str]) -> Misfit {
    let rules = resolved.name_rules();
    let renamed: BTreeMap<String, &str> = names
        .iter()
        .filter(|name| !rules.ignores(&rules.renamed(name)) && !rules.ignores(name))
        .map(|name| (rules.renamed(name), *name))
        .collect();
    let (mut unused, mut missing) = (renamed.clone(), BTreeSet::new());
    for spec in resolved.tensors() {
        let Origin::Checkpoint(sources) = &spec.origin else { continue };
        let mut is_there = false;
        for name in sources.iter().flat_map(|source| &source.names) {
            is_there |= renamed.contains_key(name);
            unused.remove(name);
        }
        if let Some(first) = sources.first().filter(|_| spec.required && !is_there) {
            missing.extend(first.names.iter().map(|name| numberless(name)));
        }
    }
    let known = renamed.len().saturating_sub(unused.len());
    Misfit { unknown: unused.values().map(|name| numberless(name)).collect(), missing, known }
}

/// A name with `{}` in place of the numbers between its dots, so that layers are listed once.
fn numberless(name: &str) -> String {
    let parts = name.split('.').map(|part| if is_digits(part) { "{}" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

/// The text of a description with one kind of checkpoint, of this class, in place of its own. What
/// the first of them says otherwise stays.
fn for_class(text: &str, class: &str, is_class: bool) -> String {
    let name = quoted_list(class);
    let mut own = format!("[[checkpoint]]\nclasses = {}\n", if is_class { &name } else { "[]" });
    if !is_class {
        let _ = writeln!(own, "model_types = {name}");
    }
    let (mut out, mut kinds, mut is_within) = (String::new(), 0usize, false);
    // The brackets open in a value that goes over several lines, and whether it is left out.
    let (mut open, mut is_left_out) = (0usize, false);
    for line in text.lines() {
        let statement = line.trim_start();
        if open == 0 {
            let is_kind = statement.starts_with("[[checkpoint]]");
            if is_kind {
                kinds = kinds.saturating_add(1);
                is_within = true;
            } else if statement.starts_with('[') && !statement.starts_with("[checkpoint.") {
                is_within = false;
            }
            if is_kind && kinds == 1 {
                out.push_str(&own);
            }
            let names = ["classes", "model_types", "marker", "whole", "when", "typical"];
            let is_named = names.iter().any(|name| {
                let rest = statement.strip_prefix(name);
                rest.is_some_and(|rest| rest.trim_start().starts_with('='))
            });
            let is_comment = statement.is_empty() || statement.starts_with('#');
            is_left_out = is_within && (is_kind || is_named || is_comment || kinds > 1);
        }
        open = depth(open, statement);
        if !is_left_out {
            // The section that follows the kinds stands apart from them.
            if statement.starts_with('[') && !is_within && kinds > 0 && !out.ends_with("\n\n") {
                out.push('\n');
            }
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// A list of one string, with escapes that JSON and TOML share: what is printed has no control
/// characters.
fn quoted_list(text: &str) -> String {
    let mut out = String::new();
    for c in json!([text]).to_string().chars() {
        if c.is_control() {
            // All of them are below U+0100.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// How many brackets are open after a line, outside of strings and comments.
fn depth(mut open: usize, line: &str) -> usize {
    // Headers open and close theirs on one line.
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(end), _) if c == end => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => break,
            (None, '[' | '{') => open = open.saturating_add(1),
            (None, ']' | '}') => open = open.saturating_sub(1),
            _ => {}
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of every built-in description that is for checkpoints, the one for another class can be read,
    /// and is for that class alone.
    #[test]
    fn every_description_can_be_one_to_begin_with() {
        let mut count = 0;
        for architecture in Architecture::builtins() {
            if architecture.checkpoint_classes().next().is_none() {
                continue;
            }
            count += 1;
            let text = Architecture::builtin_text(architecture.name()).unwrap();
            for (name, is_class) in [("New \"Class\"\u{1b}\u{7f}\u{9b}", true), ("new_type", false)]
            {
                let new = for_class(text, name, is_class);
                assert!(!new.contains(|c: char| c.is_control() && c != '\n'), "{new:?}");
                let new = Architecture::parse(&new)
                    .unwrap_or_else(|error| panic!("{}: {error}\n{new}", architecture.name()));
                let classes: Vec<_> = new.checkpoint_classes().collect();
                assert_eq!(classes, if is_class { vec![name] } else { vec![] });
            }
        }
        assert!(count > 100, "{count}");
    }

    /// A configuration can ask for any number of tensors.
    #[test]
    fn a_hostile_configuration_is_compared_within_bounds() {
        let config = json!({
            "architectures": ["x".repeat(1000)], "vocab_size": 512,
            "num_hidden_layers": 5000, "hidden_size": 64, "intermediate_size": 172,
            "num_attention_heads": 8, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
        });
        let start = Catalogue::new().starting_description(&config, &["\u{1b}[31m.weight"]).unwrap();
        assert!(!start.text.contains('\u{1b}'));
    }

    #[test]
    fn what_a_checkpoint_has_more_and_lacks_is_listed() {
        let config = json!({
            "architectures": ["NewForCausalLM"], "vocab_size": 512, "num_hidden_layers": 2,
            "hidden_size": 64, "intermediate_size": 172, "num_attention_heads": 8,
            "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
        });
        let llama = Architecture::builtin("llama").unwrap();
        let mut of_llama = config.clone();
        of_llama["architectures"] = json!(["LlamaForCausalLM"]);
        let resolved = llama.resolve(&of_llama).unwrap();
        let mut names: Vec<String> = resolved
            .tensors()
            .iter()
            .filter(|spec| spec.required)
            .filter_map(|spec| match &spec.origin {
                Origin::Checkpoint(sources) => {
                    sources.first().and_then(|source| source.names.first()).cloned()
                }
                Origin::Computed(_) => None,
            })
            .filter(|name| !name.contains("down_proj"))
            .collect();
        names
            .extend(["model.layers.0.gate\n.weight".into(), "model.layers.1.gate\n.weight".into()]);
        let start = Catalogue::new().starting_description(&config, &names).unwrap();
        let (comments, _) = start.text.split_once("\n\n").unwrap();
        assert!(
            comments.contains(
                "# Tensors of the checkpoint that are not described:\n#   model.layers.{}.gate \
                 .weight\n# Required tensors that are missing from the checkpoint:\n#   "
            ),
            "{}: {comments}",
            start.nearest
        );
        assert_eq!(comments.matches("down_proj.weight").count(), 1, "{comments}");
    }
}
