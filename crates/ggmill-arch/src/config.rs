//! A checkpoint's `config.json` as a source of hyper-parameters.

use serde_json::Value as Json;

use crate::error::{Error, Result};
use crate::parameter::{Parameter, ParameterSource};
use crate::value::ParameterValue;

/// Where the configuration of a model with several parts keeps the language model. What is there
/// takes precedence over what is outside.
const SECTIONS: [&str; 5] =
    ["text_config", "llm_config", "lm_config", "language_config", "thinker_config.text_config"];

/// The longest list and the longest string a hyper-parameter can be.
const MAX_LEN: usize = 1 << 16;

/// A `config.json`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config<'a> {
    root: &'a Json,
    section: Option<&'a Json>,
}

impl<'a> Config<'a> {
    pub(crate) fn new(root: &'a Json) -> Self {
        Self {
            root,
            section: SECTIONS
                .iter()
                .find_map(|path| at(root, path).filter(|section| section.is_object())),
        }
    }

    /// The value at a path of names between dots; `null` is nothing.
    fn find(&self, path: &str) -> Option<&'a Json> {
        self.section.and_then(|section| at(section, path)).or_else(|| at(self.root, path))
    }

    /// Fails where a path leads through something that is not an object: what it says there would
    /// be passed over.
    fn refuse_values_on_the_way(&self, path: &str) -> Result<()> {
        for (end, _) in path.match_indices('.') {
            let through = path.get(..end).unwrap_or_default();
            if let Some(found) = self.find(through).filter(|found| !found.is_object()) {
                return Err(Error::configuration(format!(
                    "{through} is {}, expected an object",
                    json_type(found)
                )));
            }
        }
        Ok(())
    }

    /// The class of the model: the first of `architectures`.
    pub(crate) fn class(&self) -> Option<&'a str> {
        self.find("architectures")?.get(0)?.as_str()
    }

    pub(crate) fn model_type(&self) -> Option<&'a str> {
        self.find("model_type")?.as_str()
    }
}

/// The value at a path of names between dots in a `config.json`, looked up as hyper-parameters are:
/// the part of the language model goes before the whole, and `null` is nothing.
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
    path.split('.').try_fold(json, |json, name| json.get(name)).filter(|json| !json.is_null())
}

impl ParameterSource for Config<'_> {
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(ParameterValue, String)>> {
        parameter.from.iter().try_for_each(|path| self.refuse_values_on_the_way(path))?;
        let Some((path, json)) =
            parameter.from.iter().find_map(|path| Some((path, self.find(path)?)))
        else {
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
            "nothing: it has no place in config.json".into()
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
    Some(ParameterValue::List(elements.iter().map(scalar).collect::<Option<Vec<_>>>()?.into()))
}

pub(crate) fn json_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a bool",
        Json::Number(_) => "a number",
        Json::String(text) if text.len() > MAX_LEN => "a string that is too long",
        Json::String(_) => "a string",
        Json::Array(elements) if elements.len() > MAX_LEN => "a list that is too long",
        Json::Array(_) if list(json).is_none() => "a list that holds lists, objects or null",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}
