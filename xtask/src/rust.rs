//! Rust sources, as the checks of the workspace read them: code, string literals, documentation and
//! other comments, each without the items under `#[cfg(test)]`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};

use crate::process::Done;

/// A word or a sign of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(String),
    /// `::`
    Path,
    Sign(char),
}

impl Token {
    pub(crate) fn is(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }

    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// A part of a source, in bytes.
#[derive(Debug)]
struct Part {
    range: Range<usize>,
    content: Content,
    /// `true` for a part of an item under `#[cfg(test)]`.
    is_test: bool,
}

#[derive(Debug)]
enum Content {
    Token(Token),
    /// A string literal, with its value.
    Text(String),
    /// A character, number or other literal that is not a string.
    OtherLiteral,
    Documentation,
    Comment,
}

/// A Rust source.
#[derive(Debug)]
pub(crate) struct Source {
    text: String,
    parts: Vec<Part>,
    /// The positions of the line breaks.
    line_breaks: Vec<usize>,
}

impl Source {
    /// Reads and parses a file, once for all checks.
    pub(crate) fn read(path: &Path) -> Done<Rc<Self>> {
        thread_local! {
            static SOURCES: RefCell<HashMap<PathBuf, Rc<Source>>> = RefCell::default();
        }
        if let Some(source) = SOURCES.with_borrow(|sources| sources.get(path).cloned()) {
            return Ok(source);
        }
        let place = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| format!("{place}: {error}"))?;
        let source = Rc::new(Self::parse(&place, &text)?);
        SOURCES.with_borrow_mut(|sources| sources.insert(path.to_owned(), Rc::clone(&source)));
        Ok(source)
    }

    /// Parses the text of a file. Fails if it is not Rust; `place` names the file in the error.
    pub(crate) fn parse(place: &str, text: &str) -> Done<Self> {
        let stream: TokenStream = text.parse().map_err(|error| format!("{place}: {error}"))?;
        let mut parts = Vec::new();
        flatten(text, stream, false, &mut parts);
        proc_macro2::extra::invalidate_current_thread_spans();
        let line_breaks = text.match_indices('\n').map(|(position, _)| position).collect();
        Ok(Self { text: text.to_owned(), parts: with_comments(text, parts), line_breaks })
    }

    /// Returns the words and signs of the code, without literals.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        self.of_code().filter_map(token).collect()
    }

    /// Returns the words and signs of the code and of tests.
    pub(crate) fn all_tokens(&self) -> Vec<Token> {
        self.parts.iter().filter_map(token).collect()
    }

    /// Returns the lines that have code or literals, with their numbers, without comments.
    pub(crate) fn code(&self) -> Vec<(usize, String)> {
        let mut masked: Vec<u8> =
            self.text.bytes().map(|byte| if byte == b'\n' { byte } else { b' ' }).collect();
        for part in self.of_code() {
            if !matches!(part.content, Content::Documentation | Content::Comment) {
                masked[part.range.clone()]
                    .copy_from_slice(&self.text.as_bytes()[part.range.clone()]);
            }
        }
        let masked = String::from_utf8_lossy(&masked);
        let lines = (1..).zip(masked.lines()).map(|(number, line)| (number, line.trim_end()));
        lines.filter(|(_, line)| !line.is_empty()).map(|(n, line)| (n, line.to_owned())).collect()
    }

    /// Returns the values of the string literals, each with the line of its beginning. Line breaks are
    /// replaced by spaces.
    pub(crate) fn literals(&self) -> Vec<(usize, String)> {
        let literal = |part: &Part| match &part.content {
            Content::Text(value) => Some((self.line(part.range.start), value.clone())),
            _ => None,
        };
        self.of_code().filter_map(literal).collect()
    }

    /// Returns the blocks of documentation, each with its first line, without their code.
    pub(crate) fn documentation(&self) -> Vec<(usize, String)> {
        self.blocks(|content| matches!(content, Content::Documentation))
    }

    /// Returns the blocks of comments that are not documentation, each with its first line.
    pub(crate) fn comments(&self) -> Vec<(usize, String)> {
        self.blocks(|content| matches!(content, Content::Comment))
    }

    /// Returns the parts that do not belong to tests.
    fn of_code(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| !part.is_test)
    }

    fn line(&self, position: usize) -> usize {
        self.line_breaks.partition_point(|&line_break| line_break < position) + 1
    }

    /// Joins comments in adjacent lines, without code in fences.
    fn blocks(&self, is_wanted: fn(&Content) -> bool) -> Vec<(usize, String)> {
        let mut blocks: Vec<(usize, String)> = Vec::new();
        let (mut last, mut is_fenced) = (0, false);
        for part in self.of_code().filter(|part| is_wanted(&part.content)) {
            let text = &self.text[part.range.clone()];
            for (number, line) in (self.line(part.range.start)..).zip(text.lines()) {
                if blocks.is_empty() || number > last + 1 {
                    blocks.push((number, String::new()));
                    is_fenced = false;
                }
                last = number;
                let line = line.trim().trim_end_matches("*/");
                let line = line.trim_start_matches(['/', '*', '!']).trim();
                if line.starts_with("```") {
                    is_fenced = !is_fenced;
                } else if !is_fenced && let Some((_, block)) = blocks.last_mut() {
                    if !block.is_empty() {
                        block.push(' ');
                    }
                    block.push_str(line);
                }
            }
        }
        blocks
    }
}

