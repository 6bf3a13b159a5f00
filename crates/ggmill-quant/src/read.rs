use ggmill_core::{Model, Tensor};

use crate::error::{Detail, Error, Result};

/// How many bytes of a tensor are read at once, about.
const PIECE: u64 = 1 << 20;

/// The values of a tensor of a model as `f32`, in the order of the file: any type that has a codec,
/// any byte order.
///
/// Fails when the tensor cannot be read, and for a type that no codec reads.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, Shape};
/// # let plan = Builder::new().tensor("output_norm.weight", GgmlType::F32, Shape::new(&[2])?).plan()?;
/// # let mut file = plan.header().to_vec();
/// # file.extend([0, 0, 128, 63, 0, 0, 0, 64].iter().chain(&[0; 24]));
/// let model = ggmill_core::Model::open(file)?;
/// let norm = model.tensor("output_norm.weight")?;
/// assert_eq!(ggmill_quant::read_f32(&model, &norm)?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_f32(model: &Model, tensor: &Tensor<'_>) -> Result<Vec<f32>> {
    let codec = crate::codec(tensor.ggml_type())?;
    let elements = tensor.shape().elements();
    let too_large = || Error::new(Detail::Memory { elements });
    let (Some(size), Some(layout)) = (tensor.size(), tensor.ggml_type().layout()) else {
        return Err(Error::new(Detail::Unknown { ggml_type: tensor.ggml_type() }));
    };
    let (block_len, block_size) = (u64::from(layout.elements), u64::from(layout.bytes));
    // Before memory is taken for it: is there what the header promises?
    if size > 0 {
        model.read_raw(tensor, size - 1, &mut [0])?;
    }
    let mut values = Vec::new();
    values
        .try_reserve_exact(usize::try_from(elements).map_err(|_| too_large())?)
        .map_err(|_| too_large())?;
    let piece = (PIECE / block_size).max(1) * block_size;
    let mut blocks = Vec::new();
    let mut offset = 0;
    while offset < size {
        let len = piece.min(size - offset);
        blocks.resize(usize::try_from(len).map_err(|_| too_large())?, 0);
        model.read(tensor, offset, &mut blocks)?;
        let start = values.len();
        values.resize(
            start + usize::try_from(len / block_size * block_len).map_err(|_| too_large())?,
            0.0,
        );
        codec.dequantize(&blocks, &mut values[start..])?;
        offset += len;
    }
    Ok(values)
}
