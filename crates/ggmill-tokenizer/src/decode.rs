//! From tokens back to text.

use crate::error::Error;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::Kind;

/// How tokens become text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// A begin token at the beginning and an end token at the end are left out, where the
    /// vocabulary adds them.
    pub remove_special: bool,
    /// Control and unknown tokens are shown as their text; otherwise they are left out.
    pub unparse_special: bool,
}

impl DecodeOptions {
    /// Every token, control tokens left out.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a begin token at the beginning and an end token at the end are left out.
    #[must_use]
    pub fn remove_special(mut self, remove: bool) -> Self {
        self.remove_special = remove;
        self
    }

    /// Whether control and unknown tokens are shown as their text.
    #[must_use]
    pub fn unparse_special(mut self, unparse: bool) -> Self {
        self.unparse_special = unparse;
        self
    }
}

impl Tokenizer {
    /// The bytes that a token stands for, control tokens with their text; `None` for an ID beyond
    /// the last.
    pub fn piece(&self, id: u32) -> Option<&[u8]> {
        self.texts().get(id)
    }

    /// Appends the text of tokens, as `llama_detokenize` makes it.
    ///
    /// Fails for an ID beyond the last; what it appended until then stays.
    ///
    /// Spaces before punctuation go where the vocabulary says so
    /// ([`Flags::clean_spaces`](crate::Flags)), and a space at the beginning where it adds one.
    pub fn decode(
        &self,
        ids: &[u32],
        options: &DecodeOptions,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let vocabulary = self.vocabulary();
        if vocabulary.kind() == Kind::None {
            return Ok(());
        }
        let (flags, special) = (vocabulary.flags(), vocabulary.special_ids());
        let mut ids = ids;
        let mut remove_space = flags.add_space_prefix;
        if options.remove_special {
            if flags.add_bos && ids.first().is_some_and(|&first| special.bos == Some(first)) {
                remove_space = false;
                ids = &ids[1..];
            }
            if flags.add_eos && ids.last().is_some_and(|&last| special.eos == Some(last)) {
                ids = &ids[..ids.len() - 1];
            }
        }
        let start = out.len();
        let texts = self.texts();
        if let Some((first, rest)) = ids.split_first().filter(|_| remove_space) {
            texts.append(&[*first], options.unparse_special, out)?;
            if out.get(start) == Some(&b' ') {
                out.remove(start);
            }
            ids = rest;
        }
        texts.append(ids, options.unparse_special, out)?;
        if flags.clean_spaces {
            let length = clean(&mut out[start..]);
            out.truncate(start + length);
        }
        Ok(())
    }
}

/// Removes spaces before punctuation and contractions; the length that is left. The reference goes
/// over the text three times, each time over what the last left.
pub(crate) fn clean(text: &mut [u8]) -> usize {
    let length = pass(text, |text, at| {
        text[at - 1] == b' ' && matches!(text[at], b'?' | b'!' | b'.' | b',')
    });
    let length = apostrophes(&mut text[..length]);
    pass(&mut text[..length], |text, at| {
        if text[at - 1] != b' ' || text[at] != b'\'' {
            return false;
        }
        match text.get(at + 1) {
            Some(b's' | b'm') => true,
            Some(b'r' | b'v') => text.get(at + 2) == Some(&b'e'),
            _ => false,
        }
    })
}

/// Removes the byte before each place where `remove` says so; the length that is left.
fn pass(text: &mut [u8], remove: impl Fn(&[u8], usize) -> bool) -> usize {
    let mut length = text.len().min(1);
    for at in 1..text.len() {
        if remove(text, at) {
            length -= 1;
        }
        text[length] = text[at];
        length += 1;
    }
    length
}

/// Removes the spaces around an apostrophe between two.
fn apostrophes(text: &mut [u8]) -> usize {
    let mut length = text.len().min(1);
    let mut at = 1;
    while at < text.len() {
        let byte = text[at];
        if byte == b'\'' && text[at - 1] == b' ' && text.get(at + 1) == Some(&b' ') {
            length -= 1;
            at += 1;
            text[at] = 0;
        }
        text[length] = byte;
        length += 1;
        at += 1;
    }
    length
}
