//! Byte pairs that are merged in the order of their ranks.

use ggmill_core::Metadata;

use super::Fragment;
use crate::error::Error;
use crate::sink::Sink;
use crate::vocabulary::Vocabulary;

#[derive(Debug, Default)]
pub(crate) struct Scratch {}

#[derive(Debug)]
pub(crate) struct Bpe {}

impl Bpe {
    #[expect(clippy::unnecessary_wraps, reason = "to come")]
    pub(crate) fn new(_: &Vocabulary, _: &Metadata<'_>) -> Result<Self, Error> {
        Ok(Self {})
    }

    #[expect(clippy::unused_self, reason = "to come")]
    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        _: &mut Scratch,
        out: &mut S,
    ) {
        for (place, byte) in fragment.text.iter().enumerate() {
            if let Some(id) = vocabulary.id(&[*byte]) {
                let start = fragment.start.saturating_add(place);
                out.push(id, start, start.saturating_add(1));
            }
        }
    }
}
