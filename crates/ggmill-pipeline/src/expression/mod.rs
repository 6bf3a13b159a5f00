//! Expressions, which define tensors over the tensors of a source.
//!
//! An [`Expression`] is a tree of source tensors, values, views, arithmetic, decoders and
//! encodings. Shape and type are computed and checked when it is built. It is evaluated for a range
//! of elements at a time, in bounded memory: a view only changes which elements of its child are
//! requested ([`region`]), and a source tensor is read in few pieces ([`evaluate`]).

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ggmill_core::{GgmlType, RawStr, Shape};

use crate::error::{Error, ErrorKind, Result};
use crate::expression::arithmetic::{Map, Pair, Reduction};
use crate::expression::region::RANK;
use crate::source::{Checkpoint, SourceTensor};

pub use crate::expression::decode::{AddPlaces, Bilinear, Decode, Inputs, Narrow};
pub use crate::expression::encode::{Encoding, matrices};
pub use crate::expression::fidelity::error_bound;
pub use crate::expression::packed_floats::{Fp8, Fp8Blocks, Mxfp4, Nvfp4};
pub use crate::expression::packed_integers::{CodedBlocks, PackedIntegers, TernaryRows};

pub(crate) use crate::expression::evaluate::Evaluator;
use crate::expression::fidelity::Fidelity;
pub(crate) use crate::expression::fidelity::{Loss, all_zeros};

mod arithmetic;
mod decode;
mod encode;
mod evaluate;
mod fidelity;
mod packed_floats;
mod packed_integers;
mod region;
mod views;

/// Elements of a chunk, unless a single row is longer: 4 MiB as `f32`.
pub(crate) const CHUNK: u64 = 1 << 20;

/// An array computed from the tensors of a source by views, arithmetic, decoders and encodings.
///
/// Dimensions are in stored order everywhere: dimension 0 is contiguous, the last that PyTorch
/// lists. Every step is checked when it is built; an invalid one is an [`Error`] of kind
/// [`ErrorKind::Misuse`] that names the step and its operand. Cloning copies a pointer.
///
/// Arithmetic equals that of the reference converter: F16 stays F16, with each result rounded;
/// elements of every other type become `f32` first. An `f64` argument is rounded to `f32` once.
///
/// ```
/// use ggmill_core::Shape;
/// use ggmill_pipeline::{Expression, MemorySource};
/// // A matrix of two rows of four, transposed.
/// let numbers = Expression::floats(Shape::new(&[8])?, (0u8..8).map(f32::from).collect())?;
/// let turned = numbers.reshape(Shape::new(&[4, 2])?)?.transpose()?;
/// let bytes = turned.evaluate(&MemorySource::new(), 0..4)?;
/// let found: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
/// assert_eq!(found, [0.0, 4.0, 1.0, 5.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Expression(Arc<Node>);

/// A step of an expression with what comes out of it.
struct Node {
    shape: Shape,
    ggml_type: GgmlType,
    /// Elements and bytes of a block.
    block: (u64, usize),
    /// The dimensions, the first in blocks; never empty.
    extents: Box<[u64]>,
    /// The height of the tree.
    depth: u16,
    /// The number of nodes that a walk visits; shared ones count each time.
    nodes: u32,
    kind: Kind,
}

