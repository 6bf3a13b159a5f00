//! Rust source as a flat list of tokens.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A word or a sign. Comments and literals are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `::`
    Path,
    Sign(char),
}

impl Token {
    pub(super) fn is(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }

    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// Returns the tokens of a source without the items under `#[cfg(test)]`.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    without_tests(&all(source))
}

/// Returns all tokens of a source, or none if it is not Rust.
pub(super) fn all(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    flatten(source.parse().unwrap_or_default(), &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Ident(word) => tokens.push(Token::Word(word.to_string())),
            TokenTree::Literal(_) => {}
            TokenTree::Punct(sign) => {
                let is_path = sign.as_char() == ':' && sign.spacing() == Spacing::Joint;
                if is_path {
                    trees.next();
                }
                tokens.push(if is_path { Token::Path } else { Token::Sign(sign.as_char()) });
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Bracket | Delimiter::None => ('[', ']'),
                };
                tokens.push(Token::Sign(open));
                flatten(group.stream(), tokens);
                tokens.push(Token::Sign(close));
            }
        }
    }
}

/// Omits the item after `#[cfg(test)]`: up to its semicolon, or to the end of its block.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        if !is_test(&tokens[place..]) {
            kept.push(tokens[place].clone());
            place += 1;
            continue;
        }
        let mut depth = 0usize;
        for token in &tokens[place..] {
            place += 1;
            depth += usize::from(token.is('{'));
            if token.is('}') {
                depth = depth.saturating_sub(1);
            }
            if depth == 0 && (token.is(';') || token.is('}')) {
                break;
            }
        }
    }
    kept
}

fn is_test(tokens: &[Token]) -> bool {
    let [hash, open, cfg, paren, test, ..] = tokens else { return false };
    hash.is('#')
        && open.is('[')
        && cfg.word() == Some("cfg")
        && paren.is('(')
        && test.word() == Some("test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_comments_and_tests_are_no_code() {
        let source = "use a::b; // c\n/* d /* e */ */ let f: &'g str = \"h\\\"i\"; 'j' '\\n' \
                      r#\"k\"# r#l b\"m\"\n#[cfg(test)]\nmod n { o {} }\n#[cfg(test)] use p;\nq";
        let words: Vec<String> =
            tokens(source).iter().filter_map(|token| token.word().map(str::to_owned)).collect();
        assert_eq!(words, ["use", "a", "b", "let", "f", "g", "str", "r#l", "q"]);
    }
}
