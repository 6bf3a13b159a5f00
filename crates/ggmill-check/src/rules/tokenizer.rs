//! The vocabulary and what belongs to it.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use foldhash::{HashSet, HashSetExt as _};
use ggmill_core::{Array, Entry, RawStr, ValueType, keys};
use ggmill_tokenizer::pre_tokenizer_rules;

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::rules::texts;
use crate::{Fix, Input, Options};

rules! { Tokenizer;
    NO_TOKENS = "GG1601" Error Reference {
        summary: "Tokenizer has no tokens",
        clause: "Reported when the file has a tokenizer, but `tokenizer.ggml.tokens` is missing or not an array of strings. llama.cpp rejects the model: \"cannot find tokenizer vocab in model file\".",
        why: "Text cannot be tokenized, and llama.cpp rejects the model.",
        remedy: "Convert the model again with its tokenizer files in the same directory.",
        fixed: "tokenizer.ggml.tokens = [\"<s>\", \"a\", \"b\", \"ab\", \"c\"]",
    }
    SCORES = "GG1602" Error Both {
        summary: "Scores do not match the tokens",
        clause: "Reported when `tokenizer.ggml.scores` differs in length from the tokens, or is not an array of f32. According to the specification, scores \"must have the same length and index as `tokens`\"; llama.cpp rejects a file that has fewer scores than tokens, or scores of a different type.",
        why: "Scores are missing, or are applied to the wrong tokens.",
        remedy: "Convert the model again, or copy the vocabulary from a correct file.",
        fixed: "tokenizer.ggml.scores: 5 elements for 5 tokens",
    }
    TOKEN_TYPES = "GG1603" Error Both {
        summary: "Token types do not match the tokens",
        clause: "Reported when `tokenizer.ggml.token_type` differs in length from the tokens, or is not an array of int32. According to the specification, it \"must have the same length and index as `tokens`\"; llama.cpp rejects a file that has fewer types than tokens.",
        why: "Control tokens can be treated as text, and text as control tokens.",
        remedy: "Convert the model again, or copy the vocabulary from a correct file.",
        fixed: "tokenizer.ggml.token_type: 5 elements for 5 tokens",
    }
    TOKEN_TYPE = "GG1604" Warning Specification {
        summary: "Unknown token type",
        clause: "Reported when a token has a type other than 1 to 6. The specification defines \"1=normal, 2=unknown, 3=control, 4=user defined, 5=unused, 6=byte\".",
        why: "Readers treat the token as undefined: it is never produced from text.",
        remedy: "Set the type of the token to one of the six.",
        fixed: "tokenizer.ggml.token_type = [3, 1, 1, 1, 1]",
    }
    SPECIAL_ID = "GG1605" Warning Both {
        summary: "Special token ID out of range",
        clause: "Reported when the ID of a special token is not the index of a token. llama.cpp warns about an ID outside the vocabulary: \"bad special token\".",
        why: "Readers ignore the key and use a default, so text can begin or end with the wrong token.",
        remedy: "Set the key to the ID from the tokenizer's configuration, or remove it.",
        fixed: "tokenizer.ggml.bos_token_id = 0",
    }
    MERGE = "GG1606" Error Reference {
        summary: "Merge does not have two parts",
        clause: "Reported when a merge does not consist of two parts with a space between them. llama.cpp splits each merge at the first space after its first character.",
        why: "The merge is lost, as is every token that depends on it.",
        remedy: "Convert the model again from its tokenizer.json.",
        fixed: "tokenizer.ggml.merges = [\"a b\"]",
    }
    MERGE_TOKENS = "GG1607" Warning Practice {
        summary: "Merge result not in vocabulary",
        clause: "Reported when the result of a merge is not a token. A merge joins two tokens into a third; llama.cpp looks up the result in the vocabulary.",
        why: "The vocabulary and the merges come from different tokenizers, or one of them was edited.",
        remedy: "Convert the model again from its tokenizer.json.",
        fixed: "tokenizer.ggml.merges = [\"a b\"], and \"ab\" is a token",
    }
    NO_PRE = "GG1608" Warning Reference {
        summary: "BPE vocabulary has no pre-tokenizer",
        clause: "Reported when a BPE vocabulary has no `tokenizer.ggml.pre`. llama.cpp warns that generation quality will be degraded: \"missing pre-tokenizer type, using: 'default'\".",
        why: "Text is not split as it was in training, so the model sees unfamiliar token sequences.",
        remedy: "Set tokenizer.ggml.pre to llama.cpp's name for the pre-tokenizer.",
        fixed: "tokenizer.ggml.pre = \"gpt-2\"",
    }
    UNKNOWN_PRE = "GG1609" Error Reference {
        summary: "Unknown pre-tokenizer",
        clause: "Reported when llama.cpp does not know the pre-tokenizer that `tokenizer.ggml.pre` names. It rejects the model: \"unknown pre-tokenizer type\".",
        why: "llama.cpp rejects the model. A newer version may support the name.",
        remedy: "Set tokenizer.ggml.pre to a name that is supported by the programs that you use.",
        fixed: "tokenizer.ggml.pre = \"default\"",
    }
    SEPARATOR = "GG1610" Warning Reference {
        summary: "separator_token_id is not read by llama.cpp",
        clause: "Reported when the file has `tokenizer.ggml.separator_token_id` but not the key that llama.cpp reads instead. llama.cpp reads and writes tokenizer.ggml.seperator_token_id; the specification spells it separator_token_id.",
        why: "llama.cpp does not find the separator token.",
        remedy: "Add tokenizer.ggml.seperator_token_id, as llama.cpp spells it, with the same value.",
        fixed: "tokenizer.ggml.seperator_token_id = 1, in addition to separator_token_id",
        automatic: "adds the key as llama.cpp spells it, with the same value",
    }
    DUPLICATE_TOKEN = "GG1611" Error Reference {
        summary: "Duplicate token",
        clause: "Reported when two tokens are equal. llama.cpp asserts that all tokens are different.",
        why: "llama.cpp aborts while it loads the file.",
        remedy: "Give the second token unique text, such as [PAD12345].",
        fixed: "tokenizer.ggml.tokens = [\"<s>\", \"a\", \"b\", \"ab\", \"c\"]",
    }
    UNKNOWN_MODEL = "GG1612" Error Reference {
        summary: "Unknown tokenizer model",
        clause: "Reported when llama.cpp does not know the value of `tokenizer.ggml.model`. It rejects the model: \"unknown tokenizer\".",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Set tokenizer.ggml.model to the type of the tokenizer, such as llama, gpt2, bert, t5 or rwkv.",
        fixed: "tokenizer.ggml.model = \"gpt2\"",
    }
    VOCABULARY_SIZE = "GG1613" Warning Practice {
        summary: "Number of tokens does not match the embedding",
        clause: "Reported when the number of tokens differs from the number of rows of `token_embd.weight`. llama.cpp expects one row for each token.",
        why: "Tokens without a row cannot be used, and rows without a token have no text. llama.cpp rejects most such models.",
        remedy: "If there are more rows than tokens, pad the vocabulary when converting the model. If there are more tokens than rows, check that the tokenizer belongs to the model.",
        fixed: "6 tokens, token_embd.weight with 6 rows",
    }
    NO_MERGES = "GG1614" Error Reference {
        summary: "BPE vocabulary has no merges",
        clause: "Reported when a BPE vocabulary has no merges. llama.cpp rejects the model: \"cannot find tokenizer merges in model file\". According to the specification, tokens without merges are atomic.",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Convert the model again from its tokenizer.json.",
        fixed: "tokenizer.ggml.merges = [\"a b\"]",
    }
    OLD_KEY = "GG1615" Note Practice {
        summary: "Renamed tokenizer key",
        clause: "Reported when a tokenizer key has a name that llama.cpp no longer uses. llama.cpp renamed prefix_token_id, suffix_token_id and middle_token_id to fim_pre_token_id, fim_suf_token_id and fim_mid_token_id.",
        why: "Programs that know only the new names do not find the token.",
        remedy: "Add the key under its new name.",
        fixed: "tokenizer.ggml.fim_pre_token_id = 1, in addition to prefix_token_id",
        automatic: "adds the key under its new name, with the same value",
    }
    NOT_JSON = "GG1616" Warning Specification {
        summary: "tokenizer.huggingface.json is not valid JSON",
        clause: "Reported when the value of `tokenizer.huggingface.json` is not valid JSON. According to the specification, it is \"the entirety of the HF `tokenizer.json` for a given model\".",
        why: "Programs that prefer it over the embedded vocabulary fail.",
        remedy: "Copy the value again from the model's tokenizer.json, or remove it.",
        fixed: "tokenizer.huggingface.json = \"{}\"",
    }
    SEPARATORS_DIFFER = "GG1617" Warning Practice {
        summary: "Separator token keys differ",
        clause: "Reported when `tokenizer.ggml.separator_token_id` and `tokenizer.ggml.seperator_token_id` have different values. The specification's separator_token_id and llama.cpp's seperator_token_id denote the same token.",
        why: "Which token is the separator depends on the program.",
        remedy: "Set both keys to the ID from the tokenizer's configuration.",
        fixed: "tokenizer.ggml.separator_token_id = 1, tokenizer.ggml.seperator_token_id = 1",
    }
    BYTE_TOKENS = "GG1618" Warning Reference {
        summary: "Missing byte tokens",
        clause: "Reported when a vocabulary has byte tokens for some bytes but not for all. llama.cpp encodes bytes that no other token covers as the tokens <0x00> to <0xFF>. It throws an exception if the vocabulary has neither the token for that byte nor (except with PLaMo-2) a token whose text is the byte itself.",
        why: "A program that tokenizes text with such a byte terminates, and the text often comes from untrusted users.",
        remedy: "Convert the model again with all of its tokenizer files. A reduced vocabulary must keep its 256 byte tokens.",
        fixed: "all of the tokens <0x00> to <0xFF>, or none of them",
    }
}

