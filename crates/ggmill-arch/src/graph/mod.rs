//! Computation graphs: what a model of an architecture computes, as a list of operations.
//!
//! A description has a program for all models of its architecture ([`Architecture::graph_text`]);
//! [`Resolved::graph`] runs it for one model. `docs/formats/graph.md` in the
//! repository defines every operation.

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
pub use crate::language::steps::{StepOutline, StepsOutline};

/// The number of the operation set that graphs are written in. Operations never change their
/// meaning; a set with more of them has a higher number.
pub const OPERATION_SET: u32 = 6;

/// What one model computes: operations in the order in which they can be carried out.
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

/// One operation with its operands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// What is done.
    pub operation: Operation,
    /// The nodes whose results it takes, by number.
    pub inputs: Vec<usize>,
    /// What its result has for each token.
    pub extent: Extent,
    /// Whether the tokens are those of the source, the second text that some models take.
    pub of_source: bool,
}

/// A tensor of the model that a graph needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Weight {
    /// The name in the file.
    pub name: String,
    /// The dimensions in stored order, without those of 1 at the end.
    pub dimensions: Vec<u64>,
}

/// Nodes that come from one block of the model, or from between blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// The number of the block; `None` outside of loops.
    pub block: Option<u64>,
    /// The numbers of its nodes.
    pub nodes: core::ops::Range<usize>,
}

/// What the last node has for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// A number for each token of the vocabulary: logarithms of probabilities, up to a constant.
    Logits,
    /// A vector.
    Embedding,
}

/// Which row of a table a token has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rows {
    /// That of its number in the vocabulary.
    Tokens,
    /// That of its place in the text.
    Positions,
    /// The same, where after the last row the first one follows again.
    Cyclic,
    /// This one, for all.
    Fixed(u64),
}

/// What a node does. Weights are numbers of [`Graph::weights`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// A row of a table.
    Rows {
        /// The table.
        table: usize,
        /// Which row.
        rows: Rows,
    },
    /// A row of a table for each hash of a few tokens, a part each.
    HashedRows(HashedRows),
    /// The product with a matrix, multiplied by a scale, plus a bias.
    Linear {
        /// The matrix.
        matrix: usize,
        /// A single factor.
        scale: Option<usize>,
        /// A number for each row of the matrix.
        bias: Option<usize>,
    },
    /// The vectors that the source consists of, in place of tokens.
    SourceVectors,
    /// A number for each row of a kernel, each made of all numbers of all parts, plus a bias: a
    /// convolution over the channels of a few places in time, which are the parts.
    TapsLinear {
        /// The kernel: the taps of a channel, channel after channel, for each row.
        kernel: usize,
        /// A number for each row.
        bias: Option<usize>,
    },
    /// The same as `Linear` with the matrix of each expert that the second operand names.
    ExpertLinear {
        /// The matrices of all experts.
        matrix: usize,
        /// A factor for each expert.
        scale: Option<usize>,
        /// A number for each row of each expert's matrix.
        bias: Option<usize>,
    },
    /// The product of each part with a matrix of its own.
    HeadLinear {
        /// The matrices, one for each part.
        matrix: usize,
    },
    /// Division by the root mean square, then the product with a weight.
    RmsNorm {
        /// The weight, of a part or of all.
        weight: Option<usize>,
        /// What is added to the mean square.
        epsilon: f32,
    },
    /// Subtraction of the mean, division by the standard deviation, then the product with a weight,
    /// plus a bias.
    LayerNorm {
        /// The weight, of a part or of all.
        weight: Option<usize>,
        /// The bias, as long as the weight.
        bias: Option<usize>,
        /// What is added to the variance.
        epsilon: f32,
    },
    /// Rotation by angles that grow with the place in the text.
    Rope(Rope),
    /// Attention of queries to keys and values, which may be those of the source.
    Attention(Attention),
    /// The same numbers in other parts.
    View,
    /// A run of each part, or of the whole where there are none.
    Part {
        /// The first number of the run.
        start: u64,
    },
    /// The second operand after the first, part by part.
    Concat,
    /// All parts one after the other, so many times.
    Repeat {
        /// How many times.
        count: u64,
        /// Whether each part is followed by its repetitions, and then by the next part.
        each: bool,
    },
    /// A function of each number.
    Apply(Function),
    /// Each number, at least the first and at most the second.
    Clamp {
        /// The least.
        low: f32,
        /// The greatest.
        high: f32,
    },
    /// `exp(x - m)` divided by its sum, part by part; *m* is the greatest number.
    Softmax,
    /// The places of the greatest numbers, the greatest first, the first of equal ones first.
    Top {
        /// How many.
        count: u64,
        /// Which of them are considered; `None` for all.
        groups: Option<Groups>,
        /// How many neighbours share a place: places are divided by it and rounded down.
        shared: u64,
    },
    /// The same numbers for every token.
    Constant(Vec<f32>),
    /// 1 for one token of the vocabulary, 0 for all others.
    IsToken {
        /// Its number.
        token: u64,
    },
    /// The tokens of the text that attention is restricted to.
    Pick(Pick),
    /// The numbers at the places that the second operand has.
    Take,
    /// Division by the sum, which is at least 2⁻¹⁴.
    Normalize,
    /// Division by the root of the sum of squares, which is at least this.
    L2Norm {
        /// The least divisor.
        epsilon: f32,
    },
    /// The sum of each part.
    Total,
    /// Division by sums over parts, and by the sums of parts, by turns, so that all of them come near
    /// to 1.
    Sinkhorn {
        /// How many times it is divided by the sums over parts.
        count: u64,
        /// What is added to each sum.
        epsilon: f32,
    },
    /// The numbers as places, of which there are so many.
    Choice {
        /// How many there are to choose from.
        range: u64,
    },
    /// For the first token of each run of so many that is whole: the tokens of the run, number by
    /// number, each by its share in a softmax.
    Pool {
        /// The tokens of a run.
        run: u64,
    },
    /// The product with a number that grows with the place in the text.
    ByPosition(Growth),
    /// What a neighboring token has; 0 where there is none.
    Shift {
        /// Whether it is the next token, not the one before.
        ahead: bool,
    },
    /// For each number the sum of its last values in the text, each multiplied by a number of the
    /// kernel.
    Convolution {
        /// A row of taps for each number, that of the token itself last.
        kernel: usize,
        /// What is added.
        bias: Option<usize>,
        /// How many tokens are between one tap and the next: 1 for neighbours.
        dilation: u64,
    },
    /// A matrix for each head, changed with each token of the text.
    Recurrence(Recurrence),
    /// The sum of the parts of the first operand, each multiplied by a number of the second.
    Mix,
    /// The gated unit of gpt-oss, of gate and value.
    SwigluOai,
    /// Two operands, number by number. One with a single number in each part is repeated.
    Arithmetic(Arithmetic),
    /// The operand and a number.
    WithNumber {
        /// What is done.
        with: Arithmetic,
        /// The number.
        number: f32,
        /// Whether the number is on the left.
        left: bool,
    },
    /// The operand and a weight that is as long as a part, as all parts, or of one number for each
    /// part.
    WithWeight {
        /// What is done.
        with: Arithmetic,
        /// The weight.
        weight: usize,
        /// Whether the weight is on the left.
        left: bool,
    },
}

