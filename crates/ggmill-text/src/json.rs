//! JSON that is safe to print.
//!
//! JSON itself escapes only the first 32 control characters. Text from a file can have others that affect
//! a terminal (U+007F, C1 controls), that reorder text (bidirectional overrides), or that some programs
//! treat as line ends. The writers here also escape these characters, all that [`RawStr::is_plain`]
//! excludes, as `\uXXXX`, which parses to the same text.

use std::fmt;
use std::io::{self, Write};

use ggmill_core::RawStr;
use serde::ser::{Serialize, SerializeMap as _, Serializer as SerdeSerializer};
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
/// Fails if `out` does, and if the value cannot be serialized.
pub fn write<T: ?Sized + Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    Ok(value.serialize(&mut Serializer::with_formatter(out, Compact))?)
}

/// Writes a value as indented JSON, with a line break at the end.
///
/// Fails if `out` does, and if the value cannot be serialized.
pub fn write_pretty<T: ?Sized + Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Pretty(PrettyFormatter::new())))?;
    out.write_all(b"\n")
}

/// Returns a value as JSON on one line.
///
/// Fails if the value cannot be serialized.
pub fn to_string<T: ?Sized + Serialize>(value: &T) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Compact))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Writes a fragment of a string that needs no JSON escapes, with the escapes of this module. A custom
/// [`Formatter`] calls this in its `write_string_fragment`.
///
/// Fails if `out` does.
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

/// A string of a file that serializes without loss: UTF-8 as a string, other bytes as
/// `{"bytes_hex":"…"}`.
///
/// ```
/// use ggmill_core::RawStr;
/// use ggmill_text::LosslessStr;
/// assert_eq!(serde_json::to_string(&LosslessStr(RawStr::from("llama")))?, r#""llama""#);
/// assert_eq!(serde_json::to_string(&LosslessStr(RawStr::new(b"\xffa")))?, r#"{"bytes_hex":"ff61"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper of a string")]
pub struct LosslessStr<'a>(pub RawStr<'a>);

impl Serialize for LosslessStr<'_> {
    fn serialize<S: SerdeSerializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = self.0.to_str() {
            return serializer.serialize_str(text);
        }
        let mut object = serializer.serialize_map(Some(1))?;
        object.serialize_entry("bytes_hex", &format_args!("{}", Hex(self.0.as_bytes())))?;
        object.end()
    }
}

impl fmt::Display for LosslessStr<'_> {
    /// Writes the escaped string, as [`RawStr`] does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RawStr::fmt(&self.0, f)
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// JSON on one line, with escapes.
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

/// Indented JSON as in `serde_json`, with escapes.
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

    /// Every character parses to itself, and only plain characters are written unescaped.
    #[test]
    fn every_character_is_preserved_and_escaped_if_not_plain() {
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
