//! Hyperparameters: their declarations, sources and types.

pub(crate) mod config;
pub(crate) mod declared;
pub(crate) mod entries;
pub(crate) mod key;
pub(crate) mod settings;
pub(crate) mod transformers;

use core::fmt;

use crate::error::{Error, Result, quoted};
use crate::language::expression::{Expression, Scope};
use crate::parameters::key::whole_key;
use crate::value::ParameterValue;

/// A declared hyperparameter.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Box<str>,
    pub(crate) kind: ParameterType,
    /// Its paths in a configuration, in order of precedence.
    pub(crate) from: Vec<Box<str>>,
    /// Its sources in a file, in order of precedence.
    pub(crate) keys: Vec<ParameterKey>,
    pub(crate) default: Option<Expression>,
    /// The default when reading a file, instead of `default`.
    pub(crate) in_file: Option<Expression>,
    /// Its value in the configuration that a file was converted from, as an expression over the
    /// hyperparameters of the file.
    pub(crate) restored: Option<Expression>,
    pub(crate) optional: bool,
}

/// A hyperparameter in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterOutline<'a> {
    /// The name in expressions.
    pub name: &'a str,
    /// The sources in a file, in order of precedence; `len(KEY)` is the number of elements of a key.
    pub keys: Vec<String>,
    /// The paths in the configuration of a checkpoint, in order of precedence.
    pub in_checkpoint: Vec<&'a str>,
    /// The default expression when reading a file.
    pub default: Option<&'a str>,
}

/// The source of a hyperparameter in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKey {
    /// The value of a metadata key.
    Value(Box<str>),
    /// The number of elements of a metadata key.
    Count(Box<str>),
    /// For each block, `true` if it has a tensor with this name.
    Blocks(Box<str>),
}

/// Formats it as in descriptions, with the full key.
impl fmt::Display for ParameterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(key) => f.write_str(key),
            Self::Count(key) => write!(f, "len({key})"),
            Self::Blocks(tensor) => write!(f, "blocks({tensor})"),
        }
    }
}

impl ParameterKey {
    /// Parses a source: a key without the architecture prefix, a standard key, `len(KEY)` for its
    /// number of elements, or `blocks(TENSOR)` for the blocks that have the tensor.
    pub(crate) fn parse(architecture: &str, text: &str) -> Self {
        let within = |function: &str| text.strip_prefix(function)?.strip_suffix(')');
        if let Some(tensor) = within("blocks(") {
            return Self::Blocks(tensor.into());
        }
        let counted = within("len(");
        let key = counted.unwrap_or(text);
        let key = whole_key(architecture, key);
        if counted.is_some() { Self::Count(key) } else { Self::Value(key) }
    }

    /// Returns the metadata key, or the tensor name of `blocks`.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Value(key) | Self::Count(key) | Self::Blocks(key) => key,
        }
    }
}

/// The type of a hyperparameter: a scalar, a list of scalars, or either.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParameterType {
    scalar: ScalarType,
    single: bool,
    list: bool,
}

#[derive(Clone, Copy, Debug)]
enum ScalarType {
    Int,
    Float,
    Bool,
    Str,
    /// Any of these types.
    Any,
}

/// A source of hyperparameters, such as the configuration of a checkpoint or the metadata of a file.
pub(crate) trait ParameterSource {
    /// Returns the value and its location, if the source has the hyperparameter.
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(ParameterValue, String)>>;

    /// Returns the locations that were searched, for messages; `None` if this kind of source never has
    /// the hyperparameter, so that it is not reported as missing.
    fn places(&self, parameter: &Parameter) -> Option<String>;

    /// Returns the default if the source does not have the hyperparameter.
    fn default<'p>(&self, parameter: &'p Parameter) -> Option<&'p Expression> {
        parameter.default.as_ref()
    }
}

