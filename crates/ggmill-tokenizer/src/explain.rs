//! How a text is tokenized, step by step.

use crate::error::Error;
use crate::explained::{Explained, ExplainedText, ExplainedWord};
use crate::models::{Fragment, Model, Scratch};
use crate::options::EncodeOptions;
use crate::sink::{Piece, Pieces};
use crate::special::Part;
use crate::tokenizer::{Tokenizer, added};

impl Tokenizer {
    /// The tokenization steps for each part of a text, in order. The tokens are those of
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
        let found = self.parts(text, *options, &mut scratch, |part| parts.push(part));
        for part in parts {
            match part {
                Part::Token(id, start, end) => {
                    steps.push(Explained::Special(Piece { id, start, end }));
                    after_special = true;
                }
                Part::Text(start, end) => {
                    let text = text.get(start..end).unwrap_or_default();
                    let fragment = Fragment { text, start, after_special };
                    steps.push(Explained::Text(self.explain_text(fragment, &mut scratch.model)));
                    after_special = false;
                }
            }
        }
        self.give_back(scratch);
        found?;
        steps.extend(after.map(|id| at(id, text.len())));
        Ok(steps)
    }

    fn explain_text(&self, fragment: Fragment<'_>, scratch: &mut Scratch) -> ExplainedText {
        let range = fragment.start..fragment.start.saturating_add(fragment.text.len());
        match self.model() {
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
                model.encode(self.vocabulary(), fragment, scratch, &mut Pieces(&mut pieces));
                let text = fragment.text.to_owned();
                let word = ExplainedWord { text, is_whole: false, merges: Vec::new(), pieces };
                ExplainedText { range, rewritten: None, passes: Vec::new(), words: vec![word] }
            }
        }
    }
}
