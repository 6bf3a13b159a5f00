//! Sets of code points.

use crate::unicode::{self, CODE_POINTS, Properties};

/// A set of code points as ranges in ascending order that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Set(Vec<(u32, u32)>);

impl Set {
    /// The code points from `first` to `last`.
    pub(super) fn range(first: u32, last: u32) -> Self {
        Self(vec![(first, last)])
    }

    /// The code points with any of the properties.
    pub(super) fn with(properties: Properties) -> Self {
        let mut set = Self::default();
        let mut ranges = unicode::ranges().peekable();
        while let Some((first, found)) = ranges.next() {
            let end = ranges.peek().map_or(CODE_POINTS, |&(next, _)| next);
            if found.is(properties) {
                set.0.push((first, end.saturating_sub(1)));
            }
        }
        set.normalized()
    }

    /// White space as the reference has it.
    pub(super) fn space() -> Self {
        Self::with(Properties::WHITESPACE)
    }

    /// The ideographs as the reference's scanner for them has it.
    pub(super) fn han() -> Self {
        const HAN: [(u32, u32); 8] = [
            (0x3400, 0x4DBF),
            (0x4E00, 0x9FFF),
            (0xF900, 0xFAFF),
            (0x2_0000, 0x2_A6DF),
            (0x2_A700, 0x2_B73F),
            (0x2_B740, 0x2_CEAF),
            (0x2_CEB0, 0x2_EBEF),
            (0x2_F800, 0x2_FA1F),
        ];
        Self(HAN.to_vec()).normalized()
    }

    /// Adds another set.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        *self = std::mem::take(self).normalized();
    }

    /// What is not in the set.
    pub(super) fn complement(&self) -> Self {
        let mut next = 0;
        let mut rest = Vec::new();
        for &(first, last) in &self.0 {
            if next < first {
                rest.push((next, first.saturating_sub(1)));
            }
            next = last.saturating_add(1);
        }
        if next < CODE_POINTS {
            rest.push((next, CODE_POINTS.saturating_sub(1)));
        }
        Self(rest)
    }

    /// The set with all white space beyond ASCII if it has U+000B, and else with none: the
    /// reference's expressions see that character in its place.
    pub(super) fn folded(mut self) -> Self {
        let mut wide = Self::space();
        wide.0.retain(|&(first, _)| first > 0x7F);
        if self.contains(0x0B) {
            self.add(&wide);
            self
        } else {
            let mut rest = self.complement();
            rest.add(&wide);
            rest.complement()
        }
    }

    /// Whether a code point is in the set.
    pub(super) fn contains(&self, point: u32) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= point);
        let range = after.checked_sub(1).and_then(|place| self.0.get(place));
        range.is_some_and(|&(_, last)| point <= last)
    }

    /// Where membership changes.
    pub(super) fn bounds(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|&(first, last)| [first, last.saturating_add(1)])
    }

    fn normalized(mut self) -> Self {
        self.0.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for (first, last) in self.0 {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }
}
