//! Finding the known pre-tokenizer that is most similar to an unknown one, by the alternatives that
//! their regular expressions have in common.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ggmill_core::RawStr;
use serde::Deserialize;
use serde_json::Value;

/// The regular expressions of llama.cpp, and the names of the pre-tokenizers that use them.
#[derive(Debug, Deserialize)]
struct Group {
    names: Vec<String>,
    patterns: Vec<String>,
}

static GROUPS: LazyLock<Vec<Group>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/pretokenizer-patterns.json")).unwrap_or_default()
});

/// The expression of a `ByteLevel` pre-tokenizer, without its last alternative.
const BYTE_LEVEL: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";

/// The most alternatives that are compared.
const MAX_ALTERNATIVES: usize = 256;
/// The longest expression in bytes that is compared.
const MAX_LEN: usize = 1 << 14;

/// Returns the expressions of a pre-tokenizer, in the order of its passes. Returns `None` for an
/// unknown name, and if an expression contains a character class that only llama.cpp has.
pub(crate) fn of_name(name: &str) -> Option<&'static [String]> {
    /// The end of the name of such a class.
    const OWN: &str = "_digits}";
    let group = GROUPS.iter().find(|group| group.names.iter().any(|known| known == name))?;
    (!group.patterns.iter().any(|pattern| pattern.contains(OWN))).then_some(&*group.patterns)
}

/// Facts about pre-tokenizers by name: flags for which a file has no key, and preferences.
#[derive(Debug, Default, Deserialize)]
struct Flags {
    /// Names with which a word that is a token is not split by merges.
    ignore_merges: Vec<String>,
    /// Names with which BOS is added if the file does not specify it.
    add_bos: Vec<String>,
    /// The most common names, the first of which is used where several have the same rules.
    preferred: Vec<String>,
}

static FLAGS: LazyLock<Flags> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/pretokenizer-flags.json")).unwrap_or_default()
});

/// Returns `true` if a word that is a token is not split by merges with this pre-tokenizer.
pub(crate) fn ignores_merges(name: &str) -> bool {
    FLAGS.ignore_merges.iter().any(|flagged| flagged == name)
}

/// Returns `true` if BOS is added with this pre-tokenizer where a file does not specify it.
pub(crate) fn adds_bos(name: &str) -> bool {
    FLAGS.add_bos.iter().any(|flagged| flagged == name)
}

/// Returns the place of a pre-tokenizer among those with the same rules; the lowest is preferred.
pub(crate) fn preference(name: &str) -> usize {
    let preferred = &FLAGS.preferred;
    preferred.iter().position(|known| known == name).unwrap_or(preferred.len())
}

/// Returns `true` if regular expressions, each of whose matches is a piece, define the pre-tokenizer.
fn has_only_expressions(pre_tokenizer: &Value) -> bool {
    let text = |name: &str| pre_tokenizer.get(name).and_then(Value::as_str);
    match text("type") {
        Some("Sequence") => {
            let parts = pre_tokenizer.get("pretokenizers").and_then(Value::as_array);
            parts.is_some_and(|parts| parts.iter().all(has_only_expressions))
        }
        Some("Split") => {
            let is_inverted = pre_tokenizer.get("invert").and_then(Value::as_bool) == Some(true);
            matches!(text("behavior"), None | Some("Isolated")) && !is_inverted
        }
        Some("ByteLevel" | "Digits") => true,
        _ => false,
    }
}

/// Returns the names of the pre-tokenizers with the same regular expressions.
pub(crate) fn equal(pre_tokenizer: &Value) -> &'static [String] {
    let mut found = Vec::new();
    collect(pre_tokenizer, &mut found);
    let found = alternatives(found.iter().map(|pattern| &**pattern));
    let is_equal =
        |group: &&Group| alternatives(group.patterns.iter().map(|pattern| &**pattern)) == found;
    let group =
        Some(GROUPS.iter()).filter(|_| !found.is_empty() && has_only_expressions(pre_tokenizer));
    group.and_then(|mut groups| groups.find(is_equal)).map_or(&[], |group| &group.names)
}

