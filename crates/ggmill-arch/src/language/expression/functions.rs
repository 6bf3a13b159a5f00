//! The functions of expressions. `docs/formats/architecture.md` is their reference.

use core::cmp::Ordering;

use ggmill_core::Shape;

use super::Node;
use super::evaluate::{Outcome, Scope, compare, divided, equal, not_a_number, overflow, weight};
use super::numeric::{Llama3RopeFactors, YarnBlend, normal_quantile, sinusoids};
use crate::language::facts::CheckpointFacts;
use crate::language::pattern::{RawPiece, choices, is_chosen, pieces};
use crate::value::ParameterValue as Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Min,
    Max,
    /// Returns `true` if there is a value.
    Has,
    /// Returns the first argument that has a value.
    First,
    If,
    /// Division rounded towards negative infinity.
    DivFloor,
    /// Division rounded towards positive infinity.
    DivCeil,
    Len,
    Lower,
    /// The integer part of a number; the number in a text.
    Int,
    /// Conversion to a float.
    Float,
    IsList,
    IsString,
    IsBool,
    Split,
    /// The concatenation of the texts and integers of a list.
    Join,
    Chars,
    /// The index of an element in a list, or of a substring in a text; -1 if it is not found.
    Find,
    Count,
    /// The indices of an element in a list.
    Places,
    Sum,
    /// A sublist.
    Slice,
    Last,
    StartsWith,
    EndsWith,
    Pow,
    Sqrt,
    Exp,
    Log,
    Abs,
    /// Rounding to the nearest integer, ties to even.
    Round,
    Floor,
    Ceil,
    /// The smallest multiple of the second argument that is at least the first.
    CeilTo,
    /// Returns `true` if the checkpoint directory has a file.
    HasFile,
    /// Returns `true` if the checkpoint has a tensor.
    HasTensor,
    /// A dimension of a checkpoint tensor.
    Dim,
    /// The elements of a small checkpoint tensor.
    Values,
    /// The first element of a small checkpoint tensor.
    Value,
    /// The indices of the rows of a checkpoint tensor that are zero.
    ZeroRows,
    /// The text of a file in the checkpoint directory.
    FileText,
    /// The ID of a token.
    TokenId,
    /// The name of the checkpoint directory.
    Directory,
    /// The text of a built-in chat template.
    ChatTemplate,
    /// Sinusoidal position embeddings.
    Sinusoids,
    /// A number rounded to single precision.
    Single,
    /// The quantile function of the standard normal distribution.
    NormalQuantile,
    /// The RoPE frequency factors of Llama 3.
    Llama3RopeFactors,
    /// The RoPE frequency factors of YaRN.
    YarnRopeFactors,
    /// The original context with which programs that do not read betas blend like YaRN with them.
    YarnContext,
}

/// The functions by name, with the minimum and maximum number of arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 50] = [
    ("min", Function::Min, 1, 16),
    ("max", Function::Max, 1, 16),
    ("has", Function::Has, 1, 1),
    ("first", Function::First, 1, 16),
    ("if", Function::If, 2, 3),
    ("div_floor", Function::DivFloor, 2, 2),
    ("div_ceil", Function::DivCeil, 2, 2),
    ("len", Function::Len, 1, 1),
    ("join", Function::Join, 2, 2),
    ("lower", Function::Lower, 1, 1),
    ("int", Function::Int, 1, 1),
    ("float", Function::Float, 1, 1),
    ("is_list", Function::IsList, 1, 1),
    ("is_string", Function::IsString, 1, 1),
    ("is_bool", Function::IsBool, 1, 1),
    ("split", Function::Split, 2, 2),
    ("chars", Function::Chars, 1, 1),
    ("find", Function::Find, 2, 2),
    ("count", Function::Count, 2, 2),
    ("places", Function::Places, 2, 2),
    ("sum", Function::Sum, 1, 1),
    ("slice", Function::Slice, 3, 3),
    ("last", Function::Last, 1, 1),
    ("starts_with", Function::StartsWith, 2, 2),
    ("ends_with", Function::EndsWith, 2, 2),
    ("pow", Function::Pow, 2, 2),
    ("sqrt", Function::Sqrt, 1, 1),
    ("exp", Function::Exp, 1, 1),
    ("log", Function::Log, 1, 1),
    ("abs", Function::Abs, 1, 1),
    ("round", Function::Round, 1, 1),
    ("floor", Function::Floor, 1, 1),
    ("ceil", Function::Ceil, 1, 1),
    ("ceil_to", Function::CeilTo, 2, 2),
    ("has_file", Function::HasFile, 1, 1),
    ("has_tensor", Function::HasTensor, 1, 1),
    ("dim", Function::Dim, 2, 2),
    ("values", Function::Values, 1, 1),
    ("value", Function::Value, 1, 2),
    ("zero_rows", Function::ZeroRows, 1, 1),
    ("file_text", Function::FileText, 1, 1),
    ("token_id", Function::TokenId, 1, 1),
    ("directory", Function::Directory, 0, 0),
    ("chat_template", Function::ChatTemplate, 1, 1),
    ("sinusoids", Function::Sinusoids, 3, 3),
    ("single", Function::Single, 1, 1),
    ("normal_quantile", Function::NormalQuantile, 1, 1),
    ("llama3_rope_factors", Function::Llama3RopeFactors, 6, 6),
    ("yarn_rope_factors", Function::YarnRopeFactors, 7, 7),
    ("yarn_context", Function::YarnContext, 6, 6),
];

