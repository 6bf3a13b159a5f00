//! Reading a vocabulary from metadata, in llama.cpp's order.

use std::borrow::Cow;

use ggmill_core::{Array, Metadata, RawStr, ValueType, keys};

use super::roles;
use super::token_map::TokenMap;
use super::{Attributes, Dialect, Flags, Kind, SpecialIds, Vocabulary};
use crate::error::{Error, ErrorKind};
use crate::pre::{self, PreTokenizer};

/// How a vocabulary is read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The name of a pre-tokenizer that overrides `tokenizer.ggml.pre`.
    pub pre: Option<String>,
}

impl LoadOptions {
    /// Reads everything from the file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Overrides the pre-tokenizer of the file.
    #[must_use]
    pub fn pre(mut self, name: impl Into<String>) -> Self {
        self.pre = Some(name.into());
        self
    }
}

/// The names of tokenizer models in `tokenizer.ggml.model`.
const MODELS: [(&str, Kind, Dialect); 12] = [
    ("llama", Kind::Spm, Dialect::Plain),
    ("gpt2", Kind::Bpe, Dialect::Plain),
    ("gemma4", Kind::Bpe, Dialect::Plain),
    ("hybriddna", Kind::Bpe, Dialect::HybridDna),
    ("whitespace", Kind::Bpe, Dialect::Whitespace),
    ("bert", Kind::Wpm, Dialect::Plain),
    ("t5", Kind::Ugm, Dialect::Plain),
    ("rwkv", Kind::Rwkv, Dialect::Plain),
    ("plamo2", Kind::Plamo2, Dialect::Plain),
    ("test", Kind::Test, Dialect::Plain),
    ("none", Kind::None, Dialect::Plain),
    ("no_vocab", Kind::None, Dialect::Plain),
];

/// The model whose pre-tokenizer has the same name, whatever `tokenizer.ggml.pre` is.
const MODEL_WITH_PRE: &str = "gemma4";

#[cold]
fn no_memory() -> Error {
    Error::at(ErrorKind::Limit, keys::TOKENIZER_TOKENS, "too large for the available memory")
}

/// The flags and special tokens that follow from the kind and the pre-tokenizer.
struct Defaults {
    flags: Flags,
    special: SpecialIds,
}

impl Defaults {
    fn new(kind: Kind, has_own_pre: bool, pre: Option<&PreTokenizer>) -> Self {
        let mut flags = Flags { escape_whitespaces: true, lowercase: true, ..Flags::default() };
        let mut special = SpecialIds::default();
        match kind {
            Kind::Spm => {
                (special.bos, special.eos, special.unk) = (Some(1), Some(2), Some(0));
                (flags.add_space_prefix, flags.add_bos) = (true, true);
            }
            Kind::Wpm => {
                (special.bos, special.unk, special.sep) = (Some(101), Some(100), Some(102));
                (special.pad, special.mask) = (Some(0), Some(103));
                (flags.clean_spaces, flags.add_bos, flags.add_sep) = (true, true, true);
            }
            Kind::Ugm => {
                (special.eos, special.unk, special.pad) = (Some(1), Some(2), Some(0));
                flags.add_eos = true;
            }
            Kind::Plamo2 => {
                (special.bos, special.eos, special.unk) = (Some(1), Some(2), Some(0));
                special.pad = Some(3);
            }
            Kind::Bpe => {
                if !has_own_pre {
                    (special.bos, special.eos) = (Some(11), Some(11));
                }
                flags.escape_whitespaces = false;
                flags.clean_spaces = true;
            }
            Kind::Rwkv | Kind::Test | Kind::None => {}
        }
        if let Some(pre) = pre {
            flags.escape_whitespaces |= pre.escape;
            flags.clean_spaces &= !pre.keep_spaces;
            flags.add_bos |= pre.add_bos;
            flags.add_sep |= pre.add_sep;
            flags.ignore_merges |= pre.ignore_merges;
            flags.lowercase &= !pre.cased;
            special.bos = special.bos.filter(|_| !pre.no_bos);
        }
        Self { flags, special }
    }
}