/// Describes the known pre-tokenizers that are most similar to the one of a `tokenizer.json`, and
/// the differences. Returns `None` if none has an alternative in common.
pub(crate) fn nearest(pre_tokenizer: &Value) -> Option<String> {
    let mut found = Vec::new();
    collect(pre_tokenizer, &mut found);
    let found = alternatives(found.iter().map(|pattern| &**pattern));
    let score = |known: &BTreeSet<String>| {
        let common = known.intersection(&found).count();
        (common > 0).then(|| common.saturating_mul(2000) / (known.len() + found.len()))
    };
    let mut best: Option<(usize, &Group, BTreeSet<String>)> = None;
    for group in &*GROUPS {
        let known = alternatives(group.patterns.iter().map(|pattern| &**pattern));
        if let Some(score) = score(&known)
            && best.as_ref().is_none_or(|(most, _, _)| score > *most)
        {
            best = Some((score, group, known));
        }
    }
    let (_, group, known) = best?;
    let names = listed(group.names.iter().cloned());
    let shown = |only: Vec<&String>| {
        listed(only.into_iter().map(|it| format!("`{}`", RawStr::from(&**it))))
    };
    let theirs: Vec<&String> = known.difference(&found).collect();
    let ours: Vec<&String> = found.difference(&known).collect();
    Some(match (theirs.is_empty(), ours.is_empty()) {
        (true, true) => format!("{names} use the same regular expressions"),
        (false, true) => format!("nearest are {names}, which also split by {}", shown(theirs)),
        (true, false) => format!("nearest are {names}, which do not split by {}", shown(ours)),
        (false, false) => format!(
            "nearest are {names}, which split by {}, but not by {}",
            shown(theirs),
            shown(ours)
        ),
    })
}

/// Lists the first items, and the number of the others.
fn listed(items: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 4;
    let items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(SHOWN);
    let first = items.get(..SHOWN).unwrap_or(&items).join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// Appends the expressions of a pre-tokenizer and its parts.
fn collect(pre_tokenizer: &Value, found: &mut Vec<String>) {
    let flag = |name: &str| pre_tokenizer.get(name).and_then(Value::as_bool).unwrap_or(true);
    match pre_tokenizer.get("type").and_then(Value::as_str) {
        Some("Sequence") => {
            let parts = pre_tokenizer.get("pretokenizers").and_then(Value::as_array);
            for part in parts.into_iter().flatten() {
                collect(part, found);
            }
        }
        Some("Split") => {
            let pattern = pre_tokenizer.get("pattern");
            let text = pattern.and_then(|it| it.get("Regex").or_else(|| it.get("String")));
            found.extend(text.and_then(Value::as_str).map(str::to_owned));
        }
        Some("ByteLevel") if flag("use_regex") => found.push(BYTE_LEVEL.to_owned()),
        Some("Digits") if flag("individual_digits") => found.push(r"\p{N}".to_owned()),
        Some("Digits") => found.push(r"\p{N}+".to_owned()),
        Some("Punctuation") => found.push(r"\p{P}".to_owned()),
        _ => {}
    }
}

/// Returns the alternatives of expressions: their parts between `|` outside groups and classes.
fn alternatives<'a>(patterns: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pattern in patterns.filter(|pattern| pattern.len() <= MAX_LEN) {
        // llama.cpp's expressions have no flags, so the case-insensitive group is expanded.
        let pattern = pattern.replace(
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
            "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
        );
        // llama.cpp knows letters, but not their case or marks.
        let pattern = pattern
            .replace(r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"((?=[\p{L}])([^a-z]))")
            .replace(r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"((?=[\p{L}])([^A-Z]))");
        let (mut part, mut depth, mut class, mut escaped) = (String::new(), 0usize, false, false);
        for c in pattern.chars() {
            let splits = c == '|' && depth == 0 && !class && !escaped;
            match c {
                _ if escaped => {}
                '[' => class = true,
                ']' => class = false,
                '(' if !class => depth = depth.saturating_add(1),
                ')' if !class => depth = depth.saturating_sub(1),
                _ => {}
            }
            escaped = c == '\\' && !escaped;
            if splits {
                found.insert(std::mem::take(&mut part));
            } else {
                part.push(c);
            }
        }
        found.insert(part);
    }
    while found.len() > MAX_ALTERNATIVES {
        found.pop_last();
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_similar_is_named_with_the_differences() {
        let of = |pattern: &str| {
            nearest(&json!({ "type": "Sequence", "pretokenizers": [
                { "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated" },
                { "type": "ByteLevel", "use_regex": false },
            ] }))
        };
        let llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        let same = of(llama3).unwrap();
        assert!(same.ends_with("use the same regular expressions"), "{same}");
        assert!(same.contains("dbrx"), "{same}");
        let near = of(&llama3.replace(r"\p{N}{1,3}", r"\p{N}{1,2}")).unwrap();
        assert!(near.starts_with("nearest are ") && near.contains(r"`\\p{N}{1,2}`"), "{near}");
        let step = |regex: &str| json!({ "type": "Split", "pattern": { "Regex": regex } });
        assert!(equal(&step(llama3)).contains(&"llama-bpe".to_owned()));
        assert!(equal(&step("abc")).is_empty());
        assert!(equal(&json!({ "type": "Metaspace" })).is_empty());
        let byte_level = json!({ "type": "ByteLevel" });
        assert!(equal(&byte_level).contains(&"gpt-2".to_owned()));
        let shorter = json!({ "type": "Sequence",
            "pretokenizers": [{ "type": "FixedLength", "length": 2 }, byte_level] });
        assert!(equal(&shorter).is_empty());
        assert_eq!(of("abc"), None);
        assert_eq!(nearest(&json!({ "type": "Metaspace" })), None);
    }
}
