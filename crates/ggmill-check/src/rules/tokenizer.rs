//! The vocabulary and what belongs to it.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use foldhash::{HashSet, HashSetExt as _};
use ggmill_core::{Array, Pair, RawStr, ValueType, keys};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::rules::texts;
use crate::{Fix, Input, Options};

rules! { Tokenizer;
    NO_TOKENS = "GG1601" Error Reference {
        summary: "A tokenizer without its tokens",
        clause: "llama.cpp: \"cannot find tokenizer vocab in model file\"; the specification has tokenizer.ggml.tokens as an array of strings.",
        why: "No text can be turned into tokens, and llama.cpp refuses the model.",
        remedy: "Convert the model again with its tokenizer files beside it.",
    }
    SCORES = "GG1602" Error Both {
        summary: "Scores do not fit the tokens",
        clause: "Specification: scores \"must have the same length and index as `tokens`\"; llama.cpp refuses fewer scores than tokens, and other types.",
        why: "Scores belong to other tokens than they were made for, or are missing.",
        remedy: "Convert the model again, or copy the vocabulary from a good file.",
    }
    TOKEN_TYPES = "GG1603" Error Both {
        summary: "Token types do not fit the tokens",
        clause: "Specification: token_type is an array of int32 that \"must have the same length and index as `tokens`\"; llama.cpp refuses fewer types than tokens.",
        why: "Control tokens can be taken for text, and text for control tokens.",
        remedy: "Convert the model again, or copy the vocabulary from a good file.",
    }
    TOKEN_TYPE = "GG1604" Warning Specification {
        summary: "A token has an unknown type",
        clause: "Specification: \"1=normal, 2=unknown, 3=control, 4=user defined, 5=unused, 6=byte\".",
        why: "Readers treat the token as one of no type: it is never made from text.",
        remedy: "Set the type of the token to one of the six.",
    }
    SPECIAL_ID = "GG1605" Warning Both {
        summary: "A special token is no token",
        clause: "llama.cpp: \"bad special token\", a warning, for an id beyond the vocabulary. The specification has the ids as indices of tokens.",
        why: "Readers ignore the key and take a default, so text begins or ends with the wrong token.",
        remedy: "Set the key to the id the tokenizer's configuration has, or remove it.",
    }
    MERGE = "GG1606" Error Reference {
        summary: "A merge is not two parts",
        clause: "llama.cpp splits each merge at its first space behind the first character.",
        why: "The merge is lost, and with it every token that needs it.",
        remedy: "Convert the model again from its tokenizer.json.",
    }
    MERGE_TOKENS = "GG1607" Warning Practice {
        summary: "A merge makes what is no token",
        clause: "A merge joins two tokens into a third; llama.cpp looks the result up in the vocabulary.",
        why: "Vocabulary and merges come from different tokenizers, or one of them was edited.",
        remedy: "Convert the model again from its tokenizer.json.",
    }
    NO_PRE = "GG1608" Warning Reference {
        summary: "A BPE vocabulary without its pre-tokenizer",
        clause: "llama.cpp: \"missing pre-tokenizer type, using: 'default'\"; it warns that generation quality will be degraded.",
        why: "Text is cut at other places than in training, so the model sees tokens it hardly knows.",
        remedy: "Set tokenizer.ggml.pre to the name llama.cpp has for the tokenizer.",
    }
    UNKNOWN_PRE = "GG1609" Error Reference {
        summary: "An unknown pre-tokenizer",
        clause: "llama.cpp: \"unknown pre-tokenizer type\" is refused.",
        why: "llama.cpp refuses the model. A newer version may know the name.",
        remedy: "Set tokenizer.ggml.pre to a name that the programs in use know.",
    }
    SEPARATOR = "GG1610" Warning Reference {
        summary: "The separator's key is spelt as the specification has it",
        clause: "llama.cpp reads and writes tokenizer.ggml.seperator_token_id; the specification says separator_token_id.",
        why: "llama.cpp does not find the key.",
        remedy: "Add the key as llama.cpp spells it, tokenizer.ggml.seperator_token_id, with the same value: `ggmill check --fix` does.",
    }
    DUPLICATE_TOKEN = "GG1611" Error Reference {
        summary: "A token stands twice",
        clause: "llama.cpp asserts that there are as many different tokens as tokens.",
        why: "llama.cpp aborts while it loads the file.",
        remedy: "Give the second token a name of its own, such as [PAD12345].",
    }
    UNKNOWN_MODEL = "GG1612" Error Reference {
        summary: "An unknown tokenizer model",
        clause: "llama.cpp: \"unknown tokenizer\" is refused.",
        why: "llama.cpp refuses the model.",
        remedy: "Set tokenizer.ggml.model to the kind the tokenizer is: llama, gpt2, bert, t5, rwkv, ….",
    }
    VOCABULARY_SIZE = "GG1613" Warning Practice {
        summary: "The number of tokens differs from the size of the embedding",
        clause: "llama.cpp: the rows of token_embd.weight are as many as tokens.",
        why: "Ids without a row cannot be used, rows without a token cannot be shown. llama.cpp refuses most such models.",
        remedy: "Pad the vocabulary to the size of the embedding when the model is converted.",
    }
    NO_MERGES = "GG1614" Error Reference {
        summary: "A BPE vocabulary without merges",
        clause: "llama.cpp: \"cannot find tokenizer merges in model file\" is refused. The specification would take the tokens for atomic.",
        why: "llama.cpp refuses the model.",
        remedy: "Convert the model again from its tokenizer.json.",
    }
    OLD_KEY = "GG1615" Note Practice {
        summary: "A key that was renamed",
        clause: "llama.cpp renamed prefix, suffix and middle_token_id to fim_pre, fim_suf and fim_mid_token_id.",
        why: "Programs that know the new names only do not find it.",
        remedy: "Add the key under its new name: `ggmill check --fix` does.",
    }
    NOT_JSON = "GG1616" Warning Specification {
        summary: "The Hugging Face tokenizer is no JSON",
        clause: "Specification: tokenizer.huggingface.json is \"the entirety of the HF `tokenizer.json` for a given model\".",
        why: "Programs that prefer it over the embedded vocabulary fail.",
        remedy: "Set the key again from the model's tokenizer.json, or remove it.",
    }
    SEPARATORS_DIFFER = "GG1617" Warning Practice {
        summary: "Two spellings of the separator's key disagree",
        clause: "The specification has separator_token_id, llama.cpp seperator_token_id, for one and the same token.",
        why: "Which token separates depends on the program.",
        remedy: "Set both keys to the id that the tokenizer's configuration has.",
    }
    BYTE_TOKENS = "GG1618" Warning Reference {
        summary: "Some of the byte tokens are missing",
        clause: "llama.cpp makes tokens <0x00> to <0xFF> of the bytes of text that no token covers, and throws an exception when the vocabulary has neither that token nor, but for PLaMo-2, the byte itself.",
        why: "Text with such a byte ends the program, and which text that is depends on who writes it.",
        remedy: "Convert the model again with all of its tokenizer's files; a tokenizer that was cut needs its 256 byte tokens all the same.",
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
/// The names of pre-tokenizers llama.cpp accepts.
static PRE_TOKENIZERS: &str = include_str!("../../data/pre-tokenizers.txt");
const SEPARATOR_CODE: &str = "tokenizer.ggml.seperator_token_id";
const HUGGING_FACE: &str = "tokenizer.huggingface.json";
const SEPARATOR_SPEC: &str = "tokenizer.ggml.separator_token_id";

/// An array key with its pair.
fn array<'a>(input: &Input<'a>, key: &str) -> Option<(Pair<'a>, Array<'a>)> {
    let pair = input.metadata().get(key)?;
    Some((pair, pair.value().ok()?.as_array()?))
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let model = input.text(keys::TOKENIZER_MODEL);
    let tokens = array(input, keys::TOKENIZER_TOKENS);
    if let (Some(name), Some(pair)) = (model, input.metadata().get(keys::TOKENIZER_MODEL)) {
        if !MODELS.contains(&name) {
            out.add(&UNKNOWN_MODEL, Place::value(&pair), || {
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
                "there is no array of strings under this key".into()
            });
        }
        if name == "gpt2" {
            byte_pairs(input, out);
        }
    }
    if let (Some(pair), Some(text)) = (input.metadata().get(HUGGING_FACE), input.text(HUGGING_FACE))
        && let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text)
    {
        out.add(&NOT_JSON, Place::value(&pair), || {
            format!("line {}, column {}: {}", error.line(), error.column(), reason(&error))
        });
    }
    special(input, tokens.map(|(_, tokens)| tokens.len()), out);
    let Some((pair, tokens)) =
        tokens.filter(|(_, tokens)| tokens.element_type() == ValueType::STRING)
    else {
        return;
    };
    parallel(input, tokens.len(), out);
    embedding(input, &pair, tokens.len(), out);
    // The tokenizers that cannot do without.
    if matches!(model, Some("llama" | "plamo2")) && out.wants(&BYTE_TOKENS) {
        bytes(&pair, &tokens, model == Some("llama"), out);
    }
    vocabulary(input, &pair, &tokens, model, out);
}