impl Function {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|function| function.0 == name).map(|function| function.1)
    }

    /// Returns the minimum and maximum number of arguments.
    pub(super) fn arity(self) -> (usize, usize) {
        let known = FUNCTIONS.iter().find(|function| function.1 == self);
        known.map_or((0, 0), |function| (function.2, function.3))
    }

    /// Evaluates a call. `if` and `first` evaluate only the arguments that they need.
    pub(super) fn call(self, arguments: &[Node], scope: &Scope<'_>) -> Outcome<Value> {
        match (self, arguments) {
            (Self::If, [condition, yes, no @ ..]) => match (condition.bool(scope)?, no) {
                (true, _) => yes.evaluate(scope),
                (false, [no, ..]) => no.evaluate(scope),
                (false, []) => Ok(Value::None),
            },
            (Self::First, _) => {
                for argument in arguments {
                    let value = argument.evaluate(scope)?;
                    if value.is_some() {
                        return Ok(value);
                    }
                }
                Ok(Value::None)
            }
            _ => {
                let values = arguments
                    .iter()
                    .map(|argument| argument.evaluate(scope))
                    .collect::<Outcome<Vec<_>>>()?;
                scope.spend(values.iter().map(weight).fold(0, usize::saturating_add))?;
                self.of_values(&values, scope)
            }
        }
    }

    /// Applies a function to the values of all its arguments.
    pub(crate) fn of_values(self, arguments: &[Value], scope: &Scope<'_>) -> Outcome<Value> {
        match (self, arguments) {
            (Self::Has, [value]) => Ok(Value::Bool(value.is_some())),
            (Self::IsList, [value]) => Ok(Value::Bool(value.as_list().is_some())),
            (Self::IsString, [value]) => Ok(Value::Bool(value.as_str().is_some())),
            (Self::IsBool, [value]) => Ok(Value::Bool(value.as_bool().is_some())),
            (Self::Min | Self::Max, [Value::List(elements)]) => self.extreme(elements),
            (Self::Min | Self::Max, elements) => self.extreme(elements),
            (Self::DivFloor | Self::DivCeil, [left, right]) => self.divided(left, right),
            (Self::Len, [Value::List(elements)]) => whole(elements.len()),
            (Self::Len, [Value::Str(text)]) => whole(text.chars().count()),
            (
                Self::Len | Self::Sum | Self::Last | Self::Count | Self::Places | Self::Slice,
                [other, ..],
            ) if other.as_list().is_none() => {
                Err(format!("needs a list, found {}", other.type_name()))
            }
            (Self::Lower, [Value::Str(text)]) => Ok(Value::Str(text.to_lowercase().into())),
            (Self::Lower, [Value::None]) => Ok(Value::None),
            (Self::Split, [Value::Str(text), Value::Str(separator)]) if !separator.is_empty() => {
                Ok(Value::List(text.split(&**separator).map(of_text).collect()))
            }
            (Self::Join, [Value::List(elements), Value::Str(separator)]) => {
                let text = |element: &Value| match element {
                    Value::Str(text) => Ok(text.to_string()),
                    Value::Int(number) => Ok(number.to_string()),
                    other => Err(format!("needs a string, found {}", other.type_name())),
                };
                scope.spend(elements.len().saturating_mul(separator.len().saturating_add(20)))?;
                let texts = elements.iter().map(text).collect::<Outcome<Vec<_>>>()?;
                Ok(Value::Str(texts.join(separator).into()))
            }
            (Self::Chars, [Value::Str(text)]) => Ok(Value::List(
                text.chars().map(|letter| of_text(letter.encode_utf8(&mut [0; 4]))).collect(),
            )),
            (Self::StartsWith, [Value::Str(text), Value::Str(part)]) => {
                Ok(Value::Bool(text.starts_with(&**part)))
            }
            (Self::EndsWith, [Value::Str(text), Value::Str(part)]) => {
                Ok(Value::Bool(text.ends_with(&**part)))
            }
            (Self::Find, [Value::Str(text), Value::Str(part)]) => {
                text.find(&**part).map_or(Ok(Value::Int(-1)), whole)
            }
            (Self::Find, [Value::List(elements), wanted]) => elements
                .iter()
                .position(|element| equal(element, wanted))
                .map_or(Ok(Value::Int(-1)), whole),
            (Self::Count, [Value::List(elements), wanted]) => {
                whole(elements.iter().filter(|element| equal(element, wanted)).count())
            }
            (Self::Places, [Value::List(elements), wanted]) => {
                let places = elements.iter().enumerate().filter(|it| equal(it.1, wanted));
                Ok(Value::List(places.map(|it| whole(it.0)).collect::<Outcome<_>>()?))
            }
            (Self::Sum, [Value::List(elements)]) => sum(elements),
            (Self::Last, [Value::List(elements)]) => elements
                .last()
                .cloned()
                .ok_or_else(|| "needs the last element of a list, but the list is empty".into()),
            (Self::Slice, [Value::List(elements), start, end]) => {
                let place = |value: &Value| {
                    let place = value.as_u64().and_then(|place| usize::try_from(place).ok());
                    place.ok_or_else(|| format!("needs an index into a list, found {value}"))
                };
                let (start, end) = (place(start)?, place(end)?.min(elements.len()));
                Ok(Value::List(elements.get(start.min(end)..end).unwrap_or_default().into()))
            }
            (Self::HasFile, [Value::Str(name)]) => Ok(Value::Bool(scope.facts()?.has_file(name))),
            (Self::HasTensor, [name]) => {
                let facts = scope.facts()?;
                let found =
                    names(name, scope)?.iter().any(|name| stored_shape(facts, name).is_some());
                Ok(Value::Bool(found))
            }
            (Self::Dim, [name, number]) => {
                let facts = scope.facts()?;
                let shape = names(name, scope)?.iter().find_map(|name| stored_shape(facts, name));
                let shape = shape.ok_or_else(|| {
                    format!("needs the shape of {name}, but there is no such tensor")
                })?;
                let place = number.as_u64().and_then(|number| usize::try_from(number).ok());
                let found = place.and_then(|place| shape.dimensions().get(place).copied());
                found
                    .and_then(|extent| i64::try_from(extent).ok())
                    .map(Value::Int)
                    .ok_or_else(|| format!("needs dimension {number}, but the shape is {shape}"))
            }
            // The second argument, the number of dimensions, is only for converting back.
            (Self::Values, [name]) | (Self::Value, [name, ..]) => {
                let facts = scope.facts()?;
                let names = names(name, scope)?;
                let found = names.iter().find(|name| facts.shape(name).is_some());
                let found = found.ok_or_else(|| {
                    format!("needs the values of {name}, but there is no such tensor")
                })?;
                let values = facts.values(found)?;
                scope.spend(values.len())?;
                if self == Self::Values {
                    return Ok(Value::List(values.into()));
                }
                values
                    .into_iter()
                    .next()
                    .ok_or_else(|| format!("needs a value of {name}, which has none"))
            }
            (Self::ZeroRows, [name]) => {
                let facts = scope.facts()?;
                let names = names(name, scope)?;
                let found = names.iter().find(|name| facts.shape(name).is_some());
                let found = found.ok_or_else(|| {
                    format!("needs the rows of {name}, but there is no such tensor")
                })?;
                let rows = facts.zero_rows(found)?;
                scope.spend(rows.len())?;
                let row = |row| i64::try_from(row).map(Value::Int).map_err(|_| overflow());
                Ok(Value::List(rows.into_iter().map(row).collect::<Outcome<_>>()?))
            }
            (Self::FileText, [Value::Str(name)]) => {
                Ok(scope.facts()?.text(name).map_or(Value::None, |text| Value::Str(text.into())))
            }
            (Self::TokenId, [Value::Str(text)]) => {
                scope.facts()?.token(text).map_or(Ok(Value::None), |id| {
                    i64::try_from(id).map(Value::Int).map_err(|_| overflow())
                })
            }
            (Self::Directory, []) => {
                Ok(scope.facts()?.name().map_or(Value::None, |name| Value::Str(name.into())))
            }
            (Self::ChatTemplate, [Value::Str(name)]) => {
                let template = scope.facts()?.chat_template(name);
                let template = template.ok_or_else(|| format!("there is no template {name:?}"))?;
                scope.spend(template.len())?;
                Ok(Value::Str(template.into()))
            }
            (Self::Sinusoids, [positions, width, longest]) => {
                let values = sinusoids(positions, width, longest, |count| scope.spend(count))?;
                Ok(Value::List(values.into()))
            }
            (function, _) => function.of_rope(arguments, scope),
        }
    }

    /// Applies a function of RoPE frequencies, or else a numeric function.
    fn of_rope(self, arguments: &[Value], scope: &Scope<'_>) -> Outcome<Value> {
        match (self, arguments) {
            (Self::Llama3RopeFactors, _) => {
                let numbers: Option<Vec<f64>> = arguments.iter().map(Value::as_f64).collect();
                let factors = numbers
                    .as_deref()
                    .and_then(Llama3RopeFactors::of)
                    .ok_or("needs six numbers, of which the first is a number of dimensions")?;
                let values = factors.values();
                scope.spend(values.len())?;
                Ok(Value::List(values.into_iter().map(f64::from).map(Value::Float).collect()))
            }
            (Self::YarnRopeFactors, [factor, blend @ ..]) => {
                let (blend, factor) = (YarnBlend::of(blend), factor.as_f64());
                let values = blend.zip(factor).map(|(blend, factor)| blend.factors(factor));
                let values = values.ok_or("needs six numbers and a flag of YaRN")?;
                scope.spend(values.len())?;
                Ok(Value::List(values.into_iter().map(f64::from).map(Value::Float).collect()))
            }
            (Self::YarnContext, blend) => {
                let blend = YarnBlend::of(blend).ok_or("needs five numbers and a flag of YaRN")?;
                scope.spend(blend.steps())?;
                Ok(blend
                    .context_of_programs()
                    .map_or(Value::None, |context| Value::Int(context.into())))
            }
            (function, _) => function.of_numbers(arguments),
        }
    }

    /// Applies a numeric function.
    fn of_numbers(self, arguments: &[Value]) -> Outcome<Value> {
        match (self, arguments) {
            (
                Self::Int | Self::Abs | Self::Round | Self::Floor | Self::Ceil,
                [Value::Int(value)],
            ) => {
                let value = if self == Self::Abs { value.checked_abs() } else { Some(*value) };
                value.map(Value::Int).ok_or_else(overflow)
            }
            (Self::Int, [Value::Str(text)]) => text
                .trim()
                .parse()
                .map(Value::Int)
                .map_err(|_| format!("is not a number: {text:?}")),
            (Self::Int, &[Value::Float(value)]) => integer(value.trunc()),
            (Self::Round, &[Value::Float(value)]) => integer(value.round_ties_even()),
            (Self::Floor, &[Value::Float(value)]) => integer(value.floor()),
            (Self::Ceil, &[Value::Float(value)]) => integer(value.ceil()),
            (Self::Abs, &[Value::Float(value)]) => Ok(Value::Float(value.abs())),
            (Self::CeilTo, [left, right]) => {
                let multiples = Self::DivCeil.divided(left, right)?.as_i64();
                let value = multiples.zip(right.as_i64()).and_then(|(a, b)| a.checked_mul(b));
                value.map(Value::Int).ok_or_else(overflow)
            }
            (Self::Pow, [Value::Int(base), Value::Int(exponent)]) if *exponent >= 0 => {
                let power = u32::try_from(*exponent).ok().and_then(|by| base.checked_pow(by));
                power.map(Value::Int).ok_or_else(overflow)
            }
            (Self::Single, [value]) => {
                let value = value.as_f64().ok_or_else(|| not_a_number(value))?;
                #[expect(clippy::cast_possible_truncation, reason = "the rounding is the point")]
                let value = value as f32;
                Ok(Value::Float(f64::from(value)))
            }
            (Self::NormalQuantile, [value]) => {
                let value = value.as_f64().ok_or_else(|| not_a_number(value))?;
                Ok(Value::Float(f64::from(normal_quantile(value))))
            }
            (Self::Pow | Self::Sqrt | Self::Exp | Self::Log | Self::Float, [first, ..]) => {
                let number = |value: &Value| value.as_f64().ok_or_else(|| not_a_number(value));
                let value = number(first)?;
                let result = match self {
                    Self::Pow => value.powf(number(arguments.get(1).unwrap_or(&Value::None))?),
                    Self::Sqrt => value.sqrt(),
                    Self::Exp => value.exp(),
                    Self::Log => value.ln(),
                    _ => value,
                };
                if result.is_finite() {
                    Ok(Value::Float(result))
                } else {
                    Err(format!("is {result}, expected a finite number"))
                }
            }
            _ => {
                let wrong = arguments.first().map_or("nothing", Value::type_name);
                Err(format!("has an argument of type {wrong}, which the function does not accept"))
            }
        }
    }

    /// Returns the minimum or maximum.
    fn extreme(self, elements: &[Value]) -> Outcome<Value> {
        let wanted = if self == Self::Min { Ordering::Less } else { Ordering::Greater };
        let (first, rest) = elements.split_first().ok_or("needs at least one number")?;
        let mut best = first;
        for value in rest {
            if compare(value, best)? == wanted {
                best = value;
            }
        }
        Ok(best.clone())
    }

    /// Returns a quotient rounded down or up.
    fn divided(self, left: &Value, right: &Value) -> Outcome<Value> {
        let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) else {
            let (left, right) = (left.type_name(), right.type_name());
            return Err(format!("needs integers, found {left} and {right}"));
        };
        let quotient = left.checked_div(right).ok_or_else(|| divided(right))?;
        let uneven = left.checked_rem(right).is_some_and(|remainder| remainder != 0);
        let negative = (left < 0) != (right < 0);
        let step = match self {
            Self::DivFloor if uneven && negative => -1,
            Self::DivCeil if uneven && !negative => 1,
            _ => 0,
        };
        quotient.checked_add(step).map(Value::Int).ok_or_else(overflow)
    }
}

