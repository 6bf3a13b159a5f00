//! First drafts of descriptions, for checkpoint classes without one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ggmill_core::{Shape, is_digits};
use serde_json::{Value as Json, json};

use crate::catalogue::Catalogue;
use crate::catalogue::builtin::BuiltinParts;
use crate::description::architecture::Architecture;
use crate::description::tensor::Origin;
use crate::error::{Error, ErrorKind};
use crate::parameters::config::Config;
use crate::resolve::Resolved;
use crate::spelling::distance;

/// The maximum number of checkpoint tensors that are compared: a file can have any number.
const MAX_NAMES: usize = 20_000;
/// The maximum number of tensors of all descriptions together that are compared: a configuration can
/// ask for any number.
const MAX_TENSORS: usize = 1 << 18;
/// The maximum compared length of a class name, in bytes: a file can have any length.
const MAX_CLASS: usize = 96;
/// The maximum number of lines of a list in the comments.
const MAX_LISTED: usize = 60;
/// The maximum number of hyperparameters that dimensions are compared with.
const MAX_SYMBOLS: usize = 256;

/// A first draft of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartingDescription {
    /// The class of the checkpoint, or its model type if it names none.
    pub class: String,
    /// The name of the architecture that the draft is derived from.
    pub nearest: String,
    /// The description in TOML: the nearest architecture's, for this class, after comments that list
    /// what remains to be decided.
    pub text: String,
}

/// A description and how well it fits a checkpoint.
struct Candidate<'a> {
    /// The edit distance between the class and the most similar class of the description.
    spelling: usize,
    architecture: &'a Architecture,
    /// The differences in tensor names, or the reason why the description cannot be applied.
    fit: Result<Misfit<'a>, Error>,
}

/// The differences between the tensor names of a checkpoint and of a description.
struct Misfit<'a> {
    /// Patterns of names of the checkpoint that the description does not have.
    unknown: BTreeSet<String>,
    /// Patterns of names that the description requires and the checkpoint does not have.
    missing: BTreeSet<String>,
    known: usize,
    resolved: Resolved<'a>,
}

/// The edit distance from which on the spelling of a class is irrelevant.
const UNLIKE: usize = 4;

impl Catalogue {
    /// Returns a first draft of a description for a checkpoint with this `config.json` and these
    /// tensors (names, and shapes in stored order): the description of the built-in architecture
    /// whose tensors have the most similar names, changed to be for the class of the checkpoint.
    /// `None` if the configuration names neither a class nor a model type.
    ///
    /// ```
    /// use ggmill_arch::{Architecture, Catalogue};
    /// use ggmill_core::Shape;
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
    /// names.push("model.layers.0.gate.weight".to_owned());
    /// let shape = Shape::new(&[64, 172])?;
    /// let tensors: Vec<(String, Shape)> = names.into_iter().map(|name| (name, shape)).collect();
    /// let start = Catalogue::new().starting_description(&config, &tensors).ok_or("named")?;
    /// let line = "#   \"blk.{bid}.gate.weight\" = { shape = [\"embedding_length\", \"feed_forward_length\"], from = [\"model.layers.{bid}.gate.weight\"] }\n";
    /// assert!(start.text.contains(line), "{}", start.text);
    /// let new = Architecture::parse(&start.text)?;
    /// assert_eq!(Catalogue::new().with(new).for_checkpoint(&config)?.name(), start.nearest);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn starting_description(
        &self,
        config: &Json,
        tensors: &[(impl AsRef<str>, Shape)],
    ) -> Option<StartingDescription> {
        started(config, tensors, MAX_TENSORS)
    }
}

/// Returns a first draft, comparing at most `left` tensors of all descriptions together.
fn started(
    config: &Json,
    tensors: &[(impl AsRef<str>, Shape)],
    mut left: usize,
) -> Option<StartingDescription> {
    let read = Config::new(config);
    let is_class = read.class().is_some();
    let class = read.class().or(read.model_type())?.to_owned();
    let tensors: Vec<(&str, Shape)> =
        tensors.iter().take(MAX_NAMES).map(|(name, shape)| (name.as_ref(), *shape)).collect();
    // Architectures with similarly spelled classes come first, then those with most classes: the
    // plain ones.
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
        .map(|(spelling, architecture)| Candidate {
            spelling,
            architecture,
            fit: misfit(architecture, config, &tensors, &mut left),
        })
        .min_by_key(Candidate::order)?;
    let text = Architecture::builtin_text(best.architecture.name())?;
    let text = for_class(text, read.class(), read.model_type());
    // Only the checkpoint kinds changed, so the graph need not be checked again.
    Architecture::read(&text, None, &BuiltinParts).ok()?;
    let nearest = best.architecture.name().to_owned();
    let text = best.comments(&class, config, &tensors) + &text;
    Some(StartingDescription { class, nearest, text })
}

