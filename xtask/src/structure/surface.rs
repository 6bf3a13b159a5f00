//! The public API of the libraries: foreign types in signatures are listed, traits are sealed or
//! listed as open, and structs of options are `non_exhaustive`.
//!
//! This reads sources, file by file, and takes every unrestricted `pub` for public. Re-exports
//! under another name escape it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::paths::{Paths, paths};
use crate::process::{Done, metadata, root};
use crate::rust::{Source, Token};
use crate::sources::sources;

/// Foreign items that public signatures may name: a new major version of their crate is one of
/// ours.
const CHOSEN: &[(&str, &[&str])] = &[
    ("ggmill", &["serde_json::Value"]),
    ("ggmill-arch", &["serde::Deserialize", "serde_json::Value"]),
    ("ggmill-check", &["serde::Serialize", "serde_json::Value"]),
    ("ggmill-convert", &["serde_json::Value"]),
    ("ggmill-edit", &["serde_json::Error", "serde_json::Value"]),
    ("ggmill-estimate", &["serde::Serialize"]),
    ("ggmill-inspect", &["serde::Serialize"]),
    (
        "ggmill-pipeline",
        &[
            "serde::Serialize",
            "serde::de::Deserialize",
            "serde::de::DeserializeOwned",
            "serde_json::Error",
            "serde_json::Value",
        ],
    ),
    ("ggmill-run", &["serde::Serialize", "serde_json::Value"]),
    ("ggmill-template", &["serde_json::Value"]),
    (
        "ggmill-text",
        &[
            "serde::de::Deserializer",
            "serde::de::Error",
            "serde::ser::Serialize",
            "serde_json::Result",
            "serde_json::Value",
        ],
    ),
    ("ggmill-tokenizer", &["serde::Deserialize", "serde_json::Map", "serde_json::Value"]),
];

/// Traits that other crates may implement; all others are sealed.
const OPEN: &[(&str, &str)] = &[
    ("ggmill-arch", "CheckpointFacts"),
    ("ggmill-core", "ReadAt"),
    ("ggmill-core", "Sink"),
    ("ggmill-core", "ToValue"),
    ("ggmill-io", "RangeSink"),
    ("ggmill-pipeline", "Checkpoint"),
    ("ggmill-pipeline", "Decode"),
    ("ggmill-pipeline", "Pretrained"),
    ("ggmill-pipeline", "SideFiles"),
    ("ggmill-text", "JsonValue"),
];

/// The public items of a crate.
#[derive(Debug, Default)]
struct Surface {
    foreign: BTreeSet<String>,
    open_traits: BTreeSet<String>,
    /// Structs of options that callers could build field by field.
    rigid: BTreeSet<String>,
}

