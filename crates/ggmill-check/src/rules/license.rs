//! SPDX license expressions (annex D of the SPDX specification).
//!
//! Tests compare the parser with the crate `spdx`. The crate is not used because its tables with the full
//! names of licenses take 20 KB (compressed) of a WebAssembly module, and it rejects identifiers that end
//! in `+`.

/// The identifiers, one per line; exceptions are prefixed with `with`.
static IDENTIFIERS: &str = include_str!("../../data/licenses.txt");

/// The maximum length of a text, in bytes.
const MAX_LEN: usize = 4096;

/// Families without `+`, whose identifiers end in `-only` or `-or-later`.
const GNU: [&str; 4] = ["AGPL-", "GFDL-", "GPL-", "LGPL-"];

/// The end of the parsed part of an expression, which determines what can follow.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// The start, an operator or an opening parenthesis: a license must follow.
    Open,
    License,
    /// A license that `+` cannot follow.
    Closed,
    With,
    /// A license with its exception, or a closing parenthesis.
    Whole,
}

/// Returns `true` if a text is an SPDX expression. Identifiers are case-insensitive and include deprecated
/// ones, such as `GPL-3.0` and `GPL-2.0+`.
pub(super) fn is_license(text: &str) -> bool {
    text.len() <= MAX_LEN && parse(text).is_some()
}

fn parse(text: &str) -> Option<()> {
    let (mut last, mut depth, mut rest) = (Last::Open, 0_u32, text);
    while let Some(c) = rest.chars().next() {
        let end = rest.find(|c| !is_part(c) && c != ':').unwrap_or(rest.len());
        let (token, after) = rest.split_at(end.max(c.len_utf8()));
        rest = after;
        last = match (token, last) {
            // No space is permitted between a license and its `+`.
            (space, _) if space.trim().is_empty() => {
                if last == Last::License {
                    Last::Closed
                } else {
                    last
                }
            }
            ("(", Last::Open) => {
                depth += 1;
                Last::Open
            }
            (")", Last::License | Last::Closed | Last::Whole) => {
                depth = depth.checked_sub(1)?;
                Last::Whole
            }
            ("+", Last::License) => Last::Closed,
            ("AND" | "and" | "OR" | "or", Last::License | Last::Closed | Last::Whole) => Last::Open,
            ("WITH" | "with", Last::License | Last::Closed) => Last::With,
            (word, Last::Open) => match rest.strip_prefix('+') {
                Some(after) if knows(&format!("{word}+")) => {
                    rest = after;
                    Last::Closed
                }
                _ if knows(word) && !GNU.iter().any(|family| begins(word, family)) => Last::License,
                _ if knows(word) || refers(word, "LicenseRef-") => Last::Closed,
                _ => return None,
            },
            (word, Last::With) if knows(&format!("with {word}")) => Last::Whole,
            (word, Last::With) if refers(word, "AdditionRef-") => Last::Whole,
            _ => return None,
        };
    }
    (depth == 0 && !matches!(last, Last::Open | Last::With)).then_some(())
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.')
}

fn begins(word: &str, start: &str) -> bool {
    word.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

fn knows(line: &str) -> bool {
    IDENTIFIERS.lines().any(|known| known.eq_ignore_ascii_case(line))
}

/// Returns `true` if a word is a license reference, in this document or another.
fn refers(word: &str, start: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_part);
    let (document, name) =
        word.split_once(':').map_or((None, word), |(document, name)| (Some(document), name));
    name.strip_prefix(start).is_some_and(is_name)
        && document
            .is_none_or(|document| document.strip_prefix("DocumentRef-").is_some_and(is_name))
}

#[cfg(test)]
mod tests {
    use spdx::{Expression, ParseMode, identifiers};

    use super::*;

    /// Parses a text with the crate, with identifiers in canonical case.
    fn of_the_crate(text: &str) -> bool {
        let mode = ParseMode { allow_deprecated: true, ..ParseMode::STRICT };
        Expression::parse_mode(text, mode).is_ok()
    }

    #[test]
    fn identifiers_are_those_of_the_crate() {
        let exceptions = identifiers::EXCEPTIONS.iter().map(|exception| exception.name);
        let of_the_crate: Vec<String> = identifiers::LICENSES
            .iter()
            .map(|license| license.name.to_owned())
            .chain(exceptions.map(|name| format!("with {name}")))
            .collect();
        if std::env::var_os("GGMILL_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/licenses.txt");
            let head = format!(
                "# The identifiers of the SPDX License List {}, as the crate spdx has them: of licenses, \
                 and after \"with\" of exceptions.\n",
                identifiers::VERSION
            );
            let lines = of_the_crate.iter().map(|line| format!("{line}\n"));
            std::fs::write(path, head + &lines.collect::<String>()).unwrap();
        }
        let ours: Vec<&str> = IDENTIFIERS.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(ours, of_the_crate);
    }

    #[test]
    fn every_identifier_is_an_expression_in_letters_of_either_case() {
        for license in identifiers::LICENSES {
            for text in [license.name.to_owned(), license.name.to_lowercase()] {
                assert!(is_license(&text), "{text}");
            }
            let plus = format!("{}+", license.name);
            let is_identifier = identifiers::LICENSES.iter().any(|other| other.name == plus);
            assert_eq!(is_license(&plus), is_identifier || of_the_crate(&plus), "{plus}");
        }
        for exception in identifiers::EXCEPTIONS {
            assert!(is_license(&format!("mit WITH {}", exception.name.to_uppercase())));
            assert!(!is_license(exception.name));
        }
    }

    /// Compares every sequence of up to five words, with and without spaces in between.
    #[test]
    fn expressions_are_those_of_the_crate() {
        const WORDS: [&str; 14] = [
            "MIT",
            "GPL-3.0-only",
            "+",
            " +",
            "(",
            ")",
            "AND",
            "or",
            "WITH",
            "GCC-exception-3.1",
            "LicenseRef-a",
            "DocumentRef-b:LicenseRef-c.1",
            "DocumentRef-b:AdditionRef-d",
            "x:y",
        ];
        let (mut accepted, mut texts) = (0, vec![String::new()]);
        for _ in 0..5 {
            let longer = |text: &String| {
                let separator = if text.is_empty() { "" } else { " " };
                WORDS.map(|word| match word {
                    "+" => format!("{text}{word}"),
                    _ => format!("{text}{separator}{word}"),
                })
            };
            texts = texts.iter().flat_map(longer).collect();
            // Texts that nothing can complete are dropped to bound the number.
            texts.retain(|text| {
                let is = of_the_crate(text);
                assert_eq!(is_license(text), is, "{text:?}");
                accepted += usize::from(is);
                is || text.ends_with(['(', 'D', 'r', 'H'])
            });
        }
        assert!(accepted > 400, "{accepted}");
    }

    #[test]
    fn texts_that_are_not_expressions() {
        for text in ["", " ", "()", "other", "MIT Apache-2.0", "MIT, BSD", "llama3.1 license"] {
            assert!(!is_license(text), "{text:?}");
        }
        for text in ["LicenseRef-", "DocumentRef-:LicenseRef-a", "MIT And MIT", "MIT/ISC"] {
            assert!(!is_license(text), "{text:?}");
        }
        assert!(is_license("  (mit OR apache-2.0)\u{a0}and\tISC "));
        assert!(is_license("GPL-2.0+ WITH Classpath-exception-2.0"));
        assert!(!is_license(&format!("MIT{}", " ".repeat(MAX_LEN))));
    }
}