/// Returns the shape of a checkpoint tensor, which may also describe the packing of others.
fn stored_shape(facts: &dyn CheckpointFacts, name: &str) -> Option<Shape> {
    facts.shape(name).or_else(|| facts.packing_shape(name))
}

fn of_text(text: &str) -> Value {
    Value::Str(text.into())
}

fn whole(number: usize) -> Outcome<Value> {
    i64::try_from(number).map(Value::Int).map_err(|_| overflow())
}

fn integer(value: f64) -> Outcome<Value> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is compared with that of an integer first"
    )]
    if value.abs() < 9.0e18 { Ok(Value::Int(value as i64)) } else { Err(overflow()) }
}

/// Sums in order: exactly for integers, otherwise in double precision.
fn sum(elements: &[Value]) -> Outcome<Value> {
    let integers: Option<Vec<i64>> = elements.iter().map(Value::as_i64).collect();
    if let Some(integers) = integers {
        let sum = integers.into_iter().try_fold(0i64, i64::checked_add);
        return sum.map(Value::Int).ok_or_else(overflow);
    }
    let mut sum = 0.0;
    for element in elements {
        sum += element.as_f64().ok_or_else(|| not_a_number(element))?;
    }
    Ok(Value::Float(sum))
}

/// Returns the names that a pattern gives, one per combination of optional pieces.
pub(super) fn names(text: &Value, scope: &Scope<'_>) -> Outcome<Vec<String>> {
    let text = text.as_str().ok_or_else(|| format!("needs the name of a tensor, found {text}"))?;
    let pieces = pieces(text).map_err(|error| error.to_string())?;
    scope.spend(text.len())?;
    let optional = pieces.iter().filter(|piece| matches!(piece, RawPiece::Optional(_))).count();
    (0..choices(optional)).map(|choice| filled(&pieces, choice, scope)).collect()
}

/// Fills in loop variables, with the optional pieces of this choice.
fn filled(pieces: &[RawPiece<'_>], choice: u32, scope: &Scope<'_>) -> Outcome<String> {
    let mut name = String::new();
    let mut optional = 0u32;
    for piece in pieces {
        match *piece {
            RawPiece::Text(text) => name.push_str(text),
            RawPiece::Number(variable) => name.push_str(&scope.value(variable)?.to_string()),
            RawPiece::Optional(text) => {
                if is_chosen(choice, optional) {
                    name.push_str(text);
                }
                optional = optional.saturating_add(1);
            }
        }
    }
    Ok(name)
}
