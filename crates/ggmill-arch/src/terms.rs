//! Expressions as descriptions write them, parsed and held against the names that are known there.

use crate::error::Result;
use crate::expression::Expression;
use crate::schema::RawExpression;

/// Parses an expression and holds its names against the known ones.
pub(crate) fn expression(raw: &RawExpression, known: &dyn Fn(&str) -> bool) -> Result<Expression> {
    let expression = Expression::parse(&raw.text())?;
    expression.check_names(known)?;
    Ok(expression)
}

/// A condition; one that is not written always holds.
pub(crate) fn condition(
    raw: Option<&RawExpression>,
    known: &dyn Fn(&str) -> bool,
) -> Result<Expression> {
    raw.map_or_else(
        || Ok(Expression::bool(true)),
        |raw| expression(raw, known).map_err(|error| error.at("when")),
    )
}
