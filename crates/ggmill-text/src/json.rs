//! JSON that is safe to print.
//!
//! JSON itself escapes the first 32 control characters only. Text from a file can hold others that
//! affect a terminal (U+007F, C1 controls) or that change the order in which a line is read
//! (bidirectional overrides), and line separators that end a line for some readers. The writers
//! here escape every character that [`RawStr`] does not show as it is, as `\uXXXX`, so that what is
//! written parses back to the same text.

use std::io::{self, Write};

use ggmill_core::RawStr;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

/// Writes a value as JSON on one line, without a line break at the end.
///
/// ```
/// let mut out = Vec::new();
/// ggmill_text::json::write(&mut out, "a\u{9b}\u{202e}b")?;
/// assert_eq!(out, br#""a\u009b\u202eb""#);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Fails when `out` does, and when the value cannot be serialized.
pub fn write<T: ?Sized + Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    Ok(value.serialize(&mut Serializer::with_formatter(out, Compact))?)
}

/// Writes a value as indented JSON, with a line break at the end.
///
/// Fails when `out` does, and when the value cannot be serialized.
pub fn write_pretty<T: ?Sized + Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Pretty(PrettyFormatter::new())))?;
    out.write_all(b"\n")
}

/// A value as JSON on one line.
///
/// Fails when the value cannot be serialized.
pub fn to_string<T: ?Sized + Serialize>(value: &T) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Compact))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The part of a string that JSON needs not escape, with the escapes that safety needs: what a
/// [`Formatter`] of its own layout calls in its `write_string_fragment`.
///
/// Fails when `out` does.
pub fn write_string_fragment<W: ?Sized + Write>(out: &mut W, fragment: &str) -> io::Result<()> {
    let mut written = 0;
    if fragment.bytes().any(|byte| byte >= 0x7f) {
        for (at, c) in fragment.char_indices().filter(|(_, c)| !RawStr::is_plain(*c)) {
            out.write_all(fragment.as_bytes().get(written..at).unwrap_or_default())?;
            c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?;
            written = at + c.len_utf8();
        }
    }
    out.write_all(fragment.as_bytes().get(written..).unwrap_or_default())
}

/// One line, escaped.
struct Compact;

impl Formatter for Compact {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write_string_fragment(out, fragment)
    }
}

/// Indented as `serde_json` does it, escaped.
struct Pretty(PrettyFormatter<'static>);

impl Formatter for Pretty {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write_string_fragment(out, fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character there is goes through JSON and back, and what is not plain is never written
    /// raw.
    #[test]
    fn every_character_survives_and_none_is_raw() {
        let all: String = (0..=u32::from(char::MAX)).filter_map(char::from_u32).collect();
        let text = to_string(&all).unwrap_or_default();
        assert!(text.chars().all(RawStr::is_plain));
        assert_eq!(serde_json::from_str::<String>(&text).ok().as_deref(), Some(all.as_str()));
    }

    #[test]
    fn pretty_is_the_layout_of_serde_json() -> Result<(), Box<dyn std::error::Error>> {
        let value = serde_json::json!({ "a": [1, "b\n", {}, []], "c": { "d": null } });
        let mut out = Vec::new();
        write_pretty(&mut out, &value)?;
        assert_eq!(String::from_utf8(out)?, format!("{value:#}\n"));
        assert_eq!(to_string(&value)?, value.to_string());
        Ok(())
    }
}
