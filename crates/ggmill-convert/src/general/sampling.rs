//! `general.sampling.*`: the sampling parameters that the publisher of a model recommends.

use std::collections::BTreeMap;

use ggmill_core::{Metadata, MetadataBuf, RawStr};
use ggmill_pipeline::SideFiles;
use serde_json::{Map, Value};

use crate::vocabulary::json;

const FILE: &str = "generation_config.json";

/// The type of a parameter in the file.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Int,
    Float,
}

/// The parameters in the order of the file: key, type, names in `generation_config.json`.
const PARAMETERS: [(&str, Kind, &[&str]); 12] = [
    ("general.sampling.sequence", Kind::Text, &["sequence"]),
    ("general.sampling.top_k", Kind::Int, &["top_k"]),
    ("general.sampling.top_p", Kind::Float, &["top_p"]),
    ("general.sampling.min_p", Kind::Float, &["min_p"]),
    ("general.sampling.xtc_probability", Kind::Float, &["xtc_probability"]),
    ("general.sampling.xtc_threshold", Kind::Float, &["xtc_threshold"]),
    ("general.sampling.temp", Kind::Float, &["temperature"]),
    ("general.sampling.penalty_last_n", Kind::Int, &["penalty_last_n"]),
    ("general.sampling.penalty_repeat", Kind::Float, &["penalty_repeat", "repetition_penalty"]),
    ("general.sampling.mirostat", Kind::Int, &["mirostat"]),
    ("general.sampling.mirostat_tau", Kind::Float, &["mirostat_tau"]),
    ("general.sampling.mirostat_eta", Kind::Float, &["mirostat_eta"]),
];

/// Returns the members of `generation_config.json` for the sampling keys of a file.
pub(crate) fn restored(metadata: Metadata<'_>) -> Map<String, Value> {
    let member = |(key, kind, names): &(&str, Kind, &[&str])| {
        let value = metadata.get(*key)?.value().ok()?;
        let value = match kind {
            Kind::Text => value.as_str()?.into(),
            Kind::Int => value.as_i64()?.into(),
            Kind::Float => {
                // The shortest decimal number that rounds to this f32.
                #[expect(clippy::cast_possible_truncation, reason = "it is single precision")]
                let number = value.as_f64()? as f32;
                number.to_string().parse::<f64>().ok()?.into()
            }
        };
        Some((names.last()?.to_string(), value))
    };
    PARAMETERS.iter().filter_map(member).collect()
}

#[derive(Clone, Debug, PartialEq)]
enum Parameter {
    Text(String),
    Int(i32),
    Float(f32),
}

/// Sampling parameters by their index in [`PARAMETERS`]; `None` if a source has null.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sampling(BTreeMap<usize, Option<Parameter>>);

impl Sampling {
    /// Reads `generation_config.json`. A file that cannot be read counts as absent, as in the
    /// reference, and so does a value of another type.
    pub(super) fn read(files: &dyn SideFiles, notes: &mut Vec<String>) -> Self {
        let mut sampling = Self::default();
        let config = match json(files, FILE) {
            Ok(None) => return sampling,
            Ok(Some(Value::Object(config))) => config,
            Ok(Some(_)) => {
                notes.push(format!("{FILE} was ignored: expected an object"));
                return sampling;
            }
            Err(error) => {
                notes.push(format!("{error}; the file was ignored"));
                return sampling;
            }
        };
        for (place, (_, kind, names)) in PARAMETERS.iter().enumerate() {
            let Some((name, value)) =
                names.iter().find_map(|&name| Some((name, config.get(name)?)))
            else {
                continue;
            };
            match parameter(*kind, value) {
                Ok(found) => {
                    sampling.0.insert(place, found);
                }
                Err(expected) => notes.push(format!(
                    "{FILE}: {name} was ignored: found {}, expected {expected}",
                    RawStr::from(&*value.to_string())
                )),
            }
        }
        sampling
    }

    /// Takes an entry if its key is a sampling key, otherwise returns `None`. The inner error says
    /// what was expected if the value has another type.
    pub(super) fn take(&mut self, key: &str, value: &Value) -> Option<Result<(), &'static str>> {
        let index = PARAMETERS.iter().position(|(known, ..)| *known == key)?;
        let (_, kind, _) = PARAMETERS.get(index)?;
        Some(parameter(*kind, value).map(|found| {
            self.0.insert(index, found);
        }))
    }

    /// Overrides parameters by those of `other`.
    pub(super) fn replace_with(&mut self, other: &Self) {
        self.0.extend(other.0.clone());
    }

    pub(super) fn write_to(&self, metadata: &mut MetadataBuf) {
        for (place, (key, ..)) in PARAMETERS.iter().enumerate() {
            match self.0.get(&place).and_then(Option::as_ref) {
                Some(Parameter::Text(text)) if !text.is_empty() => {
                    metadata.set(key, text.as_str());
                }
                Some(Parameter::Int(number)) => metadata.set(key, *number),
                Some(Parameter::Float(number)) => metadata.set(key, *number),
                Some(Parameter::Text(_)) | None => {}
            }
        }
    }
}

/// Converts a value to a parameter; the error says what was expected. As in Python, a bool counts
/// as a number.
fn parameter(kind: Kind, value: &Value) -> Result<Option<Parameter>, &'static str> {
    let value = match value {
        Value::Null => return Ok(None),
        Value::Bool(flag) => &Value::from(u8::from(*flag)),
        other => other,
    };
    let found = match kind {
        Kind::Text => value.as_str().map(|text| Parameter::Text(text.to_owned())),
        Kind::Int => value.as_i64().and_then(|number| number.try_into().ok()).map(Parameter::Int),
        Kind::Float => value.as_f64().and_then(single).map(Parameter::Float),
    };
    let expected = match kind {
        Kind::Text => "text",
        Kind::Int => "a 32-bit integer",
        Kind::Float => "a number",
    };
    found.map(Some).ok_or(expected)
}

/// Rounds to f32; `None` if that is infinite.
fn single(number: f64) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "the file has single precision")]
    let single = number as f32;
    single.is_finite().then_some(single)
}
