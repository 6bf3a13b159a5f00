//! The vocabulary of a file: tokens with their types, scores, attributes and roles.

pub(crate) mod load;
pub(crate) mod roles;
pub(crate) mod token_map;

use crate::pre::PreTokenizer;
use token_map::TokenMap;

/// The algorithm that splits text into tokens.
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
    /// Greedy longest match (`rwkv`).
    Rwkv,
    /// The path of the least cost through the text (`plamo2`).
    Plamo2,
    /// Hashes of five bytes, for tests of llama.cpp (`test`).
    Test,
    /// No tokenizer (`none`, `no_vocab`).
    None,
}

impl Kind {
    /// Returns the stable name of the algorithm in lower case, such as `bpe`.
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

/// A variant of byte-pair encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Plain,
    /// Text between `<dna>` and `</dna>` is split into tokens of six letters.
    HybridDna,
    /// Text is split at whitespace, which is dropped.
    Whitespace,
}

/// The tokens of a file with their types, scores, attributes and roles, and the tokenizer flags.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    pub(crate) kind: Kind,
    pub(crate) dialect: Dialect,
    pub(crate) pre: Option<&'static PreTokenizer>,
    /// Number of tokens. `texts` has fewer if the model has no tokenizer.
    pub(crate) len: u32,
    pub(crate) texts: TokenMap,
    /// Empty if all scores are 0.
    pub(crate) scores: Vec<f32>,
    pub(crate) types: Vec<i8>,
    pub(crate) attributes: Vec<Attributes>,
    pub(crate) flags: Flags,
    pub(crate) special: SpecialIds,
    /// In ascending order.
    pub(crate) end_of_generation: Vec<u32>,
    pub(crate) suppressed: Vec<u32>,
    /// The tokens that are searched in text before it is tokenized, the longest first.
    pub(crate) special_order: Vec<u32>,
    /// From this ID on, [`DNA_MARKER`] at the end of a text is not displayed.
    pub(crate) marked_from: u32,
}

/// The suffix U+E000 that distinguishes tokens of six DNA letters from other tokens.
pub(crate) const DNA_MARKER: &[u8] = "\u{E000}".as_bytes();

impl Vocabulary {
    /// Returns the algorithm.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the name of the pre-tokenizer in `tokenizer.ggml.pre`, or `default` if the file has
    /// none. Returns `None` for a kind without pre-tokenizers.
    pub fn pre_tokenizer(&self) -> Option<&'static str> {
        self.pre.map(|pre| pre.name)
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns `true` if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the ID of the token with exactly this text in the file.
    #[inline]
    pub fn id(&self, text: &[u8]) -> Option<u32> {
        self.texts.get(text)
    }

    /// Returns the text of a token in the file, or `[EMPTY_<id>]` if that is empty.
    #[inline]
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.text(id).or((id < self.len).then_some(b""))
    }

    /// Returns the text of a token without [`DNA_MARKER`].
    pub(crate) fn shown(&self, id: u32) -> Option<&[u8]> {
        let text = self.text(id)?;
        let cut = (id >= self.marked_from).then(|| text.strip_suffix(DNA_MARKER)).flatten();
        Some(cut.filter(|cut| !cut.is_empty()).unwrap_or(text))
    }

    /// Returns the score of a token, or 0 if the file has no scores.
    #[inline]
    pub fn score(&self, id: u32) -> f32 {
        self.scores.get(id as usize).copied().unwrap_or_default()
    }

    /// Returns the attributes of a token, after the corrections by its text.
    #[inline]
    pub fn attributes(&self, id: u32) -> Attributes {
        self.attributes.get(id as usize).copied().unwrap_or_default()
    }

    /// Returns the attributes of a token in the file.
    pub fn attributes_in_file(&self, id: u32) -> Attributes {
        if self.types.is_empty() && (id as usize) < self.texts.len() {
            return Attributes::NORMAL;
        }
        self.types
            .get(id as usize)
            .map_or(Attributes::UNDEFINED, |&kind| Attributes::of_type(kind.into()))
    }

    /// Returns the tokenizer flags.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Returns the tokens that have a role.
    pub fn special_ids(&self) -> SpecialIds {
        self.special
    }

    /// Returns the BOS token if the flags add it to texts.
    pub fn leading_bos(&self) -> Option<u32> {
        self.special.bos.filter(|_| self.flags.add_bos)
    }

    /// Returns the tokens that end a generation, in ascending order.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.end_of_generation
    }

    /// Returns the tokens that must not be generated (`tokenizer.ggml.suppress_tokens`).
    pub fn suppressed(&self) -> &[u32] {
        &self.suppressed
    }

    /// Returns the byte token `<0xXX>`.
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

/// The attributes of a token: a bit set, as in llama.cpp.
///
/// ```
/// use ggmill_tokenizer::Attributes;
/// let attributes = Attributes::CONTROL | Attributes::UNUSED;
/// assert!(attributes.contains(Attributes::CONTROL));
/// assert!(!attributes.intersects(Attributes::NORMAL | Attributes::BYTE));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(u16);

