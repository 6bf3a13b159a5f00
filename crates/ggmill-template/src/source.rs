//! Prepares the text of a template for the parser, and parses it.

use std::borrow::Cow;

use ggmill_core::ByteSize;
use minijinja::machinery::ast::Stmt;
use minijinja::machinery::{Span, Token, WhitespaceConfig, parse, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::error::{Error, ErrorKind, Result};

/// The function whose `call` blocks replace `generation` blocks, which the parser does not support.
/// Templates that contain this name are refused.
pub(crate) const GENERATION: &str = "__ggmill_generation";

/// Maximum size of a template in bytes.
const MAX_LEN: usize = 1 << 20;
/// Maximum number of tokens in one tag, and of `elif` in one template. An expression and a chain of
/// branches can be nested as deeply as they are long.
const MAX_TOKENS: u32 = 1000;
const MAX_BRANCHES: u32 = 400;
/// Maximum number of consecutive signs: the parser recurses for each, and a plus is replaced by
/// two.
const MAX_SIGNS: u32 = 100;

/// The whitespace settings of transformers.
const WHITESPACE: WhitespaceConfig =
    WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true };

/// Normalizes line breaks like Jinja, and replaces `generation` blocks by `call` blocks.
pub(crate) fn prepare(text: &str) -> Result<String> {
    if text.len() > MAX_LEN {
        let [len, limit] = ByteSize::both(text.len(), MAX_LEN);
        let message = format!("the template has {len}, but the limit is {limit}");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let text: Cow<'_, str> = if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    };
    if text.contains(GENERATION) {
        return Err(Error::unsupported("a reserved name"));
    }
    let mut edits = Vec::new();
    let (mut tokens, mut branches, mut signs) = (0, 0, 0);
    let mut last = Previous::Other;
    // The parser reports errors after the last known token.
    for (token, span) in self::tokens(&text) {
        let range = span.start_offset as usize..span.end_offset as usize;
        tokens += 1;
        signs = match token {
            Token::Plus | Token::Minus if last != Previous::Operand => signs + 1,
            _ => 0,
        };
        match token {
            Token::VariableStart | Token::BlockStart => tokens = 0,
            Token::Ident("elif") => branches += 1,
            Token::Ident("generation") if last == Previous::Block => {
                edits.push((range, format!("call {GENERATION}()")));
            }
            Token::Ident("endgeneration") if last == Previous::Block => {
                edits.push((range, "endcall".to_owned()));
            }
            // The parser has no unary plus. Two minus signs have the same effect, including the
            // type check.
            Token::Plus if last != Previous::Operand => edits.push((range, "- -".to_owned())),
            // `x.0.1` is two indices, not a number.
            Token::Float(_) if last == Previous::Dot => {
                let both = text.get(range.clone()).unwrap_or_default();
                if let Some((first, second)) = both.split_once('.') {
                    let from = range.start.saturating_sub(1);
                    edits.push((from..range.end, format!("[{first}][{second}]")));
                }
            }
            _ => {}
        }
        last = Previous::of(&token);
        if tokens > MAX_TOKENS || branches > MAX_BRANCHES || signs > MAX_SIGNS {
            return Err(Error::new(
                ErrorKind::Limit,
                "an expression or a chain of conditions is too long",
            ));
        }
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut done = 0;
    for (range, edit) in edits {
        out.push_str(text.get(done..range.start).unwrap_or_default());
        out.push_str(&edit);
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Ok(out)
}

/// The kind of the preceding token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    /// The beginning of a statement.
    Block,
    Dot,
    /// A value, after which a sign is an operator.
    Operand,
    Other,
}

impl Previous {
    fn of(token: &Token<'_>) -> Self {
        match token {
            Token::BlockStart => Self::Block,
            Token::Dot => Self::Dot,
            Token::Ident("and" | "or" | "not" | "in" | "if" | "else" | "elif" | "is") => {
                Self::Other
            }
            Token::Ident(_)
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
            | Token::BracketClose
            | Token::ParenClose
            | Token::BraceClose => Self::Operand,
            _ => Self::Other,
        }
    }
}

/// Returns the tokens of a template, up to the first unknown one.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = (Token<'_>, Span)> {
    tokenize(text, false, SyntaxConfig, WHITESPACE).map_while(std::result::Result::ok)
}

/// Parses a prepared template. Fails for statements that Jinja in transformers does not have.
pub(crate) fn tree(text: &str) -> Result<Stmt<'_>> {
    let tree = parsed(text)?;
    refuse_foreign_statements(&tree)?;
    Ok(tree)
}

