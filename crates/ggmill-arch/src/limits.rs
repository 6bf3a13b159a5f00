//! Limits on the size of descriptions and models.
//!
//! Each limit is many times what real descriptions need. Together they keep the time to read a
//! description proportional to its length.

/// The maximum number of included parts, counting repetitions.
pub(crate) const MAX_INCLUDES: usize = 64;
/// The maximum number of hyperparameters of a description, including its parts.
pub(crate) const MAX_PARAMETERS: usize = 1 << 10;
/// The maximum number of metadata keys of a description, including its parts.
pub(crate) const MAX_KEYS: usize = 1 << 12;
/// The maximum number of tensor definitions, before loops repeat them.
pub(crate) const MAX_TEMPLATES: usize = 1 << 12;
/// The maximum length of other lists of a description: checkpoint kinds, ignored tensors,
/// contradictions, refusals, warnings.
pub(crate) const MAX_ENTRIES: usize = 1 << 10;
/// The maximum number of compute steps of a description, and of groups of them.
pub(crate) const MAX_STEPS: usize = 1 << 10;
/// The maximum number of paths in a configuration, and of metadata keys, of one hyperparameter.
pub(crate) const MAX_PLACES: usize = 32;
/// The maximum number of alternatives of a tensor, of names of an alternative before loops, and of
/// operations of an alternative.
pub(crate) const MAX_PIECES: usize = 32;

/// The maximum number of tensors of a model.
pub(crate) const MAX_TENSORS: u64 = 1 << 16;
/// The approximate maximum memory for the tensors of a model with all their checkpoint names, in bytes.
pub(crate) const MAX_TENSOR_BYTES: u64 = 1 << 26;
/// The maximum number of nodes of a graph.
pub(crate) const MAX_NODES: usize = 1 << 15;
/// The maximum number of parts of a result in a compute buffer.
pub(crate) const MAX_PARTS: u64 = 1 << 10;
/// The maximum total length of the steps of a stored graph, in bytes.
pub(crate) const MAX_GRAPH_BYTES: usize = 1 << 22;
/// The maximum number of elements of all results of a stored graph, per token: twice that of the
/// largest published model.
pub(crate) const MAX_GRAPH_NUMBERS: u64 = 1 << 27;
/// The maximum number of elements that the operations of a stored graph read, per token: about four
/// times that of the largest published model.
pub(crate) const MAX_GRAPH_READS: u64 = 1 << 28;
/// The maximum number of attention multiplications of a stored graph, per pair of tokens: four times
/// that of the largest published model.
pub(crate) const MAX_GRAPH_PAIRS: u64 = 1 << 24;
/// The maximum number of multiplications of a stored graph per token and weight element: models that
/// share blocks need a few tens.
pub(crate) const MAX_GRAPH_REUSE: u64 = 64;
