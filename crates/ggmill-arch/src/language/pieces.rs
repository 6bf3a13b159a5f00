//! Splits name patterns with variables and optional pieces, such as `[model.]layers.{bid}.weight`.

use crate::error::{Error, Result, quoted};

/// A piece of a name pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RawPiece<'a> {
    Text(&'a str),
    /// In braces: an expression for a number.
    Number(&'a str),
    /// In brackets: optional text.
    Optional(&'a str),
}

/// The maximum length of a pattern, in bytes.
const MAX_LEN: usize = 256;
/// The maximum number of optional pieces in a pattern.
pub(crate) const MAX_OPTIONAL: usize = 3;

/// Returns an error about a pattern.
pub(crate) fn fault(text: &str, what: &str) -> Error {
    Error::description(format!("name {}: {what}", quoted(text)))
}

/// Splits a pattern into its pieces.
pub(crate) fn pieces(text: &str) -> Result<Vec<RawPiece<'_>>> {
    let fault = |what: &str| fault(text, what);
    if text.is_empty() || text.len() > MAX_LEN {
        return Err(fault("expected 1 to 256 bytes"));
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['{', '}', '[', ']']) {
        let (plain, bracketed) = rest.split_at_checked(start).unwrap_or((rest, ""));
        if !plain.is_empty() {
            pieces.push(RawPiece::Text(plain));
        }
        let is_number = bracketed.starts_with('{');
        let close = if is_number { '}' } else { ']' };
        let inner = bracketed.strip_prefix(['{', '[']).and_then(|inner| inner.split_once(close));
        let (inside, after) = inner
            .filter(|(inside, _)| is_number || !inside.contains(['{', '}', '[', ']']))
            .ok_or_else(|| fault("a bracket is not matched"))?;
        pieces.push(if is_number { RawPiece::Number(inside) } else { RawPiece::Optional(inside) });
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(RawPiece::Text(rest));
    }
    let optional = pieces.iter().filter(|piece| matches!(piece, RawPiece::Optional(_)));
    if optional.count() > MAX_OPTIONAL {
        return Err(fault("more than 3 optional pieces"));
    }
    Ok(pieces)
}

/// Returns `true` if a choice includes an optional piece. Choice 0 includes all; bit *n* omits the
/// *n*-th.
pub(crate) fn is_chosen(choice: u32, optional: u32) -> bool {
    choice.checked_shr(optional).unwrap_or(0) & 1 == 0
}

/// Returns the number of choices for `optional` optional pieces.
pub(crate) fn choices(optional: usize) -> u32 {
    1 << optional.min(MAX_OPTIONAL)
}
