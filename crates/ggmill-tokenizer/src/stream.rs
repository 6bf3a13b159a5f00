//! Tokens become text one by one.

use crate::decode::{DecodeOptions, clean, is_cut};
use crate::error::Error;
use crate::texts::no_such;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Kind;

/// Makes text of tokens as they come, and never gives half a character.
///
/// All that it gives, one after the other, is what [`Tokenizer::decode`] makes of all the tokens.
/// What could still change is kept back: the beginning of a character, and, where the vocabulary
/// removes spaces before punctuation, a space and up to three characters after it.
///
/// ```
/// # fn of(tokenizer: &ggmill_tokenizer::Tokenizer, ids: &[u32]) -> Result<(), ggmill_tokenizer::Error> {
/// use ggmill_tokenizer::{DecodeOptions, Decoder};
/// let mut decoder = Decoder::new(tokenizer, &DecodeOptions::new());
/// let mut text = Vec::new();
/// for &id in ids {
///     decoder.push(id, &mut text)?;
///     // `text` ends with a whole character.
/// }
/// decoder.finish(&mut text);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    tokenizer: Tokenizer,
    options: DecodeOptions,
    /// Whether no token came yet, and whether one did whose space is removed.
    is_first: bool,
    remove_space: bool,
    /// An end token that is left out if no other comes.
    held: Option<u32>,
    /// Bytes that spaces may still be removed from.
    unclean: Vec<u8>,
    /// The beginning of a character.
    partial: Vec<u8>,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new(tokenizer: &Tokenizer, options: &DecodeOptions) -> Self {
        Self {
            tokenizer: tokenizer.clone(),
            options: *options,
            is_first: true,
            remove_space: tokenizer.vocabulary().flags().add_space_prefix,
            held: None,
            unclean: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Takes a token, and appends the text that is complete.
    ///
    /// Fails for an ID beyond the last, and goes on as if it had not come.
    pub fn push(&mut self, id: u32, out: &mut Vec<u8>) -> Result<(), Error> {
        let vocabulary = self.tokenizer.vocabulary();
        if vocabulary.kind() == Kind::None {
            return Ok(());
        }
        if id >= vocabulary.len() {
            return Err(no_such(id, vocabulary.len() as usize));
        }
        let (flags, special) = (vocabulary.flags(), vocabulary.special_ids());
        let remove = self.options.remove_special;
        if std::mem::take(&mut self.is_first) && remove && flags.add_bos && special.bos == Some(id)
        {
            self.remove_space = false;
            return Ok(());
        }
        if let Some(held) = self.held.take() {
            self.text(held, out);
        }
        if remove && flags.add_eos && special.eos == Some(id) {
            self.held = Some(id);
        } else {
            self.text(id, out);
        }
        Ok(())
    }

    /// Appends what is left, with half a character if the tokens end with one. The decoder is then
    /// as new.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let mut unclean = std::mem::take(&mut self.unclean);
        let length = clean(&mut unclean);
        self.give(&unclean[..length], out);
        out.append(&mut self.partial);
        *self = Self::new(&self.tokenizer, &self.options);
    }

    fn text(&mut self, id: u32, out: &mut Vec<u8>) {
        let tokenizer = self.tokenizer.clone();
        let texts = tokenizer.texts();
        let shown = self.options.unparse_special || !texts.is_hidden(id);
        let mut bytes = texts.get(id).filter(|_| shown).unwrap_or_default();
        if std::mem::take(&mut self.remove_space) {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        if !tokenizer.vocabulary().flags().clean_spaces {
            self.give(bytes, out);
            return;
        }
        self.unclean.extend_from_slice(bytes);
        let settled = settled(&self.unclean);
        if settled > 0 {
            let rest = self.unclean.split_off(settled);
            let mut unclean = std::mem::replace(&mut self.unclean, rest);
            let length = clean(&mut unclean);
            self.give(&unclean[..length], out);
        }
    }

    /// Appends bytes up to the last whole character.
    fn give(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.partial.extend_from_slice(bytes);
        let whole = self.partial.len() - begun(&self.partial);
        out.extend(self.partial.drain(..whole));
    }
}

/// The length of the part that no later byte changes: cleaning it and the rest, each by itself, is
/// cleaning both. A change needs a space or an apostrophe less than four bytes before.
fn settled(text: &[u8]) -> usize {
    let is_quiet = |byte: &u8| !matches!(byte, b' ' | b'\'');
    let tail = text.len().saturating_sub(4);
    if text[tail..].iter().all(is_quiet) {
        return text.len();
    }
    (1..text.len()).rev().find(|&at| is_cut(text, at)).unwrap_or(0)
}

/// The bytes at the end that begin a character without ending it.
fn begun(text: &[u8]) -> usize {
    for length in 1..=text.len().min(3) {
        let needed = match text[text.len() - length] {
            0x80..0xC0 => continue,
            0xC2..0xE0 => 2,
            0xE0..0xF0 => 3,
            0xF0..0xF5 => 4,
            _ => 0,
        };
        let bytes = &text[text.len() - length..];
        // What can no longer become a character is not kept.
        let is_begun = std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
        return if length < needed && is_begun { length } else { 0 };
    }
    0
}
