//! The `config.json` of a checkpoint as a source of hyperparameters.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::error::{Error, Result};
use crate::parameters::transformers::{Release, class_defaults};
use crate::parameters::{Parameter, ParameterSource};
use crate::value::ParameterValue;

/// The sections of the language model in configurations of multimodal models. They take precedence over
/// the top level.
const SECTIONS: [&str; 6] = [
    "text_config",
    "llm_config",
    "lm_config",
    "language_config",
    "thinker_config.text_config",
    "transformer_layer_config",
];

/// The setting for which, since release 5 of the library, the whole counts and not its part: whether
/// the output shares the weights of the embedding.
const WHOLE_SINCE_V5: &str = "tie_word_embeddings";

/// The maximum length of a list or string value.
const MAX_LEN: usize = 1 << 16;

/// JSON files of a checkpoint, by file name.
pub(crate) type Documents = BTreeMap<String, Json>;

/// A `config.json` with the defaults of its configuration class.
///
/// The section of the language model takes precedence over the top level, and in each, written values
/// take precedence over the class defaults. Whole top-level members are overridden, not nested ones.
#[derive(Clone, Copy)]
pub(crate) struct Config<'a> {
    root: &'a Json,
    section: Option<&'a Json>,
    /// The layers in order of precedence.
    layers: [Option<&'a Json>; 4],
    documents: Option<&'a Documents>,
    release: Release,
}

impl<'a> Config<'a> {
    /// Returns the configuration for a projector or for a language model.
    pub(crate) fn of(root: &'a Json, is_projector: bool) -> Self {
        if is_projector { Self::of_projector(root) } else { Self::new(root) }
    }

    /// Returns the configuration for a projector: without a section that takes precedence. The vision
    /// tower may name its own class.
    fn of_projector(root: &'a Json) -> Self {
        let tower = root.get("vision_config").filter(|tower| first_class(tower).is_some());
        let release = Release::of(root);
        let of_root = model_type(root).and_then(|name| release.class_defaults(name));
        let layers = [None, None, Some(root), of_root];
        Self { root, section: tower, layers, documents: None, release }
    }

    pub(crate) fn new(root: &'a Json) -> Self {
        let section =
            SECTIONS.iter().find_map(|path| at(root, path).filter(|section| section.is_object()));
        let release = Release::of(root);
        let defaults = |part: &Json| release.class_defaults(model_type(part)?);
        let of_root = defaults(root);
        // A section without a model type has the one in the class defaults of the whole model.
        let of_section = section.and_then(|section| {
            let named = || SECTIONS.iter().find_map(|path| of_root.and_then(|all| at(all, path)));
            defaults(section).or_else(|| defaults(named()?))
        });
        let layers = [section, of_section, Some(root), of_root];
        Self { root, section, layers, documents: None, release }
    }

    /// Returns the configuration with or without class defaults.
    pub(crate) fn with_class_defaults(self, count: bool) -> Self {
        let [section, of_section, root, of_root] = self.layers;
        let of_class = |layer: Option<&'a Json>| layer.filter(|_| count);
        Self { layers: [section, of_class(of_section), root, of_class(of_root)], ..self }
    }

    /// Returns the configuration with other JSON files of the checkpoint.
    pub(crate) fn beside(self, documents: Option<&'a Documents>) -> Self {
        Self { documents, ..self }
    }

