//! The models of a repository, in a build with servers or without.

/// The models of a repository.
#[derive(Debug)]
#[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "nothing makes one"))]
pub(crate) struct Listing {
    pub(crate) models: Vec<ListedModel>,
    /// The number of parameters of one of them, where it is known.
    pub(crate) parameters: Option<u64>,
}

/// A model: a file, or the shards of a set.
#[derive(Debug)]
#[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "nothing makes one"))]
pub(crate) struct ListedModel {
    /// The path, of a set that of its first shard.
    pub(crate) name: String,
    /// Shards that exist, and that should exist.
    pub(crate) shards: (u32, u32),
    pub(crate) bytes: u64,
    /// The type that the name states.
    pub(crate) file_type: Option<&'static str>,
    pub(crate) bits_per_weight: Option<f64>,
}