/// The tokenizers llama.cpp has; those of the specification that it has not are the older replit.
const MODELS: &[&str] = &[
    "llama",
    "gpt2",
    "bert",
    "t5",
    "rwkv",
    "plamo2",
    "gemma4",
    "hybriddna",
    "whitespace",
    "test",
    "no_vocab",
    "none",
    "replit",
];
const SEPARATOR_CODE: &str = "tokenizer.ggml.seperator_token_id";
const HUGGING_FACE: &str = "tokenizer.huggingface.json";
const SEPARATOR_SPEC: &str = "tokenizer.ggml.separator_token_id";

/// An array key with its entry.
fn array<'a>(input: &Input<'a>, key: &str) -> Option<(Entry<'a>, Array<'a>)> {
    let entry = input.metadata().get(key)?;
    Some((entry, entry.value().ok()?.as_array()?))
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let model = input.text(keys::TOKENIZER_MODEL);
    let tokens = array(input, keys::TOKENIZER_TOKENS);
    if let (Some(name), Some(entry)) = (model, input.metadata().get(keys::TOKENIZER_MODEL)) {
        if !MODELS.contains(&name) {
            out.add(&UNKNOWN_MODEL, Place::value(&entry), || {
                format!("model {}", shown(RawStr::from(name)))
            });
        }
        let needs = !matches!(name, "no_vocab" | "none") && input.is_whole();
        if needs
            && tokens.is_none_or(|(_, tokens)| {
                tokens.element_type() != ValueType::STRING || tokens.is_empty()
            })
        {
            out.add(&NO_TOKENS, Place::missing(keys::TOKENIZER_TOKENS), || {
                "the key is missing or not an array of strings".into()
            });
        }
        if name == "gpt2" {
            byte_pairs(input, out);
        }
    }
    if let (Some(entry), Some(text)) =
        (input.metadata().get(HUGGING_FACE), input.text(HUGGING_FACE))
        && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text)
    {
        out.add(&NOT_JSON, Place::value(&entry), || {
            format!("line {}, column {}: {}", error.line(), error.column(), reason(&error))
        });
    }
    special(input, tokens.map(|(_, tokens)| tokens.len()), out);
    let Some((entry, tokens)) =
        tokens.filter(|(_, tokens)| tokens.element_type() == ValueType::STRING)
    else {
        return;
    };
    parallel(input, tokens.len(), out);
    embedding(input, &entry, tokens.len(), out);
    // The tokenizers that cannot do without.
    if matches!(model, Some("llama" | "plamo2")) && out.wants(&BYTE_TOKENS) {
        bytes(&entry, &tokens, model == Some("llama"), out);
    }
    vocabulary(input, &entry, &tokens, model, out);
}