    /// Returns the value at a path of names separated by dots; `None` if it is `null`. `FILE#PATH` is a
    /// path in another file.
    fn find(&self, path: &str) -> Option<&'a Json> {
        if let Some((file, path)) = path.split_once('#') {
            return at(self.documents?.get(file)?, path);
        }
        let (name, rest) = path.split_once('.').map_or((path, ""), |(name, rest)| (name, rest));
        let [mut section, mut of_section, root, of_root] = self.layers;
        if self.release == Release::V5 && path == WHOLE_SINCE_V5 && self.names_whole() {
            (section, of_section) = (None, None);
        }
        for (given, of_class) in [(section, of_section), (root, of_root)] {
            if let Some(given) = given {
                if given.get(name).is_some() {
                    return at(given, path);
                }
                let of_type = |of_type| {
                    self.release.aliases(of_type, name).find(|alias| given.get(alias).is_some())
                };
                let is_renamed = self.release == Release::V5;
                let named = model_type(given).filter(|_| is_renamed);
                if let Some(alias) = named.and_then(of_type) {
                    let path =
                        if rest.is_empty() { alias.to_owned() } else { format!("{alias}.{rest}") };
                    return at(given, &path);
                }
            }
            let counts = |_: &&Json| !given.is_some_and(|given| replaces(given, name, rest));
            if let Some(defaults) =
                of_class.filter(counts).filter(|defaults| defaults.get(name).is_some())
            {
                return at(defaults, path);
            }
        }
        None
    }

    /// Returns `true` if the whole model decides on its class, which its part does not name.
    fn names_whole(&self) -> bool {
        self.section.is_some_and(|section| first_class(section).is_none())
            && self.layers[2].is_some_and(|root| root.get(WHOLE_SINCE_V5).is_some())
    }

    /// Returns the value of a setting, including an explicit `null`; `None` if neither the
    /// configuration nor its class has it.
    pub(crate) fn setting(&self, path: &str) -> Option<&'a Json> {
        self.find(path).or_else(|| {
            let mut layers = self.layers.into_iter().flatten();
            layers.find_map(|layer| path.split('.').try_fold(layer, |json, name| json.get(name)))
        })
    }

    /// Returns the class default of a nested section at a path, unless the section sets it.
    fn find_in_class(&self, path: &str) -> Option<&'a Json> {
        let (parents, last) = path.rsplit_once('.').filter(|_| !path.contains(['#', '*', '(']))?;
        let (mut given, mut class) = (Some(self.root), self.layers[3]?);
        let mut outer = model_type(self.root);
        for name in parents.split('.') {
            let by_default = class.get(name);
            given = given.and_then(|given| given.get(name));
            let own = given.and_then(model_type).or(by_default.and_then(model_type));
            class = outer
                .and_then(|outer| self.release.part_defaults(outer, name))
                .or(own.and_then(|own| self.release.class_defaults(own)))
                .or(by_default)?;
            outer = own;
        }
        if given.is_some_and(|given| given.get(last).is_some()) {
            return None;
        }
        class.get(last).filter(|value| !value.is_null())
    }

    /// Evaluates `len(PATH)`, the number of elements or members, and `names(PATH)`, the member names of
    /// an object, numeric names as integers.
    fn measure(&self, path: &str) -> Option<ParameterValue> {
        let (file, path) =
            path.split_once('#').map_or((None, path), |(file, path)| (Some(file), path));
        let (word, place) = path.strip_suffix(')')?.split_once('(')?;
        let found = match file {
            Some(file) => at(self.documents?.get(file)?, place)?,
            None => self.find(place)?,
        };
        match (word, found) {
            ("len", Json::Array(elements)) => i64::try_from(elements.len()).ok(),
            ("len", Json::Object(members)) => i64::try_from(members.len()).ok(),
            ("names", Json::Object(members)) => {
                let name = |name: &String| match name.parse() {
                    Ok(number) => ParameterValue::Int(number),
                    Err(_) => ParameterValue::Str(name.as_str().into()),
                };
                return Some(ParameterValue::List(
                    members.keys().take(MAX_LEN).map(name).collect(),
                ));
            }
            _ => None,
        }
        .map(ParameterValue::Int)
    }

    /// Returns the list of values at a path with one `*`: for the elements of a list, or for the
    /// members of an object with numeric names, in order. Missing values are `None`.
    fn find_each(&self, path: &str) -> Option<ParameterValue> {
        let (before, after) = path.split_once('*')?;
        let container = match before.strip_suffix('.') {
            Some(place) => self.find(place)?,
            None => self.documents?.get(before.strip_suffix('#')?)?,
        };
        let elements: Vec<&Json> = match container {
            Json::Array(elements) => elements.iter().collect(),
            Json::Object(members) => {
                let number =
                    |(name, value): (&'a String, _)| Some((name.parse::<u64>().ok()?, value));
                let mut members: Vec<(u64, &Json)> =
                    members.iter().map(number).collect::<Option<_>>()?;
                members.sort_by_key(|(number, _)| *number);
                members.into_iter().map(|(_, value)| value).collect()
            }
            _ => return None,
        };
        let value = |element: &Json| {
            let found = match after.strip_prefix('.') {
                Some(rest) => at(element, rest),
                None => Some(element).filter(|element| !element.is_null()),
            };
            found.map_or(Some(ParameterValue::None), |found| scalar(found).or_else(|| list(found)))
        };
        let elements = elements.into_iter().take(MAX_LEN).map(value).collect::<Option<Vec<_>>>()?;
        Some(ParameterValue::List(elements.into()))
    }

    /// Fails if a path goes through a value that is not an object: it would be ignored.
    fn refuse_values_on_the_way(&self, path: &str) -> Result<()> {
        let own = if path.contains(['#', '*', '(']) { "" } else { path };
        for (end, _) in own.match_indices('.') {
            let through = path.get(..end).unwrap_or_default();
            if let Some(found) =
                self.find(through).filter(|found| !found.is_object() && !found.is_array())
            {
                return Err(Error::configuration(format!(
                    "{through} is {}, expected an object",
                    json_type(found)
                )));
            }
        }
        Ok(())
    }

    /// Returns the class of the model: the first of `architectures`, preferably of the section.
    pub(crate) fn class(&self) -> Option<&'a str> {
        self.section.and_then(first_class).or_else(|| self.whole_class())
    }

    /// Returns the class at the top level.
    pub(crate) fn whole_class(&self) -> Option<&'a str> {
        first_class(self.root)
    }

    pub(crate) fn model_type(&self) -> Option<&'a str> {
        self.find("model_type")?.as_str()
    }

    /// Returns the whole configuration and the section of the language model, each with the path of its
    /// members.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (String, &'a Json)> {
        let root = self.root;
        let of_section = SECTIONS.iter().find_map(|path| {
            at(root, path)
                .filter(|section| section.is_object())
                .map(|part| (format!("{path}."), part))
        });
        core::iter::once((String::new(), root)).chain(of_section.filter(|_| self.section.is_some()))
    }

    /// Returns the other names that the classes of the configuration accept for a member.
    pub(crate) fn aliases(&self, name: &str) -> Vec<&'static str> {
        let types = [self.section, Some(self.root)].into_iter().flatten().filter_map(model_type);
        types.flat_map(|of_type| self.release.aliases(of_type, name)).collect()
    }

    /// Returns `true` if there is a value at a path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.find(path).is_some()
    }
}