/// Parses a prepared template, including statements that only other programs support.
pub(crate) fn parsed(text: &str) -> Result<Stmt<'_>> {
    parse(text, "template", SyntaxConfig, WHITESPACE).map_err(|error| {
        let found = Error::new(ErrorKind::Syntax, error.detail().unwrap_or("not a template"));
        match error.line().and_then(|line| u32::try_from(line).ok()) {
            Some(line) => found.at(line),
            None => found,
        }
    })
}

/// Fails for statements that the parser supports and Jinja in transformers does not.
fn refuse_foreign_statements(tree: &Stmt<'_>) -> Result<()> {
    let mut work = vec![tree];
    while let Some(statement) = work.pop() {
        match statement {
            Stmt::Do(node) => {
                let error = Error::new(ErrorKind::Syntax, "Encountered unknown tag 'do'.");
                return Err(error.at(u32::from(node.span().start_line)));
            }
            Stmt::Template(node) => work.extend(&node.children),
            Stmt::ForLoop(node) => work.extend(node.body.iter().chain(&node.else_body)),
            Stmt::IfCond(node) => work.extend(node.true_body.iter().chain(&node.false_body)),
            Stmt::WithBlock(node) => work.extend(&node.body),
            Stmt::SetBlock(node) => work.extend(&node.body),
            Stmt::FilterBlock(node) => work.extend(&node.body),
            Stmt::AutoEscape(node) => work.extend(&node.body),
            Stmt::Block(node) => work.extend(&node.body),
            Stmt::Macro(node) => work.extend(&node.body),
            Stmt::CallBlock(node) => work.extend(&node.macro_decl.body),
            _ => {}
        }
    }
    Ok(())
}

/// Evaluates adjacent string literals with Python's escapes; `None` if `source` is something else.
pub(crate) fn python_text(source: &str) -> Option<String> {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars().peekable();
    while let Some(quote) = chars.next() {
        if quote.is_whitespace() {
            continue;
        }
        if quote != '\'' && quote != '"' {
            return None;
        }
        loop {
            let c = chars.next()?;
            if c == quote {
                break;
            }
            if c != '\\' {
                out.push(c);
                continue;
            }
            let escape = chars.next()?;
            match escape {
                '\n' => {}
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'a' => out.push('\x07'),
                'b' => out.push('\x08'),
                'f' => out.push('\x0c'),
                'v' => out.push('\x0b'),
                '\\' | '\'' | '"' => out.push(escape),
                'x' | 'u' | 'U' => {
                    let length = match escape {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let mut code = 0;
                    for _ in 0..length {
                        code = code * 16 + chars.next()?.to_digit(16)?;
                    }
                    out.push(char::from_u32(code)?);
                }
                '0'..='7' => {
                    let mut code = escape.to_digit(8)?;
                    for _ in 0..2 {
                        let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) else { break };
                        code = code * 8 + digit;
                        chars.next();
                    }
                    out.push(char::from_u32(code)?);
                }
                // Python keeps unknown escapes.
                _ => out.extend(['\\', escape]),
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::python_text;

    #[test]
    fn escapes_equal_python() {
        let shown = |source| python_text(source).unwrap_or_default();
        assert_eq!(shown(r"'a\nb\x41\u00e9\101\d\\'"), "a\nbA\u{e9}A\\d\\");
        assert_eq!(shown(r#"'a' "b\'" "#), "ab'");
        assert_eq!(python_text("x"), None);
        assert_eq!(python_text(r"'\ud800'"), None);
    }
}
