//! The tokenizer: splits a text at special tokens, encodes the rest with the model, and adds BOS
//! and EOS.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ggmill_core::{Builder, ByteSize, Header, Metadata, MetadataBuf};

use crate::decode::Texts;
use crate::error::{Error, ErrorKind};
use crate::models::{self, Fragment, Model};
use crate::special::{self, Part, Special};
use crate::vocabulary::load::LoadOptions;
use crate::vocabulary::{Kind, Vocabulary};

/// Options for encoding a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// Adds the BOS and EOS tokens that the vocabulary adds to texts.
    pub add_special: bool,
    /// Encodes the text of a control token as that token. User-defined tokens are always
    /// recognized.
    pub parse_special: bool,
}

impl EncodeOptions {
    /// Adds BOS and EOS as the vocabulary says, and encodes control tokens in the text as ordinary
    /// text.
    pub fn new() -> Self {
        Self { add_special: true, parse_special: false }
    }

    /// Sets whether BOS and EOS are added where the vocabulary adds them.
    #[must_use]
    pub fn add_special(mut self, add: bool) -> Self {
        self.add_special = add;
        self
    }

    /// Sets whether control tokens in the text are recognized.
    #[must_use]
    pub fn parse_special(mut self, parse: bool) -> Self {
        self.parse_special = parse;
        self
    }
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Encodes text to tokens and decodes tokens to text, with the vocabulary of a file.
///
/// Clones share all data. Calls on several threads run in parallel.
#[derive(Clone, Debug)]
pub struct Tokenizer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    vocabulary: Vocabulary,
    model: Model,
    special: Special,
    /// The decoded texts of all tokens, computed on first use.
    texts: OnceLock<Texts>,
    /// Scratch memory that no call is using.
    free: Mutex<Vec<Scratch>>,
}

/// Scratch memory of a call.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    special: special::Scratch,
    pub(crate) model: models::Scratch,
}

/// The most scratch memories that are kept for later calls.
const MAX_FREE: usize = 64;

/// The longest text in bytes, as in llama.cpp.
const MAX_TEXT: usize = i32::MAX as usize;

impl Tokenizer {
    /// Creates the tokenizer of a file.
    ///
    /// Fails if [`Vocabulary::from_metadata`] does, or if the model needs a key that is missing or
    /// malformed.
    pub fn from_metadata(metadata: &Metadata<'_>) -> Result<Self, Error> {
        Self::with_options(metadata, &LoadOptions::new())
    }

    /// Creates the tokenizer of a file with options. Fails as
    /// [`from_metadata`](Self::from_metadata) does.
    pub fn with_options(metadata: &Metadata<'_>, options: &LoadOptions) -> Result<Self, Error> {
        let vocabulary = Vocabulary::with_options(metadata, options)?;
        let model = Model::new(&vocabulary, metadata)?;
        let special = Special::new(&vocabulary)?;
        Ok(Self(Arc::new(Inner {
            vocabulary,
            model,
            special,
            texts: OnceLock::new(),
            free: Mutex::default(),
        })))
    }

    /// Creates the tokenizer of metadata in memory, such as the result of a conversion.
    ///
    /// Fails as [`from_metadata`](Self::from_metadata) does, or if the metadata cannot be written
    /// to a file.
    ///
    /// ```
    /// use ggmill_core::MetadataBuf;
    /// use ggmill_tokenizer::Tokenizer;
    /// let mut metadata = MetadataBuf::new();
    /// metadata.set("tokenizer.ggml.model", "rwkv");
    /// metadata.set("tokenizer.ggml.tokens", ["<s>", "h", "hi"].as_slice());
    /// assert_eq!(Tokenizer::from_entries(metadata)?.vocabulary().id(b"hi"), Some(2));
    /// # Ok::<(), ggmill_tokenizer::Error>(())
    /// ```
    pub fn from_entries(metadata: MetadataBuf) -> Result<Self, Error> {
        let malformed =
            |error: &ggmill_core::Error| Error::new(ErrorKind::Malformed, error.to_string());
        let plan = Builder::new().metadata(metadata).plan().map_err(|error| malformed(&error))?;
        let file = Header::parse(plan.header()).map_err(|error| malformed(&error))?;
        Self::from_metadata(&file.metadata())
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocabulary
    }

    /// Returns the decoded texts of all tokens.
    pub(crate) fn texts(&self) -> &Texts {
        self.0.texts.get_or_init(|| Texts::new(&self.0.vocabulary))
    }