/// Returns the section of the language model in configurations of a model type, and the default model
/// type of the section; `None` if the class has no such section.
pub(crate) fn text_part(model_type: &str) -> Option<(&'static str, &'static str)> {
    let defaults = class_defaults(model_type)?;
    SECTIONS.iter().find_map(|name| Some((*name, self::model_type(defaults.get(name)?)?)))
}

/// Returns `true` if a configuration has the older spelling of a member of `rope_parameters`, which
/// the library moves there, so that the default of the class does not count.
fn replaces(given: &Json, name: &str, rest: &str) -> bool {
    let has = |name: &str| given.get(name).is_some_and(|value| !value.is_null());
    name == "rope_parameters" && (has("rope_scaling") || has(rest.rsplit('.').next().unwrap_or("")))
}

fn model_type(part: &Json) -> Option<&str> {
    part.get("model_type")?.as_str()
}

fn first_class(part: &Json) -> Option<&str> {
    part.get("architectures")?.get(0)?.as_str()
}

/// Returns the value at a path of names separated by dots in a `config.json`, looked up like a
/// hyperparameter: the section of the language model takes precedence, and `null` counts as missing.
///
/// ```
/// let config = serde_json::json!({ "vocab_size": 1, "text_config": { "vocab_size": 512 } });
/// let size = ggmill_arch::configured(&config, "vocab_size").and_then(|size| size.as_u64());
/// assert_eq!(size, Some(512));
/// ```
pub fn configured<'a>(config: &'a Json, path: &str) -> Option<&'a Json> {
    Config::new(config).find(path)
}

fn at<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    let step = |json: &'a Json, name: &str| match json {
        Json::Array(elements) => elements.get(name.parse::<usize>().ok()?),
        _ => json.get(name),
    };
    path.split('.').try_fold(json, step).filter(|json| !json.is_null())
}

impl ParameterSource for Config<'_> {
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(ParameterValue, String)>> {
        parameter.from.iter().try_for_each(|path| self.refuse_values_on_the_way(path))?;
        let measured = parameter.from.iter().find_map(|path| Some((path, self.measure(path)?)));
        if let Some((path, value)) = measured {
            return Ok(Some((value, path.to_string())));
        }
        let each = parameter.from.iter().find_map(|path| Some((path, self.find_each(path)?)));
        if let Some((path, value)) = each {
            return Ok(Some((value, path.to_string())));
        }
        // Written values take precedence over class defaults.
        let found = parameter.from.iter().find_map(|path| Some((path, self.find(path)?)));
        let in_class =
            || parameter.from.iter().find_map(|path| Some((path, self.find_in_class(path)?)));
        let Some((path, json)) = found.or_else(in_class) else {
            return Ok(None);
        };
        match scalar(json).or_else(|| list(json)) {
            Some(value) => Ok(Some((value, path.to_string()))),
            None => Err(Error::configuration(format!(
                "{path} is {}, expected a value or a list of values",
                json_type(json)
            ))),
        }
    }

    fn places(&self, parameter: &Parameter) -> Option<String> {
        let nowhere = parameter.from.is_empty();
        Some(if nowhere {
            "nothing, as no path in config.json is declared for it".into()
        } else {
            format!("{} in config.json", parameter.from.join(", "))
        })
    }
}

fn scalar(json: &Json) -> Option<ParameterValue> {
    Some(match json {
        Json::Bool(value) => ParameterValue::Bool(*value),
        Json::Number(number) => number
            .as_i64()
            .map(ParameterValue::Int)
            .or_else(|| number.as_f64().map(ParameterValue::Float))?,
        Json::String(text) if text.len() <= MAX_LEN => ParameterValue::Str(text.as_str().into()),
        _ => return None,
    })
}

fn list(json: &Json) -> Option<ParameterValue> {
    let elements = json.as_array().filter(|elements| elements.len() <= MAX_LEN)?;
    let element = |element: &Json| match element {
        Json::Null => Some(ParameterValue::None),
        // Lists of lists, such as the layers of several stages.
        Json::Array(_) => list(element),
        _ => scalar(element),
    };
    Some(ParameterValue::List(elements.iter().map(element).collect::<Option<Vec<_>>>()?.into()))
}

pub(crate) fn json_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a bool",
        Json::Number(_) => "a number",
        Json::String(text) if text.len() > MAX_LEN => "a string that is too long",
        Json::String(_) => "a string",
        Json::Array(elements) if elements.len() > MAX_LEN => "a list that is too long",
        Json::Array(_) if list(json).is_none() => "a list that contains objects",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}