impl Vocabulary {
    /// Reads a vocabulary as llama.cpp does: keys override the defaults of the kind and of the
    /// pre-tokenizer, and attributes are corrected by the text of tokens.
    ///
    /// Fails if a key is missing or has another type, an array is too short, the model or the
    /// pre-tokenizer is unknown, or two tokens have the same text.
    pub fn from_metadata(metadata: &Metadata<'_>) -> Result<Self, Error> {
        Self::with_options(metadata, &LoadOptions::new())
    }

    /// Reads a vocabulary with options. Fails as [`from_metadata`](Self::from_metadata) does.
    pub fn with_options(metadata: &Metadata<'_>, options: &LoadOptions) -> Result<Self, Error> {
        vocabulary(metadata, options)
    }
}

fn vocabulary(metadata: &Metadata<'_>, options: &LoadOptions) -> Result<Vocabulary, Error> {
    let name = required(metadata.raw_str(keys::TOKENIZER_MODEL))?;
    let known = MODELS.iter().find(|(known, ..)| known.as_bytes() == name.as_bytes());
    let Some(&(model, kind, dialect)) = known else {
        return Err(Error::at(
            ErrorKind::UnknownModel,
            keys::TOKENIZER_MODEL,
            format!("{name:?} is not a known tokenizer model"),
        ));
    };
    let pre = if kind == Kind::Bpe { Some(pre_tokenizer(metadata, options, model)?) } else { None };
    let Defaults { mut flags, special } = Defaults::new(kind, model == MODEL_WITH_PRE, pre);
    if kind == Kind::None {
        let architecture = optional(metadata.str(keys::GENERAL_ARCHITECTURE))?.unwrap_or_default();
        let len = optional(metadata.u32(&format!("{architecture}.vocab_size")))?.unwrap_or(0);
        return Ok(empty(kind, len, flags));
    }
    if let Some(add) = optional(metadata.bool("tokenizer.ggml.add_space_prefix"))? {
        flags.add_space_prefix = add;
    }
    if let Some(remove) = optional(metadata.bool("tokenizer.ggml.remove_extra_whitespaces"))? {
        flags.remove_extra_whitespaces = remove;
    }
    let mut found = Vocabulary { dialect, pre, special, ..empty(kind, 0, flags) };
    found.texts = texts(metadata)?;
    found.len = u32::try_from(found.texts.len()).map_err(|_| no_memory())?;
    found.scores = scores(metadata, found.texts.len())?;
    found.types = types(metadata, found.texts.len())?;
    found.attributes.try_reserve_exact(found.texts.len()).map_err(|_| no_memory())?;
    found.attributes = (0..found.len).map(|id| found.attributes_in_file(id)).collect();
    if dialect == Dialect::HybridDna
        && let Some(unknown) = found.id(b"<oov>")
    {
        found.marked_from = unknown.saturating_add(1);
    }
    special_ids(metadata, &mut found)?;
    switches(metadata, &mut found)?;
    roles::apply(&mut found);
    found.special_order = special_order(&found);
    roles::strips(metadata, &mut found)?;
    Ok(found)
}

fn empty(kind: Kind, len: u32, flags: Flags) -> Vocabulary {
    Vocabulary {
        kind,
        dialect: Dialect::Plain,
        pre: None,
        len,
        texts: TokenMap::default(),
        scores: Vec::new(),
        types: Vec::new(),
        attributes: Vec::new(),
        flags,
        special: SpecialIds::default(),
        end_of_generation: Vec::new(),
        suppressed: Vec::new(),
        special_order: Vec::new(),
        marked_from: u32::MAX,
    }
}

