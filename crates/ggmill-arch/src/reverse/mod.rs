//! Reconstructs the `config.json` that a file may have been converted from.
//!
//! A description derives metadata keys and tensor shapes from a configuration. Here its expressions are
//! solved for the configuration, given the values in the file. Not all expressions can be solved, so
//! the result is a proposal: the caller applies the description to it, and compares the result with the
//! file.

mod places;
mod solver;

use std::collections::BTreeMap;

use ggmill_core::{Metadata, RawStr, Shape};
use serde_json::{Value as Json, json};

use crate::description::architecture::{Architecture, CheckpointKind};
use crate::language::expression::Expression;
use crate::language::facts::CheckpointFacts;
use crate::parameters::config::text_part;
use crate::parameters::entries::MetadataSource;
use crate::parameters::transformers::{class_defaults, every_class_has, model_types};
use crate::value::ParameterValue as Value;
use solver::{Read, Solver, ValueReader};

/// A configuration that a file may have been converted from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReversedConfig {
    /// The class of the checkpoint; empty for a kind without classes.
    pub class: String,
    /// The content of `config.json`: `architectures`, `model_type` if it is known, and all
    /// reconstructed hyperparameters. Class defaults are omitted only if the file does not contain
    /// them.
    pub config: Json,
    /// The model type of the language model: of its section, if the configuration has one.
    pub model_type: Option<String>,
    /// The name of the section of the language model.
    pub part: Option<&'static str>,
    /// The content of other JSON files of the checkpoint, by name.
    pub documents: BTreeMap<String, Json>,
    /// Checkpoint tensors with one element that the file has as metadata values, by name in the
    /// description: shape and element.
    pub tensors: BTreeMap<String, (Shape, f64)>,
    /// The number of hyperparameters at paths that the configuration class in `transformers` does not
    /// have, which indicates a wrong class. All of them if the library has no such class.
    pub foreign: usize,
}

impl ReversedConfig {
    /// Sets to `null` the members that determine a key of the description, if they are only class
    /// defaults. Returns `true` if the configuration changed.
    pub fn leave_out(&mut self, architecture: &Architecture, key: &str) -> bool {
        let model_type = self.model_type.as_deref();
        let language = match self.part {
            Some(name) => self.config.get_mut(name),
            None => Some(&mut self.config),
        };
        let Some(language) = language else { return false };
        let values = architecture.keys.iter().filter(|template| *template.name == *key);
        let names =
            values.filter_map(|template| template.value.as_ref()).flat_map(|value| value.names());
        let mut changed = false;
        for name in names {
            let parameter = architecture.parameters.iter().find(|known| *known.name == *name);
            let places = parameter.iter().flat_map(|parameter| &parameter.from);
            for place in places.filter(|place| !place.contains(['.', '*', '(', '#'])) {
                if places::is_of_class(place, model_type)
                    && let Some(members) = language.as_object_mut()
                    && !members.contains_key(&**place)
                {
                    members.insert(place.to_string(), Json::Null);
                    changed = true;
                }
            }
        }
        changed
    }
}

/// The maximum number of tensors that are examined.
const MAX_TENSORS: usize = 1 << 16;

