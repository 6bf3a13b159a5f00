//! The definition of a tensor: an expression over the tensors of a source.
//!
//! An [`Expression`] is built of sources and values, views, arithmetic, decoders and encodings. Its
//! shape and type are computed and checked as it is built. It is evaluated for a range of its
//! elements at a time, in bounded memory: a view only changes which elements of what lies below are
//! asked for ([`region`]), and reads what it needs of the source in as few pieces as it can
//! ([`read`]).

mod add_places;
mod arithmetic;
mod bilinear;
mod coded_blocks;
mod copies;
mod copy;
mod decode;
mod encode;
mod evaluate;
mod fp8;
mod mxfp4;
mod narrow;
mod nvfp4;
mod packed_integers;
mod read;
mod reduce;
mod region;
mod shown;
mod ternary_rows;
mod values;
mod views;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};

pub use self::add_places::AddPlaces;
use self::arithmetic::{Map, Pair};
pub use self::bilinear::Bilinear;
pub use self::coded_blocks::CodedBlocks;
pub(crate) use self::copies::Piece;
pub use self::decode::{Decode, Inputs};
pub use self::encode::{Encoding, matrices};
pub(crate) use self::evaluate::Evaluator;
pub use self::fp8::{Fp8, Fp8Blocks};
pub use self::mxfp4::Mxfp4;
pub use self::narrow::Narrow;
pub use self::nvfp4::Nvfp4;
pub use self::packed_integers::PackedIntegers;
use self::reduce::Reduction;
use self::region::RANK;
pub use self::ternary_rows::TernaryRows;
use self::values::Values;
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Checkpoint, SourceTensor};

/// Elements of a chunk, unless a single row is longer: 4 MiB as f32.
pub(crate) const CHUNK: u64 = 1 << 20;

/// An array and where its elements come from: the tensors of a source, views of them, arithmetic on
/// them.
///
/// Dimensions are in stored order everywhere: number 0 is the one whose elements lie side by side,
/// the last that PyTorch lists. Every step is checked when it is built; what is wrong is an
/// [`Error`] of kind [`ErrorKind::Misuse`] that says which step and of what. Cloning one copies a
/// pointer.
///
/// Arithmetic is that of the reference converter: half floats stay half, each result rounded to
/// half; elements of every other type become `f32` first. A number given as `f64` is rounded to
/// `f32` once.
///
/// ```
/// use ggmill_core::Shape;
/// use ggmill_pipeline::{Expression, MemorySource};
/// // Two by four, read in pairs from the halves of each row.
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
    /// Elements and bytes of a block of the type.
    block: (u64, usize),
    /// The dimensions, the first one in blocks; at least one.
    extents: Box<[u64]>,
    /// Steps below.
    depth: u16,
    /// How many nodes a walk over all of it visits: those that several steps share count each
    /// time.
    nodes: u32,
    kind: Kind,
}

enum Kind {
    /// A tensor of the source, by number.
    Tensor {
        number: usize,
        name: Vec<u8>,
    },
    /// Numbers that no source has.
    Values(Values),
    /// Zeros.
    Zeros,
    /// Dimension `i` is dimension `order[i]` of the child.
    Axes {
        child: Expression,
        order: Vec<usize>,
    },
    /// The same elements in the same order.
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
    /// One after the other along a dimension, each up to its end.
    Join {
        parts: Vec<Expression>,
        dimension: usize,
        ends: Vec<u64>,
    },
    /// The same for every index of a dimension, which is 1 in the child.
    Broadcast {
        child: Expression,
        dimension: usize,
    },
    /// The elements as `f32`.
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
    /// Numbers that take a pass over all of the child.
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
    /// In the type of the node; only examined if the child already has it.
    Encoded {
        child: Expression,
        encoding: Encoding,
    },
}

/// Steps on top of one another: evaluation calls itself for each.
const MAX_DEPTH: u16 = 128;

/// Steps that share what lies below are walked each for itself, so a few of them could take
/// forever. Stacks of a thousand experts need some thousands.
const MAX_NODES: u32 = 1 << 16;

impl Expression {
    /// Tensor `number` of a source, as it is. Fails for a number the source does not have, for a
    /// type whose size is not known, and for one that GGML does not have
    /// ([`SourceTensor::stored_type`]).
    pub fn tensor(source: &(impl Checkpoint + ?Sized), number: usize) -> Result<Self> {
        Self::of_tensor(number, numbered(source, number)?)
    }

    /// The bytes of tensor `number` of a source, whose type may be one that GGML does not have: as
    /// the integers of [`SourceTensor::ggml_type`]. For decoders.
    pub fn stored(source: &(impl Checkpoint + ?Sized), number: usize) -> Result<Self> {
        Self::bytes_of_tensor(number, numbered(source, number)?)
    }