impl Candidate<'_> {
    /// Returns the sort key: the number of different tensor names, then the spelling of the class.
    fn order(&self) -> (bool, usize, usize) {
        let wrong = match &self.fit {
            Ok(fit) if fit.known > 0 => Some(fit.unknown.len().saturating_add(fit.missing.len())),
            _ => None,
        };
        (wrong.is_none(), wrong.unwrap_or(0), self.spelling)
    }

    /// Returns the comments at the beginning of the draft.
    fn comments(&self, class: &str, config: &Json, tensors: &[(&str, Shape)]) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# A first draft of a description for checkpoints of {}, derived from that of {} \
             ({}),\n# whose tensors have the most similar names. Keep the name only if the model computes \
             the same, because programs\n# choose their code by it: otherwise give it a name, \
             and remove `loader` and the parts `compute…`, which describe\n# the other model. The values \
             under [checkpoint.defaults] are also those of the other model.\n",
            commented(class),
            self.architecture.name(),
            self.architecture.title()
        );
        match &self.fit {
            Ok(fit) if fit.unknown.is_empty() && fit.missing.is_empty() => {
                text.push_str("# Every tensor of the checkpoint is described.\n");
            }
            Ok(fit) => {
                let is_unknown = |(name, _): &(&str, Shape)| fit.unknown.contains(&pattern(name).0);
                let unknown: Vec<_> = tensors.iter().copied().filter(is_unknown).collect();
                let symbols: Vec<_> = fit
                    .resolved
                    .parameters()
                    .filter_map(|(name, value)| Some((name.to_owned(), value.as_u64()?)))
                    .collect();
                list_tensors(&mut text, &unknown, &symbols);
                list(
                    &mut text,
                    "Required tensors that are missing from the checkpoint",
                    fit.missing.iter().cloned(),
                );
            }
            Err(error) => {
                let _ = writeln!(
                    text,
                    "# The description does not match the checkpoint yet: {}.",
                    commented(&error.to_string())
                );
                let members = config.as_object().into_iter().flatten();
                let symbols: Vec<_> = members
                    .filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)))
                    .collect();
                list_tensors(&mut text, tensors, &symbols);
            }
        }
        let members = self.architecture.unread_members(config);
        list(&mut text, "Members of config.json that no hyperparameter reads", members.into_iter());
        text.push('\n');
        text
    }
}

