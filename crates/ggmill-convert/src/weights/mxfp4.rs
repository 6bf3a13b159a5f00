//! MXFP4 as compressed-tensors packs it: two weights in a byte, and an exponent for each 32.

use ggmill_core::Shape;
use ggmill_pipeline::{Error, ErrorKind, Expression, Mxfp4, Result};

use super::unpacking::{Content, Factors, Unpacking};

/// The tensor becomes blocks in the order of GGUF; its scales are left out.
pub(super) fn repack(
    list: &mut Unpacking<'_>,
    number: usize,
    scales: usize,
    name: Vec<u8>,
) -> Result<()> {
    let blocks = blocks(list, number, scales).map_err(|error| error.tensor(&name))?;
    list.replace(number, name, Content::Blocks(blocks, Factors::default()));
    list.leave_out(scales);
    Ok(())
}

fn blocks(list: &Unpacking<'_>, number: usize, scales: usize) -> Result<Expression> {
    let shape = list.tensor(number).shape;
    let row_len = shape.row_len().saturating_mul(2);
    if !row_len.is_multiple_of(32) || shape.dimensions().is_empty() {
        let message =
            format!("the row length {row_len} is not a multiple of the block size of MXFP4, 32");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let dimensions = [&[16, row_len / 32], &shape.dimensions()[1..]].concat();
    let dimensions =
        Shape::new(&dimensions).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let weights = list.stored(number)?.reshape(dimensions)?;
    Expression::decode(Mxfp4::new(), &[weights, list.stored(scales)?])
}