    /// The tensor of this name, the first where there are several. Fails when the source has none.
    pub fn named(source: &(impl Checkpoint + ?Sized), name: impl AsRef<[u8]>) -> Result<Self> {
        let name = name.as_ref();
        let number = source.tensors().iter().position(|tensor| tensor.name == name);
        let number = number.ok_or_else(|| {
            Error::new(ErrorKind::Checkpoint, "is not in the source").tensor(name)
        })?;
        Self::tensor(source, number)
    }

    /// Tensor `number` of the source that it is evaluated with.
    pub(crate) fn of_tensor(number: usize, tensor: &SourceTensor) -> Result<Self> {
        if let Some(stored_type) = tensor.stored_type {
            let message = format!("elements of type {stored_type} are not supported");
            return Err(Error::new(ErrorKind::Unsupported, message).tensor(&tensor.name));
        }
        Self::bytes_of_tensor(number, tensor)
    }

    fn bytes_of_tensor(number: usize, tensor: &SourceTensor) -> Result<Self> {
        let kind = Kind::Tensor { number, name: tensor.name.clone() };
        Self::new(tensor.shape, tensor.ggml_type, kind).map_err(|error| error.tensor(&tensor.name))
    }

    /// The dimensions, in stored order.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// The type of the elements.
    pub fn ggml_type(&self) -> GgmlType {
        self.0.ggml_type
    }

    /// Elements and bytes of a block of the type.
    pub(crate) fn block(&self) -> (u64, usize) {
        self.0.block
    }

    /// Bytes of all elements.
    pub fn size(&self) -> u64 {
        // `new` has seen that it fits.
        self.0.shape.elements() / self.0.block.0 * self.0.block.1 as u64
    }

    /// The bytes of a range of elements, in stored order and little-endian, of the tensors of this
    /// source. Fails when the range leaves the array or cuts a block, when the source cannot be
    /// read, and for numbers that an encoding cannot hold.
    ///
    /// A reduction ([`center`](Self::center) and others) takes a pass over its tensor in every
    /// call; [`run`](crate::run) remembers it.
    pub fn evaluate(&self, source: &dyn Checkpoint, elements: Range<u64>) -> Result<Vec<u8>> {
        Evaluator::new(source, 0).bytes(self, elements.start, elements.end)
    }

    /// The number of the tensor whose elements these are, all of them in order, whatever their type
    /// has become.
    pub fn origin(&self) -> Option<usize> {
        match &self.0.kind {
            Kind::Tensor { number, .. } => Some(*number),
            Kind::Reshape { child } | Kind::Float { child } | Kind::Encoded { child, .. } => {
                child.origin()
            }
            _ => None,
        }
    }

    /// Whether there is arithmetic on the way: then a number can become one that the source does
    /// not have, an infinite one too.
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

    /// Calls `visit` with the number of every tensor of the source that is read; some more than
    /// once.
    pub fn tensors(&self, visit: &mut dyn FnMut(usize)) {
        match &self.0.kind {
            Kind::Tensor { number, .. } => visit(*number),
            kind => kind.children().iter().for_each(|child| child.tensors(visit)),
        }
    }

    /// The parameters of the encoding, if that is the last step.
    pub fn encoding(&self) -> Option<&Encoding> {
        match &self.0.kind {
            Kind::Encoded { encoding, .. } => Some(encoding),
            _ => None,
        }
    }

    /// Fails when a tensor that is read is not what it was when the expression was built.
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

    /// An error about a step taken from here.
    fn fault(&self, step: impl fmt::Display, message: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Misuse, format!("{step} of {self}: {message}"))
    }

    /// The length of a dimension; 1 for those that do not exist.
    fn extent(&self, dimension: usize) -> u64 {
        self.shape().dimensions().get(dimension).copied().unwrap_or(1)
    }

    /// The dimensions, at least so many.
    fn dimensions(&self, least: usize) -> Vec<u64> {
        let mut dimensions = self.shape().dimensions().to_vec();
        dimensions.resize(dimensions.len().max(least), 1);
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

/// The numbers of the tensors that these expressions read, each once, in the order of the source.
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

/// A shape of these dimensions, for a step that makes it.
fn shape_of(dimensions: &[u64]) -> Result<Shape> {
    if dimensions.len() > RANK {
        return Err(Error::new(
            ErrorKind::Misuse,
            format!("{} dimensions, expected at most {RANK}", dimensions.len()),
        ));
    }
    Shape::new(dimensions).map_err(|error| Error::caused(ErrorKind::Misuse, error))
}
