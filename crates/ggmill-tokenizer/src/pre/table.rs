//! The table of pre-tokenizers in `data/pre-tokenizers.txt`.

use std::sync::LazyLock;

/// A pass over the pieces that the pass before it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// An expression whose matches are pieces.
    Split(&'static str),
    /// A scanner by name.
    Scan(&'static str),
}

/// What a name in `tokenizer.ggml.pre` means.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the table")]
pub(crate) struct PreTokenizer {
    pub(crate) name: &'static str,
    /// The name of its rules, which several names share.
    pub(crate) rules: &'static str,
    pub(crate) passes: Vec<Pass>,
    /// Passes that leave the same pieces and take less time.
    pub(crate) fast: Vec<Pass>,
    /// Passes that cut words also before spaces that follow a letter or a mark, if there are any.
    pub(crate) apart: Vec<Pass>,
    /// Text is merged as it is, not in the alphabet of bytes.
    pub(crate) raw: bool,
    /// A word of newlines alone that is a token is that token.
    pub(crate) newlines: bool,
    pub(crate) add_bos: bool,
    pub(crate) add_sep: bool,
    pub(crate) ignore_merges: bool,
    pub(crate) escape: bool,
    pub(crate) keep_spaces: bool,
    pub(crate) no_bos: bool,
    pub(crate) force_bos: bool,
    pub(crate) cased: bool,
    pub(crate) without_merges: bool,
}

static TABLE: LazyLock<Vec<PreTokenizer>> =
    LazyLock::new(|| parse(include_str!("../../data/pre-tokenizers.txt")));

/// Every pre-tokenizer, by name.
pub(crate) fn all() -> &'static [PreTokenizer] {
    &TABLE
}

/// The pre-tokenizer of a name.
pub(crate) fn find(name: &[u8]) -> Option<&'static PreTokenizer> {
    let place = TABLE.binary_search_by(|known| known.name.as_bytes().cmp(name)).ok()?;
    TABLE.get(place)
}

/// The known name that is most like another.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    TABLE.iter().map(|known| known.name).min_by_key(|known| distance(known, name))
}

/// The number of characters to insert, delete or replace.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, from) in a.chars().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (&to, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(from != to);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// An expression with the characters of sets in the place of their names. It lives as long as the
/// table.
fn with_sets(expression: &'static str, sets: &[(&str, &str)]) -> &'static str {
    let written = sets.iter().fold(expression.to_owned(), |written, (name, characters)| {
        written.replace(&format!("<{name}>"), characters)
    });
    written.leak()
}

fn parse(text: &'static str) -> Vec<PreTokenizer> {
    let mut found = Vec::new();
    let (mut rules, mut passes, mut fast, mut apart) = ("", vec![], vec![], vec![]);
    let mut sets: Vec<(&str, &str)> = Vec::new();
    let (mut raw, mut newlines) = (false, false);
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "rules" => {
                rules = rest;
                passes.clear();
                fast.clear();
                apart.clear();
                sets.clear();
                (raw, newlines) = (false, false);
            }
            "split" => passes.push(Pass::Split(rest)),
            "scan" => passes.push(Pass::Scan(rest)),
            "set" => sets.extend(rest.split_once(' ')),
            "as" => match rest.split_once(' ') {
                Some(("split", rest)) => fast.push(Pass::Split(with_sets(rest, &sets))),
                Some(("scan", rest)) => fast.push(Pass::Scan(rest)),
                _ => {}
            },
            "apart" => apart.extend(rest.strip_prefix("split ").map(Pass::Split)),
            "raw" => raw = true,
            "newlines" => newlines = true,
            "names" => {
                let (names, switches) = rest.split_once(" : ").unwrap_or((rest, ""));
                let has = |switch: &str| switches.split(' ').any(|word| word == switch);
                found.extend(names.split(' ').map(|name| PreTokenizer {
                    name,
                    rules,
                    passes: passes.clone(),
                    fast: if fast.is_empty() { passes.clone() } else { fast.clone() },
                    apart: apart.clone(),
                    raw,
                    newlines,
                    add_bos: has("add-bos"),
                    add_sep: has("add-sep"),
                    ignore_merges: has("ignore-merges"),
                    escape: has("escape"),
                    keep_spaces: has("keep-spaces"),
                    no_bos: has("no-bos"),
                    force_bos: has("force-bos"),
                    cased: has("cased"),
                    without_merges: has("without-merges"),
                }));
            }
            _ => {}
        }
    }
    found.sort_by_key(|known| known.name);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_name_once_and_nothing_unknown() {
        assert_eq!(all().len(), 91);
        let names: std::collections::BTreeSet<_> = all().iter().map(|known| known.name).collect();
        assert_eq!(names.len(), 91);
        for line in include_str!("../../data/pre-tokenizers.txt").lines() {
            let word = line.split(' ').next().unwrap_or_default();
            let known = ["", "#", "rules", "split", "scan", "set", "as", "apart"];
            let switches = ["raw", "newlines", "names"];
            assert!(known.contains(&word) || switches.contains(&word), "{line}");
            // The only kind of pass that it has.
            assert!(word != "apart" || line.starts_with("apart split "), "{line}");
        }
        let flags = find(b"llama-bpe").map(|known| (known.add_bos, known.ignore_merges, known.raw));
        assert_eq!(flags, Some((true, true, false)));
        assert!(find(b"gemma4").is_some_and(|known| known.raw && known.newlines && known.escape));
    }

    #[test]
    fn a_mistyped_name_is_nearest_to_what_was_meant() {
        assert_eq!(nearest("lama-bpe"), Some("llama-bpe"));
        assert_eq!(nearest("qwen-2"), Some("qwen2"));
    }
}
