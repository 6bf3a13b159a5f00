//! Which parts of a model are shown, and by what names.

use std::borrow::Cow;

use ggmill_core::{Part, RawStr};
use ggmill_text::Glob;

/// The name to show for a file: the last part of the path or address of its source.
pub(crate) fn file_name(part: &Part) -> Option<Cow<'_, str>> {
    let separates = |byte: &u8| *byte == b'/' || cfg!(windows) && *byte == b'\\';
    let name = part.name()?.as_bytes();
    Some(RawStr::new(name.rsplit(separates).next().unwrap_or(name)).to_string_lossy())
}

/// Which parts of a model to show.
///
/// ```
/// use ggmill_core::RawStr;
/// use ggmill_inspect::Selection;
/// let tokenizer = Selection::metadata(vec!["tokenizer.*".parse()?]);
/// assert!(tokenizer.has_key(RawStr::from("tokenizer.ggml.model")));
/// assert!(!tokenizer.has_key(RawStr::from("general.name")));
/// # Ok::<(), ggmill_text::GlobError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// The summary. JSON has it always.
    pub summary: bool,
    /// The metadata entries that `keys` admits.
    pub metadata: bool,
    /// The tensors that `names` admits.
    pub tensors: bool,
    /// Keys to show: those that fit any pattern, or all when there is none.
    pub keys: Vec<Glob>,
    /// Tensors to show, in the same way.
    pub names: Vec<Glob>,
}

impl Default for Selection {
    /// Everything.
    fn default() -> Self {
        Self { summary: true, metadata: true, tensors: true, keys: Vec::new(), names: Vec::new() }
    }
}

impl Selection {
    /// The summary only.
    pub fn summary() -> Self {
        Self { metadata: false, tensors: false, ..Self::default() }
    }

    /// The metadata entries only: those whose keys fit any pattern, or all when there is none.
    pub fn metadata(keys: Vec<Glob>) -> Self {
        Self { summary: false, tensors: false, keys, ..Self::default() }
    }

    /// The tensors only: those whose names fit any pattern, or all when there is none.
    pub fn tensors(names: Vec<Glob>) -> Self {
        Self { summary: false, metadata: false, names, ..Self::default() }
    }

    /// Whether the patterns admit this key.
    pub fn has_key(&self, key: RawStr<'_>) -> bool {
        self.keys.is_empty() || self.keys.iter().any(|glob| glob.matches(key))
    }

    /// Whether the patterns admit this tensor name.
    pub fn has_name(&self, name: RawStr<'_>) -> bool {
        self.names.is_empty() || self.names.iter().any(|glob| glob.matches(name))
    }
}
