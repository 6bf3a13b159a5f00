//! Weights with scales: fp8 in its variants, integers of one byte.

use ggmill_core::Shape;
use ggmill_pipeline::{Checkpoint, Error, ErrorKind, Expression, Fp8, Fp8Blocks, Result};
use serde_json::Value;

use super::unpacking::{Content, Unpacking, unscaled};

/// Endings of the names of scales, with what the weights have in their place.
const SCALES: [(&str, &str); 3] =
    [("_scale_inv", ""), ("qscale_weight", "weight"), (".weight_scale", ".weight")];

/// Endings of the names of scales that no file has: those of activations and of the cache.
pub(super) const UNUSED: [&str; 11] = [
    ".activation_scale",
    "_activation_scale",
    ".qscale_act",
    ".input_scale",
    ".input_scale_ub",
    ".output_scale",
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".input_zero_point",
    ".output_zero_point",
];

/// Weights times their scales, of checkpoints in fp8.
pub(super) fn fp8(list: &mut Unpacking<'_>, settings: &Value) -> Result<()> {
    let block = block_size("weight_block_size", settings.get("weight_block_size"))?;
    list.leave_out_ending(&UNUSED);
    for (ending, with) in SCALES {
        for (scales, base) in list.ending(ending) {
            let number = list.need(base, with, scales)?;
            decode(list, number, scales, block)?;
        }
    }
    Ok(())
}

/// The same of Model Optimizer's, whose scales may belong to weights that are not there.
pub(super) fn modelopt(list: &mut Unpacking<'_>) -> Result<()> {
    list.leave_out_ending(&UNUSED);
    for (scales, base) in list.ending(".weight_scale") {
        match list.find(base, ".weight") {
            Some(number) => decode(list, number, scales, None)?,
            None => list.leave_out(scales),
        }
    }
    Ok(())
}

/// A tensor becomes its weights times these scales, which are left out.
pub(super) fn decode(
    list: &mut Unpacking<'_>,
    number: usize,
    scales: usize,
    block: Option<[u64; 2]>,
) -> Result<()> {
    if !list.is_stored(number) {
        return Err(list.fault(number, "has scales of two kinds"));
    }
    let name = &list.tensor(number).name;
    let values =
        scaled(list.checkpoint, number, scales, block).map_err(|error| error.tensor(name))?;
    list.replace(number, &**name, Content::Values(values));
    list.leave_out(scales);
    Ok(())
}

/// Rows and columns of the blocks that share a scale.
pub(super) fn block_size(name: &str, value: Option<&Value>) -> Result<Option<[u64; 2]>> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let sizes: Option<Vec<u64>> =
        value.as_array().and_then(|sizes| sizes.iter().map(Value::as_u64).collect());
    match sizes.as_deref() {
        Some(&[rows, columns]) if rows > 0 && columns > 0 => Ok(Some([rows, columns])),
        _ => {
            let message = format!("{name} of quantization_config, expected two positive numbers");
            Err(Error::new(ErrorKind::Checkpoint, message))
        }
    }
}

/// Weights times their scales: one for each block of this size, or, without a size, one for all,
/// for each matrix or for each row.
fn scaled(
    checkpoint: &dyn Checkpoint,
    weights: usize,
    scales: usize,
    block: Option<[u64; 2]>,
) -> Result<Expression> {
    let fault = |shape: &Shape, of: &Shape| {
        let message = format!("scales of shape {shape} for weights of shape {of}");
        Error::new(ErrorKind::Checkpoint, message)
    };
    let format = checkpoint.tensors()[weights].stored_type.map(|name| {
        let message = || format!("elements of type {name} have no scales");
        Fp8::of_name(name).ok_or_else(|| Error::new(ErrorKind::Unsupported, message()))
    });
    let format = format.transpose()?;
    let weights = Expression::stored(checkpoint, weights)?;
    let scales = unscaled(checkpoint, scales)?;
    let shape = *weights.shape();
    let (dimensions, found) = (shape.dimensions(), scales.shape().dimensions());
    // Scales have the slow dimensions of the weights; those that are missing have one.
    let missing = dimensions.len().checked_sub(found.len());
    let missing = missing.ok_or_else(|| fault(scales.shape(), &shape))?;
    let mut extents = vec![1; missing];
    extents.extend(found);
    let at = |dimension: usize| dimensions.get(dimension).copied().unwrap_or(1);
    let whole = |dimension: usize| match extents.get(dimension) {
        Some(1) | None => at(dimension),
        Some(_) => 1,
    };
    let [rows, columns] = block.unwrap_or_else(|| [whole(1), whole(0)]);
    let mut scales = scales.reshape(
        Shape::new(&extents).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?,
    )?;
    for (dimension, &times) in dimensions.iter().enumerate().skip(2) {
        if extents.get(dimension) == Some(&1) {
            scales = scales.repeat(dimension, times)?;
        }
    }
    let mut blocks = Fp8Blocks::new(columns, rows);
    blocks = match format {
        Some(format) => blocks.of(format),
        None => blocks.of_numbers(),
    };
    Expression::decode(blocks, &[weights, scales])
}
