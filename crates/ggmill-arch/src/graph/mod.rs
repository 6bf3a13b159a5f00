//! Computation graphs: the computation of one model as a list of operations.
//!
//! A description has a program for all models of its architecture ([`Architecture::graph_text`]);
//! [`Resolved::graph`] evaluates it for one model. `docs/formats/graph.md` in the repository defines
//! every operation.

mod arguments;
mod attention;
mod build;
mod operations;
mod run;
mod sample;
mod sequence;
mod set;
mod shape;
mod stored;
#[cfg(test)]
mod tests;
mod text;
mod weights;

use core::cell::Cell;

use crate::description::architecture::Architecture;
use crate::error::{Error, ErrorKind, Result};
use crate::language::expression::Scope;
use crate::language::program::Program;
use crate::resolve::Resolved;

pub use self::shape::{Dimensions, Extent, dimensions_of};
pub use self::stored::{STEPS_KEY, VERSION_KEY};
pub use crate::language::steps::{Output, StepOutline, StepsOutline};

/// The newest operation set. Operations never change their meaning; a set with new operations has a
/// higher number.
pub const OPERATION_SET: u32 = 6;

/// The computation graph of one model: operations in topological order.
///
/// ```
/// use ggmill_arch::Architecture;
/// use ggmill_core::MetadataBuf;
/// let mut metadata = MetadataBuf::new();
/// for (key, value) in [("block_count", 2u32), ("context_length", 64), ("embedding_length", 32), ("feed_forward_length", 96), ("attention.head_count", 4), ("vocab_size", 100)] {
///     metadata.set(&format!("llama.{key}"), value);
/// }
/// let llama = Architecture::builtin("llama").ok_or("built in")?;
/// let model = llama.resolve_metadata(&metadata)?;
/// let graph = model.graph(&|tensor| model.tensor(tensor).is_some_and(|spec| spec.required))?;
/// assert_eq!(graph.nodes()[graph.output()].extent.length, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
    weights: Vec<Weight>,
    sections: Vec<Section>,
    output: usize,
    kind: Output,
}

/// An operation with its operands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// The operation.
    pub operation: Operation,
    /// The nodes whose results are the operands, by index.
    pub inputs: Vec<usize>,
    /// The size of its result per token.
    pub extent: Extent,
    /// If true, it computes on the tokens of the source, the input of the encoder.
    pub of_source: bool,
}

/// A tensor of the model that a graph uses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Weight {
    /// The name in the file.
    pub name: String,
    /// The dimensions in stored order, without trailing ones.
    pub dimensions: Vec<u64>,
}

/// The nodes of one block of the model, or outside blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// The block number; `None` outside blocks.
    pub block: Option<u64>,
    /// The indices of the nodes.
    pub nodes: core::ops::Range<usize>,
}

/// The row of a table that is looked up for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rows {
    /// The row of its token ID.
    Tokens,
    /// The row of its position.
    Positions,
    /// The row of its position, modulo the number of rows.
    Cyclic,
    /// A fixed row, for all tokens.
    Fixed(u64),
}