fn pre_tokenizer(
    metadata: &Metadata<'_>,
    options: &LoadOptions,
    model: &str,
) -> Result<&'static PreTokenizer, Error> {
    let in_file = optional(metadata.raw_str(keys::TOKENIZER_PRE))?.unwrap_or_default();
    let name = match &options.pre {
        Some(chosen) => chosen.as_bytes(),
        None if model == MODEL_WITH_PRE => MODEL_WITH_PRE.as_bytes(),
        None if in_file.as_bytes().is_empty() => b"default",
        None => in_file.as_bytes(),
    };
    pre::find(name).ok_or_else(|| {
        let name = String::from_utf8_lossy(name);
        let nearest = pre::nearest(&name).unwrap_or_default();
        Error::at(
            ErrorKind::UnknownPreTokenizer,
            keys::TOKENIZER_PRE,
            format!("{name:?} is not a known pre-tokenizer; the most similar name is {nearest:?}"),
        )
    })
}

/// The number of tokens that are hashed together, so that cache misses overlap.
const BATCH: usize = 64;

fn texts(metadata: &Metadata<'_>) -> Result<TokenMap, Error> {
    let array = required(metadata.array(keys::TOKENIZER_TOKENS))?;
    let count = usize::try_from(array.len()).map_err(|_| no_memory())?;
    let bytes = strings(keys::TOKENIZER_TOKENS, array)?
        .try_fold(0usize, |sum, text| text.map(|text| sum.saturating_add(text.len())))?;
    let mut texts = TokenMap::with_capacity(count, bytes).ok_or_else(no_memory)?;
    let mut all = strings(keys::TOKENIZER_TOKENS, array)?.enumerate();
    let mut some = Vec::with_capacity(BATCH);
    loop {
        some.clear();
        for (id, text) in all.by_ref().take(BATCH) {
            some.push(match text? {
                [] => Cow::Owned(format!("[EMPTY_{id}]").into_bytes()),
                text => Cow::Borrowed(text),
            });
        }
        if some.is_empty() {
            break;
        }
        if let Err((first, id)) = texts.push_many(&some).ok_or_else(no_memory)? {
            let text = RawStr::new(texts.text(id).unwrap_or_default());
            return Err(Error::at(
                ErrorKind::DuplicateToken,
                keys::TOKENIZER_TOKENS,
                format!("tokens {first} and {id} are both {text:?}"),
            ));
        }
    }
    Ok(texts)
}

#[cold]
fn too_short(key: &'static str, found: u64, expected: usize) -> Error {
    Error::at(
        ErrorKind::WrongLength,
        key,
        format!("has {found} elements, expected at least {expected}, one for each token"),
    )
}

#[cold]
fn wrong_elements(key: &'static str, found: ValueType, expected: &str) -> Error {
    Error::at(ErrorKind::WrongType, key, format!("is an array of {found}, expected {expected}"))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "scores are f32, and integers are converted to f32 as in llama.cpp"
)]
fn scores(metadata: &Metadata<'_>, tokens: usize) -> Result<Vec<f32>, Error> {
    let key = keys::TOKENIZER_SCORES;
    let Some(array) = optional(metadata.array(key))? else { return Ok(Vec::new()) };
    if array.len() < tokens as u64 {
        return Err(too_short(key, array.len(), tokens));
    }
    let mut scores = Vec::new();
    scores.try_reserve_exact(tokens).map_err(|_| no_memory())?;
    if let Some(floats) = array.floats() {
        scores.extend(floats.take(tokens).map(|score| score as f32));
    } else if let Some(integers) = array.integers() {
        scores.extend(integers.take(tokens).map(|score| score as f32));
    } else {
        return Err(wrong_elements(key, array.element_type(), "f32 or i32"));
    }
    if scores.iter().all(|score| score.to_bits() == 0) {
        scores = Vec::new();
    }
    Ok(scores)
}

fn types(metadata: &Metadata<'_>, tokens: usize) -> Result<Vec<i8>, Error> {
    let key = keys::TOKENIZER_TOKEN_TYPE;
    let Some(array) = optional(metadata.array(key))? else { return Ok(Vec::new()) };
    if array.len() < tokens as u64 {
        return Err(too_short(key, array.len(), tokens));
    }
    let Some(integers) = array.integers() else {
        return Err(wrong_elements(key, array.element_type(), "i32"));
    };
    let mut types = Vec::new();
    types.try_reserve_exact(tokens).map_err(|_| no_memory())?;
    types.extend(integers.take(tokens).map(|value| i8::try_from(value).unwrap_or_default()));
    Ok(types)
}

