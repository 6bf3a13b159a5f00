#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod architectures;
pub mod diff;
pub mod explain;
mod human;
pub mod index;
pub mod json;
pub mod loss;
pub mod markdown;
mod notice;
mod sniff;
mod summary;
pub mod text;
mod values;

use std::borrow::Cow;

use ggmill_core::{Header, RawStr};
use ggmill_text::Glob;

pub use notice::{Notice, notices};
pub use sniff::{FileKind, SNIFFED, sniff};
pub use summary::{AdapterSummary, PerBlock, Summary, TypeUse};
pub use values::{RawValueError, raw_value};

/// Returns the name to show for a file: the last component of the path or address of its source.
pub(crate) fn file_name<'a>(part: &'a Header<'_>) -> Option<Cow<'a, str>> {
    let separates = |byte: &u8| *byte == b'/' || cfg!(windows) && *byte == b'\\';
    let name = part.name()?.as_bytes();
    Some(RawStr::new(name.rsplit(separates).next().unwrap_or(name)).to_string_lossy())
}

/// The parts of a model to show.
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
    /// If true, shows the summary. JSON always has it.
    pub summary: bool,
    /// If true, shows the metadata entries that match `keys`.
    pub metadata: bool,
    /// If true, shows the tensors that match `names`.
    pub tensors: bool,
    /// Patterns of keys; without any, all match.
    pub keys: Vec<Glob>,
    /// Patterns of tensor names; without any, all match.
    pub names: Vec<Glob>,
}

impl Default for Selection {
    /// Selects everything.
    fn default() -> Self {
        Self { summary: true, metadata: true, tensors: true, keys: Vec::new(), names: Vec::new() }
    }
}

impl Selection {
    /// Selects only the summary.
    pub fn summary() -> Self {
        Self { metadata: false, tensors: false, ..Self::default() }
    }

    /// Selects only metadata entries: those whose key matches any pattern, or all without patterns.
    pub fn metadata(keys: Vec<Glob>) -> Self {
        Self { summary: false, tensors: false, keys, ..Self::default() }
    }

    /// Selects only tensors: those whose name matches any pattern, or all without patterns.
    pub fn tensors(names: Vec<Glob>) -> Self {
        Self { summary: false, metadata: false, names, ..Self::default() }
    }

    /// Returns `true` if the patterns match this key.
    pub fn has_key(&self, key: RawStr<'_>) -> bool {
        self.keys.is_empty() || self.keys.iter().any(|glob| glob.matches(key))
    }

    /// Returns `true` if the patterns match this tensor name.
    pub fn has_name(&self, name: RawStr<'_>) -> bool {
        self.names.is_empty() || self.names.iter().any(|glob| glob.matches(name))
    }
}
