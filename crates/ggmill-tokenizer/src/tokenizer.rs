//! The tokenizer: special tokens, fragments, and what goes before and after them.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ggmill_core::{Builder, ByteSize, Gguf, Metadata, MetadataBuf};

use crate::error::{Error, ErrorKind};
use crate::models::{self, Fragment, Model};
use crate::options::{EncodeOptions, LoadOptions};
use crate::sink::{Count, Ids, Piece, Pieces, Sink};
use crate::special::{self, Part, Special};
use crate::texts::Texts;
use crate::vocabulary::{Kind, Vocabulary};

/// Makes tokens of text and text of tokens, with the vocabulary of a file.
///
/// A clone shares everything with the original. Calls on several threads do not wait for each
/// other.
#[derive(Clone, Debug)]
pub struct Tokenizer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    vocabulary: Vocabulary,
    model: Model,
    special: Special,
    /// What tokens are as text, once that is asked for.
    texts: OnceLock<Texts>,
    /// Memory that no call uses now.
    free: Mutex<Vec<Scratch>>,
}

/// What a call needs besides the tokenizer.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    special: special::Scratch,
    pub(crate) model: models::Scratch,
}

/// The most memories that are kept for later calls.
const KEPT: usize = 64;

/// The longest text: that of the reference.
const MAX_TEXT: usize = i32::MAX as usize;

impl Tokenizer {
    /// The tokenizer of a file.
    ///
    /// Fails where [`Vocabulary::from_metadata`] does, and where the model needs a key that is
    /// missing or damaged.
    pub fn from_metadata(metadata: &Metadata<'_>) -> Result<Self, Error> {
        Self::with_options(metadata, &LoadOptions::new())
    }

    /// The same, with choices of the caller.
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

    /// The tokenizer of metadata that is not in a file, such as a conversion gives.
    ///
    /// Fails as [`from_metadata`](Self::from_metadata) does, and where the metadata cannot be
    /// written to a file.
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
        let file = Gguf::parse(plan.header()).map_err(|error| malformed(&error))?;
        Self::from_metadata(&file.metadata())
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocabulary
    }

    /// What tokens are as text.
    pub(crate) fn texts(&self) -> &Texts {
        self.0.texts.get_or_init(|| Texts::new(&self.0.vocabulary))
    }

    /// Appends the tokens of a text.
    ///
    /// Fails for a text of 2 GiB or more, for one with many more special tokens than bytes, and
    /// where the file has no tokenizer.
    pub fn encode(
        &self,
        text: impl AsRef<[u8]>,
        options: &EncodeOptions,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        self.run(text.as_ref(), *options, None, &mut Ids(ids))
    }

    /// Appends the tokens of a text with the ranges they stand for. Fails as
    /// [`encode`](Self::encode) does.
    ///
    /// Ranges are in order. Text between them was dropped; tokens of one character that has no
    /// token of its own share its range.
    pub fn encode_with_offsets(
        &self,
        text: impl AsRef<[u8]>,
        options: &EncodeOptions,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        self.run(text.as_ref(), *options, None, &mut Pieces(pieces))
    }

    /// Appends the tokens of a text, with their ranges, in which only some of the text is trusted:
    /// control tokens are recognized where all of their text is in one of the ranges, which are in
    /// order and do not overlap; elsewhere it is text. Fails as [`encode`](Self::encode) does.
    ///
    /// As everywhere without `parse_special`, a vocabulary whose merges of ordinary text make the
    /// text of a control token gives the ID of that token.
    pub fn encode_trusting(
        &self,
        text: impl AsRef<[u8]>,
        trusted: &[Range<usize>],
        options: &EncodeOptions,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        self.run(text.as_ref(), *options, Some(trusted), &mut Pieces(pieces))
    }

    /// The number of tokens of a text, without keeping them. Fails as [`encode`](Self::encode)
    /// does.
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

    /// Fails for a text that is too long, and where there is no tokenizer.
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

    /// The model.
    pub(crate) fn model(&self) -> &Model {
        &self.0.model
    }

    /// The parts of a text: special tokens and what is between them.
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
        special.parts(text, options.parse_special, trusted, found, |part| match part {
            Part::Text(start, end) => {
                let text = text.get(start..end).unwrap_or_default();
                model.encode(vocabulary, Fragment { text, start, after_special }, memory, out);
                after_special = false;
            }
            Part::Token(id, start, end) => {
                out.push(id, start, end);
                after_special = true;
            }
        })?;
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
        if free.len() < KEPT {
            free.push(scratch);
        }
    }
}

/// The tokens that are added before and after a text. Where the vocabulary asks for one it does not
/// have, the reference aborts; here it is left out.
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
