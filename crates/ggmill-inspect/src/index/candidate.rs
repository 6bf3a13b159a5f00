//! A file to be indexed.

/// A file to be indexed, before it is opened.
///
/// ```
/// use ggmill_inspect::index::Candidate;
/// let file = Candidate::new("models/tiny.gguf").with_state(Some(1024), Some(1_700_000_000_000_000));
/// assert_eq!((&*file.path, file.size), ("models/tiny.gguf", Some(1024)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Its path or address, as the tables have it.
    pub path: String,
    /// Its size in bytes, if it is known without opening it.
    pub size: Option<u64>,
    /// When it was last modified, in microseconds since 1970 (UTC), if that is known without
    /// opening it.
    pub modified: Option<i64>,
}

impl Candidate {
    /// A file of which nothing else is known. It is read in every run.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), size: None, modified: None }
    }

    /// With its size in bytes and the time of its modification in microseconds since 1970 (UTC).
    /// Both have to be known for its rows to be taken from an earlier index.
    #[must_use]
    pub fn with_state(mut self, size: Option<u64>, modified: Option<i64>) -> Self {
        self.size = size;
        self.modified = modified;
        self
    }
}
