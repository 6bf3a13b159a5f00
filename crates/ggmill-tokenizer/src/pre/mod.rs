//! Pre-tokenizers: how text is split into words before byte pairs are merged.
//!
//! The rules are in `data/pre-tokenizers.txt`, their names in `data/pre-tokenizer-names.txt`.
//! Functions about names use only the latter, so that a program that calls nothing else does not
//! contain the rules and their compiler.

mod automaton;
mod expression;
mod fast_paths;
mod words;

use std::sync::LazyLock;

pub(crate) use automaton::Memo;
pub(crate) use words::Words;

/// Returns the names of pre-tokenizers that `tokenizer.ggml.pre` can have, in alphabetical order.
///
/// ```
/// assert!(ggmill_tokenizer::pre_tokenizer_names().any(|name| name == "llama-bpe"));
/// ```
pub fn names() -> impl Iterator<Item = &'static str> {
    all().iter().map(|known| known.name)
}

/// Returns the name of the rules of a pre-tokenizer. Names with the same rules split text into the
/// same words. Returns `None` for an unknown name.
///
/// ```
/// use ggmill_tokenizer::pre_tokenizer_rules;
/// assert_eq!(pre_tokenizer_rules("lfm2"), pre_tokenizer_rules("llama-bpe"));
/// assert_ne!(pre_tokenizer_rules("qwen2"), pre_tokenizer_rules("llama-bpe"));
/// ```
pub fn rules(name: &str) -> Option<&'static str> {
    line_of(name).map(|line| line.rules)
}

/// Returns `true` if a byte-level BPE vocabulary with this pre-tokenizer may have no merges:
/// llama.cpp then encodes only whole words (`llama_vocab::impl::load` in `src/llama-vocab.cpp`).
/// Returns `false` for an unknown name.
///
/// ```
/// assert!(ggmill_tokenizer::pre_tokenizer_allows_no_merges("kimi-k2"));
/// assert!(!ggmill_tokenizer::pre_tokenizer_allows_no_merges("llama-bpe"));
/// ```
pub fn allows_no_merges(name: &str) -> bool {
    line_of(name).is_some_and(|line| line.has("without-merges"))
}

/// Returns one pre-tokenizer for each set of rules, in the order of their first names.
pub(crate) fn all_rules() -> impl Iterator<Item = &'static PreTokenizer> {
    let all = all();
    let is_first = move |(place, known): &(usize, &PreTokenizer)| {
        !all.iter().take(*place).any(|other| other.rules == known.rules)
    };
    all.iter().enumerate().filter(is_first).map(|(_, known)| known)
}

/// Returns the character at a position and its length. The text is UTF-8 except that it may contain
/// surrogates.
#[inline]
fn decode(text: &[u8], place: usize) -> (u32, usize) {
    let tail = |byte: u8| u32::from(byte & 0x3F);
    match *text.get(place..).unwrap_or_default() {
        [a, ..] if a < 0x80 => (a.into(), 1),
        [a, b, ..] if a < 0xE0 => (u32::from(a & 0x1F) << 6 | tail(b), 2),
        [a, b, c, ..] if a < 0xF0 => (u32::from(a & 0x0F) << 12 | tail(b) << 6 | tail(c), 3),
        [a, b, c, d, ..] => (u32::from(a & 7) << 18 | tail(b) << 12 | tail(c) << 6 | tail(d), 4),
        _ => (0, 1),
    }
}

/// A line of the table of names: names with the same rules and flags.
#[derive(Clone, Copy)]
struct Line {
    rules: &'static str,
    names: &'static str,
    flags: &'static str,
}

impl Line {
    fn names(self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }

    fn has(self, flag: &str) -> bool {
        self.flags.split(' ').any(|word| word == flag)
    }
}

/// Returns the lines of the table of names.
fn lines() -> impl Iterator<Item = Line> {
    let lines = include_str!("../../data/pre-tokenizer-names.txt").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (rules, rest) = line.split_once(" = ")?;
        let (names, flags) = rest.split_once(" : ").unwrap_or((rest, ""));
        Some(Line { rules, names, flags })
    })
}

