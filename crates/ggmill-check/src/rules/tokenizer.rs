//! The vocabulary: tokens, scores, types, merges and special tokens.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use foldhash::{HashSet, HashSetExt as _};
use ggmill_core::{Array, Entry, RawStr, ValueType, keys};
use ggmill_tokenizer::{pre_tokenizer_allows_no_merges, pre_tokenizer_rules};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::rules::texts;
use crate::{Fix, Input, Options};

rules! { Tokenizer;
    NO_TOKENS = "GG1601" Error Reference {
        summary: "Tokenizer has no tokens",
        clause: "Reported when the file has a tokenizer, but `tokenizer.ggml.tokens` is missing, empty or not an array of strings. llama.cpp rejects the model: \"cannot find tokenizer vocab in model file\".",
        why: "Text cannot be tokenized, and llama.cpp rejects the model.",
        remedy: "Convert the model again; the tokenizer files must be in the same directory as the weights.",
        fixed: "tokenizer.ggml.tokens = [\"<s>\", \"a\", \"b\", \"ab\", \"c\"]",
    }
    SCORES = "GG1602" Error Both {
        summary: "Scores do not match the tokens",
        clause: "Reported when `tokenizer.ggml.scores` differs in length from `tokenizer.ggml.tokens`, or is an array of a type other than f32 or int32. According to the specification, it \"must have the same length and index as `tokens`\"; llama.cpp rejects a file that has fewer scores than tokens, or scores of any other type.",
        why: "Scores are missing, or are applied to the wrong tokens.",
        remedy: "Convert the model again, or copy the tokenizer keys from a correct file of the same model.",
        fixed: "tokenizer.ggml.scores: 5 elements for 5 tokens",
    }
    TOKEN_TYPES = "GG1603" Error Both {
        summary: "Token types do not match the tokens",
        clause: "Reported when `tokenizer.ggml.token_type` differs in length from `tokenizer.ggml.tokens`, or is an array of a type other than int32. According to the specification, it \"must have the same length and index as `tokens`\"; llama.cpp rejects a file that has fewer token types than tokens, or token types that are not int32.",
        why: "Control tokens can be treated as text, and text as control tokens.",
        remedy: "Convert the model again, or copy the tokenizer keys from a correct file of the same model.",
        fixed: "tokenizer.ggml.token_type: 5 elements for 5 tokens",
    }
    TOKEN_TYPE = "GG1604" Warning Specification {
        summary: "Unknown token type",
        clause: "Reported when a token has a type other than 1 to 6. The specification defines \"1=normal, 2=unknown, 3=control, 4=user defined, 5=unused, 6=byte\".",
        why: "llama.cpp treats the token as undefined: when the model generates it, no text is output.",
        remedy: "Set the type of the token to one of the six types that are defined (1 to 6).",
        fixed: "tokenizer.ggml.token_type = [3, 1, 1, 1, 1]",
    }
    SPECIAL_ID = "GG1605" Warning Both {
        summary: "Special token ID out of range",
        clause: "Reported when the ID of a special token, such as the value of `tokenizer.ggml.bos_token_id`, is not the index of a token in the vocabulary. llama.cpp ignores such an ID and warns: \"bad special token\".",
        why: "llama.cpp uses its default ID instead, so text can begin or end with the wrong token.",
        remedy: "Set the key to the ID from the tokenizer's configuration, or remove the key if the tokenizer does not have this special token.",
        fixed: "tokenizer.ggml.bos_token_id = 0",
    }
    MERGE = "GG1606" Error Reference {
        summary: "Merge does not have two parts",
        clause: "Reported when a merge does not consist of two parts with a space between them. llama.cpp splits each merge at its first space, not counting a space that is the first character.",
        why: "The merge is never applied, so text is not tokenized into the tokens that depend on it.",
        remedy: "Convert the model again with the tokenizer.json of its checkpoint.",
        fixed: "tokenizer.ggml.merges = [\"a b\"]",
    }
    MERGE_TOKENS = "GG1607" Warning Practice {
        summary: "Merge result not in vocabulary",
        clause: "Reported when the result of a merge is not a token. A merge joins two tokens into a third; llama.cpp looks up the result in the vocabulary.",
        why: "llama.cpp applies the merge, finds no token for the result, and falls back to byte tokens, a sequence that the model did not see for this text in training. The usual cause is that the vocabulary and the merges come from different tokenizers, or that one of them was edited.",
        remedy: "Convert the model again with the tokenizer.json of its checkpoint.",
        fixed: "tokenizer.ggml.merges = [\"a b\"], where \"ab\" is a token",
    }
    NO_PRE = "GG1608" Warning Reference {
        summary: "BPE vocabulary has no pre-tokenizer",
        clause: "Reported when a BPE vocabulary (`tokenizer.ggml.model` is `gpt2`) has no `tokenizer.ggml.pre`. llama.cpp then uses its default pre-tokenizer, logs \"missing pre-tokenizer type, using: 'default'\", and warns that generation quality will be degraded.",
        why: "If text is not split as it was in training, the model sees unfamiliar token sequences.",
        remedy: "Set tokenizer.ggml.pre to llama.cpp's name for the model's pre-tokenizer, such as llama-bpe for Llama 3.",
        fixed: "tokenizer.ggml.pre = \"gpt-2\"",
    }
    UNKNOWN_PRE = "GG1609" Error Reference {
        summary: "Unknown pre-tokenizer",
        clause: "Reported when `tokenizer.ggml.pre` names a pre-tokenizer that llama.cpp does not know. llama.cpp rejects the model: \"unknown pre-tokenizer type\".",
        why: "Programs based on llama.cpp cannot load the model, unless they use a newer version that knows the name.",
        remedy: "Use a version of llama.cpp that knows the name, or set tokenizer.ggml.pre to the name of a pre-tokenizer that splits text in the same way.",
        fixed: "tokenizer.ggml.pre = \"llama-bpe\", if that is the pre-tokenizer of the model",
    }
    SEPARATOR = "GG1610" Warning Reference {
        summary: "separator_token_id is not read by llama.cpp",
        clause: "Reported when the file has `tokenizer.ggml.separator_token_id`, as the specification spells the key, but not `tokenizer.ggml.seperator_token_id`. llama.cpp reads and writes the key only with this second, misspelled name.",
        why: "llama.cpp does not find the separator token.",
        remedy: "Add the key tokenizer.ggml.seperator_token_id with the same value, and keep the other key for programs that follow the specification.",
        fixed: "tokenizer.ggml.seperator_token_id = 1, in addition to separator_token_id",
        automatic: "adds the key with the spelling of llama.cpp and the same value",
    }
    DUPLICATE_TOKEN = "GG1611" Error Reference {
        summary: "Duplicate token",
        clause: "Reported when two tokens have the same text. llama.cpp asserts that all tokens are different.",
        why: "llama.cpp aborts the program while loading the file.",
        remedy: "Give one of the two tokens unique text, such as [PAD4] for token 4.",
        fixed: "tokenizer.ggml.tokens = [\"<s>\", \"a\", \"b\", \"ab\", \"[PAD4]\"]",
    }
    UNKNOWN_MODEL = "GG1612" Error Reference {
        summary: "Unknown tokenizer model",
        clause: "Reported when the value of `tokenizer.ggml.model` is neither known to llama.cpp nor listed in the specification. llama.cpp rejects the model: \"unknown tokenizer\". The specification lists tokenizer models, but does not exclude others.",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Set tokenizer.ggml.model to the type of the tokenizer, such as llama, gpt2, bert, t5 or rwkv.",
        fixed: "tokenizer.ggml.model = \"gpt2\"",
    }
    VOCABULARY_SIZE = "GG1613" Warning Practice {
        summary: "Number of tokens does not match the embedding",
        clause: "Reported when the number of tokens differs from the number of rows of `token_embd.weight`. llama.cpp expects one row for each token; for most architectures, it rejects a model with a different number of rows.",
        why: "Tokens without a row cannot be used, and rows without a token have no text.",
        remedy: "If there are more rows than tokens, convert the model again with a vocabulary that is padded to the number of rows. If there are more tokens than rows, check that the tokenizer belongs to the model.",
        fixed: "6 tokens, and token_embd.weight with 6 rows",
    }
    NO_MERGES = "GG1614" Error Reference {
        summary: "BPE vocabulary has no merges",
        clause: "Reported when a BPE vocabulary (`tokenizer.ggml.model` is `gpt2`) has no `tokenizer.ggml.merges`, unless its pre-tokenizer is one that needs none (`kimi-k2`). llama.cpp rejects the model: \"cannot find tokenizer merges in model file\". The specification allows this: without merges, \"the tokens are assumed to be atomic\".",
        why: "Programs based on llama.cpp cannot load the model.",
        remedy: "Convert the model again with the tokenizer.json of its checkpoint.",
        fixed: "tokenizer.ggml.merges = [\"a b\"]",
    }
    OLD_KEY = "GG1615" Note Practice {
        summary: "Renamed tokenizer key",
        clause: "Reported when the file has `tokenizer.ggml.prefix_token_id`, `suffix_token_id` or `middle_token_id`, but not the key that replaced it: `fim_pre_token_id`, `fim_suf_token_id` or `fim_mid_token_id`, respectively. llama.cpp still reads the old keys, but marks them as deprecated.",
        why: "Programs that read only the new keys do not find the fill-in-the-middle (FIM) tokens.",
        remedy: "Add the key under its new name.",
        fixed: "tokenizer.ggml.fim_pre_token_id = 1, in addition to prefix_token_id",
        automatic: "adds the key under its new name, with the same value",
    }
    NOT_JSON = "GG1616" Warning Specification {
        summary: "tokenizer.huggingface.json is not valid JSON",
        clause: "Reported when the value of `tokenizer.huggingface.json` is not valid JSON. According to the specification, it is \"the entirety of the HF `tokenizer.json` for a given model\".",
        why: "Programs that load the tokenizer from this key, rather than from the tokenizer.ggml keys, fail.",
        remedy: "Set the key to the text of the model's tokenizer.json, or remove the key.",
        fixed: "tokenizer.huggingface.json = the text of the model's tokenizer.json",
    }
    SEPARATORS_DIFFER = "GG1617" Warning Practice {
        summary: "Separator token keys differ",
        clause: "Reported when `tokenizer.ggml.separator_token_id` and `tokenizer.ggml.seperator_token_id` have different values. The first is the specification's key, and the second is llama.cpp's misspelled key for the same token.",
        why: "Different programs use different tokens as the separator.",
        remedy: "Set both keys to the ID from the tokenizer's configuration.",
        fixed: "tokenizer.ggml.separator_token_id = 1, tokenizer.ggml.seperator_token_id = 1",
    }
    BYTE_TOKENS = "GG1618" Warning Reference {
        summary: "Missing byte tokens",
        clause: "Reported when a SentencePiece or PLaMo-2 vocabulary (`tokenizer.ggml.model` is `llama` or `plamo2`) has some of the byte tokens <0x00> to <0xFF>, but not all. llama.cpp encodes a byte that no other token covers as its byte token. If this token is missing, llama.cpp throws an exception, unless the vocabulary is SentencePiece and has a token that consists of the byte itself (such bytes are not reported).",
        why: "A program that does not catch the exception terminates when it tokenizes text with such a byte, and the text often comes from untrusted users.",
        remedy: "Convert the model again with all of its tokenizer files. A reduced vocabulary must keep its 256 byte tokens.",
        fixed: "all of the tokens <0x00> to <0xFF>",
    }
    BYTE_TOKEN = "GG1619" Error Reference {
        summary: "Byte token is not a byte",
        clause: "Reported when a token of type 6 (byte) has the form <0xNN>, but NN is not a number of two hexadecimal digits, such as <0x-1>. llama.cpp ignores such a token of a PLaMo-2 vocabulary; versions before August 2026 used the number as an index without checking it.",
        why: "Older versions of llama.cpp write outside of a table when they load the file.",
        remedy: "Do not use the file, and report it to the site that hosts it.",
        fixed: "<0x0A>",
    }
}

