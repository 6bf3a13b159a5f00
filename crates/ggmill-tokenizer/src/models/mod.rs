//! The models: each makes tokens of a fragment of text that has no special tokens in it.

pub(crate) mod bpe;

use ggmill_core::Metadata;

use crate::error::Error;
use crate::sink::Sink;
use crate::vocabulary::{Kind, Vocabulary};
use bpe::Bpe;

/// A piece of text between special tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'t> {
    /// Its bytes; never empty.
    pub(crate) text: &'t [u8],
    /// Where it begins in the whole text.
    pub(crate) start: usize,
    /// Whether it is the first of the text or follows a special token.
    pub(crate) after_special: bool,
}

/// Memory that calls use one after the other. Each model has its own part.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) bpe: bpe::Scratch,
}

/// The model of a vocabulary.
#[derive(Debug)]
pub(crate) enum Model {
    /// Byte pairs.
    Bpe(Box<Bpe>),
    /// Hashes of five bytes, for the reference's own tests.
    Test,
    /// No tokenizer.
    None,
}

impl Model {
    /// The model, with what it reads from the metadata besides the vocabulary.
    pub(crate) fn new(vocabulary: &Vocabulary, metadata: &Metadata<'_>) -> Result<Self, Error> {
        Ok(match vocabulary.kind() {
            Kind::Bpe => Self::Bpe(Box::new(Bpe::new(vocabulary, metadata)?)),
            Kind::Test => Self::Test,
            Kind::None => Self::None,
            kind => {
                return Err(Error::new(
                    crate::ErrorKind::UnknownModel,
                    format!("no model for {kind:?}"),
                ));
            }
        })
    }

    /// The tokens of a fragment, in order.
    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        out: &mut S,
    ) {
        match self {
            Self::Bpe(model) => model.encode(vocabulary, fragment, &mut scratch.bpe, out),
            Self::Test => encode_hashes(vocabulary, fragment, out),
            Self::None => {}
        }
    }
}

/// Tokens of five bytes each, numbered by a hash.
fn encode_hashes(vocabulary: &Vocabulary, fragment: Fragment<'_>, out: &mut impl Sink) {
    let tokens = u64::from(vocabulary.len().max(1));
    let mut start = fragment.start;
    for chunk in fragment.text.chunks(5) {
        let hash = chunk
            .iter()
            .fold(0u64, |hash, &byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let end = start.saturating_add(chunk.len());
        out.push(u32::try_from(hash % tokens).unwrap_or_default(), start, end);
        start = end;
    }
}