/// Rows of a table by hashes of the last tokens: of two, of three, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashedRows {
    /// The table.
    pub table: usize,
    /// What the numbers of tokens are multiplied by, that of the token itself first.
    pub multipliers: Vec<u64>,
    /// How many rows each hash is for: the same number of hashes of two tokens, of three and so on.
    pub sizes: Vec<u64>,
    /// The first row that each hash is for.
    pub offsets: Vec<u64>,
    /// The token that ends a text: what is before it has no share, nor has it.
    pub end: u64,
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Function {
    /// `x / (1 + exp(-x))`
    Silu,
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`
    Gelu,
    /// `x/2 · (1 + erf(x/√2))`
    GeluErf,
    /// The number, or 0 where it is negative.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `exp(x)`
    Exp,
    /// `log(1 + exp(x))`, and the number itself where it is greater than 20.
    Softplus,
    /// The square root.
    Root,
    /// The nearest integer; of two, the one farther from 0.
    Nearest,
}

/// Groups of which only the best are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Groups {
    /// How many groups of equal size there are, in order.
    pub count: u64,
    /// How many of them are considered: those with the greatest sum of their two greatest numbers.
    pub used: u64,
}

/// The factor `1 + factor · log(1 + floor((p + offset) / length))` of the token at place *p*.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Growth {
    /// After how many tokens it grows.
    pub length: f32,
    /// What the logarithm is multiplied by.
    pub factor: f32,
    /// What is added to the place.
    pub offset: f32,
}

/// How the matrix of a head changes with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recurrence {
    /// For each head a number, or one for each number of a key: the matrix is multiplied by
    /// `exp(decay · rate)`, not by the decay itself.
    pub rates: Option<usize>,
    /// Whether the result is taken before the change.
    pub before: bool,
    /// Whether two more operands say what is read from the matrix, and where it is added.
    pub moves: bool,
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

/// Which numbers of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RopeStyle {
    /// Neighbours: 0 and 1, 2 and 3.
    Pairs,
    /// One of the first half and its counterpart in the second.
    Halves,
}

/// Rotary positions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rope {
    /// Which numbers belong together.
    pub style: RopeStyle,
    /// How many of the numbers of each part are rotated, from the first.
    pub length: u64,
    /// The base of the angles.
    pub base: f32,
    /// A divisor for each angle.
    pub factors: Option<usize>,
    /// What angles are multiplied by.
    pub scale: f32,
    /// What sines and cosines are multiplied by.
    pub magnitude: f32,
    /// The interpolation by YaRN.
    pub yarn: Option<Yarn>,
    /// Whether angles are negative, which undoes the rotation.
    pub back: bool,
}

/// How YaRN chooses between angles that are scaled and those that are not.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Yarn {
    /// The context that the model was trained with first.
    pub context: f32,
    /// Rotations within it above which an angle is not scaled.
    pub fast: f32,
    /// Rotations within it below which it is scaled wholly.
    pub slow: f32,
    /// The share of the angle that is not scaled.
    pub share: f32,
}

/// What attention has beside queries, keys and values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attention {
    /// What scores are multiplied by.
    pub scale: f32,
    /// Whether a token attends only to itself and those before.
    pub causal: bool,
    /// How many tokens before and including itself it attends to; 0 for all.
    pub window: u64,
    /// Scores become `c tanh(s/c)`; 0 for as they are.
    pub softcap: f32,
    /// The greatest bias of ALiBi; 0 for none.
    pub alibi: f32,
    /// A score for each head that belongs to no token.
    pub sinks: Option<usize>,
    /// How many later tokens it attends to where it is not causal; `None` for all.
    pub ahead: Option<u64>,
    /// Texts are divided into runs of so many tokens, and none attends to another run; 0 for not.
    pub chunk: u64,
    /// Numbers that are added to scores, by head and distance.
    pub buckets: Option<Buckets>,
    /// Whether a fourth operand has the tokens that it is restricted to, or the runs where there are
    /// some.
    pub picks: bool,
    /// The tokens of a run, where the last two operands have a key and a value for each; 0 for none.
    pub run: u64,
}

/// How the tokens are picked that attention is restricted to: those with the greatest scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pick {
    /// How many tokens, or runs of tokens.
    pub count: u64,
    /// The tokens of a run, of which all are picked or none; 1 for tokens by themselves.
    pub block: u64,
    /// How many runs up to that of the token are picked before all others.
    pub local: u64,
    /// Whether the scores of all heads are added up, each with a weight. Otherwise each head picks for
    /// itself.
    pub weighted: bool,
    /// Whether a run is whole when it is picked, and has one key. The one that is not whole is picked
    /// besides.
    pub whole: bool,
}

/// Numbers for each head, of which one is added to a score by the distance of the two tokens (T5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buckets {
    /// The tensor: a row for each bucket, in it a number for each head.
    pub weight: usize,
    /// The number of buckets.
    pub count: u64,
    /// The distance from which on all are in the last bucket.
    pub distance: u64,
}

impl Attention {
    /// Whether scores depend on no positions, as of two texts.
    pub(crate) fn is_of_pairs(&self) -> bool {
        let has_run = self.causal || self.window > 0 || self.chunk > 0 || self.ahead.is_some();
        !has_run && !self.is_by_distance()
    }

    /// Whether scores depend on the distance of two tokens.
    pub(crate) fn is_by_distance(&self) -> bool {
        self.alibi > 0.0 || self.buckets.is_some()
    }
}

impl Buckets {
    /// The distance where none is given, as in T5.
    pub(crate) const DISTANCE: u64 = 128;
}

impl Graph {
    /// The operations, in an order in which they can be carried out.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The tensors that it needs, each once.
    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// The blocks of the model, and what is between them, in order. Together they are all nodes.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The number of the node whose result is the output.
    pub fn output(&self) -> usize {
        self.output
    }

    /// Whether a run takes a second text, the source.
    pub fn has_source(&self) -> bool {
        self.nodes.iter().any(|node| node.of_source)
    }

    /// How many numbers each vector of the source has, where the source is not a text of tokens.
    pub fn source_width(&self) -> Option<u64> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|node| node.operation == Operation::SourceVectors)?;
        Some(found.extent.elements())
    }

    /// What the output is.
    pub fn output_kind(&self) -> Output {
        self.kind
    }
}

impl Architecture {
    /// Whether the description has a computation graph.
    pub fn has_graph(&self) -> bool {
        self.graph.is_some()
    }

    /// Returns the source of the computation graph, as the description has it, and after it the
    /// functions that it imports.
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

    /// Returns the statements of the computation graph, and which take the values of which.
    pub fn graph_outline(&self) -> Option<Vec<StepsOutline>> {
        self.graph.as_ref().map(Program::outline)
    }

    /// Checks the computation graph on models with made-up numbers, until each side of every
    /// condition was taken: shapes, values that are missing, operands that an operation does not
    /// take. [`parse`](Self::parse) does it.
    pub fn check_graph(&self) -> Result<()> {
        self.graph_operation_set().map(|_| ())
    }

    /// The number of the least operation set that has all operations of the computation graph, where
    /// there is one; the graph of a model may do with a lower one.
    ///
    /// Which operations there are depends on the hyperparameters, so this takes as long as
    /// [`check_graph`](Self::check_graph), on whose models it is found, and fails as that does.
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
    /// The computation graph of a finished file with these tensors.
    ///
    /// Fails for an architecture without a graph, for a model that the description excludes from
    /// having one, and for numbers or tensors that contradict each other.
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
