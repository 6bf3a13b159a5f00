//! The text of a template, made ready for the parser.

use std::borrow::Cow;

use ggmill_core::ByteSize;
use minijinja::machinery::ast::Stmt;
use minijinja::machinery::{Span, Token, WhitespaceConfig, parse, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::error::{Error, ErrorKind, Result};

/// The function whose `call` blocks stand for `generation` blocks, which the parser does not know.
/// A template that has the name is refused.
pub(crate) const GENERATION: &str = "__ggmill_generation";

/// The longest template.
const MAX_LEN: usize = 1 << 20;
/// The most tokens of one tag, and `elif` of one template: what is in one tag, and a chain of
/// branches, can be as deep as it is long.
const MAX_TOKENS: u32 = 1000;
const MAX_BRANCHES: u32 = 400;
/// The most signs in a row: the parser goes one deeper at each, a plus is two of them.
const MAX_SIGNS: u32 = 100;

/// The whitespace that transformers asks for.
const WHITESPACE: WhitespaceConfig =
    WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true };

/// The template with the line breaks that Jinja gives it, and with `generation` blocks as `call`
/// blocks.
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
    let mut last = Before::Other;
    // The parser reports what is wrong after the last.
    for (token, span) in self::tokens(&text) {
        let range = span.start_offset as usize..span.end_offset as usize;
        tokens += 1;
        signs = match token {
            Token::Plus | Token::Minus if last != Before::Operand => signs + 1,
            _ => 0,
        };
        match token {
            Token::VariableStart | Token::BlockStart => tokens = 0,
            Token::Ident("elif") => branches += 1,
            Token::Ident("generation") if last == Before::Block => {
                edits.push((range, format!("call {GENERATION}()")));
            }
            Token::Ident("endgeneration") if last == Before::Block => {
                edits.push((range, "endcall".to_owned()));
            }
            // Two signs change as little as none, and refuse as much.
            Token::Plus if last != Before::Operand => edits.push((range, "- -".to_owned())),
            // Two indices, not a number.
            Token::Float(_) if last == Before::Dot => {
                let both = text.get(range.clone()).unwrap_or_default();
                if let Some((first, second)) = both.split_once('.') {
                    let from = range.start.saturating_sub(1);
                    edits.push((from..range.end, format!("[{first}][{second}]")));
                }
            }
            _ => {}
        }
        last = Before::of(&token);
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

/// What a token follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The beginning of a statement.
    Block,
    Dot,
    /// A value, after which a sign is an operator.
    Operand,
    Other,
}

impl Before {
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

/// The tokens of a template up to the first that the parser does not know.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = (Token<'_>, Span)> {
    tokenize(text, false, SyntaxConfig, WHITESPACE).map_while(std::result::Result::ok)
}

/// The syntax tree of a template that was made ready.
pub(crate) fn tree(text: &str) -> Result<Stmt<'_>> {
    let tree = parsed(text)?;
    known(&tree)?;
    Ok(tree)
}

/// As [`tree`], with statements that only other programs know.
pub(crate) fn parsed(text: &str) -> Result<Stmt<'_>> {
    parse(text, "template", SyntaxConfig, WHITESPACE).map_err(|error| {
        let found = Error::new(ErrorKind::Syntax, error.detail().unwrap_or("not a template"));
        match error.line().and_then(|line| u32::try_from(line).ok()) {
            Some(line) => found.at(line),
            None => found,
        }
    })
}

/// Refuses what the parser knows and Jinja, as transformers sets it up, does not.
fn known(tree: &Stmt<'_>) -> Result<()> {
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