/// The message of a JSON error without its position.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

fn byte_pairs(input: &Input<'_>, out: &mut Findings<'_>) {
    match (input.text(keys::TOKENIZER_PRE), input.metadata().get(keys::TOKENIZER_PRE)) {
        (None | Some(""), None) if input.is_whole() => {
            out.add(&NO_PRE, Place::missing(keys::TOKENIZER_PRE), || "the key is missing".into());
        }
        (Some(name), Some(entry)) if pre_tokenizer_rules(name).is_none() => {
            out.add(&UNKNOWN_PRE, Place::value(&entry), || {
                format!("pre-tokenizer {}", shown(RawStr::from(name)))
            });
        }
        _ => {}
    }
    if input.is_whole() && input.metadata().get(keys::TOKENIZER_MERGES).is_none() {
        out.add(&NO_MERGES, Place::missing(keys::TOKENIZER_MERGES), || "the key is missing".into());
    }
}

/// Ids of special tokens, which must be indices of tokens; and keys that have other names by now.
fn special(input: &Input<'_>, tokens: Option<u64>, out: &mut Findings<'_>) {
    for entry in input.metadata().iter() {
        let Some(name) = entry
            .key()
            .to_str()
            .ok()
            .and_then(|key| key.strip_prefix("tokenizer.ggml.")?.strip_suffix("_token_id"))
        else {
            continue;
        };
        if matches!(name, "prefix" | "suffix" | "middle") {
            let new = format!("tokenizer.ggml.fim_{}_token_id", name.get(..3).unwrap_or(name));
            if input.metadata().get(&new).is_some() {
                continue;
            }
            let id = entry.value().ok().and_then(|value| value.as_u64());
            let fix = id.map(|id| Fix::set(new.as_str(), ValueType::U32, id));
            out.add_fixable(&OLD_KEY, Place::key(&entry), || (format!("renamed to {new}"), fix));
        }
        let Some(id) = entry.value().ok().and_then(|value| value.as_i128()) else { continue };
        // Of a shard that has no vocabulary nothing is known; 2^32 - 1 says "none".
        if let Some(count) = tokens
            && !(0..i128::from(count)).contains(&id)
            && id != -1
            && id != i128::from(u32::MAX)
        {
            out.add(&SPECIAL_ID, Place::value(&entry), || {
                format!("ID {id}, but the vocabulary has {count} tokens")
            });
        }
    }
    let Some(entry) = input.metadata().get(SEPARATOR_SPEC) else { return };
    match (input.metadata().get(SEPARATOR_CODE), input.number(SEPARATOR_SPEC)) {
        (None, id) => out.add_fixable(&SEPARATOR, Place::key(&entry), || {
            (
                format!("llama.cpp reads {SEPARATOR_CODE}"),
                id.map(|id| Fix::set(SEPARATOR_CODE, ValueType::U32, id)),
            )
        }),
        (Some(_), id) if id != input.number(SEPARATOR_CODE) => {
            out.add(&SEPARATORS_DIFFER, Place::value(&entry), || {
                format!("differs from {SEPARATOR_CODE}")
            });
        }
        _ => {}
    }
}

