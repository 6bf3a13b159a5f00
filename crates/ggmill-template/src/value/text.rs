//! Text that tracks the origin of each part.

use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

use super::clipped;
use crate::error::Result;
use crate::meter::{Held, Meter};

/// The origin of a part of a text: the template or a field of the conversation, and whether a
/// `generation` block wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u32);

impl Mark {
    /// Text of the template.
    pub(crate) const TEMPLATE: Self = Self(0);
    const GENERATED: u32 = 1 << 31;

    /// Creates the mark of the field with this index.
    pub(crate) fn field(number: usize) -> Self {
        let number = u32::try_from(number).unwrap_or(Self::GENERATED).saturating_add(1);
        Self(number.min(Self::GENERATED - 1))
    }

    /// Returns the index of the field; `None` for text of the template.
    pub(crate) fn number(self) -> Option<usize> {
        (self.0 & !Self::GENERATED).checked_sub(1).map(|number| number as usize)
    }

    pub(crate) fn generated(self) -> Self {
        Self(self.0 | Self::GENERATED)
    }

    pub(crate) fn is_generated(self) -> bool {
        self.0 & Self::GENERATED != 0
    }
}

/// A part of a text that ends at byte `end`, with one mark.
#[derive(Clone, Copy, Debug)]
struct Run {
    end: usize,
    mark: Mark,
}

/// An immutable text.
#[derive(Clone, Debug)]
pub(crate) struct Text(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    text: String,
    /// In order; empty if the whole text is the template's.
    runs: Vec<Run>,
    /// Python's `Markup`: text added to it is escaped.
    safe: bool,
    held: Held,
}

/// Overhead of a text in bytes.
const OVERHEAD: usize = 96;

impl Text {
    /// Creates a text with one mark.
    pub(crate) fn new(text: &str, mark: Mark, meter: &Rc<Meter>) -> Result<Self> {
        let mut builder = Builder::new(meter)?;
        builder.push(text, mark)?;
        Ok(builder.finish())
    }

    /// Returns the text, and counts the steps of reading it. There is no access that does not count,
    /// except to the length and to [pieces](Self::pieces), which are copied.
    pub(crate) fn read(&self) -> Result<&str> {
        self.meter().walk(self.len())?;
        Ok(&self.0.text)
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.text.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.text.is_empty()
    }

    /// Returns `true` if this is the text `other`.
    pub(crate) fn is(&self, other: &str) -> Result<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        Ok(self.read()? == other)
    }

    /// Compares texts by their bytes.
    pub(crate) fn order(&self, other: &Self) -> Result<Ordering> {
        self.meter().walk(self.len().min(other.len()))?;
        Ok(self.0.text.cmp(&other.0.text))
    }

    /// Returns the beginning of the text, for a message.
    pub(crate) fn clipped(&self) -> &str {
        clipped(&self.0.text)
    }

    /// Returns the text at the end of rendering, which nothing limits.
    pub(crate) fn finished(&self) -> &str {
        &self.0.text
    }

    pub(crate) fn is_safe(&self) -> bool {
        self.0.safe
    }

    pub(crate) fn meter(&self) -> &Rc<Meter> {
        self.0.held.meter()
    }

    /// Returns the parts of a range, each with its mark.
    pub(crate) fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = (&str, Mark)> {
        let Inner { text, runs, .. } = &*self.0;
        let first = runs.partition_point(|run| run.end <= range.start);
        let mut runs = runs.get(first..).unwrap_or_default().iter();
        let mut done = range.start;
        std::iter::from_fn(move || {
            if done >= range.end {
                return None;
            }
            let (end, mark) =
                runs.next().map_or((range.end, Mark::TEMPLATE), |run| (run.end, run.mark));
            let end = end.min(range.end);
            let piece = text.get(done..end).unwrap_or_default();
            done = end;
            Some((piece, mark))
        })
    }

    /// Returns a slice of the text; empty if the range is not on character boundaries.
    pub(crate) fn slice(&self, range: Range<usize>) -> Result<Self> {
        if range == (0..self.0.text.len()) {
            return Ok(self.clone());
        }
        let mut builder = Builder::new(self.meter())?;
        builder.push_slice(self, range)?;
        Ok(builder.finish_like(self))
    }

    /// Returns the slice that a function selects from the text.
    pub(crate) fn part(&self, f: impl FnOnce(&str) -> &str) -> Result<Self> {
        let text = self.read()?;
        let part = f(text);
        // The slice points into the text.
        let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        if part.is_empty() || start > text.len() {
            return self.slice(0..0);
        }
        self.slice(start..start.saturating_add(part.len()))
    }

    /// Applies a function to each part.
    pub(crate) fn map(&self, mut f: impl FnMut(&str) -> String) -> Result<Self> {
        let mut builder = Builder::new(self.meter())?;
        for (piece, mark) in self.pieces(0..self.read()?.len()) {
            builder.push(&f(piece), mark)?;
        }
        Ok(builder.finish_like(self))
    }

    /// Returns the text as Python's `Markup`.
    pub(crate) fn safe(&self) -> Result<Self> {
        let mut builder = Builder::new(self.meter())?;
        builder.push_text(self)?;
        let mut text = builder.build();
        text.safe = true;
        Ok(Self(Rc::new(text)))
    }

    /// Returns the text with HTML escapes, as Python's `Markup`.
    pub(crate) fn escaped(&self) -> Result<Self> {
        if self.is_safe() {
            return Ok(self.clone());
        }
        let mut builder = Builder::new(self.meter())?;
        for (piece, mark) in self.pieces(0..self.0.text.len()) {
            for part in piece.split_inclusive(['&', '<', '>', '"', '\'']) {
                let (before, escape) = match part.as_bytes().last() {
                    Some(b'&') => (1, "&amp;"),
                    Some(b'<') => (1, "&lt;"),
                    Some(b'>') => (1, "&gt;"),
                    Some(b'"') => (1, "&#34;"),
                    Some(b'\'') => (1, "&#39;"),
                    _ => (0, ""),
                };
                builder.push(part.get(..part.len() - before).unwrap_or_default(), mark)?;
                builder.push(escape, mark)?;
            }
        }
        builder.finish().safe()
    }
}