    /// Appends the token IDs of a text.
    ///
    /// Fails if the text has 2 GiB or more, if the vocabulary takes more steps for the text than any in
    /// use, if the text has many more overlapping special tokens than bytes, or if the file has no
    /// tokenizer. Tokens that were appended before the failure remain.
    pub fn encode(
        &self,
        text: impl AsRef<[u8]>,
        options: &EncodeOptions,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        self.run(text.as_ref(), *options, None, &mut Ids(ids))
    }

    /// Appends the tokens of a text with their byte ranges. Fails as [`encode`](Self::encode) does.
    ///
    /// Ranges are in ascending order. Text between them was dropped. The byte tokens of one
    /// character share its range.
    pub fn encode_with_offsets(
        &self,
        text: impl AsRef<[u8]>,
        options: &EncodeOptions,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        self.run(text.as_ref(), *options, None, &mut Pieces(pieces))
    }

    /// Appends the tokens of a text of which only parts are trusted, with their byte ranges. A
    /// control token is recognized only if its text lies within one of the `trusted` ranges, which
    /// are in ascending order and do not overlap. Fails as [`encode`](Self::encode) does.
    ///
    /// As without `parse_special`, merges of ordinary text can produce the text and thus the ID of
    /// a control token.
    pub fn encode_trusting(
        &self,
        text: impl AsRef<[u8]>,
        trusted: &[Range<usize>],
        options: &EncodeOptions,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        self.run(text.as_ref(), *options, Some(trusted), &mut Pieces(pieces))
    }

    /// Returns the number of tokens of a text. Fails as [`encode`](Self::encode) does.
    pub fn count(&self, text: impl AsRef<[u8]>, options: &EncodeOptions) -> Result<usize, Error> {
        let mut count = Count(0);
        self.run(text.as_ref(), *options, None, &mut count)?;
        Ok(count.0)
    }

    fn run<S: Sink>(
        &self,
        text: &[u8],
        options: EncodeOptions,
        trusted: Option<&[Range<usize>]>,
        out: &mut S,
    ) -> Result<(), Error> {
        self.can_encode(text)?;
        let mut scratch = self.borrow();
        let done = self.encode_into(text, options, trusted, &mut scratch, out);
        self.give_back(scratch);
        done
    }