/// What an error of JSON says before it says where.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

fn byte_pairs(input: &Input<'_>, out: &mut Findings<'_>) {
    match (input.text(keys::TOKENIZER_PRE), input.metadata().get(keys::TOKENIZER_PRE)) {
        (None | Some(""), None) if input.is_whole() => {
            out.add(&NO_PRE, Place::missing(keys::TOKENIZER_PRE), || "there is no such key".into());
        }
        (Some(name), Some(pair)) if !PRE_TOKENIZERS.lines().any(|known| known == name) => {
            out.add(&UNKNOWN_PRE, Place::value(&pair), || {
                format!("pre-tokenizer {}", shown(RawStr::from(name)))
            });
        }
        _ => {}
    }
    if input.is_whole() && input.metadata().get(keys::TOKENIZER_MERGES).is_none() {
        out.add(&NO_MERGES, Place::missing(keys::TOKENIZER_MERGES), || {
            "there is no such key".into()
        });
    }
}

/// Ids of special tokens, which must be indices of tokens; and keys that have other names by now.
fn special(input: &Input<'_>, tokens: Option<u64>, out: &mut Findings<'_>) {
    for pair in input.metadata().iter() {
        let Some(name) = pair
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
            let id = pair.value().ok().and_then(|value| value.as_u64());
            let fix = id.map(|id| Fix::set(new.as_str(), ValueType::U32, id));
            out.add_fixable(&OLD_KEY, Place::key(&pair), || {
                (format!("{name}_token_id is an old name, {new} the new one"), fix)
            });
        }
        let Some(id) = pair.value().ok().and_then(|value| value.as_i128()) else { continue };
        // Of a shard that has no vocabulary nothing is known; 2^32 - 1 says "none".
        if let Some(count) = tokens
            && !(0..i128::from(count)).contains(&id)
            && id != -1
            && id != i128::from(u32::MAX)
        {
            out.add(&SPECIAL_ID, Place::value(&pair), || {
                format!("id {id}, there are {count} tokens")
            });
        }
    }
    let Some(pair) = input.metadata().get(SEPARATOR_SPEC) else { return };
    match (input.metadata().get(SEPARATOR_CODE), input.number(SEPARATOR_SPEC)) {
        (None, id) => out.add_fixable(&SEPARATOR, Place::key(&pair), || {
            (
                format!("llama.cpp looks for {SEPARATOR_CODE}"),
                id.map(|id| Fix::set(SEPARATOR_CODE, ValueType::U32, id)),
            )
        }),
        (Some(_), id) if id != input.number(SEPARATOR_CODE) => {
            out.add(&SEPARATORS_DIFFER, Place::value(&pair), || {
                format!("is not what {SEPARATOR_CODE} is")
            });
        }
        _ => {}
    }
}