/// The tokenizer models that llama.cpp supports, without the older replit of the specification.
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

/// Returns the entry and array of a key.
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
                "the key is missing, empty or not an array of strings".into()
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
    // These tokenizers require byte tokens.
    if matches!(model, Some("llama" | "plamo2")) && out.wants(&BYTE_TOKENS) {
        bytes(&entry, &tokens, model == Some("llama"), out);
    }
    byte_tokens(input, &entry, &tokens, out);
    vocabulary(input, &entry, &tokens, model, out);
}

/// Checks the names of tokens of type byte.
fn byte_tokens(input: &Input<'_>, entry: &Entry<'_>, tokens: &Array<'_>, out: &mut Findings<'_>) {
    const BYTE: i128 = 6;
    let types = array(input, keys::TOKENIZER_TOKEN_TYPE);
    let Some(types) = types.and_then(|(_, types)| types.integers()) else { return };
    if !out.wants(&BYTE_TOKEN) {
        return;
    }
    let all = types.zip(texts(tokens)).enumerate();
    for (id, (_, token)) in all.filter(|(_, (kind, _))| *kind == BYTE) {
        let digits =
            token.as_bytes().strip_prefix(b"<0x").and_then(|token| token.strip_suffix(b">"));
        if digits
            .is_some_and(|digits| digits.len() == 2 && !digits.iter().all(u8::is_ascii_hexdigit))
        {
            out.add(&BYTE_TOKEN, Place::value(entry), || format!("token {id} is {}", shown(token)));
        }
    }
}