    /// Fails if the text is too long or the file has no tokenizer.
    pub(crate) fn can_encode(&self, text: &[u8]) -> Result<(), Error> {
        if self.0.vocabulary.kind() == Kind::None {
            return Err(Error::new(ErrorKind::NoTokenizer, "the file has no tokenizer"));
        }
        if text.len() > MAX_TEXT {
            let [len, limit] = ByteSize::both(text.len(), MAX_TEXT);
            let message = format!("the text has {len}, the limit is {limit}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// Returns the model.
    pub(crate) fn model(&self) -> &Model {
        &self.0.model
    }

    /// Splits a text into special tokens and the fragments between them.
    pub(crate) fn parts(
        &self,
        text: &[u8],
        options: EncodeOptions,
        scratch: &mut Scratch,
        each: impl FnMut(Part),
    ) -> Result<(), Error> {
        self.0.special.parts(text, options.parse_special, None, &mut scratch.special, each)
    }

    pub(crate) fn encode_into<S: Sink>(
        &self,
        text: &[u8],
        options: EncodeOptions,
        trusted: Option<&[Range<usize>]>,
        scratch: &mut Scratch,
        out: &mut S,
    ) -> Result<(), Error> {
        let Inner { vocabulary, model, special, .. } = &*self.0;
        let (before, after) = added(vocabulary, options);
        if let Some(id) = before {
            out.push(id, 0, 0);
        }
        let mut after_special = true;
        let Scratch { special: found, model: memory } = scratch;
        let mut done = Ok(());
        special.parts(text, options.parse_special, trusted, found, |part| match part {
            Part::Text(start, end) => {
                let text = text.get(start..end).unwrap_or_default();
                let fragment = Fragment { text, start, after_special };
                if done.is_ok() {
                    done = model.encode(vocabulary, fragment, memory, out);
                }
                after_special = false;
            }
            Part::Token(id, start, end) => {
                out.push(id, start, end);
                after_special = true;
            }
        })?;
        done?;
        if let Some(id) = after {
            out.push(id, text.len(), text.len());
        }
        Ok(())
    }

    pub(crate) fn borrow(&self) -> Scratch {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, mut scratch: Scratch) {
        scratch.special.bound();
        scratch.model.bound();
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MAX_FREE {
            free.push(scratch);
        }
    }
}

/// Returns the tokens that are added before and after a text. A token that the flags request and
/// the vocabulary lacks is omitted; llama.cpp aborts.
pub(crate) fn added(vocabulary: &Vocabulary, options: EncodeOptions) -> (Option<u32>, Option<u32>) {
    if !options.add_special {
        return (None, None);
    }
    let (flags, ids) = (vocabulary.flags(), vocabulary.special_ids());
    match vocabulary.kind() {
        Kind::Spm | Kind::Bpe | Kind::Ugm => {
            (ids.bos.filter(|_| flags.add_bos), ids.eos.filter(|_| flags.add_eos))
        }
        Kind::Wpm => (ids.bos, ids.sep),
        Kind::Rwkv | Kind::Plamo2 | Kind::Test | Kind::None => (None, None),
    }
}

/// A token and its byte range in the text. Added tokens have an empty range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a token and its range")]
pub struct Piece {
    /// The token ID.
    pub id: u32,
    /// The start of the range.
    pub start: usize,
    /// The end of the range.
    pub end: usize,
}

/// Receives the tokens of a text in order. Models are generic over it, so that IDs, ranges and
/// counts share one implementation.
pub(crate) trait Sink {
    /// If false, models may pass empty ranges.
    const RANGES: bool;

    /// Receives a token and its byte range in the whole text.
    fn push(&mut self, id: u32, start: usize, end: usize);

    /// Receives tokens without ranges.
    fn extend(&mut self, ids: &[u32]) {
        for &id in ids {
            self.push(id, 0, 0);
        }
    }
}

impl<S: Sink> Sink for &mut S {
    const RANGES: bool = S::RANGES;

    #[inline]
    fn push(&mut self, id: u32, start: usize, end: usize) {
        (**self).push(id, start, end);
    }

    fn extend(&mut self, ids: &[u32]) {
        (**self).extend(ids);
    }
}

/// Collects IDs.
pub(crate) struct Ids<'a>(pub(crate) &'a mut Vec<u32>);

impl Sink for Ids<'_> {
    const RANGES: bool = false;

    #[inline]
    fn push(&mut self, id: u32, _: usize, _: usize) {
        self.0.push(id);
    }

    #[inline]
    fn extend(&mut self, ids: &[u32]) {
        self.0.extend_from_slice(ids);
    }
}

/// Collects IDs and ranges.
pub(crate) struct Pieces<'a>(pub(crate) &'a mut Vec<Piece>);

impl Sink for Pieces<'_> {
    const RANGES: bool = true;

    fn push(&mut self, id: u32, start: usize, end: usize) {
        self.0.push(Piece { id, start, end });
    }
}

/// Counts tokens.
#[derive(Debug, Default)]
pub(crate) struct Count(pub(crate) usize);

impl Sink for Count {
    const RANGES: bool = false;

    #[inline]
    fn push(&mut self, _: u32, _: usize, _: usize) {
        self.0 = self.0.saturating_add(1);
    }

    #[inline]
    fn extend(&mut self, ids: &[u32]) {
        self.0 = self.0.saturating_add(ids.len());
    }
}

#[cfg(feature = "json")]
impl Tokenizer {
    /// Writes tokens as a JSON document: their `count`, and in `tokens` the `id`, `piece`, `start`
    /// and `end` of each. A `piece` that is not UTF-8 is written as `{"bytes_hex":"…"}`; `start`
    /// and `end` are its byte range in the text.
    ///
    /// Fails if writing fails.
    pub fn write_json(
        &self,
        pieces: &[Piece],
        out: &mut dyn std::io::Write,
    ) -> std::io::Result<()> {
        write!(out, "{{\n  \"count\": {},\n  \"tokens\": [", pieces.len())?;
        for (number, piece) in pieces.iter().enumerate() {
            write!(out, "{}\n    ", if number > 0 { "," } else { "" })?;
            let text = ggmill_core::RawStr::new(self.piece(piece.id).unwrap_or_default());
            let token = serde_json::json!({
                "id": piece.id,
                "piece": ggmill_text::LosslessStr(text),
                "start": piece.start,
                "end": piece.end,
            });
            ggmill_text::json::write(out, &token)?;
        }
        out.write_all(b"\n  ]\n}\n")
    }
}