fn parallel(input: &Input<'_>, count: u64, out: &mut Findings<'_>) {
    let differs = |found: u64| format!("{found} elements, there are {count} tokens");
    if let Some((pair, scores)) = array(input, keys::TOKENIZER_SCORES) {
        // Whole numbers are read too.
        if !matches!(scores.element_type(), ValueType::F32 | ValueType::I32) {
            out.add(&SCORES, Place::value(&pair), || {
                format!("an array of {}, expected one of f32", scores.element_type())
            });
        } else if scores.len() != count {
            out.add(&SCORES, Place::value(&pair), || differs(scores.len()));
        }
    }
    if let Some((pair, types)) = array(input, keys::TOKENIZER_TOKEN_TYPE) {
        if types.element_type() != ValueType::I32 {
            out.add(&TOKEN_TYPES, Place::value(&pair), || {
                format!("an array of {}, expected one of i32", types.element_type())
            });
        } else if types.len() != count {
            out.add(&TOKEN_TYPES, Place::value(&pair), || differs(types.len()));
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
            out.add(&TOKEN_TYPE, Place::value(&pair), || {
                format!("token {id} has type {number}{others}")
            });
        }
    }
}

fn embedding(input: &Input<'_>, pair: &Pair<'_>, count: u64, out: &mut Findings<'_>) {
    if let Some((_, tensor)) = input.model_tensor(b"token_embd.weight") {
        let rows = tensor.shape().rows();
        if rows != count {
            out.add(&VOCABULARY_SIZE, Place::value(pair), || {
                format!("{count} tokens, token_embd.weight has {rows} rows")
            });
        }
    }
}