fn parallel(input: &Input<'_>, count: u64, out: &mut Findings<'_>) {
    let differs = |found: u64| {
        let plural = if found == 1 { "" } else { "s" };
        format!("{found} element{plural} for {count} tokens")
    };
    if let Some((entry, scores)) = array(input, keys::TOKENIZER_SCORES) {
        // Whole numbers are read too.
        if !matches!(scores.element_type(), ValueType::F32 | ValueType::I32) {
            out.add(&SCORES, Place::value(&entry), || {
                format!("array of {}, expected array of f32", scores.element_type())
            });
        } else if scores.len() != count {
            out.add(&SCORES, Place::value(&entry), || differs(scores.len()));
        }
    }
    if let Some((entry, types)) = array(input, keys::TOKENIZER_TOKEN_TYPE) {
        if types.element_type() != ValueType::I32 {
            out.add(&TOKEN_TYPES, Place::value(&entry), || {
                format!("array of {}, expected array of i32", types.element_type())
            });
        } else if types.len() != count {
            out.add(&TOKEN_TYPES, Place::value(&entry), || differs(types.len()));
        }
        let mut odd = types
            .integers()
            .into_iter()
            .flatten()
            .enumerate()
            .filter(|(_, number)| !(1..=6).contains(number));
        if let Some((id, number)) = odd.next() {
            let more = odd.count();
            let others = if more > 0 {
                format!(", and {more} more have unknown types")
            } else {
                String::new()
            };
            out.add(&TOKEN_TYPE, Place::value(&entry), || {
                format!("token {id} has type {number}{others}")
            });
        }
    }
}

fn embedding(input: &Input<'_>, entry: &Entry<'_>, count: u64, out: &mut Findings<'_>) {
    if let Some((_, tensor)) = input.model_tensor(b"token_embd.weight") {
        let rows = tensor.shape().rows();
        if rows != count {
            out.add(&VOCABULARY_SIZE, Place::value(entry), || {
                format!("{count} tokens, but token_embd.weight has {rows} rows")
            });
        }
    }
}

