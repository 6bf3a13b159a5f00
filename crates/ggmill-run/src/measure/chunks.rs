//! A text in chunks, as llama-perplexity takes them.

use core::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// A text in chunks of one length. The second half of each is counted, so that every token that
/// counts has at least half a chunk before it. What is left at the end is not used.
///
/// ```
/// use ggmill_run::Chunks;
/// let tokens: Vec<u32> = (10..30).collect();
/// let chunks = Chunks::of(&tokens, 8, Some(1))?;
/// assert_eq!(chunks.texts(), [[1, 11, 12, 13, 14, 15, 16, 17], [1, 19, 20, 21, 22, 23, 24, 25]]);
/// assert_eq!(chunks.counted(), 4..7);
/// # Ok::<(), ggmill_run::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Chunks {
    texts: Vec<Vec<u32>>,
    context: usize,
    first: usize,
}

impl Chunks {
    /// The length that llama-perplexity takes by default.
    pub const CONTEXT: usize = 512;
    /// The shortest length.
    pub const MIN_CONTEXT: usize = 4;

    /// Divides tokens. The first token of each chunk is replaced by `bos`, where the vocabulary has
    /// texts begin with one.
    ///
    /// Fails for fewer tokens than two chunks have, and for chunks of fewer than
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

    /// The tokens of each chunk.
    pub fn texts(&self) -> &[Vec<u32>] {
        &self.texts
    }

    /// Some of the chunks: those from a number on, and at most so many.
    ///
    /// Fails where there is none.
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

    /// The number of the first chunk in the text that they are a part of.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The same text in two halves that have no token in common: every second chunk from the first
    /// on, and the others. What is fitted to the one can be tested with the other.
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

    /// How many tokens each has.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The places in a chunk whose output counts: each is compared with the token after it.
    pub fn counted(&self) -> Range<usize> {
        self.context / 2..self.context - 1
    }
}
