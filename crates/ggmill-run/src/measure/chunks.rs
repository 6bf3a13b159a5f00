//! Divides a text into chunks like llama-perplexity, and each chunk into a source and a text for models
//! with an encoder.

use core::ops::Range;
use std::borrow::Cow;

use ggmill_core::{Model, keys};

use crate::error::{Error, ErrorKind, Result};
use crate::input::Source;
use crate::program::Program;

/// A text divided into chunks of equal length. Only the second half of each chunk is scored, so that every
/// scored token has at least half a chunk of context. An incomplete chunk at the end is not used.
///
/// ```
/// use ggmill_run::Chunks;
/// let tokens: Vec<u32> = (10..30).collect();
/// let chunks = Chunks::of(&tokens, 8, Some(1))?;
/// assert_eq!(chunks.texts(), [[1, 11, 12, 13, 14, 15, 16, 17], [1, 19, 20, 21, 22, 23, 24, 25]]);
/// assert_eq!(chunks.scored(), 4..7);
/// # Ok::<(), ggmill_run::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chunks {
    texts: Vec<Vec<u32>>,
    context: usize,
    first: usize,
}

impl Chunks {
    /// The default length of llama-perplexity, in tokens.
    pub const CONTEXT: usize = 512;
    /// The minimum length, in tokens.
    pub const MIN_CONTEXT: usize = 4;

    /// Divides tokens into chunks of `context` tokens. `bos`, for vocabularies whose texts begin with a BOS
    /// token, replaces the first token of each chunk.
    ///
    /// Fails for fewer tokens than two chunks, and for a `context` below
    /// [`MIN_CONTEXT`](Self::MIN_CONTEXT).
    pub fn of(tokens: &[u32], context: usize, bos: Option<u32>) -> Result<Self> {
        if context < Self::MIN_CONTEXT {
            let least = Self::MIN_CONTEXT;
            let message = format!("the length of chunks is {context}, expected at least {least}");
            return Err(Error::new(ErrorKind::Chunks, message));
        }
        let least = context.saturating_mul(2);
        if tokens.len() < least {
            let found = tokens.len();
            return Err(Error::new(
                ErrorKind::TooShort,
                format_args!(
                    "the number of tokens is {found}, expected at least {least}: two chunks of \
                     {context}"
                ),
            ));
        }
        let mut texts: Vec<Vec<u32>> = tokens.chunks_exact(context).map(<[u32]>::to_vec).collect();
        if let Some(bos) = bos {
            for text in &mut texts {
                text[0] = bos;
            }
        }
        Ok(Self { texts, context, first: 0 })
    }

    /// Returns the tokens of each chunk.
    pub fn texts(&self) -> &[Vec<u32>] {
        &self.texts
    }

    /// Returns at most `most` chunks, beginning with index `first`. Fails if there is no such chunk.
    pub fn part(mut self, first: usize, most: Option<usize>) -> Result<Self> {
        let (found, context) = (self.texts.len(), self.context);
        self.texts.drain(..first.min(found));
        self.texts.truncate(most.unwrap_or(found));
        if self.texts.is_empty() {
            let message = format!(
                "there is no chunk {first}: the text has {found} chunks of {context} tokens, numbered from 0"
            );
            return Err(Error::new(ErrorKind::TooShort, message));
        }
        self.first += first;
        Ok(self)
    }

    /// Returns the index of the first chunk in the whole text.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Splits the chunks into those with even and those with odd indices, for example to fit on one half and
    /// to test on the other.
    ///
    /// ```
    /// use ggmill_run::Chunks;
    /// let tokens: Vec<u32> = (0..12).collect();
    /// let (fitted, held_out) = Chunks::of(&tokens, 4, None)?.halves();
    /// assert_eq!(fitted.texts(), [[0, 1, 2, 3], [8, 9, 10, 11]]);
    /// assert_eq!(held_out.texts(), [[4, 5, 6, 7]]);
    /// # Ok::<(), ggmill_run::Error>(())
    /// ```
    pub fn halves(self) -> (Self, Self) {
        let context = self.context;
        let numbered = self.texts.into_iter().enumerate();
        let (first, second): (Vec<_>, Vec<_>) = numbered.partition(|(number, _)| number % 2 == 0);
        let half = |texts: Vec<(usize, Vec<u32>)>| {
            let texts = texts.into_iter().map(|(_, text)| text).collect();
            Self { texts, context, first: 0 }
        };
        (half(first), half(second))
    }