enum Kind {
    /// A tensor of the source, by number.
    Tensor {
        number: usize,
        name: Vec<u8>,
    },
    /// Constant or computed numbers.
    Values(Values),
    Zeros,
    /// Dimension `i` is dimension `order[i]` of the child.
    Axes {
        child: Expression,
        order: Vec<usize>,
    },
    /// The elements of the child, in the same order.
    Reshape {
        child: Expression,
    },
    /// Index `i` is index `start + i·step` of the child.
    Slice {
        child: Expression,
        dimension: usize,
        start: u64,
        step: u64,
    },
    /// Concatenates along a dimension; `ends` are the cumulative extents of the parts.
    Join {
        parts: Vec<Expression>,
        dimension: usize,
        ends: Vec<u64>,
    },
    /// Repeats the child along a dimension, whose extent in the child is 1.
    Broadcast {
        child: Expression,
        dimension: usize,
    },
    /// Converts the elements to `f32`.
    Float {
        child: Expression,
    },
    Map {
        child: Expression,
        map: Map,
    },
    Pair {
        operands: [Expression; 2],
        pair: Pair,
    },
    /// A reduction, which takes a pass over the whole child.
    Reduce {
        child: Expression,
        reduction: Reduction,
    },
    /// Element `(i, j)` is the sum over `k` of element `(i, k)` of the first times element `(k, j)`
    /// of the second.
    MatrixProduct {
        factors: [Expression; 2],
    },
    /// Whole rows from a decoder.
    Decoded {
        inputs: Vec<Expression>,
        decoder: Arc<dyn Decode>,
    },
    /// Converts to the type of the node; only checks the values if the child already has it.
    Encoded {
        child: Expression,
        encoding: Encoding,
        /// Its measured errors, which runs add.
        fidelity: Arc<Fidelity>,
    },
}

/// The maximum height, because evaluation is recursive.
const MAX_DEPTH: u16 = 128;

/// The maximum number of nodes that a walk visits. Shared nodes are visited once per use, so a
/// small graph could take exponential time. A stack of a thousand experts needs a few thousand.
const MAX_NODES: u32 = 1 << 16;

impl Expression {
    /// Returns tensor `number` of a source. Fails if the source has no such tensor, if the size of
    /// its type is unknown, and for a type that GGML does not have ([`SourceTensor::stored_type`]).
    pub fn tensor(source: &(impl Checkpoint + ?Sized), number: usize) -> Result<Self> {
        Self::of_tensor(number, numbered(source, number)?)?.under_stored_name(source)
    }

    /// Returns the stored bytes of tensor `number`, as integers of [`SourceTensor::ggml_type`] if
    /// GGML does not have its type. For decoders.
    pub fn stored(source: &(impl Checkpoint + ?Sized), number: usize) -> Result<Self> {
        Self::bytes_of_tensor(number, numbered(source, number)?)?.under_stored_name(source)
    }

    /// Returns the first tensor of this name. Fails if the source has none.
    pub fn named(source: &(impl Checkpoint + ?Sized), name: impl AsRef<[u8]>) -> Result<Self> {
        let name = name.as_ref();
        let number = source.tensors().iter().position(|tensor| tensor.name == name);
        let number = number.ok_or_else(|| {
            Error::new(ErrorKind::Checkpoint, "is not in the source").tensor(name)
        })?;
        Self::tensor(source, number)
    }

    /// Returns tensor `number` of the source that the expression will be evaluated with.
    pub(crate) fn of_tensor(number: usize, tensor: &SourceTensor) -> Result<Self> {
        if let Some(stored_type) = tensor.stored_type {
            let message = format!("elements of type {stored_type} are not supported");
            return Err(Error::new(ErrorKind::Unsupported, message).tensor(&tensor.name));
        }
        Self::bytes_of_tensor(number, tensor)
    }

    /// Replaces the name of a tensor by the one it has where the recipe is run.
    fn under_stored_name(self, source: &(impl Checkpoint + ?Sized)) -> Result<Self> {
        let Kind::Tensor { number, name } = &self.0.kind else { return Ok(self) };
        match source.stored_name(*number) {
            Some(stored) if stored != name => {
                let kind = Kind::Tensor { number: *number, name: stored.to_vec() };
                Self::new(*self.shape(), self.ggml_type(), kind)
            }
            _ => Ok(self),
        }
    }

    fn bytes_of_tensor(number: usize, tensor: &SourceTensor) -> Result<Self> {
        let kind = Kind::Tensor { number, name: tensor.name.clone() };
        Self::new(tensor.shape, tensor.ggml_type, kind).map_err(|error| error.tensor(&tensor.name))
    }

    /// Returns the dimensions in stored order.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// Returns the type of the elements.
    pub fn ggml_type(&self) -> GgmlType {
        self.0.ggml_type
    }

