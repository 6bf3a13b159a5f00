//! An expression as people read it in an error: the last step first, and what it is of.

use std::fmt;

use ggmill_core::RawStr;

use super::{Expression, Kind};

/// Steps that are shown.
const SHOWN: usize = 4;

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = self;
        for _ in 0..SHOWN {
            let more = match &this.0.kind {
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
            if more > 0 {
                write!(f, "{} tensors, the first ", more + 1)?;
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