fn token(part: &Part) -> Option<Token> {
    match &part.content {
        Content::Token(token) => Some(token.clone()),
        _ => None,
    }
}

/// Adds the comments that are not documentation: everything between two tokens that is not space.
fn with_comments(text: &str, parts: Vec<Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::with_capacity(parts.len());
    let mut end = 0;
    let mut was_test = false;
    let add = |range: Range<usize>, is_test, all: &mut Vec<Part>| {
        let mut start = range.start;
        for line in text[range].split_inclusive('\n') {
            if !line.trim().is_empty() {
                let range = start..start + line.trim_end().len();
                all.push(Part { range, content: Content::Comment, is_test });
            }
            start += line.len();
        }
    };
    for part in parts {
        add(end..part.range.start.max(end), was_test && part.is_test, &mut all);
        end = part.range.end.max(end);
        was_test = part.is_test;
        all.push(part);
    }
    add(end..text.len(), false, &mut all);
    all
}

fn flatten(text: &str, stream: TokenStream, is_test: bool, parts: &mut Vec<Part>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut index = 0;
    let mut test_end = 0;
    while let Some(tree) = trees.get(index) {
        if index >= test_end && is_test_attribute(&trees[index..]) {
            test_end = index + item_len(&trees[index..]);
        }
        let is_test = is_test || index < test_end;
        let mut push = |span: Span, content| {
            parts.push(Part { range: span.byte_range(), content, is_test });
        };
        index += 1;
        match tree {
            // A doc comment is an attribute, and all its tokens have the span of the comment.
            TokenTree::Punct(sign) if text[sign.span().byte_range()].len() > 1 => {
                push(sign.span(), Content::Documentation);
                let range = sign.span().byte_range();
                while trees.get(index).is_some_and(|tree| tree.span().byte_range() == range) {
                    index += 1;
                }
            }
            TokenTree::Ident(word) => {
                push(word.span(), Content::Token(Token::Word(word.to_string())));
            }
            TokenTree::Literal(literal) => {
                let value = value_of(&literal.to_string());
                push(literal.span(), value.map_or(Content::OtherLiteral, Content::Text));
            }
            TokenTree::Punct(sign) => {
                let is_path = sign.as_char() == ':' && sign.spacing() == Spacing::Joint;
                let token = if is_path { Token::Path } else { Token::Sign(sign.as_char()) };
                push(sign.span(), Content::Token(token));
                if let Some(second) = trees.get(index).filter(|_| is_path) {
                    index += 1;
                    if let Some(path) = parts.last_mut() {
                        path.range.end = second.span().byte_range().end;
                    }
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = signs(group);
                push(group.span_open(), Content::Token(Token::Sign(open)));
                flatten(text, group.stream(), is_test, parts);
                let range = group.span_close().byte_range();
                parts.push(Part { range, content: Content::Token(Token::Sign(close)), is_test });
            }
        }
    }
}

fn signs(group: &Group) -> (char, char) {
    match group.delimiter() {
        Delimiter::Parenthesis => ('(', ')'),
        Delimiter::Brace => ('{', '}'),
        Delimiter::Bracket | Delimiter::None => ('[', ']'),
    }
}

fn is_sign(tree: Option<&TokenTree>, sign: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(found)) if found.as_char() == sign)
}

/// Returns `true` if an item follows that only tests have: after `#[cfg(test)]` or
/// `#[cfg(all(test, …))]`.
fn is_test_attribute(trees: &[TokenTree]) -> bool {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] = trees else { return false };
    let condition = |stream: TokenStream, name: &str| {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        match &trees[..] {
            [TokenTree::Ident(word), TokenTree::Group(arguments)] if word == name => {
                Some(arguments.stream())
            }
            _ => None,
        }
    };
    let begins_with_test = |stream: TokenStream| matches!(stream.into_iter().next(), Some(TokenTree::Ident(word)) if word == "test");
    let Some(found) = condition(attribute.stream(), "cfg") else { return false };
    hash.as_char() == '#'
        && (begins_with_test(found.clone())
            || condition(found, "all").is_some_and(begins_with_test))
}

