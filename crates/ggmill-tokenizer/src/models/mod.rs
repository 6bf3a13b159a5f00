//! The models: each makes tokens of a fragment of text that has no special tokens in it.

pub(crate) mod bpe;
mod dna;
mod plamo2;
pub(crate) mod rwkv;
pub(crate) mod spm;
mod ugm;
mod wpm;

use ggmill_core::Metadata;

use crate::error::Error;
use crate::sink::Sink;
use crate::vocabulary::{Dialect, Kind, Vocabulary};
use bpe::Bpe;
use dna::Dna;
use plamo2::Plamo2;
use rwkv::Rwkv;
use spm::Spm;
use ugm::Ugm;
use wpm::Wpm;

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
    plamo2: plamo2::Scratch,
    spm: spm::Scratch,
    ugm: ugm::Scratch,
    wpm: wpm::Scratch,
}

impl Scratch {
    /// Gives back what one long text made large.
    pub(crate) fn bound(&mut self) {
        self.bpe.bound();
        self.plamo2.bound();
        self.spm.bound();
        self.ugm.bound();
        self.wpm.bound();
    }
}

/// The model of a vocabulary.
#[derive(Debug)]
pub(crate) enum Model {
    /// Byte pairs.
    Bpe(Box<Bpe>),
    /// Byte pairs, and DNA between marks.
    Dna(Box<Dna>),
    /// The cheapest way through a text.
    Plamo2(Box<Plamo2>),
    /// The longest token first.
    Rwkv(Rwkv),
    /// Pairs by their scores.
    Spm(Box<Spm>),
    /// The way with the highest sum of scores.
    Ugm(Box<Ugm>),
    /// Words and the longest tokens in them.
    Wpm(Wpm),
    /// Hashes of five bytes, for the reference's own tests.
    Test,
    /// No tokenizer.
    None,
}

impl Model {
    /// The model, with what it reads from the metadata besides the vocabulary.
    pub(crate) fn new(vocabulary: &Vocabulary, metadata: &Metadata<'_>) -> Result<Self, Error> {
        Ok(match vocabulary.kind() {
            Kind::Bpe if vocabulary.dialect == Dialect::HybridDna => {
                Self::Dna(Box::new(Dna::new(vocabulary, metadata)?))
            }
            Kind::Bpe => Self::Bpe(Box::new(Bpe::new(vocabulary, metadata)?)),
            Kind::Test => Self::Test,
            Kind::None => Self::None,
            Kind::Plamo2 => Self::Plamo2(Box::new(Plamo2::new(vocabulary)?)),
            Kind::Rwkv => Self::Rwkv(Rwkv::new(vocabulary)?),
            Kind::Spm => Self::Spm(Box::new(Spm::new(vocabulary))),
            Kind::Ugm => Self::Ugm(Box::new(Ugm::new(vocabulary, metadata)?)),
            Kind::Wpm => Self::Wpm(Wpm::new(vocabulary)?),
        })
    }

    /// A place near which the text can be cut in two: the tokens of both, one after the other, are
    /// those of the text, if the second does not follow a special token. It is not before `from`,
    /// and before `to`.
    pub(crate) fn cut(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        let last = to.min(text.len());
        let place = |at: &usize| {
            let around = text.get(at.checked_sub(4)?..=*at)?.first_chunk::<5>()?;
            around.is_ascii().then_some((around[3], around[4]))
        };
        (from..last).find(|at| {
            place(at).is_some_and(|(before, after)| match self {
                Self::Bpe(model) => model.can_cut(before, after),
                Self::Spm(model) => model.can_cut(before, after),
                Self::Wpm(_) => after == b' ',
                _ => false,
            })
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
            Self::Dna(model) => model.encode(vocabulary, fragment, &mut scratch.bpe, out),
            Self::Plamo2(model) => model.encode(fragment, &mut scratch.plamo2, out),
            Self::Rwkv(model) => model.encode(vocabulary, fragment, out),
            Self::Spm(model) => model.encode(vocabulary, fragment, &mut scratch.spm, out),
            Self::Ugm(model) => model.encode(vocabulary, fragment, &mut scratch.ugm, out),
            Self::Wpm(model) => model.encode(vocabulary, fragment, &mut scratch.wpm, out),
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
