//! Text that is rewritten before it is cut.

use super::merges::SPACE;
use crate::memory::bound;
use crate::unicode::{self, Properties};

/// A rewritten text, and where each of its bytes comes from.
#[derive(Debug, Default)]
pub(super) struct Normal {
    pub(super) text: Vec<u8>,
    /// One more than there are bytes.
    pub(super) origins: Vec<u32>,
}

impl Normal {
    /// Gives back what one long text made large.
    pub(super) fn bound(&mut self) {
        bound(&mut self.text);
        bound(&mut self.origins);
    }

    fn clear(&mut self) {
        self.text.clear();
        self.origins.clear();
    }

    /// Appends a code point that begins at a position of the original.
    #[expect(clippy::cast_possible_truncation, reason = "a text has less than 2^31 bytes")]
    fn push(&mut self, point: u32, place: usize) {
        unicode::encode(point, &mut self.text);
        self.origins.resize(self.text.len(), place as u32);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a text has less than 2^31 bytes")]
    fn end(&mut self, place: usize) {
        self.origins.push(place as u32);
    }

    /// Replaces what is not UTF-8 as the reference does, and spaces by U+2581 if asked. Without
    /// `origins` it need not be known where bytes come from.
    pub(super) fn rewrite(&mut self, text: &[u8], escape: bool, origins: bool) {
        self.clear();
        if escape && !origins && std::str::from_utf8(text).is_ok() {
            for (number, part) in text.split(|&byte| byte == b' ').enumerate() {
                if number > 0 {
                    self.text.extend_from_slice(SPACE);
                }
                self.text.extend_from_slice(part);
            }
            return;
        }
        let mut place = 0;
        while let Some((point, length)) = text.get(place..).and_then(unicode::decode) {
            let point = if escape && point == 0x20 { 0x2581 } else { point };
            self.push(point, place);
            place += length;
        }
        self.end(place);
    }

    /// What is between white space, in lower case if asked.
    pub(super) fn segments(
        &mut self,
        text: &[u8],
        lowercase: bool,
        mut each: impl FnMut(&[u8], &[u32]),
    ) {
        self.clear();
        let mut place = 0;
        loop {
            let next = text.get(place..).and_then(unicode::decode);
            let is_space = |point: u32| unicode::properties(point).is(Properties::WHITESPACE);
            match next {
                Some((point, length)) if !is_space(point) => {
                    self.push(if lowercase { unicode::lower(point) } else { point }, place);
                    place += length;
                }
                _ => {
                    if !self.text.is_empty() {
                        self.end(place);
                        each(&self.text, &self.origins);
                        self.clear();
                    }
                    let Some((_, length)) = next else { return };
                    place += length;
                }
            }
        }
    }
}
