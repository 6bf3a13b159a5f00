//! The keys of metadata.

use std::sync::LazyLock;

use ggmill_arch::{StandardKey, TensorNames, distance};
use ggmill_core::{Entry, RawStr};

use super::metadata::{is_known_general, known_general};
use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Fix, FixValue, Input, Options};

rules! { Keys;
    DUPLICATE = "GG1201" Error Reference {
        summary: "Duplicate key",
        clause: "Reported when a key occurs more than once. llama.cpp rejects the file with a \"duplicate key\" error. The specification does not say which of the entries is used.",
        why: "llama.cpp rejects the file. Some readers use the first entry and others the last, so programs can interpret the same file differently.",
        remedy: "Remove all but one of the entries.",
        fixed: "one entry for general.name",
        automatic: "removes the extra entries if all entries have the same type and value and the value is a string, a bool or an integer",
    }
    EMPTY = "GG1202" Error Both {
        summary: "Empty key",
        clause: "Reported when a key is empty. According to the specification, a key \"must be a hierarchical key, where each segment is `lower_snake_case`\"; llama.cpp rejects an empty key.",
        why: "Programs based on llama.cpp cannot load the file.",
        remedy: "Remove the entry.",
        fixed: "no entry with an empty key",
    }
    NOT_ASCII = "GG1203" Warning Must {
        summary: "Key is not ASCII",
        clause: "Reported when a key contains non-ASCII characters. According to the specification, a key \"must be a valid ASCII string\".",
        why: "The key can look like a standard key without being one. Programs that follow the specification strictly may reject the file.",
        remedy: "Rename the key.",
        fixed: "key \"x.e\"",
    }
    GRAMMAR = "GG1204" Warning Must {
        summary: "Key segment is not lower_snake_case",
        clause: "Reported when a segment of a key is not lower_snake_case. The specification says: \"each segment is `lower_snake_case` and separated by a `.`\", and \"any keys that do not follow these rules are invalid\".",
        why: "Programs that look up the key in lower_snake_case do not find it, and those that follow the specification strictly may reject the file.",
        remedy: "Rename the key so that every segment is lower_snake_case.",
        fixed: "key \"x.y\"",
    }
    TOO_LONG = "GG1205" Warning Must {
        summary: "Key is longer than 65,535 bytes",
        clause: "Reported when a key is longer than 65,535 bytes. According to the specification, a key \"must be at most 2^16-1/65535 bytes long\".",
        why: "Readers that store the length of a key in 16 bits truncate the key or reject the file.",
        remedy: "Rename or remove the key.",
        fixed: "a key of at most 65,535 bytes",
    }
    NUL = "GG1206" Warning Both {
        summary: "Key contains a NUL byte",
        clause: "Reported when a key contains a NUL byte. According to the specification, each segment of a key \"is `lower_snake_case`\", which excludes NUL; llama.cpp compares keys as C strings, which end at the first NUL.",
        why: "Some readers see a different key, possibly one that the file already contains.",
        remedy: "Rename or remove the key.",
        fixed: "key \"x.a\"",
    }
    MISSPELT = "GG1207" Warning Practice {
        summary: "Key looks like a misspelled standard key",
        clause: "Reported when a key is spelled almost like a standard key that the file does not contain. The two keys differ in at most two characters, or one of them contains an underscore, `_token` or `ggml.` that the other lacks. Standard keys are those that the specification or llama.cpp defines.",
        why: "Programs look up the standard key and do not find this value.",
        remedy: "Rename the key to the standard spelling.",
        fixed: "general.author = \"Someone\"",
        automatic: "renames the key to the standard spelling",
    }
    NO_NAMESPACE = "GG1208" Note Specification {
        summary: "Key has no namespace",
        clause: "Reported when a key has no dot. According to the specification, keys defined by a community \"should be namespaced with the relevant community name to avoid collisions\".",
        why: "Two communities can use the same key for different things.",
        remedy: "Prefix the key with the name of the community and a dot.",
        fixed: "example.answer = 42",
    }
    UNKNOWN_GENERAL = "GG1209" Note Specification {
        summary: "Unknown key in the general namespace",
        clause: "Reported when a key in the `general` namespace is not a standard key. According to the specification, keys defined by a community \"should be namespaced with the relevant community name\"; `general.` is for standard keys.",
        why: "Programs look up only standard keys in this namespace, and a standard key of the same name may be added later with a different meaning.",
        remedy: "Move the key to the namespace of the community that defines it. If a program needs the key under its current name, keep that name.",
        fixed: "example.weather = \"fine\"",
    }
    FOREIGN = "GG1210" Note Practice {
        summary: "Key of a different architecture",
        clause: "Reported when a key begins with the name of an architecture other than the file's own. llama.cpp reads a hyperparameter only if its key begins with the value of general.architecture.",
        why: "The key has no effect on the model.",
        remedy: "Rename the key so that it begins with the value of general.architecture, or remove it.",
        fixed: "llama.block_count = 1",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    for entry in input.metadata() {
        spelling(input, &entry, out);
    }
    duplicates(input, out);
}

fn duplicates(input: &Input<'_>, out: &mut Findings<'_>) {
    let mut entries: Vec<Entry<'_>> = input.metadata().iter().collect();
    entries.sort_by(|a, b| a.key().cmp(&b.key()));
    for same in entries.chunk_by(|a, b| a.key() == b.key()) {
        if let [first, second, ..] = same {
            let at = first.offset();
            out.add_fixable(&DUPLICATE, Place::key(second), || {
                (format!("occurs {} times, first at offset {at:#x}", same.len()), one_of(same))
            });
        }
    }
}

/// Returns the fix that keeps one of several entries, if all have the same scalar value.
fn one_of(same: &[Entry<'_>]) -> Option<Fix> {
    let first = same.first()?;
    let agree = same.iter().all(|entry| {
        entry.value_type() == first.value_type() && entry.value_bytes() == first.value_bytes()
    });
    let value = first.value().ok().filter(|_| agree)?;
    let number = || value.as_i128().filter(|number| i64::try_from(*number).is_ok());
    let value = value
        .as_str()
        .map(FixValue::from)
        .or_else(|| value.as_bool().map(FixValue::from))
        .or_else(|| number().map(FixValue::from))?;
    Some(Fix::set(first.key().to_str().ok()?, first.value_type(), value))
}

/// Returns the known key that a misspelled key probably means, for a model of this architecture.
///
/// ```
/// let meant = ggmill_check::meant_key("llama.context_lenght", Some("llama"));
/// assert_eq!(meant.as_deref(), Some("llama.context_length"));
/// assert_eq!(ggmill_check::meant_key("llama.context_length", Some("llama")), None);
/// let meant = ggmill_check::meant_key("eos_token_id", None);
/// assert_eq!(meant.as_deref(), Some("tokenizer.ggml.eos_token_id"));
/// ```
pub fn meant_key(key: &str, architecture: Option<&str>) -> Option<String> {
    meant(key, architecture).or_else(|| meant_in_namespace(key, architecture))
}

fn spelling(input: &Input<'_>, entry: &Entry<'_>, out: &mut Findings<'_>) {
    let key = entry.key();
    let bytes = key.as_bytes();
    if bytes.is_empty() {
        return out.add(&EMPTY, Place::key(entry), || "the key is empty".into());
    }
    if bytes.len() > 65_535 {
        out.add(&TOO_LONG, Place::key(entry), || {
            format!("{} bytes, expected at most 65535", bytes.len())
        });
    }
    if bytes.contains(&0) {
        out.add(&NUL, Place::key(entry), || "contains NUL".into());
    }
    if !bytes.is_ascii() {
        return out.add(&NOT_ASCII, Place::key(entry), || "contains non-ASCII characters".into());
    }
    // Keys of an architecture begin with its name, which another rule checks. Names of templates are free.
    let own =
        |name: &str| bytes.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
    let rest = input.architecture().filter(|name| !name.is_empty()).and_then(own).unwrap_or(bytes);
    let rest = rest.strip_prefix(b"tokenizer.chat_template.").map_or(rest, |_| b"x");
    if let Some(segment) =
        rest.split(|&byte| byte == b'.').find(|segment| !is_lower_snake_case(segment))
    {
        out.add(&GRAMMAR, Place::key(entry), || {
            format!("segment {} is not lower_snake_case", shown(RawStr::new(segment)))
        });
    } else if !bytes.contains(&b'.') {
        out.add(&NO_NAMESPACE, Place::key(entry), || "the key has no dot".into());
    }
    let Ok(key) = key.to_str() else { return };
    if let Some(meant) =
        meant(key, input.architecture()).filter(|meant| input.metadata().get(meant).is_none())
    {
        out.add_fixable(&MISSPELT, Place::key(entry), || {
            (
                format!("not a standard key; did you mean {meant}?"),
                Some(Fix::Rename { from: key.to_owned(), to: meant }),
            )
        });
    } else if key.strip_prefix("general.").is_some_and(|name| !is_known_general(name)) {
        out.add(&UNKNOWN_GENERAL, Place::key(entry), || "not a standard key".into());
    } else if let Some(architecture) = input.architecture()
        && let Some(other) = foreign(key, architecture)
    {
        out.add(&FOREIGN, Place::key(entry), || {
            let architecture = RawStr::from(architecture);
            format!("belongs to architecture {other}, but general.architecture is {architecture}")
        });
    }
}

fn is_lower_snake_case(segment: &[u8]) -> bool {
    !segment.is_empty()
        && segment
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// The keys of tokenizers and architectures that llama.cpp reads or gguf-py writes, sorted, with `{arch}`
/// for the name of the architecture. Those that are not standard keys are listed in `known-keys.txt`.
static KNOWN: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let standard = StandardKey::all().map(|key| key.pattern).filter(|key| !key.contains("{n}"));
    let of_programs =
        standard.filter(|key| key.starts_with("{arch}.") || key.starts_with("tokenizer."));
    let mut known: Vec<&str> =
        of_programs.chain(include_str!("../../data/known-keys.txt").lines()).collect();
    known.sort_unstable();
    known
});
/// The maximum length of a key that is compared, in bytes.
const MAX_LEN: usize = 64;

/// Returns the standard key that a misspelled key probably means. `architecture` is the prefix of the keys
/// of the architecture.
fn meant(key: &str, architecture: Option<&str>) -> Option<String> {
    if key.len() > MAX_LEN {
        return None;
    }
    if let Some(name) = key.strip_prefix("general.") {
        return general(name).map(|meant| format!("general.{meant}"));
    }
    let own = architecture
        .filter(|name| !name.is_empty())
        .and_then(|name| key.strip_prefix(name)?.strip_prefix('.').map(|rest| (name, rest)));
    let (pattern, name) = match own {
        Some((name, rest)) => (format!("{{arch}}.{rest}"), name),
        None if key.starts_with("tokenizer.") => (key.to_owned(), ""),
        None => return None,
    };
    // Names of templates and of new special tokens are free.
    if pattern.starts_with("tokenizer.chat_template.")
        || KNOWN.iter().any(|known| *known == pattern)
    {
        return None;
    }
    let own = |known: &&str| known.starts_with("{arch}.") == pattern.starts_with("{arch}.");
    let known = || KNOWN.iter().copied().filter(own);
    let near = known()
        .find(|known| is_near(known, &pattern))
        .or_else(|| known().find(|known| plain(known) == plain(&pattern)));
    near.map(|meant| meant.replacen("{arch}", name, 1))
}

/// Returns the standard key that a key with a missing (`eos_token_id`) or misspelled (`generl.name`)
/// namespace probably means.
fn meant_in_namespace(key: &str, architecture: Option<&str>) -> Option<String> {
    if key.len() > MAX_LEN {
        return None;
    }
    let architecture = architecture.filter(|name| !name.is_empty());
    let is_known = |space: &str, rest: &str| match space {
        "general" => is_known_general(rest),
        "tokenizer" | "tokenizer.ggml" => KNOWN.contains(&&*format!("{space}.{rest}")),
        _ => KNOWN.contains(&&*format!("{{arch}}.{rest}")),
    };
    let own = architecture.into_iter();
    if !key.contains('.') {
        let space = own.chain(["tokenizer.ggml", "general"]).find(|space| is_known(space, key))?;
        return Some(format!("{space}.{key}"));
    }
    let (typed, rest) = key.split_once('.')?;
    let is_taken = ["general", "tokenizer"].contains(&typed)
        || architecture == Some(typed)
        || TensorNames::of(typed).is_some();
    let is_meant = |space: &&str| {
        space.len() > 3
            && distance(space.as_bytes(), typed.as_bytes()) <= 2
            && is_known(space, rest)
    };
    let space = own.chain(["tokenizer", "general"]).find(is_meant).filter(|_| !is_taken)?;
    Some(format!("{space}.{rest}"))
}

/// Returns the architecture of a key, if it is not that of the file.
fn foreign<'a>(key: &'a str, architecture: &str) -> Option<&'a str> {
    let (space, rest) = key.split_once('.')?;
    let known = || KNOWN.iter().filter_map(|known| known.strip_prefix("{arch}."));
    (space != architecture
        && TensorNames::of(space).is_some()
        && known().any(|known| known == rest))
    .then_some(space)
}