/// An operation. Weights are indices in [`Graph::weights`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Looks up a row of a table (embedding).
    Rows {
        /// The table.
        table: usize,
        /// The row that is looked up.
        rows: Rows,
    },
    /// Looks up a row of a table per n-gram hash; each row is a part of the result.
    HashedRows(HashedRows),
    /// Multiplies by a matrix and a scale, and adds a bias.
    Linear {
        /// The matrix.
        matrix: usize,
        /// A single factor.
        scale: Option<usize>,
        /// A number per row of the matrix.
        bias: Option<usize>,
    },
    /// Returns the source vectors, the encoder input of models that take no source tokens.
    SourceVectors,
    /// Computes a convolution over time: multiplies the parts, which are the taps, by a kernel, and
    /// adds a bias.
    TapsLinear {
        /// The kernel: per row, the taps of the first channel, then of the next one.
        kernel: usize,
        /// A number per row.
        bias: Option<usize>,
    },
    /// Like `Linear`, with the matrices of the experts that the second operand selects.
    ExpertLinear {
        /// The matrices of all experts.
        matrix: usize,
        /// A factor per expert.
        scale: Option<usize>,
        /// A number per row of each expert's matrix.
        bias: Option<usize>,
    },
    /// Multiplies each part by its matrix.
    HeadLinear {
        /// The matrices, one per part.
        matrix: usize,
    },
    /// Divides each part by its root mean square, and multiplies by a weight.
    RmsNorm {
        /// The weight, of one part or of all parts.
        weight: Option<usize>,
        /// The constant that is added to the mean square.
        epsilon: f32,
    },
    /// Normalizes each part to mean 0 and variance 1, multiplies by a weight, and adds a bias.
    LayerNorm {
        /// The weight, of one part or of all parts.
        weight: Option<usize>,
        /// The bias, as long as the weight.
        bias: Option<usize>,
        /// The constant that is added to the variance.
        epsilon: f32,
    },
    /// Applies rotary position embeddings.
    Rope(Rope),
    /// Computes attention of queries to keys and values, which may be those of the source.
    Attention(Attention),
    /// Reinterprets the parts of its operand.
    View,
    /// Takes a slice of each part.
    Slice {
        /// The first element of the slice.
        start: u64,
    },
    /// Concatenates the corresponding parts of two operands.
    Concat,
    /// Repeats the parts.
    Repeat {
        /// The number of repetitions.
        count: u64,
        /// If true, each part is followed by its repetitions; otherwise the sequence of parts is
        /// repeated.
        each: bool,
    },
    /// Applies a function to each element.
    Apply(Function),
    /// Clamps each element to `[low, high]`.
    Clamp {
        /// The minimum.
        low: f32,
        /// The maximum.
        high: f32,
    },
    /// Computes the softmax of each part.
    Softmax,
    /// Returns the indices of the greatest elements in descending order; ties prefer the first.
    Top {
        /// The number of indices.
        count: u64,
        /// The groups that indices are restricted to; `None` for no restriction.
        groups: Option<Groups>,
        /// The number of consecutive elements that share an index: indices are divided by it and
        /// rounded down.
        shared: u64,
    },
    /// Returns the same vector for every token.
    Constant(Vec<f32>),
    /// Returns 1 for one token ID, 0 for all others.
    IsToken {
        /// The token ID.
        token: u64,
    },
    /// Selects the tokens that attention is restricted to (sparse attention).
    SelectTokens(TokenSelection),
    /// Gathers the elements at the indices in the second operand.
    Gather,
    /// Divides each part by its sum, which is clamped to at least 2⁻¹⁴.
    Normalize,
    /// Divides each part by its Euclidean norm, which is clamped to at least `epsilon`.
    L2Norm {
        /// The minimum divisor.
        epsilon: f32,
    },
    /// Sums each part.
    Sum,
    /// Applies Sinkhorn normalization: divides alternately by sums over parts and by sums of parts,
    /// which converge to 1.
    Sinkhorn {
        /// The number of divisions by sums over parts.
        count: u64,
        /// The constant that is added to each sum.
        epsilon: f32,
    },
    /// Converts elements to expert indices.
    Choice {
        /// The number of experts.
        range: u64,
    },
    /// Pools runs of tokens: for the first token of each complete run, the sum of the tokens of the
    /// run, weighted per element by the softmax of scores.
    Pool {
        /// The number of tokens per run.
        run: u64,
    },
    /// Multiplies by a factor that grows with the position.
    ByPosition(Growth),
    /// Returns the elements of a neighboring token; 0 without a neighbor.
    Shift {
        /// If true, of the next token; otherwise of the previous one.
        ahead: bool,
    },
    /// Computes a causal depthwise convolution along the text.
    Convolution {
        /// A row of taps per channel, the tap of the current token last.
        kernel: usize,
        /// A number per channel.
        bias: Option<usize>,
        /// The distance between taps in tokens.
        dilation: u64,
    },
    /// Computes a linear recurrence with a state matrix per head.
    Recurrence(Recurrence),
    /// Sums the parts of the first operand, weighted by the elements of the second.
    WeightedSum,
    /// Computes the gated activation of gpt-oss from gate and value.
    SwigluOai,
    /// Combines two operands elementwise. An operand with a single element per part is broadcast.
    Arithmetic(Arithmetic),
    /// Combines the operand with a number.
    WithNumber {
        /// The operator.
        with: Arithmetic,
        /// The number.
        number: f32,
        /// If true, the number is the left operand.
        left: bool,
    },
    /// Combines the operand with a weight, which has a number per element of a part, per element of all
    /// parts, or per part.
    WithWeight {
        /// The operator.
        with: Arithmetic,
        /// The weight.
        weight: usize,
        /// If true, the weight is the left operand.
        left: bool,
    },
}