pub(super) fn findings() -> Done<Vec<String>> {
    let metadata = metadata()?;
    let packages =
        metadata.get("packages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut findings = Vec::new();
    for package in packages {
        let text = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let name = text(package, "name");
        // Programs and unpublished crates have no API.
        if !package.get("publish").is_none_or(Value::is_null) || name == "ggmill-cli" {
            continue;
        }
        let dependencies = package.get("dependencies").and_then(Value::as_array);
        let foreign: BTreeSet<String> = dependencies
            .into_iter()
            .flatten()
            .filter(|dependency| text(dependency, "kind") != "dev")
            .map(|dependency| text(dependency, "name").replace('-', "_"))
            .filter(|dependency| !dependency.starts_with("ggmill"))
            .collect();
        let mut surface = Surface::default();
        for path in sources(&root().join("crates").join(&name).join("src"))? {
            surface.add(&Source::read(&path)?.tokens(), &foreign);
        }
        findings.extend(surface.findings(&name));
    }
    Ok(findings)
}

impl Surface {
    /// Adds the public items of a file, in a crate with these dependencies.
    fn add(&mut self, tokens: &[Token], dependencies: &BTreeSet<String>) {
        let Paths { uses, defined, .. } = paths(tokens);
        // A module of the file hides a crate of the same name.
        let dependencies = &dependencies
            .iter()
            .filter(|dependency| !defined.contains(dependency))
            .cloned()
            .collect::<BTreeSet<String>>();
        let names: BTreeMap<&str, String> = uses
            .iter()
            .filter(|used| used.name != "_")
            .filter(|used| used.path.first().is_some_and(|name| dependencies.contains(name)))
            .map(|used| (&*used.name, used.path.join("::")))
            .collect();
        for used in uses.iter().filter(|used| used.is_public) {
            if used.path.first().is_some_and(|name| dependencies.contains(name)) {
                self.foreign.insert(used.path.join("::"));
            }
        }
        let public: BTreeSet<&str> = tokens
            .windows(3)
            .filter(|three| {
                three[0].word() == Some("pub")
                    && matches!(three[1].word(), Some("struct" | "enum" | "union"))
            })
            .filter_map(|three| three[2].word())
            .collect();
        for place in 0..tokens.len() {
            let rest = &tokens[place..];
            let region = match rest {
                [token, next, ..] if token.word() == Some("pub") && !next.is('(') => {
                    self.item(tokens, place);
                    promised(&rest[1..])
                }
                [token, ..] if token.word() == Some("impl") => implemented(rest, &public),
                [hash, open, derive, ..]
                    if hash.is('#') && open.is('[') && derive.word() == Some("derive") =>
                {
                    derived(rest)
                }
                _ => &[],
            };
            let region = without_variants(region);
            self.foreign.extend(named(&region, &names, dependencies));
        }
    }

    /// Records a trait or a struct. `place` is that of its `pub`.
    fn item(&mut self, tokens: &[Token], place: usize) {
        let words: Vec<&str> = tokens[place + 1..].iter().map_while(Token::word).take(3).collect();
        let head = head(&tokens[place + 1..]);
        match words[..] {
            ["trait", name, ..] | ["unsafe", "trait", name]
                if !head.iter().any(|token| token.word() == Some("Sealed")) =>
            {
                self.open_traits.insert(name.to_owned());
            }
            ["struct", name, ..] if is_options(name) => {
                let fields = block(&tokens[place + 1 + head.len()..]);
                let is_open = fields.iter().any(|token| token.word() == Some("pub"));
                let attributes = tokens[..place]
                    .iter()
                    .rev()
                    .take_while(|token| !token.is(';') && !token.is('}'));
                let grows =
                    attributes.into_iter().any(|token| token.word() == Some("non_exhaustive"));
                if is_open && !grows {
                    self.rigid.insert(name.to_owned());
                }
            }
            _ => {}
        }
    }

    fn findings(&self, name: &str) -> Vec<String> {
        let chosen: BTreeSet<String> = CHOSEN
            .iter()
            .filter(|(known, _)| *known == name)
            .flat_map(|(_, items)| items.iter().map(|&item| item.to_owned()))
            .collect();
        let open: BTreeSet<String> = OPEN
            .iter()
            .filter(|(known, _)| *known == name)
            .map(|(_, item)| (*item).to_owned())
            .collect();
        let found = |items: Vec<&String>, fault: &str| {
            items.into_iter().map(|item| format!("{name}: {item} {fault}")).collect::<Vec<_>>()
        };
        [
            found(self.foreign.difference(&chosen).collect(), "is in a public signature"),
            found(chosen.difference(&self.foreign).collect(), "is not in a public signature"),
            found(self.open_traits.difference(&open).collect(), "is a trait that is not sealed"),
            found(open.difference(&self.open_traits).collect(), "is not an open trait"),
            found(self.rigid.iter().collect(), "has options and is not non_exhaustive"),
        ]
        .concat()
    }
}

fn is_options(name: &str) -> bool {
    name.ends_with("Options") || ["Limits", "Selection", "Candidate"].contains(&name)
}

/// Returns the tokens before the body or the semicolon of an item.
fn head(tokens: &[Token]) -> &[Token] {
    let end = tokens.iter().position(|token| token.is('{') || token.is(';') || token.is('('));
    &tokens[..end.unwrap_or(tokens.len())]
}

/// Returns a bracketed group at the beginning, brackets included.
fn block(tokens: &[Token]) -> &[Token] {
    let mut depth = 0usize;
    let end = tokens.iter().position(|token| {
        depth += usize::from(['{', '(', '['].iter().any(|&open| token.is(open)));
        if token.is('}') || token.is(')') || token.is(']') {
            depth = depth.saturating_sub(1);
        }
        depth == 0
    });
    end.map_or(tokens, |end| &tokens[..=end])
}

/// Returns the signature of a public item, without its body. The fields of a struct are items of
/// their own.
fn promised(item: &[Token]) -> &[Token] {
    let kind = item.iter().map_while(Token::word).find(|word| {
        ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "use"]
            .contains(word)
    });
    let is_function = item.iter().map_while(Token::word).any(|word| word == "fn");
    let until = |stop: &dyn Fn(&Token) -> bool| {
        let (mut depth, mut end) = (0isize, item.len());
        for (place, token) in item.iter().enumerate() {
            if depth == 0 && stop(token) {
                end = place;
                break;
            }
            depth += isize::from(token.is('(') || token.is('['));
            depth -= isize::from(token.is(')') || token.is(']'));
            if depth < 0 {
                end = place;
                break;
            }
        }
        &item[..end]
    };
    match kind {
        _ if is_function => until(&|token| token.is('{') || token.is(';')),
        // With the bodies of provided methods, which are few and short.
        Some("enum" | "trait") => {
            let head = head(item).len();
            &item[..head + block(&item[head..]).len()]
        }
        Some("struct" | "union") => head(item),
        Some("type") => until(&|token| token.is(';')),
        Some("const" | "static") => until(&|token| token.is('=') || token.is(';')),
        Some(_) => &[],
        // A field.
        None => until(&|token| token.is(',') || token.is('}') || token.is(';')),
    }
}