fn special_ids(metadata: &Metadata<'_>, found: &mut Vocabulary) -> Result<(), Error> {
    let len = found.len;
    let read = |key: &str, id: &mut Option<u32>| {
        *id = id.filter(|&id| id < len);
        if let Some(new) = optional(metadata.u32(key))?.filter(|&new| new < len) {
            *id = Some(new);
        }
        Ok(())
    };
    for (key, id) in found.special.keyed() {
        read(key, id)?;
    }
    for (key, id) in found.special.deprecated() {
        read(key, id)?;
    }
    Ok(())
}

fn switches(metadata: &Metadata<'_>, found: &mut Vocabulary) -> Result<(), Error> {
    let flags = &mut found.flags;
    for (key, flag) in [
        ("tokenizer.ggml.add_bos_token", &mut flags.add_bos),
        ("tokenizer.ggml.add_eos_token", &mut flags.add_eos),
        ("tokenizer.ggml.add_sep_token", &mut flags.add_sep),
        ("tokenizer.ggml.normalizer.lowercase", &mut flags.lowercase),
    ] {
        if let Some(value) = optional(metadata.bool(key))? {
            *flag = value;
        }
    }
    flags.add_bos |= found.pre.is_some_and(|pre| pre.force_bos);
    let accents = optional(metadata.bool("tokenizer.ggml.normalizer.strip_accents"))?;
    flags.strip_accents = accents.unwrap_or(flags.lowercase);
    let key = "tokenizer.ggml.suppress_tokens";
    if let Some(array) = optional(metadata.array(key))? {
        let Some(ids) = array.integers() else {
            return Err(wrong_elements(key, array.element_type(), "i32"));
        };
        let ids = ids.filter_map(|id| u32::try_from(id).ok()).filter(|&id| id < found.len);
        found.suppressed = ids.collect();
    }
    Ok(())
}

/// Returns the tokens that are searched in text before it is tokenized, sorted by descending
/// length, then by ID. llama.cpp's sort is not stable, so that it defines no order for equal
/// lengths.
fn special_order(found: &Vocabulary) -> Vec<u32> {
    let searched = Attributes::CONTROL | Attributes::USER_DEFINED | Attributes::UNKNOWN;
    let mut order: Vec<u32> =
        (0..found.len).filter(|&id| found.attributes(id).intersects(searched)).collect();
    order.sort_by_key(|&id| std::cmp::Reverse(found.shown(id).map_or(0, <[u8]>::len)));
    order
}

/// Returns the value of a key, or `None` if the key is missing.
pub(crate) fn optional<T>(value: ggmill_core::Result<T>) -> Result<Option<T>, Error> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ggmill_core::ErrorKind::Missing => Ok(None),
        Err(error) => Err(from_core(&error)),
    }
}

/// Returns the value of a key, which must exist.
pub(crate) fn required<T>(value: ggmill_core::Result<T>) -> Result<T, Error> {
    value.map_err(|error| from_core(&error))
}

#[cold]
fn from_core(error: &ggmill_core::Error) -> Error {
    let kind = match error.kind() {
        ggmill_core::ErrorKind::Missing => ErrorKind::Missing,
        ggmill_core::ErrorKind::WrongType => ErrorKind::WrongType,
        ggmill_core::ErrorKind::Limit => ErrorKind::Limit,
        _ => ErrorKind::Malformed,
    };
    Error::new(kind, error.to_string())
}

/// Returns the elements of an array of strings.
pub(crate) fn strings<'a>(
    key: &'static str,
    array: Array<'a>,
) -> Result<impl Iterator<Item = Result<&'a [u8], Error>> + use<'a>, Error> {
    let found = array.element_type();
    let strings = array.strings().ok_or_else(|| {
        Error::at(ErrorKind::WrongType, key, format!("is an array of {found}, expected strings"))
    })?;
    Ok(strings.map(|text| text.map(RawStr::as_bytes).map_err(|error| from_core(&error))))
}
