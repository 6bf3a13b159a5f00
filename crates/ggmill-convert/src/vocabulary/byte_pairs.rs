//! `vocab.json` and `merges.txt`, in which checkpoints have a byte-level BPE tokenizer that were
//! saved before there was `tokenizer.json`.
//!
//! The tokenizer is the one that the `transformers` library (4.57.6) converts them to. Which
//! converter a class has, and with which flags it makes its special tokens, are facts in
//! `data/tokenizer-classes.json`.

use ggmill_core::RawStr;
use ggmill_pipeline::Result;
use ggmill_tokenizer::tokenizer_json::{Merge, Model, TokenizerJson, Vocab};
use serde_json::{Value, json};

use super::class::Class;
use super::files::{self, fault};
use super::request::Request;
use super::tokens::MAX_TOKENS;

const VOCABULARY: &str = "vocab.json";
const MERGES: &str = "merges.txt";
/// The most lines of merges: most tokens are made by one.
const MAX_MERGES: usize = MAX_TOKENS;

/// How the library splits texts for Qwen's models.
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// What the library makes of the two files; `None` where one of them is absent, or where the class
/// of the tokenizer makes nothing of them.
pub(crate) fn converted(request: &mut Request<'_>) -> Result<Option<TokenizerJson>> {
    if !request.files.has(VOCABULARY) || !request.files.has(MERGES) {
        return Ok(None);
    }
    let map = files::json(request.files, "special_tokens_map.json")?;
    let class = Class::of(request, map.as_ref());
    let Some(rules) = class.of_pairs() else {
        let name = match class.name() {
            Some(name) => format!("{:?}", RawStr::from(name)),
            None => "that is not named in any file".to_owned(),
        };
        request.passed_over = Some(format!(
            "a tokenizer of class {name} does not consist of {VOCABULARY} and {MERGES}"
        ));
        return Ok(None);
    };
    let Some(bytes) = files::vocabulary(request.files, VOCABULARY)? else { return Ok(None) };
    let vocab: Vocab = files::parse(VOCABULARY, &bytes)?;
    let Some(bytes) = files::vocabulary(request.files, MERGES)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| fault(MERGES, "is not valid UTF-8"))?;
    let converter = rules.get("converter").and_then(Value::as_str).unwrap_or_default();
    let merges =
        if converter == "Qwen2Converter" { of_lines(&text) } else { between_first_and_last(&text) };
    let merges = merges.map_err(|line| fault(MERGES, message_of(line)))?;
    let byte_level = |regex: bool| {
        let prefix = regex && class.flag("add_prefix_space");
        json!({ "type": "ByteLevel", "add_prefix_space": prefix, "use_regex": regex })
    };
    let (normalizer, pre_tokenizer) = if converter == "Qwen2Converter" {
        let split = json!({
            "type": "Split", "pattern": { "Regex": QWEN2 }, "behavior": "Isolated",
            "invert": false,
        });
        let parts = json!({ "type": "Sequence", "pretokenizers": [split, byte_level(false)] });
        (json!({ "type": "NFC" }), parts)
    } else {
        (Value::Null, byte_level(true))
    };
    let post_processor = match converter {
        "RobertaConverter" => {
            let [cls, sep] = ["cls_token", "sep_token"].map(|kind| ends(&class, kind, &vocab));
            json!({ "type": "RobertaProcessing", "cls": cls?, "sep": sep? })
        }
        // Of the classes that this converter is for, one refuses the flag.
        "GPT2Converter" if class.flag("add_bos_token") => {
            let (bos, id) = ends(&class, "bos_token", &vocab)?;
            json!({
                "type": "TemplateProcessing",
                "single": [
                    { "SpecialToken": { "id": bos, "type_id": 0 } },
                    { "Sequence": { "id": "A", "type_id": 0 } },
                ],
                "special_tokens": { bos: { "ids": [id] } },
            })
        }
        _ => json!({ "type": "ByteLevel" }),
    };
    let model =
        Model { r#type: Some("BPE".into()), vocab, merges: Some(merges), ..Model::default() };
    Ok(Some(TokenizerJson {
        model,
        added_tokens: Vec::new(),
        normalizer,
        pre_tokenizer,
        post_processor,
        decoder: json!({ "type": "ByteLevel" }),
    }))
}

/// A token that is put around a text, with its ID.
fn ends(class: &Class, kind: &'static str, vocab: &Vocab) -> Result<(String, u32)> {
    let token = class.token(kind).map(|token| token.content).unwrap_or_default();
    let Some((_, id)) = vocab.tokens.iter().rev().find(|(known, _)| *known == token) else {
        let shown = RawStr::from(&*token);
        return Err(fault(VOCABULARY, format!("the {kind} {shown:?} is not in the vocabulary")));
    };
    Ok((token, *id))
}

/// The merges of lines, with the number of a line that is not one.
type Merges = Result<Vec<Merge>, usize>;

/// What is wrong with a line.
fn message_of(line: usize) -> String {
    if line > MAX_MERGES {
        return format!("more than {MAX_MERGES} lines");
    }
    format!("line {line}: expected the two parts of a merge")
}

/// The merges as most classes read them: in the lines between the first and the last line feed.
fn between_first_and_last(text: &str) -> Merges {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let between = text.split_once('\n').and_then(|(_, rest)| rest.rsplit_once('\n'));
    let Some((lines, _)) = between else { return Ok(Vec::new()) };
    lines.split('\n').zip(2..).map(|(line, at)| merge(line, at)).collect()
}

/// The merges as the classes of Qwen's models read them: in every line that is not empty, but for a
/// version in the first.
fn of_lines(text: &str) -> Merges {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let is_merge = |(line, at): &(&str, usize)| {
        !(line.is_empty() || *at == 1 && line.starts_with("#version:"))
    };
    let lines = text.split('\n').map(str::trim).zip(1..).filter(is_merge);
    lines.map(|(line, at)| merge(line, at)).collect()
}

fn merge(line: &str, at: usize) -> Result<Merge, usize> {
    let mut parts = line.split_whitespace();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(left), Some(right), None) if at <= MAX_MERGES => {
            Ok(Merge::Pair(left.to_owned(), right.to_owned()))
        }
        _ => Err(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(left: &str, right: &str) -> Merge {
        Merge::Pair(left.to_owned(), right.to_owned())
    }

    #[test]
    fn merges_are_between_the_first_and_the_last_line_feed() {
        for text in ["", "#version: 0.2", "#version: 0.2\n", "a b\nc d"] {
            assert_eq!(between_first_and_last(text), Ok(Vec::new()), "{text:?}");
        }
        let merges = between_first_and_last("#version: 0.2\r\na b\n c  d\nleft out");
        assert_eq!(merges, Ok(vec![pair("a", "b"), pair("c", "d")]));
        assert_eq!(between_first_and_last("\na b\nc\n"), Err(3));
        assert_eq!(of_lines("#version: 0.2\n\na b\nc d"), Ok(vec![pair("a", "b"), pair("c", "d")]));
        assert_eq!(of_lines("a b\nc d e\n"), Err(2));
    }

    #[test]
    fn a_file_of_too_many_lines_is_told_by_its_number_of_lines() {
        let text = format!("{}x", "a b\n".repeat(MAX_MERGES + 2));
        let line = between_first_and_last(&text).expect_err("too many lines");
        assert_eq!(line, MAX_MERGES + 1);
        assert!(message_of(line).contains("more than 4194304 lines"));
        assert!(message_of(3).contains("line 3: expected the two parts of a merge"));
    }
}
