//! Tests of a vocabulary with its tokenizer, only on request.

use ggmill_core::{Entry, RawStr, keys};
use ggmill_tokenizer::{Attributes, EncodeOptions, TokenFit, Tokenizer};

use crate::report::{Findings, Place, shown};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Segmentation;
    UNREACHABLE = "GG2301" Note Practice {
        summary: "Tokens that no text can produce",
        clause: "Reported when merging the characters of an ordinary token does not result in this token, so that no text is tokenized to it. Tokens whose text marks them as reserved, such as `<unused7>`, are excluded. Only vocabularies whose tokens are formed by merging are tested: those whose tokenizer.ggml.model is llama, gpt2 or gemma4.",
        why: "For text that was tokenized to this token in training, the model may receive other tokens. If there are many such tokens, the merges or scores probably do not belong to the vocabulary.",
        remedy: "Convert the model again with the tokenizer.json of its checkpoint. No change is needed for individual tokens that the original tokenizer cannot produce either.",
        fixed: "tokenizer.ggml.merges = [\"a b\"], and \"ab\" is a token",
    }
    IDLE_MERGE = "GG2302" Note Practice {
        summary: "Merges that are never applied",
        clause: "Reported when tokenization never produces the token that a merge forms, whether through this merge or another. Either merges of lower rank, which are applied first, combine the same characters differently, or one of the merge's two parts is itself never produced.",
        why: "The model never receives the token that the merge forms. If there are many such merges, they probably belong to a different vocabulary or are in the wrong order.",
        remedy: "Convert the model again with the tokenizer.json of its checkpoint.",
        fixed: "tokenizer.ggml.merges = [\"a b\", \"ab c\"]",
    }
    SPLIT_SPECIAL = "GG2303" Warning Practice {
        summary: "Special token is marked as an ordinary token",
        clause: "Reported when a key such as tokenizer.ggml.eos_token_id refers to an ordinary token whose text is split into several tokens even if special tokens are parsed (`parse_special` in llama.cpp). llama.cpp first searches the text for tokens of type control, user-defined or unknown, and then tokenizes the rest; it does not search for ordinary tokens.",
        why: "When a chat template writes the text of the token, the prompt contains several other tokens instead of this one.",
        remedy: "Set the token's type to 3 (control) in tokenizer.ggml.token_type.",
        fixed: "tokenizer.ggml.token_type: 3 for the token",
    }
    PRE_TOKENIZER = "GG2304" Warning Practice {
        summary: "Pre-tokenizer contradicts the vocabulary",
        clause: "Reported when the pre-tokenizer splits at least 64 of the all-ASCII tokens that result from merges, and at least 0.2% of them, in every context, and another of llama.cpp's pre-tokenizers splits at most an eighth as many. Tokens that are split in every context can never be produced. Merges are learned within the pieces into which the pre-tokenizer splits text, so the right pre-tokenizer splits few or none of the tokens of its vocabulary.",
        why: "Text is not split as it was in training, so the model sees unfamiliar token sequences.",
        remedy: "Find the matching name with `ggmill tokenize FILE --pre auto --compare tokenizer.json --file TEXT`, where tokenizer.json is from the original model and TEXT is any text file, and set tokenizer.ggml.pre to this name.",
        fixed: "tokenizer.ggml.pre = \"deepseek-llm\"",
    }
    LOST_BYTES = "GG2305" Warning Practice {
        summary: "Vocabulary does not cover every byte",
        clause: "Reported when a vocabulary with merges has single-byte tokens for most, but not all, of the bytes that occur in UTF-8 text. Control characters other than tab, line feed and carriage return, and lead bytes that occur only in unassigned Unicode planes, are not counted. llama.cpp silently drops a byte that has no token.",
        why: "The model does not receive the parts of a text that contain such bytes.",
        remedy: "Convert the model again with all of its tokenizer files. A reduced vocabulary must keep its single-byte tokens.",
        fixed: "a single-byte token for every byte",
    }
}

/// The keys of tokens that occur in prompts.
const ROLES: [&str; 7] = [
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pre_token_id",
    "tokenizer.ggml.fim_suf_token_id",
    "tokenizer.ggml.fim_mid_token_id",
];

