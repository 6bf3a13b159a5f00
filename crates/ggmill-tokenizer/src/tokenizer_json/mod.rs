//! `tokenizer.json`, and its pipeline as the `tokenizers` library (0.23.3) runs it.
//!
//! Added tokens are cut out of a text, the rest is normalized and split by the pre-tokenizer, the
//! model turns each piece into token IDs, and the post-processor adds special tokens.
//!
//! `UnicodeScripts`, which no known tokenizer uses, and dropout are not supported. The expressions
//! of a `Split` are run by `fancy-regex` and not by the automata of `pre`: those read only the syntax
//! of llama.cpp's expressions, with its Unicode version and its definition of `\s`.

mod added;
mod base64;
mod decode;
mod expression;
mod file;
mod model;
mod normalize;
mod split;
mod unigram;
mod verification;

use std::borrow::Cow;
use std::rc::Rc;

use serde_json::Value;

pub use added::AddedVocabulary;
use added::{Matcher, Part};
pub use base64::{decode_base64, encode_base64};
pub use decode::{clean_up_spaces, decode_token, decode_tokens};
use expression::Budget;
pub use file::{
    AddedToken, ListedToken, MAX_TOKENS, Merge, Model, ModelKind, TokenizerJson, Vocab,
};
use model::Encoder;
use normalize::Normalizer;
use split::PreTokenizer;
pub use verification::verification_texts;

use crate::error::{Error, ErrorKind};
pub use crate::models::bpe::alphabet::{from_byte_level, to_byte_level};

/// The most parts of a normalizer, pre-tokenizer, post-processor or decoder.
const MAX_PARTS: usize = 64;

fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Limit, message)
}

fn malformed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Malformed, message)
}

/// Returns the parts of nested `Sequence`s in order. `name` is the name of the component in the
/// file, and `member` the member in which a sequence lists its parts.
fn flatten<'a>(component: &'a Value, name: &str, member: &str) -> Result<Vec<&'a Value>, Error> {
    fn collect<'a>(component: &'a Value, member: &str, parts: &mut Vec<&'a Value>) {
        if type_of(component) == "Sequence" {
            let nested = component.get(member).and_then(Value::as_array);
            // The recursion is bounded: serde_json reads JSON to a depth of 128.
            nested.into_iter().flatten().for_each(|part| collect(part, member, parts));
        } else if !component.is_null() {
            parts.push(component);
        }
    }
    let mut parts = Vec::new();
    collect(component, member, &mut parts);
    if parts.len() > MAX_PARTS {
        return Err(unsupported(format!("{name} has more than {MAX_PARTS} parts")));
    }
    Ok(parts)
}

/// Returns the `type` of a component, or an empty string.
fn type_of(component: &Value) -> &str {
    component.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns a flag of a component, or `default` if it has no such flag.
fn flag(component: &Value, name: &str, default: bool) -> bool {
    component.get(name).and_then(Value::as_bool).unwrap_or(default)
}

/// Returns the first character of a member.
fn character(component: &Value, name: &str) -> Option<char> {
    component.get(name).and_then(Value::as_str)?.chars().next()
}

/// Turns text into token IDs, without the special tokens of the post-processor.
pub struct Pipeline<'a> {
    /// Added tokens that are found in the original text.
    original: Matcher,
    /// Added tokens that are found in the normalized text.
    normalized: Matcher,
    normalizer: Normalizer,
    pre_tokenizer: PreTokenizer,
    encoder: Rc<Encoder<'a>>,
}

impl std::fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").finish_non_exhaustive()
    }
}

impl<'a> Pipeline<'a> {
    /// Creates a pipeline. `normalizer` and `pre_tokenizer` are components as `tokenizer.json` has
    /// them.
    ///
    /// Fails if a component is malformed or not supported.
    pub fn new(
        model: &'a Model,
        added: &AddedVocabulary,
        normalizer: &Value,
        pre_tokenizer: &Value,
    ) -> Result<Self, Error> {
        Self::with_encoder(Rc::new(Encoder::new(model)?), added, normalizer, pre_tokenizer)
    }

    /// Creates a pipeline with the same model and other components.
    ///
    /// Fails if a component is malformed or not supported.
    pub fn altered(
        &self,
        added: &AddedVocabulary,
        normalizer: &Value,
        pre_tokenizer: &Value,
    ) -> Result<Self, Error> {
        Self::with_encoder(Rc::clone(&self.encoder), added, normalizer, pre_tokenizer)
    }