/// Returns the key of `general.` that differs by one or two edits.
fn general(name: &str) -> Option<&'static str> {
    const MAX_LEN: usize = 32;
    if name.len() > MAX_LEN || is_known_general(name) {
        return None;
    }
    let allowed = |known: &str| if known.len() > 5 { 2 } else { 1 };
    known_general().find(|known| {
        known.len() > 3 && distance(known.as_bytes(), name.as_bytes()) <= allowed(known)
    })
}

/// Returns `true` if the keys differ by one insertion, deletion, substitution or transposition, and not in
/// a number.
fn is_near(known: &str, key: &str) -> bool {
    if known.len().abs_diff(key.len()) > 1 {
        return false;
    }
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<_>>();
    let same_letters = || {
        let sorted = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.sort_unstable();
            bytes
        };
        let differing: Vec<usize> = known
            .bytes()
            .zip(key.bytes())
            .enumerate()
            .filter(|(_, (a, b))| a != b)
            .map(|(place, _)| place)
            .collect();
        known.len() == key.len()
            && matches!(differing[..], [first, second] if second == first + 1)
            && sorted(known) == sorted(key)
    };
    // A different division into segments is another key: whisper has decoder.block_count, others
    // decoder_block_count.
    let dots = |text: &str| text.bytes().filter(|&byte| byte == b'.').count();
    digits(known) == digits(key)
        && dots(known) == dots(key)
        && (same_letters() || distance(known.as_bytes(), key.as_bytes()) == 1)
}

