//! Splits sources into tokens. Changes of indentation are tokens.

use crate::error::quoted;
use crate::language::expression::number;
use crate::value::ParameterValue;

/// The maximum length of a source, in bytes.
pub(super) const MAX_LEN: usize = 1 << 18;
/// The maximum nesting depth of indented blocks.
const MAX_INDENTS: usize = 16;

/// A byte range of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A name or keyword.
    Name(&'a str),
    /// A number or string.
    Literal(ParameterValue),
    Symbol(&'static str),
    /// The end of a line with tokens.
    Newline,
    Indent,
    Dedent,
}

/// An error message with its location.
pub(super) type Fault = (Span, String);

/// Symbols, longer ones before their prefixes.
const SYMBOLS: [&str; 25] = [
    "**", "//", "==", "!=", "<=", ">=", "+=", "->", "+", "-", "*", "/", "%", "<", ">", "=", "(",
    ")", "[", "]", ",", ":", ".", "{", "}",
];

/// Splits a source into tokens.
pub(super) fn tokens(source: &str) -> Result<Vec<(Span, Token<'_>)>, Fault> {
    let whole = Span { start: 0, end: 0 };
    if source.len() > MAX_LEN {
        return Err((whole, format!("{} bytes, the limit is {MAX_LEN}", source.len())));
    }
    let mut lexer = Lexer { source, at: 0, found: Vec::new(), indents: vec![0], brackets: 0 };
    while lexer.at < source.len() {
        lexer.line()?;
    }
    lexer.end_of_line();
    while lexer.indents.len() > 1 {
        lexer.indents.pop();
        lexer.push(0, Token::Dedent);
    }
    Ok(lexer.found)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    found: Vec<(Span, Token<'a>)>,
    /// The indentation of each open block.
    indents: Vec<usize>,
    /// The number of open brackets. Within brackets, line ends are ignored.
    brackets: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    fn span(&self, len: usize) -> Span {
        Span { start: self.at, end: self.at.saturating_add(len) }
    }

    fn push(&mut self, len: usize, token: Token<'a>) {
        let span = self.span(len);
        self.found.push((span, token));
        self.skip(len);
    }

    fn end_of_line(&mut self) {
        let has_tokens = !matches!(
            self.found.last(),
            None | Some((_, Token::Newline | Token::Indent | Token::Dedent))
        );
        if has_tokens && self.brackets == 0 {
            self.push(0, Token::Newline);
        }
    }

    /// Reads a line, including its indentation.
    fn line(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let blank = rest.len().saturating_sub(rest.trim_start_matches(' ').len());
        let is_empty = rest.trim_start_matches(' ').starts_with(['\n', '\r', '#']);
        if self.brackets == 0 && !is_empty && blank < rest.len() {
            self.indent(blank)?;
        }
        self.skip(blank);
        loop {
            let rest = self.rest();
            let Some(first) = rest.chars().next() else { return Ok(()) };
            match first {
                '\n' => {
                    self.end_of_line();
                    self.skip(1);
                    return Ok(());
                }
                ' ' | '\r' => self.skip(1),
                '#' => self.skip(rest.find('\n').unwrap_or(rest.len())),
                '\'' | '"' => self.text(first)?,
                '0'..='9' => {
                    let (value, len) = number(rest).map_err(|fault| (self.span(1), fault))?;
                    self.push(len, Token::Literal(value));
                }
                'a'..='z' | 'A'..='Z' | '_' => {
                    let len = rest
                        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                        .unwrap_or(rest.len());
                    self.push(len, Token::Name(rest.get(..len).unwrap_or_default()));
                }
                _ => self.symbol(first)?,
            }
        }
    }

    fn indent(&mut self, width: usize) -> Result<(), Fault> {
        let open = self.indents.last().copied().unwrap_or(0);
        if width > open {
            if self.indents.len() > MAX_INDENTS {
                return Err((
                    self.span(width),
                    format!("more than {MAX_INDENTS} blocks within each other"),
                ));
            }
            self.indents.push(width);
            self.push(0, Token::Indent);
        }
        while self.indents.last().is_some_and(|&open| width < open) {
            self.indents.pop();
            self.push(0, Token::Dedent);
        }
        if self.indents.last() != Some(&width) {
            return Err((self.span(width), "the indentation is not that of any open block".into()));
        }
        Ok(())
    }

    fn symbol(&mut self, first: char) -> Result<(), Fault> {
        let rest = self.rest();
        let symbol =
            SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)).ok_or_else(|| {
                let len = first.len_utf8();
                (self.span(len), format!("{} is not allowed here", quoted(&first.to_string())))
            })?;
        match symbol {
            "(" | "[" | "{" => self.brackets = self.brackets.saturating_add(1),
            ")" | "]" | "}" => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.push(symbol.len(), Token::Symbol(symbol));
        Ok(())
    }

    /// Reads a string in single, double or triple quotes.
    fn text(&mut self, quote: char) -> Result<(), Fault> {
        let rest = self.rest();
        let three: String = core::iter::repeat_n(quote, 3).collect();
        let fence = if rest.starts_with(&three) {
            three.as_str()
        } else {
            three.get(..1).unwrap_or_default()
        };
        let inside = rest.get(fence.len()..).unwrap_or_default();
        let len = inside.find(fence).filter(|&len| {
            fence.len() > 1 || !inside.get(..len).is_some_and(|text| text.contains('\n'))
        });
        let len = len.ok_or_else(|| (self.span(1), "a text has no closing quote".to_owned()))?;
        let text = inside.get(..len).unwrap_or_default();
        if text.contains('\\') {
            return Err((self.span(1), "a text cannot contain \\".into()));
        }
        let whole = len.saturating_add(fence.len().saturating_mul(2));
        self.push(whole, Token::Literal(ParameterValue::Str(text.into())));
        Ok(())
    }
}
