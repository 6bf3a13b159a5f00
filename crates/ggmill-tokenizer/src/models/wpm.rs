//! WordPiece: text is cut into words, and each into the longest tokens from its beginning.

use super::Fragment;
use crate::error::{Error, ErrorKind};
use crate::memory::bound;
use crate::sink::Sink;
use crate::spaces::SPACE;
use crate::trie::Trie;
use crate::unicode::{self, Properties};
use crate::vocabulary::Vocabulary;
use crate::word_cache::{Few, Key, WordCache};

#[derive(Debug)]
pub(crate) struct Wpm {
    tokens: Trie,
}

/// Memory that calls use one after the other.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    cache: WordCache,
    /// The tokens of a part of the text between spaces.
    ids: Vec<u32>,
    word: Word,
    found: Vec<(u32, usize)>,
}

impl Scratch {
    /// Gives back what one long text made large. The cache is bounded in itself.
    pub(super) fn bound(&mut self) {
        bound(&mut self.ids);
        bound(&mut self.word.text);
        bound(&mut self.word.from);
        bound(&mut self.found);
    }
}

/// A word, normalized, with a space before it.
#[derive(Debug, Default)]
struct Word {
    text: Vec<u8>,
    /// For each byte, where in the fragment the character begins and ends that it comes from.
    from: Vec<(usize, usize)>,
}

impl Word {
    fn begin(&mut self) {
        self.text.clear();
        self.from.clear();
        self.text.extend_from_slice(SPACE);
    }

    fn is_empty(&self) -> bool {
        self.text.len() <= SPACE.len()
    }
}

/// ASCII characters that are whitespace.
fn is_space(byte: u8) -> bool {
    byte < 0x80 && unicode::properties(byte.into()).is(Properties::WHITESPACE)
}

impl Wpm {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Result<Self, Error> {
        let texts = (0..vocabulary.len()).map(|id| (vocabulary.text(id).unwrap_or_default(), id));
        let tokens = Trie::new(texts)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "not enough memory for the tokens"))?;
        Ok(Self { tokens })
    }

    pub(crate) fn encode<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        fragment: Fragment<'_>,
        scratch: &mut Scratch,
        out: &mut S,
    ) {
        // No word goes over whitespace, so what is between is tokenized by itself, and once.
        let text = fragment.text;
        let mut at = 0;
        while at < text.len() {
            if is_space(text[at]) {
                at += 1;
                continue;
            }
            let length = text[at..].iter().position(|&byte| is_space(byte));
            let end = length.map_or(text.len(), |length| at + length);
            self.part(vocabulary, &text[at..end], fragment.start + at, scratch, out);
            at = end;
        }
    }

    fn part<S: Sink>(
        &self,
        vocabulary: &Vocabulary,
        part: &[u8],
        start: usize,
        scratch: &mut Scratch,
        out: &mut S,
    ) {
        let Scratch { cache, ids, word, found } = scratch;
        if S::RANGES {
            self.words(vocabulary, part, word, found, |id, from, to| {
                out.push(id, start + from, start + to);
            });
            return;
        }
        let key = Key::new(part, 0, part.len());
        let mut room = Few::default();
        if let Some(known) = cache.get(key, part, &mut room) {
            out.extend(known);
            return;
        }
        ids.clear();
        self.words(vocabulary, part, word, found, |id, _, _| ids.push(id));
        cache.put(key, part, ids);
        out.extend(ids);
    }

    /// The tokens of a part of the text, word by word.
    fn words(
        &self,
        vocabulary: &Vocabulary,
        part: &[u8],
        word: &mut Word,
        found: &mut Vec<(u32, usize)>,
        mut push: impl FnMut(u32, usize, usize),
    ) {
        let flags = vocabulary.flags();
        word.begin();
        let mut at = 0;
        while let Some((point, length)) = unicode::decode(&part[at..]) {
            let range = (at, at + length);
            at += length;
            let point = if flags.strip_accents { unicode::first_decomposed(point) } else { point };
            let properties = unicode::properties(point);
            if properties.is(Properties::WHITESPACE) {
                self.word(vocabulary, word, found, &mut push);
                continue;
            }
            if point == 0
                || point == unicode::REPLACEMENT
                || properties.is(Properties::CONTROL)
                || flags.strip_accents && properties.is(Properties::MARK)
            {
                continue;
            }
            let alone = properties.is(Properties::PUNCTUATION)
                || point < 0x7F && properties.is(Properties::SYMBOL)
                || unicode::is_ideograph(point);
            if alone {
                self.word(vocabulary, word, found, &mut push);
            }
            unicode::encode(
                if flags.lowercase { unicode::lower(point) } else { point },
                &mut word.text,
            );
            word.from.resize(word.text.len() - SPACE.len(), range);
            if alone {
                self.word(vocabulary, word, found, &mut push);
            }
        }
        self.word(vocabulary, word, found, &mut push);
    }

    /// The tokens of a word: the longest at each place, or the unknown token for all of it.
    fn word(
        &self,
        vocabulary: &Vocabulary,
        word: &mut Word,
        found: &mut Vec<(u32, usize)>,
        push: &mut impl FnMut(u32, usize, usize),
    ) {
        if word.is_empty() {
            return;
        }
        found.clear();
        let mut at = 0;
        while at < word.text.len() {
            let Some((length, id)) = self.tokens.longest(&word.text[at..]) else {
                found.clear();
                break;
            };
            at += length;
            found.push((id, at));
        }
        // A place in the word is one in the part; the space before it is where the word begins.
        let from = |place: usize| word.from.get(place.saturating_sub(SPACE.len()));
        let begin = word.from.first().map_or(0, |range| range.0);
        if let Some(id) = vocabulary.special_ids().unk.filter(|_| found.is_empty()) {
            push(id, begin, word.from.last().map_or(begin, |range| range.1));
        }
        let mut start = 0;
        for &(id, end) in &*found {
            let last = end.checked_sub(SPACE.len() + 1).and_then(|place| word.from.get(place));
            let from = from(start).map_or(begin, |range| range.0);
            push(id, from, last.map_or(begin, |range| range.1));
            start = end;
        }
        word.begin();
    }
}
