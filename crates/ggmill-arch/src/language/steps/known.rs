//! The operations of graphs.

/// The arguments and options of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub(crate) name: &'static str,
    /// The minimum and maximum number of arguments.
    pub(crate) arguments: (usize, usize),
    pub(crate) options: &'static [&'static str],
}

const fn of(
    name: &'static str,
    least: usize,
    most: usize,
    options: &'static [&'static str],
) -> Signature {
    Signature { name, arguments: (least, most), options }
}

/// All operation sets. An operation never changes its meaning; new operations belong to a set with a
/// higher number (`Operation::set`).
const OPERATIONS: [Signature; 45] = [
    of("rows", 2, 2, &["source", "cyclic"]),
    of("linear", 2, 2, &[]),
    of("linear_of", 3, 3, &[]),
    of("rms_norm", 3, 3, &[]),
    of("layer_norm", 3, 3, &[]),
    of("rope", 4, 4, &["factors", "scale", "magnitude", "yarn", "back"]),
    of(
        "attention",
        4,
        4,
        &[
            "causal",
            "window",
            "softcap",
            "alibi",
            "sinks",
            "ahead",
            "chunk",
            "buckets",
            "distance",
            "picks",
            "run",
            "run_keys",
            "run_values",
        ],
    ),
    of("split", 2, 2, &[]),
    of("merge", 1, 1, &[]),
    of("parts", 2, 9, &[]),
    of("concat", 2, 2, &[]),
    of("silu", 1, 1, &[]),
    of("gelu", 1, 1, &[]),
    of("gelu_erf", 1, 1, &[]),
    of("relu", 1, 1, &[]),
    of("tanh", 1, 1, &[]),
    of("sigmoid", 1, 1, &[]),
    of("swiglu_oai", 2, 2, &[]),
    of("clamp", 3, 3, &[]),
    of("softmax", 1, 1, &[]),
    of("top", 2, 2, &["groups", "used_groups", "shared"]),
    of("take", 2, 2, &[]),
    of("normalize", 1, 1, &[]),
    of("mix", 2, 2, &[]),
    of("linear_heads", 2, 2, &[]),
    of("repeat", 2, 2, &["each"]),
    of("exp", 1, 1, &[]),
    of("softplus", 1, 1, &[]),
    of("l2_norm", 2, 2, &[]),
    of("total", 1, 1, &[]),
    of("by_position", 3, 3, &["offset"]),
    of("shift", 1, 1, &["ahead"]),
    of("conv", 2, 2, &["dilation"]),
    of("constant", 1, 1, &[]),
    of("pick", 4, 4, &["block", "local", "whole"]),
    of("source_vectors", 1, 1, &[]),
    of("linear_taps", 2, 2, &[]),
    of("root", 1, 1, &[]),
    of("sinkhorn", 3, 3, &[]),
    of("choice", 2, 2, &[]),
    of("pool", 3, 3, &[]),
    of("nearest", 1, 1, &[]),
    of("is_token", 1, 1, &[]),
    of("recurrence", 4, 4, &["rates", "before", "from", "to"]),
    of("hashed_rows", 6, 6, &[]),
];

/// The inputs of a graph: token IDs, and positions in the text.
pub(crate) const INPUTS: [&str; 2] = ["tokens", "positions"];
/// The possible outputs of a graph: a logit per token of the vocabulary, or a vector.
pub(crate) const OUTPUTS: [&str; 2] = ["logits", "embedding"];

/// Returns `true` for the name of an operation.
pub(crate) fn is_operation(name: &str) -> bool {
    signature(name).is_some()
}

/// Returns the signature of the operation with this name.
pub(crate) fn signature(name: &str) -> Option<Signature> {
    OPERATIONS.into_iter().find(|operation| operation.name == name)
}
