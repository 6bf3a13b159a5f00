//! Weights with scales: fp8 in its variants, integers of one byte.

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{
    Checkpoint, Error, ErrorKind, Expression, Fp8, Fp8Blocks, Result, SourceTensor,
};
use serde_json::Value;

use super::mxfp4;
use super::quantization::refused;
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

/// Ending of the names of scales beside `….weight` that other tensors have too: it counts only where
/// the weights are packed.
const SCALE: &str = ".scale";

/// How many devices a matrix can have been divided among whose rows of scales are those of the
/// devices, one after the other. The first that fits counts, as in the reference.
const DEVICES: [u64; 2] = [8, 4];

/// Weights times their scales, of checkpoints in fp8. Weights of four bits beside them are repacked.
/// Returns whether there are some.
pub(super) fn fp8(list: &mut Unpacking<'_>, settings: &Value) -> Result<bool> {
    let block = block_size("weight_block_size", settings.get("weight_block_size"))?;
    list.leave_out_ending(&UNUSED);
    let mut has_mxfp4 = false;
    let stored = settings.get("store_dtype").and_then(Value::as_str);
    if stored == Some("mxfp4") {
        if let Some(size) = settings.get("mxfp4_block_size").filter(|size| *size != 32) {
            return Err(refused("mxfp4_block_size", size, "32"));
        }
        for (scales, base) in list.ending(".weight_scale") {
            let number = list.need(base, ".weight", scales)?;
            if is_bytes(list.tensor(number)) {
                mxfp4::repack(list, number, scales, [base, b".weight"].concat())?;
                has_mxfp4 = true;
            }
        }
    }
    for (scales, base) in list.ending(SCALE) {
        let Some(number) = list.find(base, ".weight") else { continue };
        if is_bytes(list.tensor(number)) {
            mxfp4::repack(list, number, scales, [base, b".weight"].concat())?;
            has_mxfp4 = true;
        } else if list.tensor(number).stored_type.and_then(Fp8::from_name).is_some() {
            decode(list, number, scales, block)?;
        }
    }
    for (ending, with) in SCALES {
        for (scales, base) in list.ending(ending) {
            let number = list.need(base, with, scales)?;
            decode(list, number, scales, block)?;
        }
    }
    Ok(has_mxfp4)
}

/// Whether the elements of a tensor are bytes that something packed.
fn is_bytes(tensor: &SourceTensor) -> bool {
    match tensor.stored_type {
        Some(name) => name == "U8",
        None => tensor.ggml_type == GgmlType::I8,
    }
}

/// The same of Model Optimizer's, whose scales may belong to weights that do not exist.
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
        return Err(list.fault(number, "has two kinds of scales"));
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
        let message = || format!("elements of type {name} cannot have scales");
        Fp8::from_name(name).ok_or_else(|| Error::new(ErrorKind::Unsupported, message()))
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
        Some(format) => blocks.with_format(format),
        None => blocks.with_stored_numbers(),
    };
    let found = scales.shape().dimensions().get(1).copied();
    let [_, height] = dimensions else { return Expression::decode(blocks, &[weights, scales]) };
    if found == Some(height.div_ceil(rows)) {
        return Expression::decode(blocks, &[weights, scales]);
    }
    // Blocks begin again with the rows of each device.
    let of_each = |devices: &u64| {
        let rows_of_each = height.checked_div(*devices).filter(|each| each * devices == *height)?;
        let scales_of_each = rows_of_each.div_ceil(rows);
        (found == Some(scales_of_each * devices)).then_some((
            *devices,
            rows_of_each,
            scales_of_each,
        ))
    };
    let Some((devices, of_weights, of_scales)) = DEVICES.iter().find_map(of_each) else {
        return Expression::decode(blocks, &[weights, scales]);
    };
    let parts = (0..devices).map(|device| {
        let weights = weights.slice(1, device * of_weights, of_weights, 1)?;
        let scales = scales.slice(1, device * of_scales, of_scales, 1)?;
        Expression::decode(blocks, &[weights, scales])
    });
    Expression::concat(1, &parts.collect::<Result<Vec<_>>>()?)
}