/// Returns the number of trees of an attribute and its item: up to a semicolon or the end of a block,
/// or up to a comma for a field, a variant or an argument.
fn item_len(trees: &[TokenTree]) -> usize {
    /// The words with which an item can begin.
    const ITEMS: [&str; 16] = [
        "async",
        "const",
        "enum",
        "extern",
        "fn",
        "impl",
        "let",
        "macro_rules",
        "mod",
        "static",
        "struct",
        "trait",
        "type",
        "union",
        "unsafe",
        "use",
    ];
    let mut index = 0;
    // Further attributes, and the visibility.
    loop {
        match (trees.get(index), trees.get(index + 1)) {
            (hash @ Some(_), Some(TokenTree::Group(_))) if is_sign(hash, '#') => index += 2,
            (Some(TokenTree::Ident(word)), Some(TokenTree::Group(_))) if word == "pub" => {
                index += 2;
            }
            (Some(TokenTree::Ident(word)), _) if word == "pub" => index += 1,
            _ => break,
        }
    }
    let is_item = matches!(trees.get(index), Some(TokenTree::Ident(word))
        if ITEMS.iter().any(|item| word == item));
    while let Some(tree) = trees.get(index) {
        index += 1;
        let is_block =
            matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if is_block && is_sign(trees.get(index), ';') {
            return index + 1;
        }
        if is_block || is_sign(Some(tree), ';') || !is_item && is_sign(Some(tree), ',') {
            break;
        }
    }
    index
}

/// Returns the value of a string literal; `None` for other literals. Lines are joined as by the compiler.
fn value_of(literal: &str) -> Option<String> {
    let literal = literal.trim_start_matches(['b', 'c']);
    if let Some(raw) = literal.strip_prefix('r') {
        let content = raw.trim_start_matches('#').strip_prefix('"')?;
        return Some(content.trim_end_matches('#').strip_suffix('"')?.to_owned());
    }
    let content = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut lines = content.split("\\\n");
    let mut value = lines.next().unwrap_or_default().to_owned();
    lines.for_each(|line| value.push_str(line.trim_start()));
    Some(value.replace("\\n", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! One
//! two.

// three
use a::b; // four
/* five /* six */
   seven */ let f: &'g str = \"h\\\"i \\
    j\"; 'k' b'l' r#\"m \"n\"\"# r#o b\"p\" 1.5
#[cfg(test)]
mod support;
/// eight
/// ```
/// code();
/// ```
fn q() {}
#[cfg(all(test, unix))]
pub(crate) use r::{s};
struct T {
    #[cfg(test)]
    u: V,
    w: X,
}
#[cfg(test)]
mod tests {
    // nine
    /// ten
    const Y: &str = \"z\";
}
#[cfg(not(test))]
fn end() {} // eleven
";

    #[test]
    fn only_items_under_test_are_skipped() {
        let source = Source::parse("a.rs", SOURCE).unwrap();
        let tokens = source.tokens();
        let words: Vec<&str> = tokens.iter().filter_map(Token::word).collect();
        let expected = "use a b let f g str r#o fn q struct T w X cfg not test fn end";
        assert_eq!(words, expected.split(' ').collect::<Vec<_>>());
        assert!(tokens.contains(&Token::Path));
        let all = source.all_tokens();
        for word in ["support", "s", "u", "V", "Y"] {
            assert!(all.iter().any(|token| token.word() == Some(word)), "{word}");
        }
        let texts = |found: Vec<(usize, String)>| {
            found.iter().map(|(line, text)| format!("{line} {text}")).collect::<Vec<_>>()
        };
        assert_eq!(texts(source.literals()), ["7 h\\\"i j", "8 m \"n\"", "8 p"]);
        assert_eq!(texts(source.documentation()), ["1 One two.", "11 eight"]);
        assert_eq!(texts(source.comments()), ["4 three four five /* six seven", "30 eleven"]);
    }

    #[test]
    fn lines_of_code_have_no_comments() {
        let source = Source::parse("a.rs", SOURCE).unwrap();
        let code = source.code();
        let line = |number: usize| {
            code.iter().find(|(found, _)| *found == number).map(|(_, line)| line.as_str())
        };
        for number in [1, 4, 6, 9, 10, 11, 13, 16, 17, 19, 20, 26] {
            assert_eq!(line(number), None, "{number}");
        }
        assert_eq!(line(5), Some("use a::b;"));
        assert_eq!(line(7), Some("            let f: &'g str = \"h\\\"i \\"));
        assert_eq!((line(21), line(30)), (Some("    w: X,"), Some("fn end() {}")));
    }

    #[test]
    fn text_that_is_not_rust_is_an_error() {
        assert!(Source::parse("a.rs", "fn f() {").unwrap_err().starts_with("a.rs: "));
    }
}
