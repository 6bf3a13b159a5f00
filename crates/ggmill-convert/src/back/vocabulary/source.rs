//! The vocabulary of a file, as it is read.

use ggmill_core::{Metadata, RawStr, Value, keys};
use ggmill_pipeline::{Error, ErrorKind, Result};

use crate::vocabulary::tokens::{MAX_TOKENS, TokenType};

/// The longest list of merges: some tokenizers have two for each token.
const MAX_MERGES: usize = 2 * MAX_TOKENS;

/// A vocabulary as a file has it.
pub(super) struct Source<'a> {
    metadata: Metadata<'a>,
    pub(super) model: String,
    pub(super) pre: String,
    pub(super) tokens: Vec<&'a str>,
    /// As many as tokens: normal ones where the file says nothing.
    pub(super) types: Vec<i32>,
    /// As many as tokens, or none.
    pub(super) scores: Vec<f32>,
    pub(super) merges: Vec<&'a str>,
}

fn fault(key: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Checkpoint, message).key(key)
}

impl<'a> Source<'a> {
    /// `None` where the file has no tokens.
    pub(super) fn of(metadata: Metadata<'a>) -> Result<Option<Self>> {
        if metadata.get(keys::TOKENIZER_TOKENS).is_none() {
            return Ok(None);
        }
        let tokens = strings(metadata, keys::TOKENIZER_TOKENS, MAX_TOKENS)?.unwrap_or_default();
        let types = numbers(metadata, keys::TOKENIZER_TOKEN_TYPE)?;
        let types: Vec<i32> = types
            .into_iter()
            .flatten()
            .map(|number| i32::try_from(number).unwrap_or(TokenType::Normal as i32))
            .collect();
        let types = of_each(types, tokens.len(), keys::TOKENIZER_TOKEN_TYPE)?;
        let scores = metadata.get(keys::TOKENIZER_SCORES).and_then(|entry| entry.value().ok());
        let scores: Vec<f32> = match scores.as_ref().and_then(Value::as_array) {
            Some(array) if array.len() == tokens.len() as u64 =>
            {
                #[expect(clippy::cast_possible_truncation, reason = "scores are single precision")]
                array.floats().into_iter().flatten().map(|score| score as f32).collect()
            }
            Some(array) => {
                let message = format!("{} scores for {} tokens", array.len(), tokens.len());
                return Err(fault(keys::TOKENIZER_SCORES, message));
            }
            None => Vec::new(),
        };
        let merges = strings(metadata, keys::TOKENIZER_MERGES, MAX_MERGES)?.unwrap_or_default();
        let text = |key: &str| {
            let value = metadata.get(key).and_then(|entry| entry.value().ok()?.as_str());
            value.unwrap_or_default().to_owned()
        };
        let (model, pre) = (text(keys::TOKENIZER_MODEL), text(keys::TOKENIZER_PRE));
        Ok(Some(Self { metadata, model, pre, tokens, types, scores, merges }))
    }

    pub(super) fn is(&self, id: usize, token_type: TokenType) -> bool {
        self.types.get(id) == Some(&(token_type as i32))
    }

    /// Whether the ID is one that no token has.
    pub(super) fn is_placeholder(&self, id: usize) -> bool {
        self.is(id, TokenType::Unused)
            && self.tokens.get(id).is_some_and(|text| *text == format!("[PAD{id}]"))
    }

    /// Whether a text is searched for the token before it is split.
    pub(super) fn is_added(&self, id: usize) -> bool {
        self.is(id, TokenType::Control)
            || self.is(id, TokenType::UserDefined)
            || self.is(id, TokenType::Unknown)
    }

    /// The ID and the text of the special token with this role.
    pub(super) fn special(&self, role: &str) -> Option<(u32, &'a str)> {
        let (_, key) = keys::SPECIAL_TOKENS.iter().find(|(known, _)| *known == role)?;
        let id = self.metadata.get(key)?.value().ok()?.as_u32()?;
        let text = self.tokens.get(usize::try_from(id).ok()?)?;
        Some((id, text))
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.metadata.get(key)?.value().ok()?.as_bool()
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.metadata.get(key)?.value().ok()?.as_str()
    }

    /// The bytes of a list of them.
    pub(super) fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let value = self.metadata.get(key)?.value().ok()?;
        let array = value.as_array().filter(|array| array.len() <= MAX_TOKENS as u64)?;
        array.integers()?.map(|number| u8::try_from(number & 0xff).ok()).collect()
    }
}

fn of_each(mut types: Vec<i32>, count: usize, key: &str) -> Result<Vec<i32>> {
    if types.is_empty() {
        types = vec![TokenType::Normal as i32; count];
    }
    if types.len() != count {
        return Err(fault(key, format!("{} types for {count} tokens", types.len())));
    }
    Ok(types)
}

fn strings<'a>(metadata: Metadata<'a>, key: &str, limit: usize) -> Result<Option<Vec<&'a str>>> {
    let Some(entry) = metadata.get(key) else { return Ok(None) };
    let value = entry.value().map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let array = value.as_array().ok_or_else(|| fault(key, "is not a list"))?;
    if array.len() > limit as u64 {
        return Err(fault(key, format!("{} elements, the limit is {limit}", array.len())));
    }
    let strings = array.strings().ok_or_else(|| fault(key, "is not a list of strings"))?;
    let mut texts = Vec::new();
    for (number, text) in strings.enumerate() {
        let text: RawStr<'a> = text.map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let text = text
            .to_str()
            .map_err(|_| fault(key, format!("element {number} is not valid UTF-8")))?;
        texts.push(text);
    }
    Ok(Some(texts))
}

fn numbers<'a>(
    metadata: Metadata<'a>,
    key: &str,
) -> Result<Option<impl Iterator<Item = i128> + use<'a>>> {
    let Some(entry) = metadata.get(key) else { return Ok(None) };
    let value = entry.value().map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let array = value.as_array().ok_or_else(|| fault(key, "is not a list"))?;
    if array.len() > MAX_TOKENS as u64 {
        return Err(fault(key, format!("{} elements, the limit is {MAX_TOKENS}", array.len())));
    }
    Ok(array.integers())
}