    /// Returns the number of tokens per chunk.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Returns the positions of a chunk that are scored: the output at a position predicts the next token.
    pub fn scored(&self) -> Range<usize> {
        self.context / 2..self.context - 1
    }
}

/// The texts and sources of some chunks.
///
/// For a model with an encoder, the source is the first half of a chunk and one more token. The text is the
/// start token of the decoder and the rest of the chunk, all of which is predicted. So the scored tokens are
/// the same as for a decoder-only model.
pub(crate) struct ChunkInputs<'t> {
    texts: Vec<Cow<'t, [u32]>>,
    sources: Vec<Source<'t>>,
}

impl<'t> ChunkInputs<'t> {
    /// Divides chunks into sources and texts for a program.
    ///
    /// Fails for a model with an encoder whose source is vectors, or that has no start token of the decoder
    /// in its metadata.
    pub(crate) fn of(program: &Program<'_>, chunks: &'t [Vec<u32>]) -> Result<Self> {
        if !program.has_source() {
            let texts = chunks.iter().map(|chunk| Cow::Borrowed(chunk.as_slice()));
            return Ok(Self { texts: texts.collect(), sources: Vec::new() });
        }
        if let Some(width) = program.source_width() {
            let message = format!(
                "the source of the model is vectors of {width} numbers, such as frames of a \
                 spectrogram, and not the beginning of a text"
            );
            return Err(Error::new(ErrorKind::SourceVectors, message));
        }
        let start = start_of_text(program.model)?;
        let halves = chunks.iter().map(|chunk| {
            let (source, rest) = chunk.split_at((chunk.len() / 2 + 1).min(chunk.len()));
            let text: Vec<u32> = core::iter::once(start).chain(rest.iter().copied()).collect();
            (Cow::Owned(text), Source::tokens(source))
        });
        let (texts, sources) = halves.unzip();
        Ok(Self { texts, sources })
    }

    /// Returns the text of each chunk.
    pub(crate) fn texts(&self) -> Vec<&[u32]> {
        self.texts.iter().map(AsRef::as_ref).collect()
    }

    /// Returns the source of each chunk; empty for a model without an encoder.
    pub(crate) fn sources(&self) -> &[Source<'t>] {
        &self.sources
    }
}

/// The range of outputs of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputRange {
    /// All outputs.
    All,
    /// The outputs that predict a scored token.
    Scored,
}

impl Program<'_> {
    /// Returns the number of outputs per chunk: one per token or, for a model with an encoder, one per token
    /// of the text, which is half of the chunk.
    pub fn outputs_of_chunk(&self, chunks: &Chunks) -> usize {
        self.output_positions(chunks, OutputRange::All).len()
    }

    /// Returns the positions of outputs in the text of each chunk.
    pub(crate) fn output_positions(&self, chunks: &Chunks, wanted: OutputRange) -> Range<usize> {
        let scored = chunks.scored();
        let begin = if self.has_source() { scored.start } else { 0 };
        match wanted {
            OutputRange::All => 0..chunks.context() - begin,
            OutputRange::Scored => scored.start - begin..scored.end - begin,
        }
    }
}

/// Returns the start token of the decoder, by default BOS, as in llama.cpp's programs.
fn start_of_text(model: &Model) -> Result<u32> {
    let metadata = model.metadata();
    let architecture = metadata.str(keys::GENERAL_ARCHITECTURE).unwrap_or("ARCHITECTURE");
    let key = format!("{architecture}.decoder_start_token_id");
    let bos = keys::SPECIAL_TOKENS.iter().find(|(role, _)| *role == "bos").map(|(_, key)| *key);
    let mut keys = core::iter::once(key.as_str()).chain(bos);
    let wrong = |message: String| Error::new(ErrorKind::DecoderStart, message);
    let found = keys.find(|key| metadata.get(key).is_some()).ok_or_else(|| {
        wrong(format!(
            "{key} is not in the metadata: the token that the text of the decoder begins with"
        ))
    })?;
    metadata.u32(found).map_err(|error| wrong(error.to_string()))
}
