//! Patterns of metadata keys and tensor names.

use std::fmt;
use std::str::FromStr;

use ggmill_core::RawStr;

/// A pattern of keys and names: `*` matches any characters, `?` any one character, `[a-z]` one of a set.
///
/// Text that is not UTF-8 is matched in its escaped form.
///
/// ```
/// use ggmill_core::RawStr;
/// use ggmill_text::Glob;
/// let glob: Glob = "blk.*.attn_?.weight".parse()?;
/// assert!(glob.matches(RawStr::from("blk.11.attn_q.weight")));
/// assert!(!glob.matches(RawStr::from("output.weight")));
/// # Ok::<(), ggmill_text::GlobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(glob::Pattern);

impl Glob {
    /// Creates a pattern that matches only this text.
    ///
    /// ```
    /// use ggmill_core::RawStr;
    /// use ggmill_text::Glob;
    /// assert!(Glob::literal("a[*]").matches(RawStr::from("a[*]")));
    /// assert!(!Glob::literal("a[*]").matches(RawStr::from("a*")));
    /// ```
    pub fn literal(text: &str) -> Self {
        // An escaped text is always a valid pattern.
        Self(glob::Pattern::new(&glob::Pattern::escape(text)).unwrap_or_default())
    }

    /// Returns `true` if the whole text matches.
    pub fn matches(&self, text: RawStr<'_>) -> bool {
        match text.to_str() {
            Ok(text) => self.0.matches(text),
            Err(_) => self.0.matches(&text.to_string()),
        }
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(pattern: &str) -> Result<Self, GlobError> {
        glob::Pattern::new(pattern).map(Self).map_err(GlobError)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.as_str())
    }
}

/// The error of an invalid pattern.
#[derive(Debug)]
pub struct GlobError(glob::PatternError);

impl fmt::Display for GlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {}: {}", self.0.pos, self.0.msg)
    }
}

impl std::error::Error for GlobError {}