/// Returns the message of a JSON error without its position.
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
    let needs_merges =
        input.text(keys::TOKENIZER_PRE).is_none_or(|name| !pre_tokenizer_allows_no_merges(name));
    let has_merges = input.metadata().get(keys::TOKENIZER_MERGES).is_some();
    if input.is_whole() && needs_merges && !has_merges {
        out.add(&NO_MERGES, Place::missing(keys::TOKENIZER_MERGES), || "the key is missing".into());
    }
}

/// Checks that ids of special tokens are in range, and reports renamed keys.
fn special(input: &Input<'_>, tokens: Option<u64>, out: &mut Findings<'_>) {
    for entry in input.metadata() {
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
        // A shard can have no vocabulary. 2^32 - 1 means "none".
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
        // llama.cpp also accepts integers.
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
            let others = match more {
                0 => String::new(),
                1 => "; 1 later token also has an unknown type".into(),
                _ => format!("; {more} later tokens also have unknown types"),
            };
            out.add(&TOKEN_TYPE, Place::value(&entry), || {
                format!("token {id} has unknown type {number}{others}")
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

/// Checks that there is a token for each of the 256 bytes, if there are byte tokens. Some tokenizers also
/// accept a token that is the byte itself.
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

/// Returns the byte of a token such as `<0x0A>`. llama.cpp accepts only upper-case digits.
fn byte_of(token: &[u8]) -> Option<u8> {
    let digits = token.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_lowercase());
    match digits {
        [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    }
}

/// Checks for duplicate tokens, and for merges that result in no token.
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
    // Other models have merges in another form, or are not plain BPE.
    let merges =
        array(input, keys::TOKENIZER_MERGES).filter(|_| model == Some("gpt2") && merges_matter);
    if merges.is_none() && all_differ(tokens) {
        return;
    }
    // Safe as a capacity: the parser checked the count against the bytes of the file.
    let mut known: HashSet<&[u8]> =
        HashSet::with_capacity(usize::try_from(tokens.len()).unwrap_or(0));
    for (id, token) in texts(tokens).enumerate() {
        // llama.cpp gives empty tokens distinct names.
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

/// Returns `true` if all tokens have different hashes, so that they differ. The table of hashes is half as
/// large as one of tokens; equal hashes are inconclusive.
fn all_differ(tokens: &Array<'_>) -> bool {
    let hasher = RandomState::default();
    let mut known: HashSet<u64> =
        HashSet::with_capacity(usize::try_from(tokens.len()).unwrap_or(0));
    texts(tokens)
        .filter(|token| !token.is_empty())
        .all(|token| known.insert(hasher.hash_one(token.as_bytes())))
}