/// Returns the line that contains a name.
fn line_of(name: &str) -> Option<Line> {
    lines().find(|line| line.names().any(|known| known == name))
}

/// A pass of a pre-tokenizer. It splits each piece that the previous pass produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// A regular expression. Its matches, and the text between them, are the pieces.
    Split(&'static str),
    /// A scanner, by name.
    Scan(&'static str),
}

/// A pre-tokenizer: the rules and flags of a name in `tokenizer.ggml.pre`.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the table")]
pub(crate) struct PreTokenizer {
    pub(crate) name: &'static str,
    /// The name of its rules, which several names can share.
    pub(crate) rules: &'static str,
    pub(crate) passes: Vec<Pass>,
    /// Equivalent passes that are faster.
    pub(crate) fast: Vec<Pass>,
    /// Equivalent passes, except that they also split words before a space that follows a letter or
    /// a mark. Empty if words contain no such spaces.
    pub(crate) apart: Vec<Pass>,
    /// Text is merged without conversion to the byte-level alphabet.
    pub(crate) raw: bool,
    /// A word of newlines that is a token is not merged.
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

/// Returns all pre-tokenizers, sorted by name.
fn all() -> &'static [PreTokenizer] {
    &TABLE
}

/// Returns the pre-tokenizer of a name.
pub(crate) fn find(name: &[u8]) -> Option<&'static PreTokenizer> {
    let place = TABLE.binary_search_by(|known| known.name.as_bytes().cmp(name)).ok()?;
    TABLE.get(place)
}

/// Returns the known name with the least edit distance to another.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    TABLE.iter().map(|known| known.name).min_by_key(|known| distance(known, name))
}

/// Returns the Levenshtein distance of two names.
fn distance(a: &str, b: &str) -> usize {
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

/// Replaces `<NAME>` in an expression by the characters of the set. The result is leaked, since the
/// table is static.
fn with_sets(expression: &'static str, sets: &[(&str, &str)]) -> &'static str {
    let written = sets.iter().fold(expression.to_owned(), |written, (name, characters)| {
        written.replace(&format!("<{name}>"), characters)
    });
    written.leak()
}

/// A section of the table of rules.
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
    for line in lines() {
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
    fn every_flag_is_known() {
        let known = [
            "",
            "add-bos",
            "add-sep",
            "ignore-merges",
            "escape",
            "keep-spaces",
            "no-bos",
            "force-bos",
            "cased",
            "without-merges",
        ];
        for line in lines() {
            assert!(line.flags.split(' ').all(|flag| known.contains(&flag)), "{}", line.names);
        }
    }

    #[test]
    fn the_table_has_unique_names_and_known_words() {
        assert_eq!(all().len(), 91);
        let names: std::collections::BTreeSet<_> = all().iter().map(|known| known.name).collect();
        assert_eq!(names.len(), 91);
        for line in include_str!("../../data/pre-tokenizers.txt").lines() {
            let word = line.split(' ').next().unwrap_or_default();
            let known = ["", "#", "rules", "split", "scan", "set", "as", "apart"];
            let switches = ["raw", "newlines"];
            assert!(known.contains(&word) || switches.contains(&word), "{line}");
            // `parse` reads only this form.
            assert!(word != "apart" || line.starts_with("apart split "), "{line}");
        }
        let flags = find(b"llama-bpe").map(|known| (known.add_bos, known.ignore_merges, known.raw));
        assert_eq!(flags, Some((true, true, false)));
        assert!(find(b"gemma4").is_some_and(|known| known.raw && known.newlines && known.escape));
    }

    #[test]
    fn a_misspelled_name_is_nearest_to_the_intended_one() {
        assert_eq!(nearest("lama-bpe"), Some("llama-bpe"));
        assert_eq!(nearest("qwen-2"), Some("qwen2"));
    }
}