impl Architecture {
    /// Returns the configurations that a file may have been converted from: one per checkpoint class,
    /// or for `class` only, in the order of the description.
    ///
    /// `tensors` are the names and shapes in the file. `read` returns the elements of small tensors by
    /// name, for tensors that the conversion computes. `facts` are the checkpoint tensors as far as
    /// they are known, for descriptions that query them.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// use ggmill_core::{Builder, Header, MetadataBuf};
    /// let mut metadata = MetadataBuf::new();
    /// for (key, value) in [("block_count", 2u32), ("embedding_length", 32), ("attention.head_count", 4)] {
    ///     metadata.set(&format!("llama.{key}"), value);
    /// }
    /// let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
    /// let file = Header::parse(&file)?;
    /// let llama = Architecture::builtin("llama").ok_or("built in")?;
    /// let found = llama.reversed(file.metadata(), &[], Some("LlamaForCausalLM"), &|_| None, None);
    /// assert_eq!(found[0].config["hidden_size"], 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reversed(
        &self,
        metadata: Metadata<'_>,
        tensors: &[(RawStr<'_>, Shape)],
        class: Option<&str>,
        read: &dyn Fn(&str) -> Option<Vec<f32>>,
        facts: Option<&dyn CheckpointFacts>,
    ) -> Vec<ReversedConfig> {
        let entries = MetadataSource::File(metadata);
        let tensors = tensors.get(..MAX_TENSORS).unwrap_or(tensors);
        let tensors: Vec<(&str, Shape)> = tensors
            .iter()
            .filter_map(|(name, shape)| Some((name.to_str().ok()?, *shape)))
            .collect();
        let values = ValueReader::of(&entries);
        let mut found = Vec::new();
        for kind in &self.checkpoints {
            let classes = kind.classes.iter().map(|class| &**class);
            let classes: Vec<&str> =
                if kind.classes.is_empty() { vec![""] } else { classes.collect() };
            for name in classes.into_iter().filter(|name| class.is_none_or(|class| class == *name))
            {
                for types in self.model_types_of(kind, name) {
                    found.push(self.reversed_as(
                        kind,
                        name,
                        types,
                        (&values, &tensors, read),
                        facts,
                    ));
                }
            }
        }
        found
    }

    fn reversed_as(
        &self,
        kind: &CheckpointKind,
        class: &str,
        types: ModelTypes<'_>,
        (values, tensors, read): (&ValueReader<'_>, &[(&str, Shape)], &Read<'_>),
        facts: Option<&dyn CheckpointFacts>,
    ) -> ReversedConfig {
        let mut config = json!({});
        if let Some(members) = config.as_object_mut() {
            if !class.is_empty() {
                members.insert("architectures".to_owned(), json!([class]));
            }
            if let Some(model_type) = types.whole {
                members.insert("model_type".to_owned(), model_type.into());
            }
            if let Some((name, model_type)) = types.part {
                members.insert(name.to_owned(), json!({ "model_type": model_type }));
            }
        }
        let model_type = types.language();
        let named = config.clone();
        let mut solver = Solver::new(self, kind, class, model_type, &named, facts);
        solver.solve(values, tensors, read);
        let is_guess = !kind.is_of(class, types.whole);
        let mut documents = BTreeMap::new();
        let mut foreign = 0usize;
        // Hyperparameters with a single path are written first.
        let mut found: Vec<_> = solver.found().collect();
        found.sort_by_key(|(parameter, _)| places::places_of(parameter, model_type).len() > 1);
        for (parameter, value) in found {
            // A default may mean "none", such as a sliding window of 0. The class then expects null.
            let is_default =
                parameter.default.as_ref().and_then(Expression::literal) == Some(&value);
            // A path that already has a different value is skipped.
            for place in places::places_of(parameter, model_type) {
                // A path with higher precedence must not have a different value.
                let before = parameter.from.iter().map(|before| &**before);
                let mut before = before.take_while(|before| *before != place);
                if before.any(|before| says_otherwise(types, &config, before, &value)) {
                    continue;
                }
                let is_of_class = place.contains('#')
                    || !is_guess
                        && (places::is_of_class(place, model_type)
                            || places::is_of_class(place, types.whole));
                let is_none = is_default && places::is_none_of_class(place, model_type);
                let written = if is_none { Json::Null } else { places::json(&value) };
                if self::write(types, &mut config, &mut documents, place, written) {
                    foreign = foreign.saturating_add(usize::from(!is_of_class));
                    break;
                }
            }
        }
        let (class, part) = (class.to_owned(), types.part.map(|(name, _)| name));
        let model_type = model_type.map(str::to_owned);
        let tensors = solver.into_tensors();
        ReversedConfig { class, config, model_type, part, documents, tensors, foreign }
    }

    /// Returns the possible model types of a class: one, or one for each possible type of its language
    /// model section.
    fn model_types_of<'a>(&'a self, kind: &'a CheckpointKind, class: &str) -> Vec<ModelTypes<'a>> {
        let whole = self.model_type_of(kind, class);
        // A model type that the library does not know, with the type of its section.
        let newer = || {
            let whole = whole.filter(|whole| class_defaults(whole).is_none())?;
            Some(("text_config", text_type(kind, whole)?))
        };
        let Some((name, usual)) = whole.and_then(text_part).or_else(newer) else {
            return vec![ModelTypes { whole, part: None }];
        };
        let others = kind.model_types.iter().map(|known| &**known);
        let others = others
            .filter(|known| Some(*known) != whole && *known != usual && text_part(known).is_none());
        let types = core::iter::once(usual).chain(others);
        types.map(|of_part| ModelTypes { whole, part: Some((name, of_part)) }).collect()
    }

    /// Returns the model type of a class. A text-only class has the type of the text section, if the
    /// library has one.
    fn model_type_of<'a>(&'a self, kind: &'a CheckpointKind, class: &str) -> Option<&'a str> {
        let found = self.model_type_by_name(kind, class)?;
        let of_text = text_type(kind, found);
        Some(of_text.filter(|_| class.ends_with("ForCausalLM")).unwrap_or(found))
    }

    /// Returns the model type whose name is the longest prefix of the class name: among those of the
    /// kind, or else among all known ones.
    fn model_type_by_name<'a>(&'a self, kind: &'a CheckpointKind, class: &str) -> Option<&'a str> {
        let wanted = plain(class);
        let own = kind.model_types.iter().map(|name| &**name);
        let best = |names: Vec<&'a str>| {
            let fitting = names.into_iter().map(|name| (plain(name), name));
            let fitting = fitting.filter(|(name, _)| wanted.starts_with(name));
            fitting.max_by_key(|(name, _)| name.len()).map(|(_, name)| name)
        };
        let others = self.checkpoints.iter().flat_map(|kind| &kind.model_types);
        let others: Vec<&str> = others.map(|name| &**name).collect();
        best(own.collect())
            .or_else(|| kind.model_types.first().map(|name| &**name))
            .or_else(|| best(others.clone()))
            .or_else(|| best(model_types().collect()))
            .or_else(|| others.first().copied())
    }
}