    /// Returns the elements and bytes of a block.
    pub(crate) fn block(&self) -> (u64, usize) {
        self.0.block
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        // `new` has checked for overflow.
        self.0.shape.elements() / self.0.block.0 * self.0.block.1 as u64
    }

    /// Computes a range of elements over `source`: bytes in stored order, little-endian. Fails if
    /// the range is out of bounds or cuts a block, if the source cannot be read, and for values
    /// that an encoding cannot represent.
    ///
    /// A reduction ([`center`](Self::center) and others) takes a pass over its tensor in every
    /// call; [`run`](crate::run) caches it.
    pub fn evaluate(&self, source: &dyn Checkpoint, elements: Range<u64>) -> Result<Vec<u8>> {
        Evaluator::new(source, 0).bytes(self, elements.start, elements.end)
    }

    /// Returns the number of the source tensor, if this is that whole tensor in order, in any shape
    /// and type.
    pub fn origin(&self) -> Option<usize> {
        match &self.0.kind {
            Kind::Tensor { number, .. } => Some(*number),
            Kind::Reshape { child } | Kind::Float { child } | Kind::Encoded { child, .. } => {
                child.origin()
            }
            _ => None,
        }
    }

    /// Returns `true` if the expression contains arithmetic, which can produce values that the
    /// source does not have, such as infinities.
    pub fn computes(&self) -> bool {
        match &self.0.kind {
            Kind::Map { .. }
            | Kind::Pair { .. }
            | Kind::Reduce { .. }
            | Kind::MatrixProduct { .. }
            | Kind::Decoded { .. } => true,
            kind => kind.children().iter().any(Self::computes),
        }
    }

    /// Calls `visit` with the number of every source tensor that is read, possibly more than once.
    pub fn tensors(&self, visit: &mut dyn FnMut(usize)) {
        match &self.0.kind {
            Kind::Tensor { number, .. } => visit(*number),
            kind => kind.children().iter().for_each(|child| child.tensors(visit)),
        }
    }

    /// Returns the parameters of the encoding, if that is the last step.
    pub fn encoding(&self) -> Option<&Encoding> {
        match &self.0.kind {
            Kind::Encoded { encoding, .. } => Some(encoding),
            _ => None,
        }
    }

    /// Returns the expression before its encoding, if that is the last step.
    pub(crate) fn unencoded(&self) -> &Self {
        match &self.0.kind {
            Kind::Encoded { child, .. } => child,
            _ => self,
        }
    }

    /// Returns the values that are encoded, and the parameters, if an encoding to another type is the last
    /// step.
    pub fn encoded(&self) -> Option<(&Self, &Encoding)> {
        match &self.0.kind {
            Kind::Encoded { child, encoding, .. } if child.ggml_type() != self.ggml_type() => {
                Some((child, encoding))
            }
            _ => None,
        }
    }

    /// Discards the measured errors of an earlier run.
    pub(crate) fn forget_errors(&self) {
        if let Kind::Encoded { fidelity, .. } = &self.0.kind {
            fidelity.reset();
        }
        self.0.kind.children().iter().for_each(Self::forget_errors);
    }

    /// Returns what the last run lost by an encoding, if that is more than the type usually loses, and the
    /// type: the greatest loss of all steps.
    pub(crate) fn loss(&self) -> Option<(Loss, GgmlType)> {
        let own = match &self.0.kind {
            Kind::Encoded { fidelity, .. } => fidelity.loss(self.ggml_type()),
            _ => None,
        };
        let own = own.map(|loss| (loss, self.ggml_type()));
        let of_children = self.0.kind.children().iter().filter_map(Self::loss);
        own.into_iter()
            .chain(of_children)
            .max_by(|(a, _), (b, _)| a.energy().total_cmp(&b.energy()))
    }