/// Table lookups by hashes of n-grams: of the last two tokens, of the last three, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashedRows {
    /// The table.
    pub table: usize,
    /// The multipliers of token IDs in hashes, that of the current token first.
    pub multipliers: Vec<u64>,
    /// The number of rows per hash. There are as many hashes of two tokens as of three, and so on.
    pub sizes: Vec<u64>,
    /// The first row of each hash.
    pub offsets: Vec<u64>,
    /// The end-of-text token, which n-grams do not cross.
    pub end: u64,
}

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Function {
    /// `x / (1 + exp(-x))`
    Silu,
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`
    Gelu,
    /// `x/2 · (1 + erf(x/√2))`
    GeluErf,
    /// `max(x, 0)`
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `exp(x)`
    Exp,
    /// `log(1 + exp(x))`, and `x` for `x > 20`.
    Softplus,
    /// The square root.
    Root,
    /// The nearest integer; ties are rounded away from 0.
    Nearest,
}

/// Groups of experts, of which only the best are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Groups {
    /// The number of consecutive groups of equal size.
    pub count: u64,
    /// The number of considered groups: those with the greatest sum of their two greatest elements.
    pub used: u64,
}

/// The factor `1 + factor · log(1 + floor((p + offset) / length))` of the token at position *p*.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Growth {
    /// The number of tokens per step of the logarithm's argument.
    pub length: f32,
    /// The factor of the logarithm.
    pub factor: f32,
    /// The offset of the position.
    pub offset: f32,
}

/// The options of a linear recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recurrence {
    /// Decay rates, per head or per head and key element: the state is multiplied by `exp(decay ·
    /// rate)` instead of the decay.
    pub rates: Option<usize>,
    /// If true, the output for a token is computed before the state is updated with the token.
    pub output_before_update: bool,
    /// If true, two more operands, the vectors `read` and `write`, add `write ⊗ (stateᵀ · read)` to the
    /// state (the delta rule).
    pub delta_rule: bool,
}

/// An operator between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is its name")]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// The pairs of elements that are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RopeStyle {
    /// Adjacent elements: 0 and 1, 2 and 3.
    Pairs,
    /// An element of the first half and its counterpart in the second (NeoX).
    Halves,
}

/// Rotary position embeddings.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rope {
    /// The pairing of elements.
    pub style: RopeStyle,
    /// The number of rotated elements of each part, from the first.
    pub length: u64,
    /// The base of the frequencies.
    pub base: f32,
    /// A divisor per pair.
    pub factors: Option<usize>,
    /// The factor of angles.
    pub scale: f32,
    /// The factor of sines and cosines.
    pub magnitude: f32,
    /// The YaRN interpolation, if it is used.
    pub yarn: Option<Yarn>,
    /// If true, rotates in the opposite direction, which undoes the rotation.
    pub back: bool,
}

/// YaRN: the interpolation between scaled and unscaled angles.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Yarn {
    /// The original context length, in tokens.
    pub context: f32,
    /// The number of rotations within the context above which an angle is unscaled (`beta_fast`).
    pub fast: f32,
    /// The number of rotations within the context below which an angle is scaled (`beta_slow`).
    pub slow: f32,
    /// The maximum share of the unscaled angle (`ext_factor`).
    pub share: f32,
}

/// The options of attention.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attention {
    /// The factor of scores.
    pub scale: f32,
    /// If true, a token attends only to itself and earlier tokens.
    pub causal: bool,
    /// The number of tokens that a token attends to, including itself; 0 for all.
    pub window: u64,
    /// Softcap *c*: scores become `c tanh(s/c)`; 0 for none.
    pub softcap: f32,
    /// The maximum bias of ALiBi; 0 for none.
    pub alibi: f32,
    /// Attention sinks: a score per head that belongs to no token.
    pub sinks: Option<usize>,
    /// The number of later tokens that a token attends to if attention is not causal; `None` for all.
    pub ahead: Option<u64>,
    /// The chunk length: tokens attend only within their chunk; 0 for no chunks.
    pub chunk: u64,
    /// Relative position biases by bucket.
    pub buckets: Option<Buckets>,
    /// If true, a fourth operand has the tokens that attention is restricted to, or the runs if there
    /// are some.
    pub picks: bool,
    /// The number of tokens per run, if the last two operands have a pooled key and value per run; 0
    /// without runs.
    pub run: u64,
}