/// Returns the model type of the text section of a model, if there is one.
fn text_type<'a>(kind: &'a CheckpointKind, whole: &str) -> Option<&'a str> {
    let of_text = format!("{whole}_text");
    let own = kind.model_types.iter().map(|known| &**known);
    model_types()
        .find(|known| *known == of_text)
        .or_else(|| own.into_iter().find(|it| *it == of_text))
}

/// The model types of a configuration.
#[derive(Clone, Copy)]
struct ModelTypes<'a> {
    whole: Option<&'a str>,
    /// The section of the language model, with its model type.
    part: Option<(&'static str, &'a str)>,
}

impl<'a> ModelTypes<'a> {
    fn language(self) -> Option<&'a str> {
        self.part.map_or(self.whole, |(_, of_part)| Some(of_part))
    }
}

/// Returns `true` if the configuration has a different value at a path.
fn says_otherwise(types: ModelTypes<'_>, config: &Json, place: &str, value: &Value) -> bool {
    let at = |json: &'_ Json| {
        let found = place.split('.').try_fold(json.clone(), |json, name| json.get(name).cloned());
        found.filter(|found| !found.is_null())
    };
    let part = types.part.and_then(|(name, _)| at(config.get(name)?));
    part.or_else(|| at(config)).is_some_and(|found| found != places::json(value))
}

/// Writes a value to a path, in the section of the language model if there is one. Members that every
/// class has are also written at the top level.
fn write(
    types: ModelTypes<'_>,
    config: &mut Json,
    documents: &mut BTreeMap<String, Json>,
    place: &str,
    value: Json,
) -> bool {
    let first = place.split_once('.').map_or(place, |(first, _)| first);
    let is_of = |model_type| places::is_of_class(place, model_type);
    let Some((part, _)) = types.part.filter(|_| !place.contains('#')) else {
        return places::write(config, documents, place, value);
    };
    if every_class_has(first) && !places::write(config, documents, place, value.clone()) {
        return false;
    }
    if !every_class_has(first) && is_of(types.whole) && !is_of(types.language()) {
        return places::write(config, documents, place, value);
    }
    places::write(config, documents, &format!("{part}.{place}"), value)
}

impl CheckpointKind {
    /// Returns `true` if a model type belongs to a class, and not only to the same architecture: the
    /// kind lists it, or the class is named after it.
    fn is_of(&self, class: &str, model_type: Option<&str>) -> bool {
        model_type.is_some_and(|model_type| {
            let of_whole = model_type.strip_suffix("_text").unwrap_or(model_type);
            self.model_types.iter().any(|known| [model_type, of_whole].contains(&&**known))
                || plain(class).starts_with(&plain(of_whole))
        })
    }
}