/// Replaces control characters by spaces, for use in a comment.
fn commented(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn list(text: &mut String, heading: &str, lines: impl ExactSizeIterator<Item = String>) {
    let count = lines.len();
    if count == 0 {
        return;
    }
    let _ = writeln!(text, "# {heading}:");
    for line in lines.take(MAX_LISTED) {
        let _ = writeln!(text, "#   {}", commented(&line));
    }
    if let Some(more) = count.checked_sub(MAX_LISTED).filter(|&more| more > 0) {
        let _ = writeln!(text, "#   and {more} more");
    }
}

/// Checkpoint tensors whose names differ only in numbers.
struct Pattern {
    /// For each number in the name, the values that it has.
    numbers: Vec<BTreeSet<u64>>,
    shape: Shape,
}

/// Appends undescribed tensors as groups of a description: a line per name, with the shape in terms of
/// `symbols`.
fn list_tensors(text: &mut String, tensors: &[(&str, Shape)], symbols: &[(String, u64)]) {
    let mut patterns: BTreeMap<String, Pattern> = BTreeMap::new();
    for &(name, shape) in tensors {
        let (pattern, numbers) = pattern(name);
        let found = patterns
            .entry(pattern)
            .or_insert_with(|| Pattern { numbers: vec![BTreeSet::new(); numbers.len()], shape });
        for (values, number) in found.numbers.iter_mut().zip(numbers) {
            values.insert(number);
        }
    }
    let in_blocks = |of_block: bool| {
        let patterns = patterns.iter();
        let patterns = patterns.filter(move |(_, found)| found.numbers.is_empty() != of_block);
        patterns.map(|(name, found)| described(name, found, symbols)).collect::<Vec<_>>()
    };
    let (global, of_block) = (in_blocks(false), in_blocks(true));
    let mut lines = Vec::new();
    for (group, header) in [(global, None), (of_block, Some("for = \"bid in 0..block_count\""))] {
        if !group.is_empty() {
            lines.push("[[tensors]]".to_owned());
            lines.extend(header.map(str::to_owned));
            lines.push("[tensors.tensor]".to_owned());
            lines.extend(group);
        }
    }
    list(text, "Tensors of the checkpoint that are not described", lines.into_iter());
}

/// Returns a name with `{bid}` for its first numeric component, `{expert}` for the second and `{}` for
/// others, and these numbers.
fn pattern(name: &str) -> (String, Vec<u64>) {
    let mut numbers = Vec::new();
    let parts: Vec<&str> = name
        .split('.')
        .map(|part| {
            let number = part.parse().ok().filter(|_| is_digits(part));
            let Some(number) = number else { return part };
            numbers.push(number);
            match numbers.len() {
                1 => "{bid}",
                2 => "{expert}",
                _ => "{}",
            }
        })
        .collect();
    (parts.join("."), numbers)
}

/// Returns the line of a description for checkpoint tensors.
fn described(pattern: &str, found: &Pattern, symbols: &[(String, u64)]) -> String {
    let rest = pattern.split_once("{bid}.").map_or(pattern, |(_, rest)| rest);
    let rest = rest.strip_prefix("model.").unwrap_or(rest);
    let (rest, suffix) = rest.rsplit_once('.').unwrap_or((rest, "weight"));
    let parts: Vec<&str> = rest.split('.').filter(|part| !part.starts_with('{')).collect();
    let block = if found.numbers.is_empty() { "" } else { "blk.{bid}." };
    let name = json!(format!("{block}{}.{suffix}", parts.join("_")));
    let mut shape: Vec<String> =
        found.shape.dimensions().iter().map(|&size| solved(size, symbols)).collect();
    let source = match found.numbers.get(1) {
        None => json!(pattern).to_string(),
        Some(experts) => {
            let count = solved(u64::try_from(experts.len()).unwrap_or(u64::MAX), symbols);
            let source = format!(
                "{{ name = {}, for = \"expert in 0..{count}\", operations = [\"stack\"] }}",
                json!(pattern)
            );
            shape.push(count);
            source
        }
    };
    format!(
        "{name} = {{ shape = {}, from = [{source}] }}",
        json!(shape).to_string().replace("\",\"", "\", \"")
    )
}

/// Returns a dimension as a hyperparameter, or as a product of two, with this value, or else as a
/// number.
fn solved(size: u64, symbols: &[(String, u64)]) -> String {
    if size <= 1 {
        return size.to_string();
    }
    let symbols = || symbols.iter().filter(|(_, value)| *value > 1).take(MAX_SYMBOLS);
    if let Some((name, _)) = symbols().find(|(_, value)| *value == size) {
        return name.clone();
    }
    // Only products with a number of heads are plausible.
    for (count, left) in symbols().filter(|(name, _)| name.contains("head")) {
        let other = size.checked_div(*left).filter(|_| size.checked_rem(*left) == Some(0));
        let right = symbols().find(|(name, value)| Some(*value) == other && name != count);
        if let Some((length, _)) = right {
            return format!("{count} * {length}");
        }
    }
    size.to_string()
}

/// Returns the edit distance between a class and the most similar class of an architecture; `None` if
/// it has no classes.
fn spelling(architecture: &Architecture, class: &str) -> Option<usize> {
    let class = class.as_bytes();
    let class = class.get(..MAX_CLASS).unwrap_or(class);
    architecture.checkpoint_classes().map(|known| distance(known.as_bytes(), class)).min()
}

/// Compares the names of a checkpoint with the names that the architecture's checkpoints have.
fn misfit<'a>(
    architecture: &'a Architecture,
    config: &Json,
    tensors: &[(&str, Shape)],
    left: &mut usize,
) -> Result<Misfit<'a>, Error> {
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
    Ok(compare(resolved, tensors))
}

fn compare<'a>(resolved: Resolved<'a>, tensors: &[(&str, Shape)]) -> Misfit<'a> {
    let rules = resolved.name_rules();
    let renamed: BTreeMap<String, &str> = tensors
        .iter()
        .filter(|(name, _)| !rules.ignores(&rules.renamed(name)) && !rules.ignores(name))
        .map(|(name, _)| (rules.renamed(name), *name))
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
            missing.extend(first.names.iter().map(|name| pattern(name).0));
        }
    }
    let known = renamed.len().saturating_sub(unused.len());
    let unknown = unused.values().map(|name| pattern(name).0).collect();
    Misfit { unknown, missing, known, resolved }
}