impl Parameter {
    /// Returns the value: from the source, or else the default of the checkpoint kind, or else its own
    /// default.
    pub(crate) fn resolve(
        &self,
        source: &dyn ParameterSource,
        kind_default: Option<&Expression>,
        scope: &Scope<'_>,
    ) -> Result<ParameterValue> {
        if let Some((value, place)) = source.lookup(self)? {
            return self.kind.accept(&value).ok_or_else(|| {
                let message = format!("{place} is {value}, expected {}", self.kind.name());
                Error::configuration(message)
            });
        }
        if let Some(default) = kind_default.or(source.default(self)) {
            let value = default.evaluate(scope)?;
            if value.is_some() {
                return self
                    .kind
                    .accept(&value)
                    .ok_or_else(|| default.wrong(&value, self.kind.name()));
            }
        }
        match source.places(self) {
            Some(places) if !self.optional => {
                Err(Error::configuration(format!("missing, expected {places}")))
            }
            _ => Ok(ParameterValue::None),
        }
    }
}

impl ParameterType {
    /// Parses `int`, `[int]`, `int | [int]`, and likewise for `float`, `bool`, `string` and `any`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (single, list, scalar) = match text.split_once('|') {
            Some((single, list))
                if list.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']'))
                    == Some(single.trim()) =>
            {
                (true, true, single.trim())
            }
            Some(_) => (false, false, ""),
            None => match text.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
                Some(scalar) => (false, true, scalar),
                None => (true, false, text),
            },
        };
        let scalar = match scalar {
            "int" => ScalarType::Int,
            "float" => ScalarType::Float,
            "bool" => ScalarType::Bool,
            "string" => ScalarType::Str,
            "any" => ScalarType::Any,
            _ => {
                return Err(Error::description(format!(
                    "type {}: expected int, float, bool, string or any, in brackets for a list, or \
                     \"int | [int]\"",
                    quoted(text)
                )));
            }
        };
        Ok(Self { scalar, single, list })
    }

    fn name(self) -> &'static str {
        match (self.scalar, self.list) {
            (ScalarType::Int, false) => "an integer",
            (ScalarType::Float, false) => "a number",
            (ScalarType::Bool, false) => "true or false",
            (ScalarType::Str, false) => "a string",
            (ScalarType::Any, false) => "a value",
            (ScalarType::Int, true) => "a list of integers",
            (ScalarType::Float, true) => "a list of numbers",
            (ScalarType::Bool, true) => "a list of true and false",
            (ScalarType::Str, true) => "a list of strings",
            (ScalarType::Any, true) => "a list of values",
        }
    }

    /// Returns `true` if the value can be a list.
    pub(crate) fn can_be_list(self) -> bool {
        self.list
    }

    /// Converts a value to this type: integral floats to integers, and any number to a float. Returns
    /// `None` for a different type.
    pub(crate) fn accept(self, value: &ParameterValue) -> Option<ParameterValue> {
        match value {
            ParameterValue::List(elements) if self.list => {
                let elements: Option<Vec<_>> =
                    elements.iter().map(|element| self.scalar.accept(element)).collect();
                Some(ParameterValue::List(elements?.into()))
            }
            ParameterValue::List(_) => None,
            _ if self.single => self.scalar.accept(value),
            _ => None,
        }
    }
}

impl ScalarType {
    fn accept(self, value: &ParameterValue) -> Option<ParameterValue> {
        /// The limit below which all integers are exact in double precision (2⁵³).
        const EXACT: f64 = 9_007_199_254_740_992.0;
        Some(match (self, value) {
            (Self::Int, ParameterValue::Int(_))
            | (Self::Bool, ParameterValue::Bool(_))
            | (Self::Str, ParameterValue::Str(_))
            | (Self::Any, _)
            // A missing element of a list.
            | (_, ParameterValue::None) => value.clone(),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an integer within the range of exact doubles"
            )]
            (Self::Int, &ParameterValue::Float(number))
                if number.fract() == 0.0 && number.abs() <= EXACT =>
            {
                ParameterValue::Int(number as i64)
            }
            (Self::Float, value) => ParameterValue::Float(value.as_f64()?),
            _ => return None,
        })
    }
}
