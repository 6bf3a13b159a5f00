//! Metadata as a source of hyperparameters.

use std::collections::BTreeSet;

use ggmill_core::{Array, Metadata, MetadataBuf, Value, ValueType};

use crate::error::{Error, Result};
use crate::language::block::with_block;
use crate::language::expression::Expression;
use crate::parameters::{Parameter, ParameterKey, ParameterSource};
use crate::value::ParameterValue;

/// The maximum length of a list or string value.
const MAX_LEN: u64 = 1 << 16;

/// Metadata entries by key.
#[derive(Clone, Debug)]
pub(crate) enum MetadataSource<'a> {
    /// Metadata of an existing file.
    File(Metadata<'a>),
    /// Metadata of a file to be written.
    Buffer(&'a MetadataBuf),
    /// Generated metadata.
    Generated(MetadataBuf),
}

impl MetadataSource<'_> {
    /// Returns the value of the first entry with a key.
    pub(crate) fn get(&self, key: &str) -> Option<Result<Value<'_>, ggmill_core::Error>> {
        match self {
            Self::File(metadata) => metadata.get(key).map(|entry| entry.value()),
            Self::Buffer(metadata) => metadata.get(key).map(Ok),
            Self::Generated(metadata) => metadata.get(key).map(Ok),
        }
    }

    fn read(&self, place: &ParameterKey) -> Result<Option<ParameterValue>> {
        if matches!(place, ParameterKey::Blocks(_)) {
            return Ok(None);
        }
        let Some(value) = self.get(place.key()) else { return Ok(None) };
        let wrong = |what: &str| Error::configuration(format!("{} is {what}", place.key()));
        let value = value.map_err(|error| wrong(&error.to_string()))?;
        let found = match place {
            ParameterKey::Value(_) => read(&value),
            ParameterKey::Blocks(_) => None,
            ParameterKey::Count(_) => value
                .as_array()
                .and_then(|array| i64::try_from(array.len()).ok())
                .map(ParameterValue::Int),
        };
        found.map(Some).ok_or_else(|| {
            wrong("too long, too large, or of a type that hyperparameters cannot have")
        })
    }
}

/// Converts a metadata value to a value of a hyperparameter; `None` if it is too large or not
/// representable.
pub(crate) fn read(value: &Value<'_>) -> Option<ParameterValue> {
    if let Some(array) = value.as_array() {
        return list(&array);
    }
    let integer = || value.as_i64().map(ParameterValue::Int);
    let number = || value.as_f64().filter(|number| number.is_finite()).map(ParameterValue::Float);
    let text = || {
        value
            .as_str()
            .filter(|text| u64::try_from(text.len()).is_ok_and(|len| len <= MAX_LEN))
            .map(|text| ParameterValue::Str(text.into()))
    };
    integer().or_else(number).or_else(|| value.as_bool().map(ParameterValue::Bool)).or_else(text)
}

fn list(array: &Array<'_>) -> Option<ParameterValue> {
    if array.len() > MAX_LEN || array.element_type() == ValueType::ARRAY {
        return None;
    }
    let elements: Option<Vec<_>> = array.iter().map(|element| read(&element.ok()?)).collect();
    Some(ParameterValue::List(elements?.into()))
}

impl ParameterSource for MetadataSource<'_> {
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(ParameterValue, String)>> {
        for place in &parameter.keys {
            if let Some(value) = self.read(place)? {
                return Ok(Some((value, place.key().to_owned())));
            }
        }
        Ok(None)
    }

    fn places(&self, parameter: &Parameter) -> Option<String> {
        let keys: Vec<_> = parameter.keys.iter().map(ParameterKey::key).collect();
        (!keys.is_empty()).then(|| format!("{} in the metadata", keys.join(", ")))
    }

    fn default<'p>(&self, parameter: &'p Parameter) -> Option<&'p Expression> {
        parameter.in_file.as_ref().or(parameter.default.as_ref())
    }
}

/// Metadata with the tensor names of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WithTensors<'a> {
    pub(crate) entries: &'a MetadataSource<'a>,
    /// The tensor names.
    pub(crate) tensors: &'a BTreeSet<String>,
    /// The number of blocks.
    pub(crate) blocks: u64,
}

impl ParameterSource for WithTensors<'_> {
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(ParameterValue, String)>> {
        // A block matches if it has a tensor with any of the names.
        let places = parameter.keys.iter().filter(|place| matches!(place, ParameterKey::Blocks(_)));
        let names: Vec<&str> = places.map(ParameterKey::key).collect();
        if !names.is_empty() {
            let has = |block| {
                let mut names = names.iter();
                names.any(|name| self.tensors.contains(&with_block(name, block)))
            };
            let blocks =
                (0..self.blocks.min(MAX_LEN)).map(|block| ParameterValue::Bool(has(block)));
            let list = ParameterValue::List(blocks.collect());
            return Ok(Some((list, "the names of tensors".to_owned())));
        }
        self.entries.lookup(parameter)
    }

    fn places(&self, parameter: &Parameter) -> Option<String> {
        self.entries.places(parameter)
    }

    fn default<'p>(&self, parameter: &'p Parameter) -> Option<&'p Expression> {
        self.entries.default(parameter)
    }
}