/// Replaces the checkpoint kinds of a description by one for this class and this model type, which keeps
/// the other fields of the first kind.
fn for_class(text: &str, class: Option<&str>, model_type: Option<&str>) -> String {
    let mut own = format!("[[checkpoint]]\nclasses = {}\n", quoted_list(class));
    if model_type.is_some() {
        let _ = writeln!(own, "model_types = {}", quoted_list(model_type));
    }
    let (mut out, mut kinds, mut is_within) = (String::new(), 0usize, false);
    // The number of open brackets in a multi-line value, and whether the value is omitted.
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
            // Separates the section after the kinds with an empty line.
            if statement.starts_with('[') && !is_within && kinds > 0 && !out.ends_with("\n\n") {
                out.push('\n');
            }
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Returns a list of at most one string with escapes that are valid in JSON and TOML, without control
/// characters.
fn quoted_list(text: Option<&str>) -> String {
    let mut out = String::new();
    for c in Json::from_iter(text).to_string().chars() {
        if c.is_control() {
            // All of them are below U+0100.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns the number of open brackets after a line, ignoring strings and comments.
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

    /// The draft for another class can be parsed, and has only this class.
    #[test]
    fn every_description_can_be_a_draft() {
        let step = if ggmill_testdata::is_long() { 1 } else { 5 };
        let mut count = 0;
        let all = Architecture::builtins()
            .filter(|architecture| architecture.checkpoint_classes().next().is_some());
        for architecture in all.step_by(step) {
            count += 1;
            let text = Architecture::builtin_text(architecture.name()).unwrap();
            let class = "New \"Class\"\u{1b}\u{7f}\u{9b}";
            for (class, model_type) in
                [(Some(class), None), (None, Some("new_type")), (Some(class), Some("new_type"))]
            {
                let new = for_class(text, class, model_type);
                assert!(!new.contains(|c: char| c.is_control() && c != '\n'), "{new:?}");
                // The graph is that of the built-in description.
                let new = Architecture::read(&new, None, &BuiltinParts)
                    .unwrap_or_else(|error| panic!("{}: {error}\n{new}", architecture.name()));
                let classes: Vec<_> = new.checkpoint_classes().collect();
                assert_eq!(classes, Vec::from_iter(class));
                let model_types = new.checkpoints.iter().flat_map(|kind| &kind.model_types);
                assert_eq!(
                    model_types.map(|name| &**name).collect::<Vec<_>>(),
                    Vec::from_iter(model_type)
                );
            }
        }
        assert!(count > 100 / step, "{count}");
    }

    /// A configuration can ask for any number of tensors.
    #[test]
    fn comparison_with_a_hostile_configuration_is_bounded() {
        // The limit is 2^18; a tenth of the time is enough to see that it is one.
        let left = if ggmill_testdata::is_long() { MAX_TENSORS } else { 1 << 14 };
        let config = json!({
            "architectures": ["x".repeat(1000)], "vocab_size": 512,
            "num_hidden_layers": 5000, "hidden_size": 64, "intermediate_size": 172,
            "num_attention_heads": 8, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
        });
        let shape = Shape::new(&[64]).unwrap();
        let start = started(&config, &[("\u{1b}[31m.weight", shape)], left).unwrap();
        assert!(!start.text.contains('\u{1b}'));
    }

    #[test]
    fn unknown_and_missing_tensors_are_listed() {
        let config = json!({
            "architectures": ["NewForCausalLM"], "vocab_size": 512, "num_hidden_layers": 2,
            "hidden_size": 64, "intermediate_size": 172, "num_attention_heads": 8,
            "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "model_type": "new",
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
        for expert in 0..4 {
            names.push(format!("model.layers.0.extra.{expert}.up.weight"));
        }
        let shape = Shape::new(&[64, 172]).unwrap();
        let tensors: Vec<_> = names.iter().map(|name| (name, shape)).collect();
        let start = Catalogue::new().starting_description(&config, &tensors).unwrap();
        let (comments, _) = start.text.split_once("\n\n").unwrap();
        let expected = r#"
# Tensors of the checkpoint that are not described:
#   [[tensors]]
#   for = "bid in 0..block_count"
#   [tensors.tensor]
#   "blk.{bid}.extra_up.weight" = { shape = ["embedding_length", "feed_forward_length", "4"], from = [{ name = "model.layers.{bid}.extra.{expert}.up.weight", for = "expert in 0..4", operations = ["stack"] }] }
#   "blk.{bid}.gate\n.weight" = { shape = ["embedding_length", "feed_forward_length"], from = ["model.layers.{bid}.gate\n.weight"] }
# Required tensors that are missing from the checkpoint:
#   "#;
        assert!(comments.contains(expected), "{}: {comments}", start.nearest);
        let kind = "\n[[checkpoint]]\nclasses = [\"NewForCausalLM\"]\nmodel_types = [\"new\"]\n";
        assert!(start.text.contains(kind), "{}", start.text);
        assert_eq!(comments.matches("down_proj.weight").count(), 1, "{comments}");
    }
}
