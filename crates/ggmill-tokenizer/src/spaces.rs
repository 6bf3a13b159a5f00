//! Spaces written as U+2581, and where in the text a place in the written form is.

/// What stands for a space in tokens.
pub(crate) const SPACE: &[u8] = "\u{2581}".as_bytes();

/// Replaces the text by one in which every space is written [`SPACE`], after one more if `prefix`.
pub(crate) fn escape(text: &[u8], prefix: bool, out: &mut Vec<u8>) {
    out.clear();
    out.reserve(text.len() + text.len() / 3 + SPACE.len());
    if prefix {
        out.extend_from_slice(SPACE);
    }
    let mut done = 0;
    for space in memchr::memchr_iter(b' ', text) {
        out.extend_from_slice(&text[done..space]);
        out.extend_from_slice(SPACE);
        done = space + 1;
    }
    out.extend_from_slice(&text[done..]);
}

/// Goes through a text and its escaped form side by side.
#[derive(Debug)]
pub(crate) struct Places<'t> {
    text: &'t [u8],
    source: usize,
    escaped: usize,
}

impl<'t> Places<'t> {
    /// At the beginning of both, after the space that was put before.
    pub(crate) fn new(text: &'t [u8], prefix: bool) -> Self {
        Self { text, source: 0, escaped: if prefix { SPACE.len() } else { 0 } }
    }

    /// The range of the text for a range of the escaped form that is not before an earlier one.
    /// A part of a space is the space.
    pub(crate) fn range(&mut self, start: usize, end: usize) -> (usize, usize) {
        while let Some(width) = self.width(self.source)
            && self.escaped + width <= start
        {
            self.source += 1;
            self.escaped += width;
        }
        let (mut source, mut escaped) = (self.source, self.escaped);
        while let Some(width) = self.width(source)
            && escaped < end
        {
            source += 1;
            escaped += width;
        }
        (self.source, source)
    }

    fn width(&self, source: usize) -> Option<usize> {
        self.text.get(source).map(|&byte| if byte == b' ' { SPACE.len() } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_before_escaping() {
        let mut out = Vec::new();
        escape(b" a  b", true, &mut out);
        assert_eq!(out, "▁▁a▁▁b".as_bytes());
        let mut places = Places::new(b" a  b", true);
        let ranges = [(0, 3), (3, 7), (7, 10), (11, 14)];
        let found: Vec<_> = ranges.iter().map(|&(start, end)| places.range(start, end)).collect();
        assert_eq!(found, [(0, 0), (0, 2), (2, 3), (3, 5)]);
    }
}
