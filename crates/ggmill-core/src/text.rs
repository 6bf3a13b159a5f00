//! Text from files and numbers of bytes, as they are shown.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt::{self, Write as _};

/// Returns `true` if a text is one or more ASCII digits and nothing else.
///
/// ```
/// use ggmill_core::is_digits;
/// assert!(is_digits("012") && !is_digits("") && !is_digits("-1") && !is_digits("٣"));
/// ```
pub fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A string of a file: bytes that are UTF-8 by convention.
///
/// Files are untrusted, so [`Display`](fmt::Display) escapes everything that could affect a terminal
/// or deceive a reader: control characters, line breaks, the Unicode characters that reorder text,
/// and bytes that are not UTF-8 (as `\xNN`). A backslash is shown as `\\`, so that the escaped form
/// identifies the bytes. [`Debug`](fmt::Debug) adds quotes and escapes quotes within the text.
/// [`RawStr::to_str`] and [`RawStr::as_bytes`] return the content without escapes.
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
    /// Wraps bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the text. Fails with the position of the first byte that is not UTF-8.
    pub const fn to_str(self) -> Result<&'a str, core::str::Utf8Error> {
        core::str::from_utf8(self.0)
    }

    /// Returns the text with every invalid sequence replaced by U+FFFD.
    pub fn to_string_lossy(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.0)
    }

    /// Returns the length in bytes.
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no bytes.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` for a character that needs no escape: neither a control character nor one that
    /// reorders or hides text. A backslash is plain, but is doubled anyway.
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

/// Returns a message with every character escaped that could affect a terminal or deceive a reader, as
/// in [`RawStr`]. A backslash is not doubled: the parts of the message that were escaped before do not
/// change.
///
/// ```
/// use ggmill_core::printable;
/// assert_eq!(printable("tensor \u{1b}[2J\n"), r"tensor \u{1b}[2J\n");
/// assert_eq!(printable(r"tensor \u{1b}[2J"), r"tensor \u{1b}[2J");
/// ```
pub fn printable(message: &str) -> Cow<'_, str> {
    if message.chars().all(RawStr::is_plain) {
        return Cow::Borrowed(message);
    }
    let mut out = String::with_capacity(message.len().saturating_add(16));
    for c in message.chars() {
        match c {
            '\\' => out.push(c),
            c => out.push_str(&RawStr::from(&*c.encode_utf8(&mut [0; 4])).to_string()),
        }
    }
    Cow::Owned(out)
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
        /// Escapes quotes.
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

/// Formats a number of bytes with three digits and units of 1,024: `18.3 MiB`. A precision in the
/// format string is ignored.
///
/// ```
/// use ggmill_core::ByteSize;
/// assert_eq!(ByteSize::from(19_229_632u64).to_string(), "18.3 MiB");
/// assert_eq!(ByteSize::from(1000usize).to_string(), "1000 B");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u128);

