//! Bytes that are text by convention, and how they are shown.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::{self, Write as _};

/// Whether a text is a number in ASCII digits and nothing else: digits, and at least one.
///
/// ```
/// use ggmill_core::is_digits;
/// assert!(is_digits("012") && !is_digits("") && !is_digits("-1") && !is_digits("٣"));
/// ```
pub fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A string as the file has it: bytes first, text if they are UTF-8.
///
/// Keys, names, tokens and values come from strangers. [`Display`](fmt::Display) therefore escapes
/// everything that could affect a terminal or deceive a reader: control characters, line breaks,
/// the Unicode characters that reorder text, and bytes that are not UTF-8 (as `\xNN`). A backslash
/// shows as `\\`, so that what is shown leads back to the bytes. [`Debug`](fmt::Debug) adds quotes
/// and escapes those within. [`RawStr::to_str`] and [`RawStr::as_bytes`] give the content
/// untouched.
///
/// ```
/// use ggmill_core::RawStr;
/// assert_eq!(RawStr::new(b"caf\xc3\xa9").to_str()?, "café");
/// assert_eq!(RawStr::new(b"\x1b[2J\xff").to_string(), r"\u{1b}[2J\xff");
/// # Ok::<(), core::str::Utf8Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RawStr<'a>(&'a [u8]);

impl<'a> RawStr<'a> {
    /// The string over these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes, untouched.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text, or the place where the bytes stop being UTF-8.
    pub const fn to_str(self) -> Result<&'a str, core::str::Utf8Error> {
        core::str::from_utf8(self.0)
    }

    /// The text with every invalid sequence replaced by U+FFFD.
    pub fn to_string_lossy(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.0)
    }

    /// Length in bytes.
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are no bytes.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Whether a character is shown as it is, unless it is a backslash: not a control character,
    /// not one that reorders or hides text.
    pub fn is_plain(c: char) -> bool {
        !c.is_control()
            && !matches!(c,
                '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    }
}

impl<'a> From<&'a str> for RawStr<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl PartialEq<str> for RawStr<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for RawStr<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

fn escape(bytes: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.write_str("\\\\")?,
                '\n' => out.write_str("\\n")?,
                '\r' => out.write_str("\\r")?,
                '\t' => out.write_str("\\t")?,
                c if RawStr::is_plain(c) => out.write_char(c)?,
                c => write!(out, "{}", c.escape_unicode())?,
            }
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

impl fmt::Display for RawStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() && f.precision().is_none() {
            return escape(self.0, f);
        }
        let mut shown = String::new();
        escape(self.0, &mut shown)?;
        f.pad(&shown)
    }
}

impl fmt::Debug for RawStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Escapes what would end the quotes.
        struct Quoted<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl fmt::Write for Quoted<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                text.split_inclusive('"').try_for_each(|piece| match piece.strip_suffix('"') {
                    Some(before) => {
                        self.0.write_str(before).and_then(|()| self.0.write_str("\\\""))
                    }
                    None => self.0.write_str(piece),
                })
            }
        }
        f.write_char('"')?;
        escape(self.0, &mut Quoted(f))?;
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn nothing_that_acts_on_a_terminal_passes() {
        let hostile = "a\u{1b}]0;x\u{7}\u{9b}31m\r\n\t\u{202e}\u{200b}\0z";
        let shown = RawStr::from(hostile).to_string();
        assert!(shown.chars().all(RawStr::is_plain), "{shown}");
        assert_eq!(shown, r"a\u{1b}]0;x\u{7}\u{9b}31m\r\n\t\u{202e}\u{200b}\u{0}z");
    }

    #[test]
    fn a_backslash_cannot_be_mistaken_for_an_escape() {
        assert_eq!(RawStr::new(b"\\n").to_string(), r"\\n");
        assert_eq!(RawStr::new(b"\n").to_string(), r"\n");
    }

    #[test]
    fn quotes_within_quotes_are_escaped() {
        assert_eq!(alloc::format!("{:?}", RawStr::from("a \"b\" \\")), r#""a \"b\" \\""#);
        assert_eq!(RawStr::from(r#"a "b""#).to_string(), r#"a "b""#);
    }

    #[test]
    fn width_counts_what_is_shown() {
        assert_eq!(alloc::format!("{:<6}|", RawStr::from("ab")), "ab    |");
    }
}
