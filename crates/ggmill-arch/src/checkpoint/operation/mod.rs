//! Operations on checkpoint tensors during conversion: a small algebra.

mod shape;
mod template;

use ggmill_core::Shape;

pub(crate) use self::template::{OperationTemplate, resolve_shape};

/// One step from a checkpoint tensor to the tensor of the file, with its numbers resolved.
///
/// Dimensions are in stored order, as everywhere: number 0 is `ne[0]`, the *fastest*, the last one
/// PyTorch lists; the *slowest* is the first one PyTorch lists. Where a dimension is `None`, it is
/// the slowest.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Undoes the order in which Hugging Face stores the rows of rotary heads. In each of `heads`
    /// equal runs of `n` rows, row `2 i + j` of the result is row `j n / 2 + i` of the source (`j`
    /// is 0 or 1): the halves of the source become neighbors.
    Permute {
        /// Number of runs: attention heads, or key-value heads.
        heads: u64,
    },
    /// Joins tensors of one shape along a new slowest dimension.
    Stack,
    /// The same of tensors whose slowest dimensions differ: behind a shorter one are zeros.
    StackPadded,
    /// Joins tensors along a dimension.
    Concat {
        /// Which dimension.
        dimension: Option<usize>,
    },
    /// Multiplies two tensors of one shape, element by element.
    Product,
    /// Adds two tensors of one shape, element by element.
    Sum,
    /// Reorders dimensions: dimension `i` of the result is the one of this number.
    Axes(Vec<usize>),
    /// Exchanges the two fastest dimensions.
    Transpose,
    /// Reads the same elements, in the same order, as this shape.
    Reshape(Shape),
    /// Keeps some indices of a dimension.
    Slice {
        /// Which dimension.
        dimension: Option<usize>,
        /// The first index kept.
        start: u64,
        /// How many are kept.
        count: u64,
        /// From one that is kept to the next.
        step: u64,
    },
    /// Adds zeros before and after a dimension, or cuts as many indices off where a number is
    /// negative.
    Resize {
        /// Which dimension.
        dimension: usize,
        /// How many before.
        before: i64,
        /// How many after.
        after: i64,
    },
    /// Puts the tensor after itself along a dimension, so many times in all.
    Repeat {
        /// Which dimension.
        dimension: usize,
        /// How many times.
        times: u64,
    },
    /// Adds a number to every element.
    Add(f64),
    /// Multiplies every element by a number.
    Multiply(f64),
    /// Does so within a part of a dimension only.
    Within {
        /// Which dimension.
        dimension: usize,
        /// The first index of the part.
        start: u64,
        /// How many indices the part has.
        count: u64,
        /// The operation: [`Add`](Self::Add) or [`Multiply`](Self::Multiply).
        change: Box<Operation>,
    },
    /// Makes every element F32, for what comes after: half floats are calculated with as half floats
    /// otherwise.
    Float,
    /// Replaces every element `x` by `exp(x)`.
    Exp,
    /// Subtracts the mean of all elements.
    Center,
    /// Divides each column, the elements with one index in the fastest dimension, by its Euclidean
    /// length.
    NormalizeColumns,
    /// Makes every element minus the mean magnitude, 0, or the mean magnitude.
    Ternarize,
    /// Replaces every element `x` by `-exp(x)`.
    NegExp,
    /// Replaces every element `x` by `ln(1 + exp(x))`.
    Softplus,
    /// Joins the weight of a batch normalization with its running variance into the factor that
    /// both come to: `weight / sqrt(variance + epsilon)`.
    BatchNormWeight {
        /// What is added to the variance.
        epsilon: f64,
    },
    /// Joins the bias of a batch normalization with its running mean, its weight and its running
    /// variance into what is added after the factor: `bias - mean * factor`.
    BatchNormBias {
        /// What is added to the variance.
        epsilon: f64,
    },
    /// Gives the values of a grid, of shape (length, columns, rows), at the places of another one
    /// with the same corners, by linear interpolation.
    Bilinear {
        /// Columns of the other grid.
        columns: u64,
        /// Rows of the other grid.
        rows: u64,
    },
    /// Joins MXFP4 weights, of shape (16, blocks of a row, …), with their scales, of shape (blocks
    /// of a row, …), into a tensor of type MXFP4.
    Mxfp4,
    /// Adds to every whole number of a list its place there. The sums are IDs: all different, and
    /// below the limit.
    AddPlaces {
        /// How many IDs there are.
        limit: u64,
    },
}

impl Operation {
    /// The name a description writes.
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

    /// Whether several tensors become one.
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
