//! Explanations of how a text is tokenized, step by step.

use std::ops::Range;

use crate::error::Error;
use crate::models::{Fragment, Model, Scratch};
use crate::special::Part;
use crate::tokenizer::{EncodeOptions, Piece, Pieces, Tokenizer, added};

/// A step in the tokenization of a text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Explained {
    /// A token that is added at the beginning or the end.
    Added(Piece),
    /// A special token in the text.
    Special(Piece),
    /// Text between special tokens.
    Text(ExplainedText),
}

/// The tokenization of the text between two special tokens.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExplainedText {
    /// Its byte range in the whole text.
    pub range: Range<usize>,
    /// The text that is pre-tokenized, if it differs: with U+2581 for spaces, or U+FFFD for invalid
    /// UTF-8.
    pub rewritten: Option<Vec<u8>>,
    /// The passes of the pre-tokenizer, in order. Empty for models without one.
    pub passes: Vec<ExplainedPass>,
    /// The words, in order. Models that do not merge have one word, the whole text.
    pub words: Vec<ExplainedWord>,
}

/// A pass of a pre-tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedPass {
    /// The regular expression whose matches are pieces, or the name of a scanner.
    pub rule: &'static str,
    /// The resulting pieces, as byte ranges of the text that is pre-tokenized.
    pub pieces: Vec<Range<usize>>,
}

/// The tokenization of a word.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExplainedWord {
    /// The text that is merged.
    pub text: Vec<u8>,
    /// If true, the whole word is a token, so that nothing is merged.
    pub is_whole: bool,
    /// The merges, in the order in which they are applied.
    pub merges: Vec<ExplainedMerge>,
    /// The tokens, with byte ranges in the whole text.
    pub pieces: Vec<Piece>,
}

/// A merge of two adjacent symbols of a word.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExplainedMerge {
    /// The start of the left symbol in the text of the word, in bytes.
    pub start: usize,
    /// The start of the right symbol.
    pub middle: usize,
    /// The end of the right symbol.
    pub end: usize,
    /// The rank or score that selected this merge.
    pub order: MergeOrder,
}

/// The criterion by which the next merge is selected.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum MergeOrder {
    /// The index in `tokenizer.ggml.merges`; the lowest is first.
    Rank(u32),
    /// The score of the resulting token; the highest is first.
    Score(f32),
}

impl Tokenizer {
    /// Returns the tokenization steps of a text, in order. The tokens are those of
    /// [`encode_with_offsets`](Self::encode_with_offsets).
    ///
    /// Fails as [`encode`](Self::encode) does.
    ///
    /// ```
    /// use ggmill_core::MetadataBuf;
    /// use ggmill_tokenizer::{EncodeOptions, Explained, Tokenizer};
    /// let mut metadata = MetadataBuf::new();
    /// metadata.set("tokenizer.ggml.model", "gpt2");
    /// metadata.set("tokenizer.ggml.pre", "gpt-2");
    /// metadata.set("tokenizer.ggml.tokens", ["a", "b", "c", "ab", "abc"].as_slice());
    /// metadata.set("tokenizer.ggml.merges", ["a b", "ab c"].as_slice());
    /// let tokenizer = Tokenizer::from_entries(metadata)?;
    /// let steps = tokenizer.explain("abc", &EncodeOptions::new())?;
    /// let [Explained::Text(text)] = &*steps else { panic!() };
    /// assert_eq!((text.words.len(), text.words[0].merges.len()), (1, 2));
    /// # Ok::<(), ggmill_tokenizer::Error>(())
    /// ```
    pub fn explain(
        &self,
        text: impl AsRef<[u8]>,
        options: &EncodeOptions,
    ) -> Result<Vec<Explained>, Error> {
        let text = text.as_ref();
        self.can_encode(text)?;
        let vocabulary = self.vocabulary();
        let (before, after) = added(vocabulary, *options);
        let mut steps = Vec::new();
        let at = |id, place| Explained::Added(Piece { id, start: place, end: place });
        steps.extend(before.map(|id| at(id, 0)));
        let mut after_special = true;
        let mut scratch = self.borrow();
        let mut parts = Vec::new();
        let mut found = self.parts(text, *options, &mut scratch, |part| parts.push(part));
        for part in parts {
            match part {
                Part::Token(id, start, end) => {
                    steps.push(Explained::Special(Piece { id, start, end }));
                    after_special = true;
                }
                Part::Text(start, end) => {
                    let text = text.get(start..end).unwrap_or_default();
                    let fragment = Fragment { text, start, after_special };
                    match self.explain_text(fragment, &mut scratch.model) {
                        Ok(explained) => steps.push(Explained::Text(explained)),
                        Err(error) => found = found.and(Err(error)),
                    }
                    after_special = false;
                }
            }
        }
        self.give_back(scratch);
        found?;
        steps.extend(after.map(|id| at(id, text.len())));
        Ok(steps)
    }

    fn explain_text(
        &self,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExplainedText, Error> {
        let range = fragment.start..fragment.start.saturating_add(fragment.text.len());
        Ok(match self.model() {
            Model::Bpe(model) if model.is_plain() => {
                let (text, passes, words) = model.explain(self.vocabulary(), fragment);
                let rewritten = (text != fragment.text).then_some(text);
                ExplainedText { range, rewritten, passes, words }
            }
            Model::Spm(model) => {
                let (text, words) = model.explain(self.vocabulary(), fragment);
                let rewritten = (text != fragment.text).then_some(text);
                ExplainedText { range, rewritten, passes: Vec::new(), words }
            }
            model => {
                let mut pieces = Vec::new();
                model.encode(self.vocabulary(), fragment, scratch, &mut Pieces(&mut pieces))?;
                let text = fragment.text.to_owned();
                let word = ExplainedWord { text, is_whole: false, merges: Vec::new(), pieces };
                ExplainedText { range, rewritten: None, passes: Vec::new(), words: vec![word] }
            }
        })
    }
}
