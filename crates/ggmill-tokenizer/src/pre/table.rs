//! The table of pre-tokenizers: their rules in `data/pre-tokenizers.txt`, and the names of these.

use std::sync::LazyLock;

use super::names;

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

/// The passes of some rules, and what else these say.
#[derive(Default)]
struct Rules {
    passes: Vec<Pass>,
    fast: Vec<Pass>,
    apart: Vec<Pass>,
    raw: bool,
    newlines: bool,
}

fn parse(text: &'static str) -> Vec<PreTokenizer> {
    let mut all: Vec<(&str, Rules)> = Vec::new();
    let mut sets: Vec<(&str, &str)> = Vec::new();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "rules" {
            all.push((rest, Rules::default()));
            sets.clear();
        }
        let Some((_, rules)) = all.last_mut() else { continue };
        match word {
            "split" => rules.passes.push(Pass::Split(rest)),
            "scan" => rules.passes.push(Pass::Scan(rest)),
            "set" => sets.extend(rest.split_once(' ')),
            "as" => match rest.split_once(' ') {
                Some(("split", rest)) => rules.fast.push(Pass::Split(with_sets(rest, &sets))),
                Some(("scan", rest)) => rules.fast.push(Pass::Scan(rest)),
                _ => {}
            },
            "apart" => rules.apart.extend(rest.strip_prefix("split ").map(Pass::Split)),
            "raw" => rules.raw = true,
            "newlines" => rules.newlines = true,
            _ => {}
        }
    }
    let mut found = Vec::new();
    for line in names::lines() {
        let Some((_, rules)) = all.iter().find(|(name, _)| *name == line.rules) else { continue };
        let fast = if rules.fast.is_empty() { &rules.passes } else { &rules.fast };
        found.extend(line.names().map(|name| PreTokenizer {
            name,
            rules: line.rules,
            passes: rules.passes.clone(),
            fast: fast.clone(),
            apart: rules.apart.clone(),
            raw: rules.raw,
            newlines: rules.newlines,
            add_bos: line.has("add-bos"),
            add_sep: line.has("add-sep"),
            ignore_merges: line.has("ignore-merges"),
            escape: line.has("escape"),
            keep_spaces: line.has("keep-spaces"),
            no_bos: line.has("no-bos"),
            force_bos: line.has("force-bos"),
            cased: line.has("cased"),
            without_merges: line.has("without-merges"),
        }));
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
            let switches = ["raw", "newlines"];
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
