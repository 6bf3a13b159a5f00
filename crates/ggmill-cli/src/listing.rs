//! The models of a repository, in a build with servers or without, or of a directory.

/// The models of a repository or a directory.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) models: Vec<ListedModel>,
    /// The number of parameters of one of them, where it is known.
    pub(crate) parameters: Option<u64>,
}

/// A model: a file, or the shards of a set.
#[derive(Debug)]
pub(crate) struct ListedModel {
    /// The path within the repository or directory, of a set that of its first shard.
    pub(crate) name: String,
    /// Shards that exist, and that should exist.
    pub(crate) shards: (u32, u32),
    pub(crate) bytes: u64,
    /// The type: in a repository the one that the name states.
    pub(crate) file_type: Option<&'static str>,
    pub(crate) bits_per_weight: Option<f64>,
}
