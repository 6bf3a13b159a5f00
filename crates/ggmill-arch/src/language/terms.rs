//! Parses expressions of descriptions and checks the names in them.

use crate::data::coded::CHECKPOINTS;
use crate::data::schema::RawExpression;
use crate::error::Result;
use crate::language::expression::Expression;

/// Parses an expression. Fails for a name that `known` rejects.
pub(crate) fn expression(raw: &RawExpression, known: &dyn Fn(&str) -> bool) -> Result<Expression> {
    let expression = Expression::parse(&raw.text())?;
    expression.check_names(known)?;
    Ok(expression)
}

/// Parses an optional expression; `place` is its field name, for errors.
pub(crate) fn optional(
    raw: Option<&RawExpression>,
    place: &str,
    known: &dyn Fn(&str) -> bool,
) -> Result<Option<Expression>> {
    raw.map(|raw| expression(raw, known)).transpose().map_err(|error| error.at(place))
}

/// Parses a condition, which is true by default.
pub(crate) fn condition(
    raw: Option<&RawExpression>,
    known: &dyn Fn(&str) -> bool,
) -> Result<Expression> {
    let written = optional(raw, "when", known)?;
    Ok(written.unwrap_or_else(|| Expression::bool(true)))
}

/// Returns the list, or an empty one in a build without checkpoints.
pub(crate) fn of_checkpoints<T>(list: &[T]) -> &[T] {
    if CHECKPOINTS { list } else { &[] }
}

/// Converts each entry of a list about checkpoints. In a build without checkpoints, returns an empty
/// list, so that the compiler drops the code.
pub(crate) fn understood_of_checkpoints<T, U>(
    list: &[T],
    understand: impl FnMut(&T) -> Result<U>,
) -> Result<Vec<U>> {
    if CHECKPOINTS { list.iter().map(understand).collect() } else { Ok(Vec::new()) }
}