impl Attributes {
    /// No attributes: the type in the file is 0 or unknown.
    pub const UNDEFINED: Self = Self(0);
    /// The token for text that no other token represents.
    pub const UNKNOWN: Self = Self(1);
    /// Reserved.
    pub const UNUSED: Self = Self(1 << 1);
    /// Ordinary text.
    pub const NORMAL: Self = Self(1 << 2);
    /// A control token, such as the begin or end of a text or of a turn.
    pub const CONTROL: Self = Self(1 << 3);
    /// Text that is matched before the tokenizer runs.
    pub const USER_DEFINED: Self = Self(1 << 4);
    /// A byte token such as `<0x0A>`.
    pub const BYTE: Self = Self(1 << 5);
    /// Consumes the whitespace before it.
    pub const LSTRIP: Self = Self(1 << 7);
    /// Consumes the whitespace after it.
    pub const RSTRIP: Self = Self(1 << 8);

    /// Returns the attributes for a type in `tokenizer.ggml.token_type`.
    pub fn of_type(token_type: i32) -> Self {
        match token_type {
            1 => Self::NORMAL,
            2 => Self::UNKNOWN,
            3 => Self::CONTROL,
            4 => Self::USER_DEFINED,
            5 => Self::UNUSED,
            6 => Self::BYTE,
            _ => Self::UNDEFINED,
        }
    }

    /// Returns `true` if every attribute of `other` is set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns `true` if any attribute of `other` is set.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the set without the attributes of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the bits of llama.cpp's `llama_token_attr`.
    pub fn bits(self) -> u16 {
        self.0
    }
}

impl std::ops::BitOr for Attributes {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Attributes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Tokenizer flags. The tokenizer model sets defaults, which the pre-tokenizer and then the keys of
/// the file override.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of llama.cpp")]
pub struct Flags {
    /// The BOS token is added to texts.
    pub add_bos: bool,
    /// The EOS token is added to texts.
    pub add_eos: bool,
    /// A separator is added. llama.cpp reads this flag and does not use it.
    pub add_sep: bool,
    /// A space is added before text that is first or follows a special token.
    pub add_space_prefix: bool,
    /// Consecutive spaces become one (UGM).
    pub remove_extra_whitespaces: bool,
    /// Spaces are written U+2581 in tokens.
    pub escape_whitespaces: bool,
    /// Spaces before punctuation are removed on decoding.
    pub clean_spaces: bool,
    /// A word that is a token is not merged.
    pub ignore_merges: bool,
    /// Text is converted to lower case (WPM, whitespace).
    pub lowercase: bool,
    /// Accents are removed (WPM).
    pub strip_accents: bool,
}

/// IDs of the tokens that have a role. As in llama.cpp, keys are read first; roles without a key
/// are found by text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each field is named after its role")]
pub struct SpecialIds {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub eom: Option<u32>,
    pub unk: Option<u32>,
    pub sep: Option<u32>,
    pub pad: Option<u32>,
    pub mask: Option<u32>,
    pub fim_pre: Option<u32>,
    pub fim_suf: Option<u32>,
    pub fim_mid: Option<u32>,
    pub fim_pad: Option<u32>,
    pub fim_rep: Option<u32>,
    pub fim_sep: Option<u32>,
}

impl SpecialIds {
    /// Returns the IDs with their keys, in llama.cpp's order: a later key overrides an earlier one.
    pub(crate) fn keyed(&mut self) -> [(&'static str, &mut Option<u32>); 14] {
        [
            ("tokenizer.ggml.bos_token_id", &mut self.bos),
            ("tokenizer.ggml.eos_token_id", &mut self.eos),
            ("tokenizer.ggml.eot_token_id", &mut self.eot),
            ("tokenizer.ggml.eom_token_id", &mut self.eom),
            ("tokenizer.ggml.unknown_token_id", &mut self.unk),
            ("tokenizer.ggml.seperator_token_id", &mut self.sep),
            ("tokenizer.ggml.padding_token_id", &mut self.pad),
            ("tokenizer.ggml.mask_token_id", &mut self.mask),
            ("tokenizer.ggml.fim_pre_token_id", &mut self.fim_pre),
            ("tokenizer.ggml.fim_suf_token_id", &mut self.fim_suf),
            ("tokenizer.ggml.fim_mid_token_id", &mut self.fim_mid),
            ("tokenizer.ggml.fim_pad_token_id", &mut self.fim_pad),
            ("tokenizer.ggml.fim_rep_token_id", &mut self.fim_rep),
            ("tokenizer.ggml.fim_sep_token_id", &mut self.fim_sep),
        ]
    }

    /// Returns the IDs that have deprecated keys.
    pub(crate) fn deprecated(&mut self) -> [(&'static str, &mut Option<u32>); 3] {
        [
            ("tokenizer.ggml.prefix_token_id", &mut self.fim_pre),
            ("tokenizer.ggml.suffix_token_id", &mut self.fim_suf),
            ("tokenizer.ggml.middle_token_id", &mut self.fim_mid),
        ]
    }
}
