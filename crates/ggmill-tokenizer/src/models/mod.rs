//! The models: each encodes a fragment of a text that contains no special tokens.

pub(crate) mod bpe;
pub(crate) mod greedy;
mod plamo2;
pub(crate) mod spm;
mod ugm;

use ggmill_core::Metadata;

use crate::buffers::{bound, bound_heap};
use crate::error::Error;
use crate::tokenizer::Sink;
use crate::vocabulary::{Dialect, Kind, Vocabulary};
use crate::work::Work;
use bpe::{Bpe, Dna};
use greedy::{Rwkv, Wpm};
use plamo2::Plamo2;
use spm::Spm;
use ugm::Ugm;

/// The text between two special tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'t> {
    /// The bytes, never empty.
    pub(crate) text: &'t [u8],
    /// Its start in the whole text.
    pub(crate) start: usize,
    /// It is at the beginning of the text or follows a special token.
    pub(crate) after_special: bool,
}

/// Scratch memory of all models.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) bpe: bpe::Scratch,
    plamo2: plamo2::Scratch,
    spm: spm::Scratch,
    ugm: ugm::Scratch,
    wpm: greedy::Scratch,
    budget: Work,
}

impl Scratch {
    /// Frees buffers that a long text enlarged.
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
    /// Byte-pair encoding.
    Bpe(Box<Bpe>),
    /// Byte-pair encoding, and tokens of six letters for DNA.
    Dna(Box<Dna>),
    /// The path of the least cost.
    Plamo2(Box<Plamo2>),
    /// Greedy longest match.
    Rwkv(Rwkv),
    /// SentencePiece: merges by score.
    Spm(Box<Spm>),
    /// Unigram: the path with the highest sum of scores.
    Ugm(Box<Ugm>),
    /// WordPiece: greedy longest match within words.
    Wpm(Wpm),
    /// Hashes of five bytes, for llama.cpp's own tests.
    Test,
    /// No tokenizer.
    None,
}

impl Model {
    /// Creates the model of a vocabulary. Reads merges and character maps from the metadata.
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

    /// Finds a position in `from..to` where the text can be split: the tokens of both parts,
    /// concatenated, are those of the text, if `after_special` is false for the second part.
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

    /// Passes the tokens of a fragment to `out`, in order. Fails if the vocabulary takes more steps for
    /// the text than any in use.
    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        out: &mut S,
    ) -> Result<(), Error> {
        let budget = &mut scratch.budget;
        budget.begin(fragment.text.len());
        match self {
            Self::Bpe(model) => model.encode(vocabulary, fragment, &mut scratch.bpe, out),
            Self::Dna(model) => model.encode(vocabulary, fragment, &mut scratch.bpe, out),
            Self::Plamo2(model) => model.encode(fragment, &mut scratch.plamo2, budget, out),
            Self::Rwkv(model) => model.encode(vocabulary, fragment, budget, out),
            Self::Spm(model) => model.encode(vocabulary, fragment, &mut scratch.spm, budget, out),
            Self::Ugm(model) => model.encode(vocabulary, fragment, &mut scratch.ugm, budget, out),
            Self::Wpm(model) => model.encode(vocabulary, fragment, &mut scratch.wpm, budget, out),
            Self::Test => encode_hashes(vocabulary, fragment, out),
            Self::None => {}
        }
        scratch.budget.finish()
    }
}

/// Encodes each five bytes as a hash modulo the number of tokens.
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
