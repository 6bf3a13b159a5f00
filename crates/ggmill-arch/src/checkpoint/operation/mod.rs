//! Operations on checkpoint tensors in conversions.

mod shape;
mod template;

use ggmill_core::Shape;

pub(crate) use self::template::{OperationTemplate, resolve_shape};

/// An operation on checkpoint tensors, with its parameters.
///
/// Dimensions are in stored order: number 0 is `ne[0]`, the *fastest*, which PyTorch lists last; the
/// *slowest* is the one that PyTorch lists first. `None` is the slowest dimension.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Undoes the row order of rotary heads in Hugging Face checkpoints. In each of `heads` equal runs
    /// of `n` rows, row `2 i + j` of the result is row `j n / 2 + i` of the source (`j` is 0 or 1): the
    /// halves of the source are interleaved.
    Permute {
        /// The number of runs: attention heads, or key-value heads.
        heads: u64,
    },
    /// Stacks tensors of the same shape along a new slowest dimension.
    Stack,
    /// Like [`Stack`](Self::Stack), for tensors whose slowest dimensions differ: shorter ones are
    /// padded with zeros.
    StackPadded,
    /// Concatenates tensors along a dimension.
    Concat {
        /// The dimension.
        dimension: Option<usize>,
    },
    /// Multiplies two tensors of the same shape elementwise.
    Product,
    /// Adds two tensors of the same shape elementwise.
    Sum,
    /// Permutes dimensions: dimension `i` of the result is this dimension of the source.
    Axes(Vec<usize>),
    /// Swaps the two fastest dimensions.
    Transpose,
    /// Reinterprets the elements, in the same order, with this shape.
    Reshape(Shape),
    /// Takes a slice of a dimension.
    Slice {
        /// The dimension.
        dimension: Option<usize>,
        /// The first index.
        start: u64,
        /// The number of indices.
        count: u64,
        /// The distance between indices.
        step: u64,
    },
    /// Pads a dimension with zeros, or truncates it if a number is negative.
    Resize {
        /// The dimension.
        dimension: usize,
        /// The number of indices that are added at the start.
        before: i64,
        /// The number of indices that are added at the end.
        after: i64,
    },
    /// Repeats the tensor along a dimension.
    Repeat {
        /// The dimension.
        dimension: usize,
        /// The number of repetitions in total.
        times: u64,
    },
    /// Adds a number to every element.
    Add(f64),
    /// Multiplies every element by a number.
    Multiply(f64),
    /// Applies an operation to a range of a dimension.
    Within {
        /// The dimension.
        dimension: usize,
        /// The first index of the range.
        start: u64,
        /// The length of the range.
        count: u64,
        /// The operation: [`Add`](Self::Add) or [`Multiply`](Self::Multiply).
        change: Box<Operation>,
    },
    /// Converts the elements to F32 for the following operations. F16 elements are otherwise computed
    /// in F16.
    Float,
    /// Replaces every element `x` by `exp(x)`.
    Exp,
    /// Subtracts the mean of all elements.
    Center,
    /// Divides each column (the elements with one index in the fastest dimension) by its Euclidean
    /// norm.
    NormalizeColumns,
    /// Rounds every element to minus the mean magnitude, 0, or the mean magnitude.
    Ternarize,
    /// Replaces every element `x` by `-exp(x)`.
    NegExp,
    /// Replaces every element `x` by `ln(1 + exp(x))`.
    Softplus,
    /// Folds the running variance of a batch normalization into its weight: `weight / sqrt(variance +
    /// epsilon)`.
    BatchNormWeight {
        /// The constant that is added to the variance.
        epsilon: f64,
    },
    /// Folds the weight and running statistics of a batch normalization into its bias: `bias - mean *
    /// factor`, where `factor` is the result of [`BatchNormWeight`](Self::BatchNormWeight).
    BatchNormBias {
        /// The constant that is added to the variance.
        epsilon: f64,
    },
    /// Resamples a grid of vectors, of shape (length, columns, rows), by bilinear interpolation with
    /// aligned corners.
    Bilinear {
        /// The columns of the new grid.
        columns: u64,
        /// The rows of the new grid.
        rows: u64,
    },
    /// Combines MXFP4 weights, of shape (16, blocks per row, …), with their scales, of shape (blocks
    /// per row, …), into a tensor of type MXFP4.
    Mxfp4,
    /// Adds to every integer of a list its index. The sums must be distinct IDs below the limit.
    AddPlaces {
        /// The number of IDs.
        limit: u64,
    },
}

impl Operation {
    /// Returns the name in descriptions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Permute { .. } => "permute",
            Self::Stack => "stack",
            Self::StackPadded => "stack_padded",
            Self::Concat { .. } => "concat",
            Self::Product => "product",
            Self::Sum => "sum",
            Self::Axes(_) => "axes",
            Self::Transpose => "transpose",
            Self::Reshape(_) => "reshape",
            Self::Slice { .. } => "slice",
            Self::Resize { .. } => "resize",
            Self::Repeat { .. } => "repeat",
            Self::Add(_) => "add",
            Self::Multiply(_) => "mul",
            Self::Within { change, .. } => change.name(),
            Self::Float => "f32",
            Self::Exp => "exp",
            Self::Center => "center",
            Self::NormalizeColumns => "normalize_columns",
            Self::Ternarize => "ternarize",
            Self::NegExp => "neg_exp",
            Self::Softplus => "softplus",
            Self::BatchNormWeight { .. } => "batch_norm_weight",
            Self::BatchNormBias { .. } => "batch_norm_bias",
            Self::Bilinear { .. } => "bilinear",
            Self::Mxfp4 => "mxfp4",
            Self::AddPlaces { .. } => "add_places",
        }
    }

    /// Returns `true` if the operation combines several tensors.
    pub fn joins(&self) -> bool {
        matches!(
            self,
            Self::Stack
                | Self::StackPadded
                | Self::Concat { .. }
                | Self::Product
                | Self::Sum
                | Self::BatchNormWeight { .. }
                | Self::BatchNormBias { .. }
                | Self::Mxfp4
        )
    }
}