/// The options of selecting the tokens with the greatest scores, which attention is restricted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenSelection {
    /// The number of selected runs of tokens.
    pub count: u64,
    /// The number of tokens per run; 1 to select single tokens.
    pub block: u64,
    /// The number of most recent runs that are always selected.
    pub local: u64,
    /// If true, scores are summed over heads with weights; otherwise each head selects separately.
    pub weighted: bool,
    /// If true, only complete runs have keys and are scored, and the incomplete run is selected in
    /// addition.
    pub whole: bool,
}

/// Relative position biases (T5): a number per head is added to a score, by the bucket of the distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buckets {
    /// The tensor: a row per bucket, in it a number per head.
    pub weight: usize,
    /// The number of buckets.
    pub count: u64,
    /// The distance from which on all tokens are in the last bucket.
    pub distance: u64,
}

impl Attention {
    /// Returns `true` if scores do not depend on positions, as required for attention to the source.
    pub(crate) fn is_of_pairs(&self) -> bool {
        let has_run = self.causal || self.window > 0 || self.chunk > 0 || self.ahead.is_some();
        !has_run && !self.is_by_distance()
    }

    /// Returns `true` if scores depend on the distance between tokens.
    pub(crate) fn is_by_distance(&self) -> bool {
        self.alibi > 0.0 || self.buckets.is_some()
    }
}

impl Buckets {
    /// The default distance of the last bucket, as in T5.
    pub(crate) const DISTANCE: u64 = 128;
}

impl Graph {
    /// Returns the operations in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the distinct tensors that the graph uses.
    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// Returns the sections in order, which together contain all nodes.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the index of the output node.
    pub fn output(&self) -> usize {
        self.output
    }

    /// Returns `true` if the model has an encoder, which takes a source.
    pub fn has_source(&self) -> bool {
        self.nodes.iter().any(|node| node.of_source)
    }

    /// Returns the length of a source vector, if the source is not tokens.
    pub fn source_width(&self) -> Option<u64> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|node| node.operation == Operation::SourceVectors)?;
        Some(found.extent.elements())
    }

    /// Returns the kind of output.
    pub fn output_kind(&self) -> Output {
        self.kind
    }
}

impl Architecture {
    /// Returns `true` if the description has a computation graph.
    pub fn has_graph(&self) -> bool {
        self.graph.is_some()
    }

    /// Returns the source of the computation graph in the description, followed by the functions that
    /// it imports.
    ///
    /// ```
    /// use ggmill_arch::Architecture;
    /// let qwen3 = Architecture::builtin("qwen3").ok_or("built in")?;
    /// let text = qwen3.graph_text().ok_or("has a graph")?;
    /// assert!(text.contains("for i in range(block_count):\n        x = layer(x, i, rope_params)\n"));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn graph_text(&self) -> Option<String> {
        self.graph.as_ref().map(Program::text)
    }

    /// Returns the statements of the computation graph, each with the statements whose values it uses.
    pub fn graph_outline(&self) -> Option<Vec<StepsOutline>> {
        self.graph.as_ref().map(Program::outline)
    }

    /// Checks the computation graph on generated models until both branches of every condition were
    /// taken. Fails for wrong shapes, missing values, and operands that an operation does not accept.
    /// [`parse`](Self::parse) calls it.
    pub fn check_graph(&self) -> Result<()> {
        self.graph_operation_set().map(|_| ())
    }

    /// Returns the lowest operation set that contains all operations of the computation graph, if there
    /// is one. The graph of one model may need only a lower one.
    ///
    /// The operations depend on hyperparameters, so this is as slow as
    /// [`check_graph`](Self::check_graph), and fails like it.
    ///
    /// ```
    /// let llama = ggmill_arch::Architecture::builtin("llama").ok_or("built in")?;
    /// assert_eq!(llama.graph_operation_set()?, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn graph_operation_set(&self) -> Result<Option<u32>> {
        let check = |graph| sample::check(self, graph).map_err(|error| error.within(&self.name));
        self.graph.as_ref().map(check).transpose()
    }
}

impl Resolved<'_> {
    /// Returns the computation graph of a file with these tensors.
    ///
    /// Fails for an architecture without a graph, for a model that the description excludes, and for
    /// contradictory hyperparameters or tensors.
    pub fn graph(&self, present: &dyn Fn(&str) -> bool) -> Result<Graph> {
        let architecture = self.architecture();
        let Some(program) = &architecture.graph else {
            let message = "the description has no computation graph";
            return Err(Error::new(ErrorKind::Unsupported, message).within(architecture.name()));
        };
        run::graph(self, program, present, None, &Cell::new(Scope::FUEL))
            .map_err(|error| error.within(architecture.name()))
    }
}
