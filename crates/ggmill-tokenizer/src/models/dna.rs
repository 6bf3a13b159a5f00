//! Byte pairs, but for DNA between marks, which is cut into six letters each.

use ggmill_core::Metadata;

use super::Fragment;
use super::bpe::{self, Bpe};
use crate::error::Error;
use crate::sink::Sink;
use crate::vocabulary::{DNA_MARKER, Vocabulary};

const BEGIN: &[u8] = b"<dna>";
const END: &[u8] = b"</dna>";
const OTHER: &[u8] = b"<oov>";
/// Letters in a token, and the letter that fills up the last.
const LETTERS: usize = 6;
const FILLER: u8 = b'A';

#[derive(Debug)]
pub(crate) struct Dna {
    words: Bpe,
    tokens: Option<Tokens>,
}

/// The tokens without which everything is words.
#[derive(Clone, Copy, Debug)]
struct Tokens {
    begin: u32,
    end: u32,
    other: u32,
}

impl Dna {
    pub(crate) fn new(vocabulary: &Vocabulary, metadata: &Metadata<'_>) -> Result<Self, Error> {
        let words = Bpe::new(vocabulary, metadata)?;
        let tokens = vocabulary.id(BEGIN).zip(vocabulary.id(END)).zip(vocabulary.id(OTHER));
        let tokens = tokens.map(|((begin, end), other)| Tokens { begin, end, other });
        Ok(Self { words, tokens })
    }

    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut bpe::Scratch,
        out: &mut S,
    ) {
        let Some(tokens) = self.tokens else {
            return self.words.encode(vocabulary, fragment, scratch, out);
        };
        let Fragment { text, start, .. } = fragment;
        let mut at = 0;
        while at < text.len() {
            let begin = memchr::memmem::find(&text[at..], BEGIN).map(|place| at + place);
            let words = &text[at..begin.unwrap_or(text.len())];
            if !words.is_empty() {
                let words = Fragment { text: words, start: start + at, ..fragment };
                self.words.encode(vocabulary, words, scratch, out);
            }
            let Some(begin) = begin else { break };
            at = begin + BEGIN.len();
            out.push(tokens.begin, start + begin, start + at);
            let end = memchr::memmem::find(&text[at..], END).map(|place| at + place);
            let letters = &text[at..end.unwrap_or(text.len())];
            for chunk in letters.chunks(LETTERS) {
                let id = six(vocabulary, chunk).unwrap_or(tokens.other);
                out.push(id, start + at, start + at + chunk.len());
                at += chunk.len();
            }
            if let Some(end) = end {
                at = end + END.len();
                out.push(tokens.end, start + end, start + at);
            }
        }
    }
}

/// The token of at most six letters, in upper case, filled up.
fn six(vocabulary: &Vocabulary, letters: &[u8]) -> Option<u32> {
    let mut text = [FILLER; LETTERS + DNA_MARKER.len()];
    text[..letters.len()].copy_from_slice(letters);
    text[..letters.len()].make_ascii_uppercase();
    text[LETTERS..].copy_from_slice(DNA_MARKER);
    vocabulary.id(&text)
}
