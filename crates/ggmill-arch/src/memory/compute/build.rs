//! The facts of llama.cpp that decide how a graph is lowered, from `[memory.build]` of a description.

/// Decisions of llama.cpp that the computation graph does not determine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of llama.cpp")]
pub(crate) struct Build {
    /// Where the tokens that give scores are chosen.
    pub(crate) late: Late,
    /// If true, only these are given out.
    pub(crate) gives_rows: bool,
    /// The numbers of a position; 0 for one.
    pub(crate) position_parts: u64,
    /// Further embeddings of each image token.
    pub(crate) deepstack: u64,
    /// Behind which blocks one of them is added.
    pub(crate) deepstack_behind: Vec<u64>,
    /// If true, nothing is read from a cache, although the model has one.
    pub(crate) uncached: bool,
    /// If true, the sum with the result of attention is added to the input, not the other way round.
    pub(crate) onto_input: bool,
    /// If true, what a layer gives is added to its input, not the other way round.
    pub(crate) onto_sum: bool,
    /// How a block adds what attention and a layer beside it give to its input.
    pub(crate) sums: Sums,
    /// The tokens of a source that an encoder has read.
    pub(crate) source_tokens: u64,
}

/// How a block adds the input, what attention gives, and what a layer beside it gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sums {
    /// The layer, the input, attention.
    #[default]
    InputSecond,
    /// The layer, attention, the input. The norm of the layer is of all tokens.
    LayerFirst,
    /// Attention, the layer, the input.
    AttentionFirst,
    /// The layer, and the sum of attention and the input.
    InputWithFirst,
}

/// Where the tokens that give scores are chosen, of all that are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Late {
    /// Behind the last operation on several tokens.
    #[default]
    Block,
    /// Behind the last block.
    Blocks,
    /// Behind the norm of the output.
    Norm,
}