    fn with_encoder(
        encoder: Rc<Encoder<'a>>,
        added: &AddedVocabulary,
        normalizer: &Value,
        pre_tokenizer: &Value,
    ) -> Result<Self, Error> {
        let normalizer = Normalizer::new(normalizer)?;
        let normalize = |text: &str| {
            let found = normalizer.apply(Cow::Borrowed(text), &mut Budget::new(text));
            found.map(Cow::into_owned)
        };
        Ok(Self {
            original: added.matcher(false, normalize)?,
            normalized: added.matcher(true, normalize)?,
            encoder,
            normalizer,
            pre_tokenizer: PreTokenizer::new(pre_tokenizer)?,
        })
    }

    /// Returns the text of an added token as the decoder of the library gets it: normalized, if the
    /// token is found in normalized texts.
    pub fn added_text(&self, id: u32) -> Option<&str> {
        self.original.text(id).or_else(|| self.normalized.text(id))
    }

    /// Returns the pieces into which a normalized text without added tokens is split.
    ///
    /// Fails if the regular expressions of the pre-tokenizer take too many steps.
    pub fn split(&self, text: &str) -> Result<Vec<String>, Error> {
        self.pre_tokenizer.split(text, true, &mut Budget::new(text))
    }

    /// Returns the token IDs of a text.
    ///
    /// Fails if the regular expressions of the pre-tokenizer, or other parts, take too many steps.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut budget = Budget::new(text);
        let mut ids = Vec::new();
        let mut is_start = true;
        for part in self.original.split(text, &mut budget)? {
            let text = match part {
                Part::Token(id) => {
                    ids.push(id);
                    is_start = false;
                    continue;
                }
                Part::Text(text) => self.normalizer.apply(Cow::Borrowed(text), &mut budget)?,
            };
            for part in self.normalized.split(&text, &mut budget)? {
                match part {
                    Part::Token(id) => ids.push(id),
                    Part::Text(text) => {
                        for piece in self.pre_tokenizer.split(text, is_start, &mut budget)? {
                            self.encoder.encode(&piece, &mut ids, &mut budget)?;
                        }
                    }
                }
                is_start = false;
            }
            is_start = false;
        }
        Ok(ids)
    }
}

/// Returns the token IDs of a text with the special tokens that a post-processor adds before and
/// after it.
pub fn post_process(processor: &Value, ids: Vec<u32>) -> Vec<u32> {
    let id =
        |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    match type_of(processor) {
        "Sequence" => {
            let parts = processor.get("processors").and_then(Value::as_array);
            // The recursion is bounded: serde_json reads JSON to a depth of 128.
            let parts = parts.into_iter().flatten().take(MAX_PARTS);
            parts.fold(ids, |ids, part| post_process(part, ids))
        }
        "BertProcessing" | "RobertaProcessing" => {
            let token = |name| id(processor.get(name).and_then(|token| token.get(1)));
            token("cls").into_iter().chain(ids).chain(token("sep")).collect()
        }
        "TemplateProcessing" => {
            let mut found = Vec::with_capacity(ids.len());
            let template = processor.get("single").and_then(Value::as_array);
            let mut has_text = false;
            for part in template.into_iter().flatten().take(MAX_PARTS) {
                let special = part.get("SpecialToken").and_then(|it| it.get("id"));
                if let Some(name) = special.and_then(Value::as_str) {
                    let token = processor.get("special_tokens").and_then(|all| all.get(name));
                    let special_ids = token.and_then(|token| token.get("ids"));
                    let special_ids = special_ids.and_then(Value::as_array);
                    found.extend(special_ids.into_iter().flatten().filter_map(|it| id(Some(it))));
                } else if part.get("Sequence").is_some() && !has_text {
                    // Nested sequences of templates that repeat the text would grow exponentially.
                    found.extend_from_slice(&ids);
                    has_text = true;
                }
            }
            found
        }
        _ => ids,
    }
}

/// Returns the byte of a byte token such as `<0x0A>`.
pub fn byte_token(token: &str) -> Option<u8> {
    crate::vocabulary::byte_of_token(token.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn post_processors_add_special_tokens() {
        let template = json!({ "type": "TemplateProcessing", "single": [
            { "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A" } },
            { "SpecialToken": { "id": "missing" } },
        ], "special_tokens": { "<s>": { "id": "<s>", "ids": [7, 8] } } });
        let roberta = json!({ "type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2] });
        assert_eq!(post_process(&template, vec![1]), [7, 8, 1]);
        assert_eq!(post_process(&roberta, vec![1]), [0, 1, 2]);
        let both = json!({ "type": "Sequence", "processors": [{ "type": "ByteLevel" }, template] });
        assert_eq!(post_process(&both, vec![1]), [7, 8, 1]);
        assert_eq!(post_process(&Value::Null, vec![1]), [1]);
    }
}