    /// Returns `true` if the computed values all became zero, and not all were.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.loss(), Some((Loss::Everything, _)))
    }

    /// Fails if the computed values all became zero, and not all were.
    pub(crate) fn refuse_zeros(&self) -> Result<()> {
        match self.loss() {
            Some((Loss::Everything, ggml_type)) => {
                Err(Error::new(ErrorKind::Zeros, all_zeros(ggml_type)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of values that were not finite in the last run, and the index of the first, if
    /// an encoding counts them.
    pub(crate) fn non_finite(&self) -> Option<(u64, u64)> {
        match &self.0.kind {
            Kind::Encoded { fidelity, child, .. } => {
                fidelity.non_finite().or_else(|| child.non_finite())
            }
            Kind::Reshape { child } => child.non_finite(),
            _ => None,
        }
    }

    /// Fails if a tensor that is read has another name, type or shape than when the expression was
    /// built.
    pub(crate) fn check(&self, tensors: &[SourceTensor]) -> Result<()> {
        let Kind::Tensor { number, name } = &self.0.kind else {
            return self.0.kind.children().iter().try_for_each(|child| child.check(tensors));
        };
        match tensors.get(*number) {
            Some(tensor)
                if (&tensor.name, tensor.ggml_type, tensor.shape)
                    == (name, self.ggml_type(), *self.shape()) =>
            {
                Ok(())
            }
            _ => Err(Error::new(
                ErrorKind::Misuse,
                format!(
                    "tensor {number} of the source is not {:?}",
                    ggmill_core::RawStr::new(name)
                ),
            )),
        }
    }

    fn new(shape: Shape, ggml_type: GgmlType, kind: Kind) -> Result<Self> {
        let layout = ggml_type.layout();
        let size = layout.and_then(|layout| layout.bytes_for(shape.elements()));
        let (Some(layout), Some(_)) = (layout, size) else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("shape {shape} of type {ggml_type} has no known size"),
            ));
        };
        let depth =
            kind.children().iter().map(|child| child.0.depth).max().map_or(0, |depth| depth + 1);
        if depth > MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("an expression of more than {MAX_DEPTH} steps"),
            ));
        }
        let nodes =
            kind.children().iter().fold(1u32, |sum, child| sum.saturating_add(child.0.nodes));
        if nodes > MAX_NODES {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("an expression of {nodes} nodes, expected at most {MAX_NODES}"),
            ));
        }
        let block = (u64::from(layout.elements), layout.bytes as usize);
        let mut extents: Box<[u64]> =
            if shape.dimensions().is_empty() { Box::new([1]) } else { shape.dimensions().into() };
        if !extents[0].is_multiple_of(block.0) {
            let message = format!(
                "the row length {} is not a multiple of the block size of {ggml_type}, {}",
                extents[0], block.0
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        extents[0] /= block.0;
        Ok(Self(Arc::new(Node { shape, ggml_type, block, extents, depth, nodes, kind })))
    }

    /// Creates an error for a step applied to this expression.
    fn fault(&self, step: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Misuse, format!("{step} of {self}: {message}"))
    }

    /// Returns the extent of a dimension; 1 beyond the rank.
    fn extent(&self, dimension: usize) -> u64 {
        self.shape().dimensions().get(dimension).copied().unwrap_or(1)
    }

    /// Returns the dimensions, padded with 1 to at least `min_rank`.
    fn dimensions(&self, min_rank: usize) -> Vec<u64> {
        let mut dimensions = self.shape().dimensions().to_vec();
        dimensions.resize(dimensions.len().max(min_rank), 1);
        dimensions
    }

    fn is_quantized(&self) -> bool {
        self.0.block.0 > 1
    }
}

impl Kind {
    fn children(&self) -> &[Expression] {
        match self {
            Self::Tensor { .. } | Self::Values(_) | Self::Zeros => &[],
            Self::Axes { child, .. }
            | Self::Reshape { child }
            | Self::Slice { child, .. }
            | Self::Broadcast { child, .. }
            | Self::Float { child }
            | Self::Map { child, .. }
            | Self::Reduce { child, .. }
            | Self::Encoded { child, .. } => std::slice::from_ref(child),
            Self::Join { parts, .. } => parts,
            Self::Pair { operands, .. } => operands,
            Self::MatrixProduct { factors } => factors,
            Self::Decoded { inputs, .. } => inputs,
        }
    }
}

