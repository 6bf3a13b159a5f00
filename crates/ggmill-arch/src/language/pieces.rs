//! The pieces of a name with places to fill in: `[model.]layers.{bid}.weight`.

use crate::error::{Error, Result, quoted};

/// A piece of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RawPiece<'a> {
    Text(&'a str),
    /// Between braces: a number.
    Number(&'a str),
    /// Between brackets: there or not.
    Optional(&'a str),
}

/// The longest name, in bytes.
const MAX_LEN: usize = 256;
/// The most optional pieces in one name.
pub(crate) const MAX_OPTIONAL: usize = 3;

/// What is wrong with a name.
pub(crate) fn fault(text: &str, what: &str) -> Error {
    Error::description(format!("name {}: {what}", quoted(text)))
}

/// The pieces, in order.
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

/// Whether a choice has the optional piece of this number: choice 0 has all of them, bit *n* leaves
/// out the *n*-th.
pub(crate) fn is_chosen(choice: u32, optional: u32) -> bool {
    choice.checked_shr(optional).unwrap_or(0) & 1 == 0
}

/// In how many ways so many optional pieces can be there or not.
pub(crate) fn choices(optional: usize) -> u32 {
    1 << optional.min(MAX_OPTIONAL)
}
