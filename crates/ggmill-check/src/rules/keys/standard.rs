//! The keys that programs look for, and what was meant by one that is nearly one of them.

use std::sync::LazyLock;

use ggmill_arch::{StandardKey, TensorNames};

use super::super::metadata::{is_known_general, known_general};
use ggmill_arch::distance;

/// The keys of tokenizers and of architectures that llama.cpp reads or gguf writes, in alphabetical
/// order; `{arch}` stands for the architecture's name. Those that are not standard keys have no
/// page, and are in a list of names.
static KNOWN: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let standard = StandardKey::all().map(|key| key.pattern).filter(|key| !key.contains("{n}"));
    let of_programs =
        standard.filter(|key| key.starts_with("{arch}.") || key.starts_with("tokenizer."));
    let mut known: Vec<&str> =
        of_programs.chain(include_str!("../../../data/known-keys.txt").lines()).collect();
    known.sort_unstable();
    known
});
/// Keys longer than this are compared with none.
const MAX_LEN: usize = 64;

/// The standard key that was probably meant by one that is none. `architecture` is the name that
/// the architecture's keys begin with.
pub(super) fn meant(key: &str, architecture: Option<&str>) -> Option<String> {
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
    // Templates have names of their own, and so have the special tokens of a tokenizer that is new.
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

/// The standard key that was probably meant by one whose namespace is missing (`eos_token_id`) or
/// misspelled (`generl.name`).
pub(super) fn meant_in_namespace(key: &str, architecture: Option<&str>) -> Option<String> {
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

/// A key of an architecture that the file is not of: which one.
pub(super) fn foreign<'a>(key: &'a str, architecture: &str) -> Option<&'a str> {
    let (space, rest) = key.split_once('.')?;
    let known = || KNOWN.iter().filter_map(|known| known.strip_prefix("{arch}."));
    (space != architecture
        && TensorNames::of(space).is_some()
        && known().any(|known| known == rest))
    .then_some(space)
}

/// The standard key after `general.` that this is one or two letters away from.
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

/// Whether a letter is missing, too many or another, or two neighbors changed places. A number that
/// differs is another key.
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
    // Where a segment ends is not a misspelling: whisper has decoder.block_count, others
    // decoder_block_count.
    let dots = |text: &str| text.bytes().filter(|&byte| byte == b'.').count();
    digits(known) == digits(key)
        && dots(known) == dots(key)
        && (same_letters() || distance(known.as_bytes(), key.as_bytes()) == 1)
}

/// A key without what is easily forgotten or put in: `ggml.`, `_token`, underscores.
fn plain(key: &str) -> String {
    key.replacen("tokenizer.ggml.", "tokenizer.", 1).replace("_token", "").replace('_', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_is_enough_to_be_lost() {
        assert_eq!(general("licence"), Some("license"));
        assert_eq!(general("architecure"), Some("architecture"));
        assert_eq!(general("license"), None);
        assert_eq!(general("sampling.top_k"), None);
        assert_eq!(general("url"), None);
    }

    #[test]
    fn keys_of_tokenizers_and_architectures_are_misspelled_too() {
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
    fn no_key_of_a_description_is_taken_for_another() {
        for architecture in ggmill_arch::Architecture::builtins() {
            for key in architecture.keys() {
                assert_eq!(meant(key.name, Some(architecture.name())), None, "{}", key.name);
            }
        }
    }

    #[test]
    fn no_known_key_is_taken_for_another() {
        for known in KNOWN.iter() {
            assert_eq!(meant(&known.replace("{arch}", "llama"), Some("llama")), None, "{known}");
        }
    }
}
