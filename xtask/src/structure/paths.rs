//! The paths in a file: in `use` declarations and in code.

use crate::rust::Token;

/// An item that a `use` imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Its path, as written.
    pub(super) path: Vec<String>,
    /// Its name here; `*` for everything.
    pub(super) name: String,
    /// Whether it is re-exported.
    pub(super) is_public: bool,
}

/// The paths and definitions of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    pub(super) uses: Vec<Use>,
    /// Paths of at least two segments in the code.
    pub(super) inline: Vec<Vec<String>>,
    /// Names of items defined in the file.
    pub(super) defined: Vec<String>,
}

/// Keywords before the name of an item.
const ITEMS: [&str; 10] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"];

pub(super) fn paths(tokens: &[Token]) -> Paths {
    let mut paths = Paths::default();
    let mut place = 0;
    while place < tokens.len() {
        let Some(word) = tokens[place].word() else {
            place += 1;
            continue;
        };
        if word == "use"
            && !matches!(
                place.checked_sub(1).and_then(|before| tokens.get(before)),
                Some(Token::Path)
            )
        {
            let is_public = is_public(&tokens[..place]);
            let end = tokens[place..]
                .iter()
                .position(|token| token.is(';'))
                .map_or(tokens.len(), |end| place + end);
            tree(&tokens[place + 1..end], &[], is_public, &mut paths.uses);
            place = end;
        } else if matches!(tokens.get(place + 1), Some(Token::Path)) {
            let (path, end) = path(tokens, place);
            paths.inline.push(path);
            place = end;
        } else {
            if ITEMS.contains(&word) {
                // `macro_rules! name`, `const fn name`, `static mut NAME`.
                let name = tokens[place + 1..]
                    .iter()
                    .find_map(Token::word)
                    .filter(|name| !["fn", "unsafe", "mut"].contains(name));
                paths.defined.extend(name.map(str::to_owned));
            }
            place += 1;
        }
    }
    paths
}

/// Returns `true` if the last word is `pub`, restricted or not.
fn is_public(before: &[Token]) -> bool {
    match before {
        [.., last] if last.word() == Some("pub") => true,
        [.., keyword, open, _, close] => {
            keyword.word() == Some("pub") && open.is('(') && close.is(')')
        }
        _ => false,
    }
}

/// Returns the words of a path and the place after it.
fn path(tokens: &[Token], start: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut place = start;
    while let Some(word) = tokens.get(place).and_then(Token::word) {
        path.push(word.to_owned());
        if !matches!(tokens.get(place + 1), Some(Token::Path)) {
            return (path, place + 1);
        }
        place += 2;
    }
    (path, place)
}

/// Collects the imports of a `use` tree.
fn tree(tokens: &[Token], before: &[String], is_public: bool, uses: &mut Vec<Use>) {
    // A leading `::` names another crate.
    let mut path = before.to_vec();
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        match token {
            Token::Word(word) if word == "as" => break,
            Token::Word(word) => path.push(word.clone()),
            Token::Path => {}
            Token::Sign('*') => {
                uses.push(Use { path, name: "*".to_owned(), is_public });
                return;
            }
            Token::Sign('{') => {
                for part in parts(&tokens[place + 1..]) {
                    tree(part, &path, is_public, uses);
                }
                return;
            }
            Token::Sign(_) => return,
        }
        place += 1;
    }
    if path.len() == before.len() {
        return;
    }
    // `self` in braces is the module that precedes them.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = tokens
        .get(place + 1)
        .and_then(Token::word)
        .or(path.last().map(String::as_str))
        .unwrap_or_default()
        .to_owned();
    uses.push(Use { path, name, is_public });
}

/// Splits the content of braces at its commas.
fn parts(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('{') => depth += 1,
            Token::Sign('}') if depth == 0 => {
                parts.push(&tokens[start..place]);
                break;
            }
            Token::Sign('}') => depth -= 1,
            Token::Sign(',') if depth == 0 => {
                parts.push(&tokens[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::Source;

    #[test]
    fn trees_come_apart() {
        let source = Source::parse(
            "a.rs",
            "pub(crate) use crate::a::{self, b::{C as D, E}, f::*};\nuse super::g;\nfn h() { \
             i::j::<u8>(); pub_use; k::<L>() }",
        );
        let found = paths(&source.unwrap().tokens());
        let uses: Vec<_> = found
            .uses
            .iter()
            .map(|found| (found.path.join("::"), found.name.as_str(), found.is_public))
            .collect();
        let expected = [
            ("crate::a", "a", true),
            ("crate::a::b::C", "D", true),
            ("crate::a::b::E", "E", true),
            ("crate::a::f", "*", true),
            ("super::g", "g", false),
        ];
        assert_eq!(
            uses,
            expected.map(|(path, name, is_public)| (path.to_owned(), name, is_public))
        );
        assert_eq!(
            (found.inline.len(), found.inline[0].join("::"), found.defined),
            (2, "i::j".to_owned(), vec!["h".to_owned()])
        );
    }
}
