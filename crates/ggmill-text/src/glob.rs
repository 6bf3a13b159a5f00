use std::fmt;
use std::str::FromStr;

use ggmill_core::RawStr;

/// A pattern for keys and names: `*` is any run of characters, `?` any one, `[a-z]` one of several.
///
/// Text that is not UTF-8 is matched as it is shown.
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
    /// The pattern that only this text matches.
    ///
    /// ```
    /// use ggmill_core::RawStr;
    /// use ggmill_text::Glob;
    /// assert!(Glob::literal("a[*]").matches(RawStr::from("a[*]")));
    /// assert!(!Glob::literal("a[*]").matches(RawStr::from("a*")));
    /// ```
    pub fn literal(text: &str) -> Self {
        // The escaped form of a text is a pattern; without one nothing but the empty text matches.
        Self(glob::Pattern::new(&glob::Pattern::escape(text)).unwrap_or_default())
    }

    /// Whether the whole text fits the pattern.
    pub fn matches(&self, text: RawStr<'_>) -> bool {
        match text.to_str() {
            Ok(text) => self.0.matches(text),
            Err(_) => self.0.matches(&text.to_string()),
        }
    }

    /// The pattern as it was written.
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

/// Why a [`Glob`] could not be made.
#[derive(Debug)]
pub struct GlobError(glob::PatternError);

impl fmt::Display for GlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {}: {}", self.0.pos, self.0.msg)
    }
}

impl std::error::Error for GlobError {}
