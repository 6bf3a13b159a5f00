//! Splits expressions into tokens.

use std::sync::Arc;

use crate::error::quoted;
use crate::value::ParameterValue;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Literal(ParameterValue),
    /// A word, or several words separated by dots.
    Name(&'a str),
    /// An operator or a bracket.
    Symbol(&'static str),
}

/// Symbols, longer ones before their prefixes.
const SYMBOLS: [&str; 17] =
    ["==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", "="];

/// A token with its byte offset.
pub(super) type Spanned<'a> = (usize, Token<'a>);

pub(super) fn tokens(text: &str) -> Result<Vec<Spanned<'_>>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let start = text.len().saturating_sub(rest.len());
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let (token, len) = match first {
            '0'..='9' => number(rest).map(|(value, len)| (Token::Literal(value), len))?,
            '\'' | '"' => string(rest, first)?,
            'a'..='z' | 'A'..='Z' | '_' => word(rest),
            _ => {
                let symbol = SYMBOLS
                    .into_iter()
                    .find(|symbol| rest.starts_with(symbol))
                    .ok_or_else(|| format!("{} is not allowed here", quoted(&first.to_string())))?;
                (Token::Symbol(symbol), symbol.len())
            }
        };
        found.push((start, token));
        rest = rest.get(len..).unwrap_or_default();
    }
}

fn word_len(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Reads a word and the words after dots. Components of tensor names may be numbers (`mlp.0.weight`).
fn word(text: &str) -> (Token<'_>, usize) {
    let mut len = word_len(text);
    while let Some(part) = text.get(len..).and_then(|rest| rest.strip_prefix('.')) {
        match word_len(part) {
            0 => break,
            more => len = len.saturating_add(1).saturating_add(more),
        }
    }
    let word = text.get(..len).unwrap_or_default();
    let token = match word {
        "true" => Token::Literal(ParameterValue::Bool(true)),
        "false" => Token::Literal(ParameterValue::Bool(false)),
        "none" => Token::Literal(ParameterValue::None),
        _ => Token::Name(word),
    };
    (token, len)
}

/// Reads the number at the beginning of a text. Returns its length too.
pub(crate) fn number(text: &str) -> Result<(ParameterValue, usize), String> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let after = |len: usize| text.get(len..).unwrap_or_default();
    let mut len = digits(text);
    let mut fraction = false;
    if let Some(decimals) =
        after(len).strip_prefix('.').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        len = len.saturating_add(1).saturating_add(digits(decimals));
        fraction = true;
    }
    if let Some(exponent) = after(len).strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let size = digits(exponent.get(sign..).unwrap_or_default());
        if size > 0 {
            len = len.saturating_add(1).saturating_add(sign).saturating_add(size);
            fraction = true;
        }
    }
    let written = text.get(..len).unwrap_or_default();
    if after(len).starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return Err(format!("{} is not a number", quoted(written)));
    }
    let value = if fraction {
        float(written).map(ParameterValue::Float)
    } else {
        written.parse().ok().map(ParameterValue::Int)
    };
    Ok((value.ok_or_else(|| format!("{} is too large", quoted(written)))?, len))
}

/// Parses a finite number with decimals or an exponent. It is parsed as JSON, because the parser of the
/// standard library would add 10 KB of tables.
fn float(written: &str) -> Option<f64> {
    let short = written.trim_start_matches('0');
    let has_digit = short.starts_with(|c: char| c.is_ascii_digit());
    let zero = if has_digit { "" } else { "0" };
    serde_json::from_str(&format!("{zero}{short}")).ok()
}

fn string(text: &str, quote: char) -> Result<(Token<'_>, usize), String> {
    let inside = text.get(1..).unwrap_or_default();
    let len = inside.find(quote).ok_or("a string has no closing quote")?;
    let content: Arc<str> = inside.get(..len).unwrap_or_default().into();
    Ok((Token::Literal(ParameterValue::Str(content)), len.saturating_add(2)))
}