/// Returns the numbers of the tensors that these expressions read, sorted, without duplicates.
pub(crate) fn read_by<'a>(expressions: impl IntoIterator<Item = &'a Expression>) -> Vec<usize> {
    let mut numbers = BTreeSet::new();
    for expression in expressions {
        expression.tensors(&mut |number| {
            numbers.insert(number);
        });
    }
    numbers.into_iter().collect()
}

fn numbered(source: &(impl Checkpoint + ?Sized), number: usize) -> Result<&SourceTensor> {
    source.tensors().get(number).ok_or_else(|| {
        Error::new(ErrorKind::Misuse, format!("the source has no tensor number {number}"))
    })
}

/// Creates a shape; fails with [`ErrorKind::Misuse`] if it is invalid.
fn shape_of(dimensions: &[u64]) -> Result<Shape> {
    if dimensions.len() > RANK {
        return Err(Error::new(
            ErrorKind::Misuse,
            format!("{} dimensions, expected at most {RANK}", dimensions.len()),
        ));
    }
    Shape::new(dimensions).map_err(|error| Error::caused(ErrorKind::Misuse, error))
}

/// Constants, or functions of the index in stored order.
#[derive(Clone)]
enum Values {
    Floats(Arc<[f32]>),
    Integers(Arc<[i32]>),
    ComputedFloats(Arc<dyn Fn(u64) -> f32 + Send + Sync>),
    ComputedIntegers(Arc<dyn Fn(u64) -> i32 + Send + Sync>),
}

impl Expression {
    /// Creates an F32 array of constants. Fails if `values` does not match the shape.
    pub fn floats(shape: Shape, values: Vec<f32>) -> Result<Self> {
        check_count(values.len(), &shape)?;
        Self::new(shape, GgmlType::F32, Kind::Values(Values::Floats(values.into())))
    }

    /// Creates an I32 array of constants. Fails if `values` does not match the shape.
    pub fn integers(shape: Shape, values: Vec<i32>) -> Result<Self> {
        check_count(values.len(), &shape)?;
        Self::new(shape, GgmlType::I32, Kind::Values(Values::Integers(values.into())))
    }

    /// Creates an F32 array whose elements are computed on demand from their index in stored order.
    /// `value` must be deterministic.
    pub fn computed(
        shape: Shape,
        value: impl Fn(u64) -> f32 + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::new(shape, GgmlType::F32, Kind::Values(Values::ComputedFloats(Arc::new(value))))
    }

    /// Creates an I32 array whose elements are computed on demand, like
    /// [`computed`](Self::computed).
    pub fn computed_integers(
        shape: Shape,
        value: impl Fn(u64) -> i32 + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::new(shape, GgmlType::I32, Kind::Values(Values::ComputedIntegers(Arc::new(value))))
    }

    /// Creates an array of zeros. Fails for a quantized type.
    pub fn zeros(ggml_type: GgmlType, shape: Shape) -> Result<Self> {
        if ggml_type.is_quantized() {
            return Err(Error::new(
                ErrorKind::Misuse,
                format!("zeros of {ggml_type}, expected a type without blocks"),
            ));
        }
        Self::new(shape, ggml_type, Kind::Zeros)
    }
}

fn check_count(values: usize, shape: &Shape) -> Result<()> {
    if values as u64 == shape.elements() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Misuse, format!("{values} values, expected {}", shape.elements())))
}

/// Above this number of source ranges, copying them one by one is not faster than evaluation.
const MAX_SOURCE_RANGES: usize = 4096;