/// The tokens that stand for single bytes: all 256 of them, when there is any. Some tokenizers also
/// use a token of the byte itself.
fn bytes(entry: &Entry<'_>, tokens: &Array<'_>, or_itself: bool, out: &mut Findings<'_>) {
    let mut known = [false; 256];
    let mut left = known.len();
    for token in texts(tokens) {
        let Some(place) =
            byte_of(token.as_bytes()).and_then(|byte| known.get_mut(usize::from(byte)))
        else {
            continue;
        };
        left -= usize::from(!*place);
        *place = true;
        if left == 0 {
            return;
        }
    }
    if left == known.len() {
        return;
    }
    for token in texts(tokens).filter(|_| or_itself) {
        if let [byte] = token.as_bytes()
            && let Some(place) = known.get_mut(usize::from(*byte))
        {
            *place = true;
        }
    }
    let mut missing =
        known.iter().zip(0..=u8::MAX).filter(|(known, _)| !**known).map(|(_, byte)| byte);
    if let Some(first) = missing.next() {
        let more = missing.count();
        let others = if more > 0 { format!(", and {more} more") } else { String::new() };
        out.add(&BYTE_TOKENS, Place::value(entry), || format!("missing: <0x{first:02X}>{others}"));
    }
}

/// The byte that a token such as `<0x0A>` stands for. llama.cpp looks for upper-case digits only.
fn byte_of(token: &[u8]) -> Option<u8> {
    let digits = token.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_lowercase());
    match digits {
        [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    }
}

/// Duplicate tokens, and merges that make none.
fn vocabulary(
    input: &Input<'_>,
    entry: &Entry<'_>,
    tokens: &Array<'_>,
    model: Option<&str>,
    out: &mut Findings<'_>,
) {
    let merges_matter = out.wants(&MERGE_TOKENS) || out.wants(&MERGE);
    if !out.wants(&DUPLICATE_TOKEN) && !merges_matter {
        return;
    }
    // The merges of other models are made differently, and not every tokenizer that has them is a
    // plain BPE.
    let merges =
        array(input, keys::TOKENIZER_MERGES).filter(|_| model == Some("gpt2") && merges_matter);
    if merges.is_none() && all_differ(tokens) {
        return;
    }
    // Capacity by what is there: a count in the file is held against its bytes when the header is
    // read.
    let mut known: HashSet<&[u8]> =
        HashSet::with_capacity(usize::try_from(tokens.len()).unwrap_or(0));
    for (id, token) in texts(tokens).enumerate() {
        // llama.cpp gives empty tokens names of their own.
        if !known.insert(token.as_bytes()) && !token.is_empty() {
            out.add(&DUPLICATE_TOKEN, Place::value(entry), || {
                format!("token {id} is a duplicate: {}", shown(token))
            });
        }
    }
    let Some((entry, merges)) = merges else { return };
    let mut joined = Vec::new();
    for (number, merge) in texts(&merges).enumerate() {
        let bytes = merge.as_bytes();
        let space = bytes.iter().skip(1).position(|&byte| byte == b' ').map(|at| at + 1);
        let Some((left, right)) = space
            .and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?)))
            .filter(|(_, right)| !right.is_empty())
        else {
            out.add(&MERGE, Place::value(&entry), || format!("merge {number} is {}", shown(merge)));
            continue;
        };
        joined.clear();
        joined.extend_from_slice(left);
        joined.extend_from_slice(right);
        if !known.contains(&*joined) {
            out.add(&MERGE_TOKENS, Place::value(&entry), || {
                format!(
                    "merge {number} is {}, but {} is not a token",
                    shown(merge),
                    shown(RawStr::new(&joined))
                )
            });
        }
    }
}

/// Whether all tokens differ, by a hash of each: the table is half as large as one of the tokens,
/// and memory is what it costs. Tokens whose hashes are equal may differ anyway.
fn all_differ(tokens: &Array<'_>) -> bool {
    let hasher = RandomState::default();
    let mut known: HashSet<u64> =
        HashSet::with_capacity(usize::try_from(tokens.len()).unwrap_or(0));
    texts(tokens)
        .filter(|token| !token.is_empty())
        .all(|token| known.insert(hasher.hash_one(token.as_bytes())))
}
