//! Hyperparameters: where they come from and what they may be.

pub(crate) mod config;
pub(crate) mod declared;
pub(crate) mod entries;
pub(crate) mod key;
pub(crate) mod key_template;
pub(crate) mod transformers;

use core::fmt;

use crate::error::{Error, Result, quoted};
use crate::language::expression::{Expression, Scope};
use crate::parameters::key::whole_key;
use crate::value::ParameterValue;

/// A hyperparameter as a description declares it.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Box<str>,
    pub(crate) kind: ParameterType,
    /// Where a configuration may have it, best first.
    pub(crate) from: Vec<Box<str>>,
    /// Where a file's metadata may have it, best first.
    pub(crate) keys: Vec<FilePlace>,
    pub(crate) default: Option<Expression>,
    /// Instead of the default, when the source is a file.
    pub(crate) in_file: Option<Expression>,
    /// What a configuration has that a file came from, by the hyperparameters of the file.
    pub(crate) restored: Option<Expression>,
    pub(crate) optional: bool,
}

/// A place of a hyperparameter in a file's metadata: a whole key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilePlace {
    /// Its value.
    Value(Box<str>),
    /// How many elements it has.
    Count(Box<str>),
    /// Whether each block has a tensor of this name, which is not of the metadata.
    Blocks(Box<str>),
}

/// As a description writes it, with the whole key.
impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(key) => f.write_str(key),
            Self::Count(key) => write!(f, "len({key})"),
            Self::Blocks(tensor) => write!(f, "blocks({tensor})"),
        }
    }
}

impl FilePlace {
    /// A place as a description writes it: a key without the architecture's name, a whole one of
    /// the format's own, `len(KEY)` for the number of its elements; or `blocks(TENSOR)` for the
    /// blocks that have this tensor.
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

    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Value(key) | Self::Count(key) | Self::Blocks(key) => key,
        }
    }
}

/// The form of a hyperparameter: one value, a list of them, or either.
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
    /// Any of these.
    Any,
}

/// Where hyperparameters come from. A checkpoint's configuration is one source; the metadata of a
/// file can be another.
pub(crate) trait ParameterSource {
    /// The value with the place it was found at, or nothing.
    fn lookup(&self, parameter: &Parameter) -> Result<Option<(ParameterValue, String)>>;

    /// The places that were searched, for the message that there is nothing; `None` when such a
    /// source has no place for it, so that nothing is missing.
    fn places(&self, parameter: &Parameter) -> Option<String>;

    /// The replacement where the source has nothing.
    fn default<'p>(&self, parameter: &'p Parameter) -> Option<&'p Expression> {
        parameter.default.as_ref()
    }
}

impl Parameter {
    /// The value: from the source, else from the default of the checkpoint's kind, else from its
    /// own.
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
    /// `int`, `[int]`, `int | [int]`, and so for `float`, `bool`, `string`.
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

    /// Whether it can be a list.
    pub(crate) fn can_be_list(self) -> bool {
        self.list
    }

    /// The value as this type. Whole numbers may be written as floats, and any number is a float.
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
        /// Up to here every whole number has a double of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        Some(match (self, value) {
            (Self::Int, ParameterValue::Int(_))
            | (Self::Bool, ParameterValue::Bool(_))
            | (Self::Str, ParameterValue::Str(_))
            | (Self::Any, _)
            // An element that a list leaves out.
            | (_, ParameterValue::None) => value.clone(),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "whole and within the range of exact doubles"
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