/// Returns the letters and digits of a name, in lower case.
fn plain(name: &str) -> Vec<u8> {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
    letters.map(|byte| byte.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use ggmill_core::{Builder, Header, MetadataBuf};

    use super::*;

    /// Reconstructs the configuration of a description that has only keys.
    fn reversed(keys: &str, parameters: &str, file: &[(&str, i64)]) -> Json {
        let text = format!(
            "schema = 'ggmill.architecture/1'\nname = 'x'\ntitle = 'X'\n[[checkpoint]]\n\
             classes = ['X']\n[parameters]\n{parameters}\n[keys]\n{keys}"
        );
        let architecture = Architecture::parse(&text).unwrap();
        let mut metadata = MetadataBuf::new();
        for (key, value) in file {
            metadata.set(format!("x.{key}"), u32::try_from(*value).unwrap());
        }
        let file = Builder::new().metadata(metadata).plan().unwrap().header().to_vec();
        let file = Header::parse(&file).unwrap();
        let mut found = architecture.reversed(file.metadata(), &[], None, &|_| None, None);
        assert_eq!(found.len(), 1);
        found.remove(0).config
    }

    #[test]
    fn expressions_are_solved() {
        let int = |name: &str| {
            format!("{name} = {{ type = 'int', from = ['{name}'], optional = true }}\n")
        };
        let parameters = [int("a"), int("b"), int("c")].concat()
            + "word = { type = 'string', from = ['word'], optional = true }\n\
               flag = { type = 'bool', from = ['flag'], default = true }\n\
               derived = { type = 'int', default = 'a * b' }";
        for (key, value, expected) in [
            ("a", 7, json!({ "a": 7 })),
            ("a * 3 + 1", 22, json!({ "a": 7 })),
            ("100 - a", 30, json!({ "a": 70 })),
            ("if(flag, 1, 2)", 2, json!({ "flag": false })),
            ("if(word == 'x', 5, 6)", 5, json!({ "word": "x" })),
            ("1 + find(['p', 'q', 'r'], word)", 3, json!({ "word": "r" })),
            ("first(a, 3)", 9, json!({ "a": 9 })),
            ("first(a, 3)", 3, json!({})),
            ("div_floor(a, 4)", 5, json!({ "a": 20 })),
        ] {
            let keys = format!("'k' = {{ type = 'u32', value = \"{key}\" }}");
            let mut config = reversed(&keys, &parameters, &[("k", value)]);
            let members = config.as_object_mut().unwrap();
            assert_eq!(members.remove("architectures"), Some(json!(["X"])));
            assert_eq!(config, expected, "{key}");
        }
        // The quotient is a fraction.
        let share = parameters.clone() + "\nshare = { type = 'float', from = ['share'] }";
        let keys = "'k' = { type = 'u32', value = 'int(share * 32)' }";
        assert_eq!(reversed(keys, &share, &[("k", 24)])["share"], json!(0.75));
        // `restored` gives the value in the configuration.
        let said = "k = { type = 'int', from = [], default = 'len(kinds)' }\n\
                    kinds = { type = '[string]', from = ['kinds'], default = '[]', restored = \
                    \"each(i, k, if(i < 1, 'x', 'y'))\" }";
        let keys = "'k' = { type = 'u32', value = 'k' }";
        assert_eq!(reversed(keys, said, &[("k", 3)])["kinds"], json!(["x", "y", "y"]));
        // If only one element is known, it is the value for all blocks.
        let either = "n = { type = 'int | [int]', from = ['n'] }";
        let keys = "'k' = { type = 'u32', value = 'n[0]' }";
        assert_eq!(reversed(keys, either, &[("k", 5)])["n"], json!(5));
        // A known factor determines the other one.
        let keys = "'p' = { type = 'u32', value = 'derived' }\n'b' = { type = 'u32', value = 'b' }";
        let config = reversed(keys, &parameters, &[("p", 12), ("b", 3)]);
        assert_eq!((&config["a"], &config["b"]), (&json!(4), &json!(3)));
    }
}