/// A range of bytes of a source tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceRange {
    pub(crate) tensor: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Expression {
    /// Returns the source ranges that, concatenated, are the bytes of the expression; `None` if it
    /// computes, reorders or consists of too many ranges.
    pub(crate) fn source_ranges(&self) -> Option<Vec<SourceRange>> {
        let mut ranges = Vec::new();
        let atoms = self.0.shape.elements() / self.0.block.0;
        (atoms == 0 || self.add_source_ranges(0, atoms, &mut ranges)).then_some(ranges)
    }

    /// Appends the source ranges of `len` atoms from `start` on; `false` if there are none.
    fn add_source_ranges(&self, start: u64, len: u64, ranges: &mut Vec<SourceRange>) -> bool {
        // All later dimensions have the extent 1.
        let is_slowest = |this: &Self, dimension: usize| {
            this.0.extents.iter().skip(dimension + 1).all(|&extent| extent == 1)
        };
        let inner =
            |this: &Self, dimension: usize| this.0.extents.iter().take(dimension).product::<u64>();
        match &self.0.kind {
            Kind::Tensor { number, .. } => {
                let atom = self.0.block.1 as u64;
                let new = SourceRange { tensor: *number, offset: start * atom, len: len * atom };
                match ranges.last_mut() {
                    Some(last)
                        if last.tensor == new.tensor && last.offset + last.len == new.offset =>
                    {
                        last.len += new.len;
                    }
                    _ => ranges.push(new),
                }
                ranges.len() <= MAX_SOURCE_RANGES
            }
            Kind::Reshape { child } => child.add_source_ranges(start, len, ranges),
            Kind::Slice { child, dimension, start: first, step }
                if (*step == 1 || self.0.extents[*dimension] == 1)
                    && is_slowest(child, *dimension) =>
            {
                child.add_source_ranges(start + first * inner(child, *dimension), len, ranges)
            }
            Kind::Join { parts, dimension, ends } if is_slowest(self, *dimension) => {
                let inner = inner(self, *dimension);
                let (mut start, end) = (start, start + len);
                while start < end {
                    let part = ends.partition_point(|&part_end| part_end * inner <= start);
                    let first = part.checked_sub(1).map_or(0, |before| ends[before]) * inner;
                    let until = end.min(ends[part] * inner);
                    if !parts[part].add_source_ranges(start - first, until - start, ranges) {
                        return false;
                    }
                    start = until;
                }
                true
            }
            _ => false,
        }
    }
}

/// Steps that an error message shows.
const SHOWN_STEPS: usize = 4;

/// Displays the last steps, as error messages name them: the last first, then its operand.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = self;
        for _ in 0..SHOWN_STEPS {
            let other_operands = match &this.0.kind {
                Kind::Tensor { name, .. } => {
                    return write!(f, "tensor {:?} ({})", RawStr::new(name), this.shape());
                }
                Kind::Values(_) => return write!(f, "computed values ({})", this.shape()),
                Kind::Zeros => return write!(f, "zeros ({})", this.shape()),
                Kind::Axes { order, .. } => {
                    let order: Vec<String> = order.iter().map(ToString::to_string).collect();
                    write!(f, "axes({})", order.join(", "))?;
                    0
                }
                Kind::Reshape { .. } => {
                    write!(f, "reshape({})", this.shape())?;
                    0
                }
                Kind::Slice { dimension, .. } => {
                    write!(f, "slice({dimension}, …)")?;
                    0
                }
                Kind::Join { parts, dimension, .. } => {
                    write!(f, "concat({dimension})")?;
                    parts.len() - 1
                }
                Kind::Broadcast { .. } => {
                    f.write_str("repeat")?;
                    0
                }
                Kind::Float { .. } => {
                    f.write_str("F32")?;
                    0
                }
                Kind::Map { map, .. } => {
                    write!(f, "{map}")?;
                    0
                }
                Kind::Pair { pair, .. } => {
                    write!(f, "{pair}")?;
                    1
                }
                Kind::Reduce { reduction, .. } => {
                    write!(f, "{reduction}")?;
                    0
                }
                Kind::MatrixProduct { .. } => {
                    f.write_str("matmul")?;
                    1
                }
                Kind::Decoded { inputs, decoder } => {
                    f.write_str(decoder.name())?;
                    inputs.len() - 1
                }
                Kind::Encoded { .. } => {
                    write!(f, "encode({})", this.ggml_type())?;
                    0
                }
            };
            f.write_str(" of ")?;
            if other_operands > 0 {
                write!(f, "{} tensors, the first ", other_operands + 1)?;
            }
            let Some(first) = this.0.kind.children().first() else { return Ok(()) };
            this = first;
        }
        f.write_str("…")
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}: {} {}", self.ggml_type(), self.shape())
    }
}
