//! Chunks of a text as a model takes them: whole, or divided into a source and a text.

use core::ops::Range;
use std::borrow::Cow;

use ggmill_core::{Model, keys};

use super::Chunks;
use crate::error::{Error, ErrorKind, Result};
use crate::program::Program;
use crate::source::Source;

/// What a program is run over for some chunks.
///
/// A model that takes two texts has the first half of a chunk and the token after it as its source.
/// The text, of which it predicts every token, is the other half, after the token that the model's
/// texts begin with. So the tokens that are predicted are those of a model that takes one text.
pub(crate) struct Divided<'t> {
    texts: Vec<Cow<'t, [u32]>>,
    sources: Vec<Source<'t>>,
}

impl<'t> Divided<'t> {
    /// Fails for a model that takes two texts and does not say what the second begins with, and for one
    /// whose source is vectors.
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

    /// The text of each chunk.
    pub(crate) fn texts(&self) -> Vec<&[u32]> {
        self.texts.iter().map(AsRef::as_ref).collect()
    }

    /// The source of each chunk; none for a model that takes one text.
    pub(crate) fn sources(&self) -> &[Source<'t>] {
        &self.sources
    }
}

/// Which outputs of a chunk are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All that there are.
    All,
    /// Those that predict a token that counts.
    Counted,
}

impl Program<'_> {
    /// How many outputs the model has for each chunk: one for every token, or, for a model that takes
    /// two texts, one for every token of the second, which is half of the chunk.
    pub fn outputs_of_chunk(&self, chunks: &Chunks) -> usize {
        self.places_of(chunks, Wanted::All).len()
    }

    /// The places of outputs in the text of each chunk.
    pub(crate) fn places_of(&self, chunks: &Chunks, wanted: Wanted) -> Range<usize> {
        let counted = chunks.counted();
        let begin = if self.has_source() { counted.start } else { 0 };
        match wanted {
            Wanted::All => 0..chunks.context() - begin,
            Wanted::Counted => counted.start - begin..counted.end - begin,
        }
    }
}

/// The token that the text of a model begins with, where it takes two. BOS is what llama.cpp's programs
/// take where the key is absent.
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