/// Normalizes a key: removes `ggml.`, `_token` and underscores, which are easily confused.
fn plain(key: &str) -> String {
    key.replacen("tokenizer.ggml.", "tokenizer.", 1).replace("_token", "").replace('_', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_general_with_a_wrong_letter_are_recognized() {
        assert_eq!(general("licence"), Some("license"));
        assert_eq!(general("architecure"), Some("architecture"));
        assert_eq!(general("license"), None);
        assert_eq!(general("sampling.top_k"), None);
        assert_eq!(general("url"), None);
    }

    #[test]
    fn misspelled_keys_of_tokenizers_and_architectures_are_recognized() {
        let meant = |key: &str| meant(key, Some("llama"));
        for (key, expected) in [
            ("tokenizer.ggml.token_types", "tokenizer.ggml.token_type"),
            ("tokenizer.ggml.bos_id", "tokenizer.ggml.bos_token_id"),
            ("tokenizer.ggml.chat_template", "tokenizer.chat_template"),
            ("llama.rope.freqbase", "llama.rope.freq_base"),
            ("llama.attention.head_count_vk", "llama.attention.head_count_kv"),
            ("llama.contex_length", "llama.context_length"),
        ] {
            assert_eq!(meant(key).as_deref(), Some(expected), "{key}");
        }
        for key in [
            "llama.context_length",
            "tokenizer.ggml.eom_token_id",
            "qwen2.contex_length",
            "llama.tensor_data_layout",
            "llama.attention.head_count_q2",
        ] {
            assert_eq!(meant(key), None, "{key}");
        }
        assert_eq!(foreign("qwen2.block_count", "llama"), Some("qwen2"));
        assert_eq!(foreign("llama.block_count", "llama"), None);
        assert_eq!(foreign("clip.projector_type", "llama"), None);
    }

    #[test]
    fn keys_of_descriptions_are_not_misspellings() {
        for architecture in ggmill_arch::Architecture::builtins() {
            for key in architecture.keys() {
                assert_eq!(meant(key.name, Some(architecture.name())), None, "{}", key.name);
            }
        }
    }

    #[test]
    fn known_keys_are_not_misspellings() {
        for known in KNOWN.iter() {
            assert_eq!(meant(&known.replace("{arch}", "llama"), Some("llama")), None, "{known}");
        }
    }
}
