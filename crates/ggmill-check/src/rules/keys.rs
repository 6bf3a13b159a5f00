//! The keys of metadata.

mod standard;

use ggmill_core::{Entry, RawStr};

use super::metadata::is_known_general;
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
    for entry in input.metadata().iter() {
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

/// Where all entries say the same, and it is one value, one of them is as good as all.
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

/// The key that programs look for and that this one is nearly, for a model of this architecture:
/// what was meant by a misspelled one.
///
/// ```
/// let meant = ggmill_check::meant_key("llama.context_lenght", Some("llama"));
/// assert_eq!(meant.as_deref(), Some("llama.context_length"));
/// assert_eq!(ggmill_check::meant_key("llama.context_length", Some("llama")), None);
/// let meant = ggmill_check::meant_key("eos_token_id", None);
/// assert_eq!(meant.as_deref(), Some("tokenizer.ggml.eos_token_id"));
/// ```
pub fn meant_key(key: &str, architecture: Option<&str>) -> Option<String> {
    standard::meant(key, architecture).or_else(|| standard::meant_in_namespace(key, architecture))
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
    // The keys of an architecture begin with its name, whatever that is; the name has a rule of its
    // own. Templates are named by their authors.
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
    if let Some(meant) = standard::meant(key, input.architecture())
        .filter(|meant| input.metadata().get(meant).is_none())
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
        && let Some(other) = standard::foreign(key, architecture)
    {
        out.add(&FOREIGN, Place::key(entry), || {
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