/// The tokens that stand for single bytes: all 256 of them, when there is any. Some tokenizers take
/// a token of the byte itself for one.
fn bytes(pair: &Pair<'_>, tokens: &Array<'_>, or_itself: bool, out: &mut Findings<'_>) {
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
        out.add(&BYTE_TOKENS, Place::value(pair), || {
            format!("there is no <0x{first:02X}>{others}")
        });
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

/// Tokens that stand twice, and merges that make none.
fn vocabulary(
    input: &Input<'_>,
    pair: &Pair<'_>,
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
            out.add(&DUPLICATE_TOKEN, Place::value(pair), || {
                format!("token {id} is {}, as one before it", shown(token))
            });
        }
    }
    let Some((pair, merges)) = merges else { return };
    let mut joined = Vec::new();
    for (number, merge) in texts(&merges).enumerate() {
        let bytes = merge.as_bytes();
        let space = bytes.iter().skip(1).position(|&byte| byte == b' ').map(|at| at + 1);
        let Some((left, right)) = space
            .and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?)))
            .filter(|(_, right)| !right.is_empty())
        else {
            out.add(&MERGE, Place::value(&pair), || format!("merge {number} is {}", shown(merge)));
            continue;
        };
        joined.clear();
        joined.extend_from_slice(left);
        joined.extend_from_slice(right);
        if !known.contains(&*joined) {
            out.add(&MERGE_TOKENS, Place::value(&pair), || {
                format!(
                    "merge {number} is {}, the tokens have no {}",
                    shown(merge),
                    shown(RawStr::new(&joined))
                )
            });
        }
    }
}

/// Whether no token stands twice, by a hash of each: the table is half as large as one of the
/// tokens, and memory is what it costs. Tokens whose hashes are equal may differ all the same.
fn all_differ(tokens: &Array<'_>) -> bool {
    let hasher = RandomState::default();
    let mut known: HashSet<u64> =
        HashSet::with_capacity(usize::try_from(tokens.len()).unwrap_or(0));
    texts(tokens)
        .filter(|token| !token.is_empty())
        .all(|token| known.insert(hasher.hash_one(token.as_bytes())))
}