/// Returns the tokens without the names of the variants, if they are an enum.
fn without_variants(item: &[Token]) -> Vec<Token> {
    if item.first().and_then(Token::word) != Some("enum") {
        return item.to_vec();
    }
    let mut depth = 0usize;
    let in_parts = |token: &&Token| {
        depth += usize::from(['{', '(', '['].iter().any(|&open| token.is(open)));
        let is_kept = depth != 1 || token.word().is_none();
        depth -= usize::from(['}', ')', ']'].iter().any(|&close| token.is(close)));
        is_kept
    };
    item.iter().filter(in_parts).cloned().collect()
}

/// Returns the head of an implementation of a trait for a public type of the file.
fn implemented<'a>(item: &'a [Token], public: &BTreeSet<&str>) -> &'a [Token] {
    let end = item.iter().position(|token| token.is('{') || token.is(';'));
    let head = &item[..end.unwrap_or(0)];
    let Some(place) = head.iter().position(|token| token.word() == Some("for")) else { return &[] };
    let is_public = head[place..].iter().filter_map(Token::word).any(|word| public.contains(word));
    if is_public { head } else { &[] }
}

/// Returns the derived traits of a public type.
fn derived(attribute: &[Token]) -> &[Token] {
    let list = block(&attribute[1..]);
    let mut rest = &attribute[1 + list.len()..];
    while let [hash, next, ..] = rest
        && hash.is('#')
        && next.is('[')
    {
        rest = &rest[1 + block(&rest[1..]).len()..];
    }
    match rest {
        [token, next, ..] if token.word() == Some("pub") && !next.is('(') => list,
        _ => &[],
    }
}

/// Returns the full paths of the foreign items that tokens name.
fn named(
    region: &[Token],
    names: &BTreeMap<&str, String>,
    dependencies: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut place = 0;
    while let Some(token) = region.get(place) {
        let Some(word) = token.word() else {
            place += 1;
            continue;
        };
        let mut path = vec![word.to_owned()];
        place += 1;
        while let [Token::Path, Token::Word(next), ..] = &region[place..] {
            path.push(next.clone());
            place += 2;
        }
        if path.len() > 1 && dependencies.contains(&path[0]) {
            found.insert(path.join("::"));
        } else if let Some(known) = names.get(&*path[0]) {
            path[0].clone_from(known);
            found.insert(path.join("::"));
        }
    }
    // Types and traits only: functions and macros are not part of a signature.
    found.retain(|path| {
        let (_, last) = path.rsplit_once("::").unwrap_or_default();
        last.starts_with(char::is_uppercase)
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surface(source: &str) -> Surface {
        let mut surface = Surface::default();
        let source = Source::parse("a.rs", source).unwrap();
        surface.add(&source.tokens(), &["serde".to_owned(), "half".to_owned()].into());
        surface
    }

    #[test]
    fn foreign_items_of_public_signatures_are_found() {
        let source = "use serde::{Serialize, ser::Error as Fault};\nuse half::{Half, Own};\npub use \
                      half::bf16;\n#[derive(Clone, Serialize)]\n#[non_exhaustive]\npub struct \
                      A<T: half::One> {\n pub a: Vec<Half>,\n b: half::Private,\n}\npub fn c(d: \
                      &dyn Fn(half::Two)) -> Result<(), Fault> { half::three() }\npub(crate) fn \
                      e() -> half::Four {}\nimpl From<half::Five> for A<u8> { fn from(_: half::Six) \
                      {} }\nimpl Serialize for Private {}\npub enum \
                      G { Own, H(half::Seven) }\n";
        let found: Vec<String> = surface(source).foreign.into_iter().collect();
        assert_eq!(
            found,
            [
                "half::Five",
                "half::Half",
                "half::One",
                "half::Seven",
                "half::Two",
                "half::bf16",
                "serde::Serialize",
                "serde::ser::Error"
            ]
        );
        assert!(surface("mod half;\npub use half::A;\n").foreign.is_empty());
    }

    #[test]
    fn open_traits_and_rigid_options_are_found() {
        let source = "pub trait A: Debug {}\npub trait B: sealed::Sealed {}\npub struct \
                      COptions { pub d: u8 }\n#[non_exhaustive]\npub struct EOptions { pub f: u8 \
                      }\npub struct GOptions { h: u8 }\n";
        let surface = surface(source);
        assert_eq!(Vec::from_iter(&surface.open_traits), ["A"]);
        assert_eq!(Vec::from_iter(&surface.rigid), ["COptions"]);
    }
}