/// A vocabulary that lacks at least this many bytes is not one of bytes.
const MAX_MISSING_BYTES: usize = 128;
/// Parts of the texts of reserved tokens.
const RESERVED: [&[u8]; 4] = [b"unused", b"reserved", b"[PAD", b"extra_id"];
/// The number of tokens that are shown as examples.
const SHOWN: usize = 3;

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let metadata = input.metadata();
    let Some(tokens) = metadata.get(keys::TOKENIZER_TOKENS) else { return };
    // Faults of the tokenizer are reported by other rules.
    let Ok(tokenizer) = Tokenizer::from_metadata(&metadata) else { return };
    if out.wants(&UNREACHABLE) {
        unreachable(&tokenizer, &tokens, out);
    }
    if let Some(merges) = metadata.get(keys::TOKENIZER_MERGES).filter(|_| out.wants(&IDLE_MERGE)) {
        idle_merges(&tokenizer, &merges, out);
    }
    if out.wants(&SPLIT_SPECIAL) {
        special(input, &tokenizer, out);
    }
    if out.wants(&PRE_TOKENIZER) {
        let place = metadata
            .get(keys::TOKENIZER_PRE)
            .map_or(Place::missing(keys::TOKENIZER_PRE), |entry| Place::value(&entry));
        pre_tokenizer(&tokenizer, place, out);
    }
    if out.wants(&LOST_BYTES) {
        let is_text =
            |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7E | 0x80..=0xF0 | 0xF3..);
        let lost: Vec<u8> = tokenizer.lost_bytes().into_iter().filter(is_text).collect();
        if let Some(first) = lost.first().filter(|_| lost.len() < MAX_MISSING_BYTES) {
            let more = match lost.len() {
                1 => String::new(),
                2 => " and 1 other".to_owned(),
                count => format!(" and {} others", count.saturating_sub(1)),
            };
            out.add(&LOST_BYTES, Place::value(&tokens), || {
                format!("no token for byte 0x{first:02X}{more}")
            });
        }
    }
}

fn unreachable(tokenizer: &Tokenizer, entry: &Entry<'_>, out: &mut Findings<'_>) {
    let vocabulary = tokenizer.vocabulary();
    let text = |id: u32| vocabulary.text(id).unwrap_or_default();
    let is_reserved = |id: u32| {
        RESERVED.iter().any(|word| text(id).windows(word.len()).any(|part| part == *word))
    };
    let found: Vec<u32> =
        tokenizer.unreachable_tokens().into_iter().filter(|&id| !is_reserved(id)).collect();
    if found.is_empty() {
        return;
    }
    let shown: Vec<String> = found
        .iter()
        .take(SHOWN)
        .map(|&id| format!("{} (ID {id})", shown(RawStr::new(text(id)))))
        .collect();
    out.add(&UNREACHABLE, Place::value(entry), || {
        let plural = if found.len() == 1 { "" } else { "s" };
        format!("{} token{plural}: {}", found.len(), first(found.len(), &shown))
    });
}

fn idle_merges(tokenizer: &Tokenizer, entry: &Entry<'_>, out: &mut Findings<'_>) {
    let found = tokenizer.idle_merges();
    if found.is_empty() {
        return;
    }
    let shown: Vec<String> = found
        .iter()
        .take(SHOWN)
        .map(|merge| format!("{} (rank {})", shown(RawStr::new(&merge.product)), merge.rank))
        .collect();
    out.add(&IDLE_MERGE, Place::value(entry), || match found.len() {
        1 => format!("1 merge is never applied: the one that forms {}", first(1, &shown)),
        count => {
            format!("{count} merges are never applied: those that form {}", first(count, &shown))
        }
    });
}

/// Joins the shown items, with an ellipsis if there are more.
fn first(count: usize, shown: &[String]) -> String {
    format!("{}{}", shown.join(", "), if count > SHOWN { ", …" } else { "" })
}

fn special(input: &Input<'_>, tokenizer: &Tokenizer, out: &mut Findings<'_>) {
    let vocabulary = tokenizer.vocabulary();
    let recognised = Attributes::CONTROL | Attributes::USER_DEFINED | Attributes::UNKNOWN;
    let options = EncodeOptions::new().add_special(false).parse_special(true);
    for key in ROLES {
        let (Some(entry), Some(id)) = (input.metadata().get(key), input.number(key)) else {
            continue;
        };
        let id = u32::try_from(id).ok().filter(|&id| id < vocabulary.len());
        let Some((id, text)) = id.and_then(|id| Some((id, vocabulary.text(id)?))) else { continue };
        if vocabulary.attributes(id).intersects(recognised) {
            continue;
        }
        let piece = tokenizer.piece(id).unwrap_or(text);
        if let Ok(count) = tokenizer.count(piece, &options)
            && count > 1
        {
            out.add(&SPLIT_SPECIAL, Place::value(&entry), || {
                format!(
                    "the text of token {id}, {}, is tokenized into {count} tokens",
                    shown(RawStr::new(text))
                )
            });
        }
    }
}

fn pre_tokenizer(tokenizer: &Tokenizer, place: Place, out: &mut Findings<'_>) {
    let Some(fit) = tokenizer.pre_tokenizer_fit() else { return };
    let Some(better) = fit.better else { return };
    let name = tokenizer.vocabulary().pre_tokenizer().unwrap_or_default();
    let example = |fit: &TokenFit| {
        let id = fit.first.and_then(|id| tokenizer.vocabulary().text(id));
        id.map(|text| format!(", such as {}", shown(RawStr::new(text)))).unwrap_or_default()
    };
    out.add(&PRE_TOKENIZER, place, || {
        format!(
            "{name:?} splits {} of {} tokens{}; {:?} splits {}",
            fit.own.cut,
            fit.tokens,
            example(&fit.own),
            better.names.first().copied().unwrap_or_default(),
            better.cut,
        )
    });
}
