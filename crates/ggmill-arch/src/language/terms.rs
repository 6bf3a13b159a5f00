//! Expressions as descriptions write them, parsed and checked against the names that are known
//! there.

use crate::data::coded::CHECKPOINTS;
use crate::data::schema::RawExpression;
use crate::error::Result;
use crate::language::expression::Expression;

/// Parses an expression and holds its names against the known ones.
pub(crate) fn expression(raw: &RawExpression, known: &dyn Fn(&str) -> bool) -> Result<Expression> {
    let expression = Expression::parse(&raw.text())?;
    expression.check_names(known)?;
    Ok(expression)
}

/// An expression that a description may leave out; `place` is its name there.
pub(crate) fn optional(
    raw: Option<&RawExpression>,
    place: &str,
    known: &dyn Fn(&str) -> bool,
) -> Result<Option<Expression>> {
    raw.map(|raw| expression(raw, known)).transpose().map_err(|error| error.at(place))
}

/// A condition; one that is not written always holds.
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

/// Understands each entry of a list about checkpoints. In a build without them, returns an empty list
/// and lets the compiler drop the code.
pub(crate) fn understood_of_checkpoints<T, U>(
    list: &[T],
    understand: impl FnMut(&T) -> Result<U>,
) -> Result<Vec<U>> {
    if CHECKPOINTS { list.iter().map(understand).collect() } else { Ok(Vec::new()) }
}