impl ByteSize {
    const UNITS: [&'static str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

    /// Formats two sizes, as exact numbers (`1073741825 bytes`) if their three digits are equal.
    ///
    /// ```
    /// use ggmill_core::ByteSize;
    /// assert_eq!(ByteSize::both(3u64 << 30, 1u64 << 30), ["3.00 GiB", "1.00 GiB"]);
    /// let [found, limit] = ByteSize::both((1u64 << 30) + 1, 1u64 << 30);
    /// assert_eq!((&*found, &*limit), ("1073741825 bytes", "1073741824 bytes"));
    /// ```
    pub fn both(first: impl Into<Self>, second: impl Into<Self>) -> [String; 2] {
        let sizes = [first.into(), second.into()];
        let [a, b] = sizes.map(|size| size.to_string());
        if a == b { sizes.map(|size| format!("{} bytes", size.0)) } else { [a, b] }
    }
}

impl From<u64> for ByteSize {
    fn from(bytes: u64) -> Self {
        Self(bytes.into())
    }
}

impl From<u128> for ByteSize {
    fn from(bytes: u128) -> Self {
        Self(bytes)
    }
}

impl From<usize> for ByteSize {
    fn from(bytes: usize) -> Self {
        Self(bytes as u128)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Integers only: formatting of floating-point numbers is large in a WebAssembly module.
        let mut units = Self::UNITS.into_iter();
        let (mut unit, mut shift) = (units.next().unwrap_or_default(), 0u32);
        while self.0 >> shift >= 1024
            && let Some(next) = units.next()
        {
            (unit, shift) = (next, shift.saturating_add(10));
        }
        let decimals = match self.0.saturating_mul(1000) >> shift {
            _ if shift == 0 => 0,
            ..9995 => 2,
            9995..99_950 => 1,
            _ => 0,
        };
        let parts = 10u128.pow(decimals);
        let scaled = self.0.saturating_mul(parts);
        let (rounded, rest) = (scaled >> shift, scaled & (1u128 << shift).wrapping_sub(1));
        let half = (1u128 << shift) >> 1;
        let is_up = shift > 0 && (rest > half || rest == half && rounded & 1 == 1);
        let rounded = rounded.saturating_add(u128::from(is_up));
        let whole = rounded.checked_div(parts).unwrap_or_default();
        let fraction = rounded.checked_rem(parts).unwrap_or_default();
        let text = match decimals {
            0 => format!("{whole} {unit}"),
            1 => format!("{whole}.{fraction} {unit}"),
            _ => format!("{whole}.{fraction:02} {unit}"),
        };
        // The width applies to number and unit together. `Formatter::pad` cannot do it: it would
        // truncate the text to the precision.
        let missing = f.width().unwrap_or_default().saturating_sub(text.len());
        let before = match f.align() {
            Some(fmt::Alignment::Right) => missing,
            Some(fmt::Alignment::Center) => missing / 2,
            _ => 0,
        };
        let fill = f.fill();
        (0..before).try_for_each(|_| f.write_char(fill))?;
        f.write_str(&text)?;
        (before..missing).try_for_each(|_| f.write_char(fill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "a\u{1b}]0;x\u{7}\u{9b}31m\r\n\t\u{202e}\u{200b}\0z";
        let shown = RawStr::from(hostile).to_string();
        assert!(shown.chars().all(RawStr::is_plain), "{shown}");
        assert_eq!(shown, r"a\u{1b}]0;x\u{7}\u{9b}31m\r\n\t\u{202e}\u{200b}\u{0}z");
    }

    #[test]
    fn a_backslash_is_doubled() {
        assert_eq!(RawStr::new(b"\\n").to_string(), r"\\n");
        assert_eq!(RawStr::new(b"\n").to_string(), r"\n");
    }

    #[test]
    fn quotes_within_quotes_are_escaped() {
        assert_eq!(alloc::format!("{:?}", RawStr::from("a \"b\" \\")), r#""a \"b\" \\""#);
        assert_eq!(RawStr::from(r#"a "b""#).to_string(), r#"a "b""#);
    }

    #[test]
    fn width_counts_the_escaped_characters() {
        assert_eq!(alloc::format!("{:<6}|", RawStr::from("ab")), "ab    |");
    }

    #[test]
    fn three_digits() {
        let sizes = [0, 1023, 1024, 10_230, 19_229_632, 1_048_575, 10_236, 1 << 70];
        let shown = sizes.map(|size: u128| ByteSize(size).to_string());
        let expected = [
            "0 B", "1023 B", "1.00 KiB", "9.99 KiB", "18.3 MiB", "1024 KiB", "10.0 KiB", "1024 EiB",
        ];
        assert_eq!(shown, expected);
        assert_eq!(format!("{:>9}|", ByteSize(1023)), "   1023 B|");
        let size = ByteSize(19_229_632);
        assert_eq!(
            format!("{size:12}|{size:-^12}|{size:3}|"),
            "18.3 MiB    |--18.3 MiB--|18.3 MiB|"
        );
        // A precision has no effect.
        assert_eq!(format!("{size:.1}|{size:>9.2}"), "18.3 MiB| 18.3 MiB");
        assert!(ByteSize(u128::MAX).to_string().ends_with(" EiB"));
    }
}
