//! Lines that fit a terminal.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr as _;

/// Below this a terminal is too narrow to be minded.
const NARROWEST: usize = 24;

/// Breaks `text` at spaces so that no line is wider than `width`, with `used` columns before the
/// first and `indent` spaces before the others. A word that is wider than that gets its own line.
pub(super) fn wrap(text: &str, width: Option<usize>, used: usize, indent: usize) -> Cow<'_, str> {
    let Some(width) =
        width.map(|width| width.max(NARROWEST)).filter(|&width| used + text.width() > width)
    else {
        return Cow::Borrowed(text);
    };
    // On a narrow terminal what is far to the right would have no room.
    let indent = indent.min(width / 4);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut column = used;
    // Where a line begins there is nothing to break before.
    let mut words = text.split(' ');
    if let Some(word) = words.next() {
        column += word.width();
        out.push_str(word);
    }
    for word in words {
        if column + 1 + word.width() > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            out.push(' ');
            column += 1;
        }
        column += word.width();
        out.push_str(word);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_words_stay_whole() {
        assert_eq!(wrap("one two", None, 0, 2), "one two");
        assert_eq!(
            wrap("alpha beta gamma delta epsilon zeta", Some(24), 4, 2),
            "alpha beta gamma\n  delta epsilon zeta"
        );
        let long = "x".repeat(40);
        assert_eq!(wrap(&format!("a {long} b"), Some(24), 0, 2), format!("a\n  {long}\n  b"));
        // Characters of two columns.
        assert_eq!(wrap("你好你好你好 你好你好你好", Some(24), 0, 0), "你好你好你好\n你好你好你好");
    }
}
