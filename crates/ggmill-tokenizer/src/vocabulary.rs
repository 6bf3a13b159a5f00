//! The vocabulary of a file: tokens and what is said about them.

use crate::attributes::Attributes;
use crate::flags::Flags;
use crate::pre::PreTokenizer;
use crate::special_ids::SpecialIds;
use crate::token_map::TokenMap;

/// The algorithm that makes tokens of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// SentencePiece with scores (`llama`).
    Spm,
    /// Byte pairs with merges (`gpt2`, `gemma4`, `hybriddna`, `whitespace`).
    Bpe,
    /// WordPiece (`bert`).
    Wpm,
    /// Unigram (`t5`).
    Ugm,
    /// The longest token first (`rwkv`).
    Rwkv,
    /// The cheapest way through the text (`plamo2`).
    Plamo2,
    /// Hashes of five bytes, for tests of llama.cpp (`test`).
    Test,
    /// No tokenizer (`none`, `no_vocab`).
    None,
}

impl Kind {
    /// The name of the algorithm, in lower case, which does not change: `bpe`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spm => "spm",
            Self::Bpe => "bpe",
            Self::Wpm => "wpm",
            Self::Ugm => "ugm",
            Self::Rwkv => "rwkv",
            Self::Plamo2 => "plamo2",
            Self::Test => "test",
            Self::None => "none",
        }
    }
}

/// What a vocabulary of byte pairs does besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Plain,
    /// Text between `<dna>` and `</dna>` is cut into six letters each.
    HybridDna,
    /// Text is cut at whitespace, which is dropped.
    Whitespace,
}

/// The tokens of a file with their types, scores and attributes, and the switches that go with
/// them.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    pub(crate) kind: Kind,
    pub(crate) dialect: Dialect,
    pub(crate) pre: Option<&'static PreTokenizer>,
    /// Number of tokens, which need not have texts.
    pub(crate) len: u32,
    pub(crate) texts: TokenMap,
    /// Empty where all are 0.
    pub(crate) scores: Vec<f32>,
    pub(crate) types: Vec<i8>,
    pub(crate) attributes: Vec<Attributes>,
    pub(crate) flags: Flags,
    pub(crate) special: SpecialIds,
    /// In ascending order.
    pub(crate) end_of_generation: Vec<u32>,
    pub(crate) suppressed: Vec<u32>,
    /// The tokens that are looked for in text before all else, the longest first.
    pub(crate) special_order: Vec<u32>,
    /// From this token on, texts lose a marker at their end when they are shown.
    pub(crate) marked_from: u32,
}

/// What keeps the six letters of DNA apart from other tokens: U+E000.
pub(crate) const DNA_MARKER: &[u8] = "\u{E000}".as_bytes();

impl Vocabulary {
    /// The algorithm.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The pre-tokenizer's name in `tokenizer.ggml.pre`, or `default` where there is none; `None`
    /// for a kind that has no pre-tokenizer.
    pub fn pre_tokenizer(&self) -> Option<&'static str> {
        self.pre.map(|pre| pre.name)
    }

    /// The number of tokens.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The ID of the token with exactly this text, as the file has it.
    #[inline]
    pub fn id(&self, text: &[u8]) -> Option<u32> {
        self.texts.get(text)
    }

    /// The text of a token as the file has it; `[EMPTY_<id>]` where it is empty there.
    #[inline]
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.text(id).or((id < self.len).then_some(b""))
    }

    /// The text of a token without the marker of DNA.
    pub(crate) fn shown(&self, id: u32) -> Option<&[u8]> {
        let text = self.text(id)?;
        let cut = (id >= self.marked_from).then(|| text.strip_suffix(DNA_MARKER)).flatten();
        Some(cut.filter(|cut| !cut.is_empty()).unwrap_or(text))
    }

    /// The score of a token; 0 where the file has none.
    #[inline]
    pub fn score(&self, id: u32) -> f32 {
        self.scores.get(id as usize).copied().unwrap_or_default()
    }

    /// The attributes of a token, after the corrections by text.
    #[inline]
    pub fn attributes(&self, id: u32) -> Attributes {
        self.attributes.get(id as usize).copied().unwrap_or_default()
    }

    /// The attributes that the file gives a token.
    pub fn attributes_in_file(&self, id: u32) -> Attributes {
        if self.types.is_empty() && (id as usize) < self.texts.len() {
            return Attributes::NORMAL;
        }
        self.types
            .get(id as usize)
            .map_or(Attributes::UNDEFINED, |&kind| Attributes::of_type(kind.into()))
    }

    /// The switches.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The tokens that have a role.
    pub fn special_ids(&self) -> SpecialIds {
        self.special
    }

    /// The BOS token, if the switches say that texts begin with one.
    pub fn leading_bos(&self) -> Option<u32> {
        self.special.bos.filter(|_| self.flags.add_bos)
    }

    /// The tokens that end a generation, in ascending order.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.end_of_generation
    }

    /// The tokens that the file asks not to generate.
    pub fn suppressed(&self) -> &[u32] {
        &self.suppressed
    }

    /// The token of a byte, written `<0xXX>`.
    pub(crate) fn byte_token(&self, byte: u8) -> Option<u32> {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let digit = |value: u8| HEX.get(usize::from(value & 15)).copied().unwrap_or(b'0');
        self.id(&[b'<', b'0', b'x', digit(byte >> 4), digit(byte), b'>'])
    }
}

/// Returns the byte of a byte token such as `<0x0A>`.
pub(crate) fn byte_of_token(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let &[high, low] = digits else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}
