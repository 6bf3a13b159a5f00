//! How much one description may say, and how much one model may ask for.
//!
//! Each bound leaves room for many times what real descriptions have; together they keep the time
//! to read one proportional to its length.

/// Parts that a description includes, counting repetitions.
pub(crate) const MAX_INCLUDES: usize = 64;
/// Hyperparameters of a description, those of its parts included.
pub(crate) const MAX_PARAMETERS: usize = 1 << 10;
/// Metadata keys of a description, those of its parts included.
pub(crate) const MAX_KEYS: usize = 1 << 12;
/// Tensors that a description writes, before loops repeat them.
pub(crate) const MAX_TEMPLATES: usize = 1 << 12;
/// Kinds of checkpoints, patterns of ignored tensors, contradictions, refusals and warnings: of
/// each.
pub(crate) const MAX_ENTRIES: usize = 1 << 10;
/// Steps of the graph of a description, those of its parts included, and groups of them: of each.
pub(crate) const MAX_STEPS: usize = 1 << 10;
/// Places where one hyperparameter is looked for, in a configuration and in metadata: in each.
pub(crate) const MAX_PLACES: usize = 32;
/// Alternatives of one tensor, names of one alternative without its loop, operations of one
/// alternative: at most so many each.
pub(crate) const MAX_PIECES: usize = 32;

/// Tensors of one model.
pub(crate) const MAX_TENSORS: u64 = 1 << 16;
/// Bytes of memory, about, that the tensors of one model may take with all the names they may have
/// in a checkpoint.
pub(crate) const MAX_TENSOR_BYTES: u64 = 1 << 26;
/// Nodes of the graph of one model.
pub(crate) const MAX_NODES: usize = 1 << 15;
/// Parts of a result that are added.
pub(crate) const MAX_PARTS: u64 = 1 << 10;
/// Bytes of the steps of a graph in a file, all together.
pub(crate) const MAX_GRAPH_BYTES: usize = 1 << 22;
/// Numbers of all results of a graph in a file together, for each token: more than twice those of
/// the largest model that is published.
pub(crate) const MAX_GRAPH_NUMBERS: u64 = 1 << 27;
/// Numbers that the operations of a graph in a file read together, for each token: about four times
/// those of the largest model that is published.
pub(crate) const MAX_GRAPH_READS: u64 = 1 << 28;
/// Multiplications of attention of a graph in a file for each pair of tokens: four times those of
/// the largest model that is published.
pub(crate) const MAX_GRAPH_PAIRS: u64 = 1 << 24;
/// Multiplications of a graph in a file for each token and each number of its tensors: models that
/// share blocks take a few tens.
pub(crate) const MAX_GRAPH_REUSE: u64 = 64;
