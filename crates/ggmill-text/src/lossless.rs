use std::fmt;

use ggmill_core::RawStr;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// A string from a file, for JSON: text as a string, bytes that are not UTF-8 as
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
#[expect(clippy::exhaustive_structs, reason = "a string and nothing else")]
pub struct LosslessStr<'a>(pub RawStr<'a>);

impl Serialize for LosslessStr<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = self.0.to_str() {
            return serializer.serialize_str(text);
        }
        let mut object = serializer.serialize_map(Some(1))?;
        object.serialize_entry("bytes_hex", &format_args!("{}", Hex(self.0.as_bytes())))?;
        object.end()
    }
}

impl fmt::Display for LosslessStr<'_> {
    /// As [`RawStr`] shows it: escaped.
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
