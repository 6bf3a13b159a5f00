//! A finished file's metadata as a source of hyper-parameters, and what the description says of such a file.

use core::cell::Cell;

use ggmill_core::{Array, Metadata, Value, ValueType};

use crate::architecture::{Architecture, KeyTemplate};
use crate::error::{Error, Result};
use crate::expression::{Expression, Scope};
use crate::parameter::{FilePlace, Parameter, ParameterSource};
use crate::resolve::Resolved;
use crate::schema::RawRequired;
use crate::value::ParameterValue;

/// The longest list and the longest string a hyper-parameter can be.
const LONGEST: u64 = 1 << 16;

/// Who demands that a file has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Demand {
    /// The specification lists it among those that must be present; the loader takes a default.
    Specification,
    /// The loader refuses a file without it.
    Loader,
}

/// A key of a file, as a description says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySpec<'a> {
    /// The whole key, such as `llama.block_count`.
    pub name: &'a str,
    /// The type of a single value, when it can be one.
    pub single: Option<ValueType>,
    /// The type of the elements, when it can be a list.
    pub element: Option<ValueType>,
    /// Whether a file must have it, and who says so. A condition may lift that for some models.
    pub demand: Option<Demand>,
}

impl FilePlace {
    fn read(&self, metadata: Metadata<'_>) -> Result<Option<ParameterValue>> {
        let Some(pair) = metadata.get(self.key()) else { return Ok(None) };
        let wrong = |what: &str| Error::configuration(format!("{} is {what}", self.key()));
        let value = pair.value().map_err(|error| wrong(&error.to_string()))?;
        let found = match self {
            Self::Value(_) => read(&value),
            Self::Count(_) => value.as_array().and_then(|array| i64::try_from(array.len()).ok()).map(ParameterValue::Int),
        };
        found.map(Some).ok_or_else(|| wrong("too long, too large or of a type that no hyper-parameter has"))
    }
}

fn read(value: &Value<'_>) -> Option<ParameterValue> {
    if let Some(array) = value.as_array() {
        return list(&array);
    }
    let integer = || value.as_i64().map(ParameterValue::Int);
    let number = || value.as_f64().filter(|number| number.is_finite()).map(ParameterValue::Float);
    let text = || value.as_str().filter(|text| u64::try_from(text.len()).is_ok_and(|len| len <= LONGEST)).map(|text| ParameterValue::Str(text.into()));
    integer().or_else(number).or_else(|| value.as_bool().map(ParameterValue::Bool)).or_else(text)
}

fn list(array: &Array<'_>) -> Option<ParameterValue> {
    if array.len() > LONGEST || array.element_type() == ValueType::ARRAY {
        return None;
    }
    let elements: Option<Vec<_>> = array.iter().map(|element| read(&element.ok()?)).collect();
    Some(ParameterValue::List(elements?.into()))
}

/// The metadata of a finished file.
pub(crate) struct FileSource<'a>(pub(crate) Metadata<'a>);

impl ParameterSource for FileSource<'_> {
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(ParameterValue, String)>> {
        for place in &parameter.keys {
            if let Some(value) = place.read(self.0)? {
                return Ok(Some((value, place.key().to_owned())));
            }
        }
        Ok(None)
    }

    fn places(&self, parameter: &Parameter) -> Option<String> {
        let keys: Vec<_> = parameter.keys.iter().map(FilePlace::key).collect();
        (!keys.is_empty()).then(|| format!("{} in the metadata", keys.join(", ")))
    }

    fn default<'p>(&self, parameter: &'p Parameter) -> Option<&'p Expression> {
        parameter.in_file.as_ref().or(parameter.default.as_ref())
    }
}

impl KeyTemplate {
    pub(crate) fn spec(&self) -> KeySpec<'_> {
        let demand = self.required.map(|required| match required {
            RawRequired::Specification => Demand::Specification,
            RawRequired::Loader => Demand::Loader,
        });
        KeySpec { name: &self.name, single: self.key_type.single, element: self.key_type.element, demand }
    }
}

impl Architecture {
    /// Every key the description knows, in its order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = KeySpec<'_>> {
        self.keys.iter().map(KeyTemplate::spec)
    }

    /// Applies the description to a finished file's metadata: every hyper-parameter and every tensor with its numbers.
    ///
    /// Fails as [`resolve`](Self::resolve) does. The keys are the file's own and not derived again: [`Resolved::keys`] is empty.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// use ggmill_core::{Builder, Gguf, MetadataBuf};
    /// let mut metadata = MetadataBuf::new();
    /// for (key, value) in [("block_count", 2u32), ("context_length", 64), ("embedding_length", 32), ("feed_forward_length", 96), ("attention.head_count", 4)] {
    ///     metadata.set(&format!("llama.{key}"), value);
    /// }
    /// metadata.set("llama.vocab_size", 100u32);
    /// let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
    /// let file = Gguf::parse(&file)?;
    /// let llama = Architecture::builtin("llama").ok_or("built in")?;
    /// let model = llama.resolve_file(file.metadata())?;
    /// assert_eq!(model.tensor("blk.1.ffn_up.weight").ok_or("there")?.shape.dimensions(), [32, 96]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resolve_file(&self, metadata: Metadata<'_>) -> Result<Resolved<'_>> {
        Resolved::of_file(self, &FileSource(metadata)).map_err(|error| error.within(self.name()))
    }

    /// The keys that a file with this metadata must have and has not. Conditions on hyper-parameters that are missing too are taken as met.
    pub fn missing_keys(&self, metadata: Metadata<'_>) -> Vec<KeySpec<'_>> {
        let fuel = Cell::new(Scope::FUEL);
        let source = FileSource(metadata);
        let mut parameters: Vec<(Box<str>, ParameterValue)> = Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            let value = parameter.resolve(&source, None, &Scope::new(&parameters, &fuel)).unwrap_or(ParameterValue::None);
            parameters.push((parameter.name.clone(), value));
        }
        let scope = Scope::new(&parameters, &fuel);
        let missing = |template: &&KeyTemplate| {
            template.required.is_some() && metadata.get(&*template.name).is_none() && template.when.evaluate_bool(&scope).unwrap_or(true)
        };
        self.keys.iter().filter(missing).map(KeyTemplate::spec).collect()
    }
}