/// Builds a text.
#[derive(Debug)]
pub(crate) struct Builder {
    text: String,
    runs: Vec<Run>,
    held: Held,
}

impl Builder {
    pub(crate) fn new(meter: &Rc<Meter>) -> Result<Self> {
        Ok(Self { text: String::new(), runs: Vec::new(), held: Held::new(meter, OVERHEAD)? })
    }

    pub(crate) fn push(&mut self, text: &str, mark: Mark) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.held.grow(text.len())?;
        let before = self.text.len();
        self.text.push_str(text);
        let end = self.text.len();
        match self.runs.last_mut() {
            Some(last) if last.mark == mark => last.end = end,
            None if mark == Mark::TEMPLATE => {}
            last => {
                let is_first = last.is_none();
                self.held.grow(2 * size_of::<Run>())?;
                if is_first && before > 0 {
                    self.runs.push(Run { end: before, mark: Mark::TEMPLATE });
                }
                self.runs.push(Run { end, mark });
            }
        }
        Ok(())
    }

    pub(crate) fn push_slice(&mut self, text: &Text, range: Range<usize>) -> Result<()> {
        for (piece, mark) in text.pieces(range) {
            self.push(piece, mark)?;
        }
        Ok(())
    }

    pub(crate) fn push_text(&mut self, text: &Text) -> Result<()> {
        self.push_slice(text, 0..text.len())
    }

    /// Appends text of a `generation` block.
    pub(crate) fn push_generated(&mut self, text: &Text) -> Result<()> {
        for (piece, mark) in text.pieces(0..text.len()) {
            self.push(piece, mark.generated())?;
        }
        Ok(())
    }

    /// Appends a character `count` times.
    pub(crate) fn fill(&mut self, fill: char, count: usize) -> Result<()> {
        let mut bytes = [0; 4];
        let text = fill.encode_utf8(&mut bytes).repeat(64);
        let mut left = count;
        while left > 0 {
            let now = left.min(64);
            self.push(text.get(..now * fill.len_utf8()).unwrap_or_default(), Mark::TEMPLATE)?;
            left -= now;
        }
        Ok(())
    }

    pub(crate) fn meter(&self) -> &Rc<Meter> {
        self.held.meter()
    }

    fn build(self) -> Inner {
        Inner { text: self.text, runs: self.runs, safe: false, held: self.held }
    }

    pub(crate) fn finish(self) -> Text {
        Text(Rc::new(self.build()))
    }

    /// Returns the text, as `Markup` if `other` is.
    pub(crate) fn finish_like(self, other: &Text) -> Text {
        let mut inner = self.build();
        inner.safe = other.0.safe;
        Text(Rc::new(inner))
    }
}
