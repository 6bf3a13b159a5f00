//! Weights with scale tensors: the variants of FP8, one-byte integers, and BitNet.

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{
    Checkpoint, Error, ErrorKind, Expression, Fp8, Fp8Blocks, Result, SourceTensor, TernaryRows,
};
use serde_json::Value;

use super::fp4::repack_mxfp4;
use super::invalid_setting;
use super::unpacking::{Content, Unpacking, unscaled};

/// Suffixes of scale names, each with the suffix of the weight.
const SCALES: [(&str, &str); 3] =
    [("_scale_inv", ""), ("qscale_weight", "weight"), (".weight_scale", ".weight")];

/// Suffixes of the names of scales that GGUF files do not contain: those of activations and of the
/// KV cache.
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

/// Suffix of the scales of `….weight`. Other tensors have it too, so it applies only if the weights
/// are packed.
const SCALE: &str = ".scale";

/// Numbers of devices over which a matrix can have been split, with the scales of the devices
/// concatenated. The first that matches the shapes is used, as in the reference.
const DEVICES: [u64; 2] = [8, 4];

/// Decodes FP8 weights and repacks MXFP4 weights of the same checkpoint. Returns `true` if there
/// are MXFP4 weights.
pub(super) fn fp8(list: &mut Unpacking<'_>, settings: &Value) -> Result<bool> {
    let block = block_size("weight_block_size", settings.get("weight_block_size"))?;
    list.leave_out_ending(&UNUSED);
    let mut has_mxfp4 = false;
    let stored = settings.get("store_dtype").and_then(Value::as_str);
    if stored == Some("mxfp4") {
        if let Some(size) = settings.get("mxfp4_block_size").filter(|size| *size != 32) {
            return Err(invalid_setting("mxfp4_block_size", size, "32"));
        }
        for (scales, base) in list.ending(".weight_scale") {
            let number = list.need(base, ".weight", scales)?;
            if is_bytes(list.tensor(number)) {
                repack_mxfp4(list, number, scales, [base, b".weight"].concat())?;
                has_mxfp4 = true;
            }
        }
    }
    for (scales, base) in list.ending(SCALE) {
        let Some(number) = list.find(base, ".weight") else { continue };
        if is_bytes(list.tensor(number)) {
            repack_mxfp4(list, number, scales, [base, b".weight"].concat())?;
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

/// Returns `true` if a tensor has bytes, so its weights are packed.
fn is_bytes(tensor: &SourceTensor) -> bool {
    match tensor.stored_type {
        Some(name) => name == "U8",
        None => tensor.ggml_type == GgmlType::I8,
    }
}

/// Decodes the FP8 weights of Model Optimizer. Scales without a weight are ignored.
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

/// Replaces a tensor by its weights times these scales, and removes the scales.
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

/// Returns the rows and columns of the blocks that share a scale.
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

/// Returns the weights times their scales: one scale per block of this size or, without a block
/// size, one per tensor, per matrix or per row.
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
    // Missing slow dimensions of the scales have an extent of 1.
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
    // Blocks restart at the first row of each device.
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

/// Decodes BitNet: −1, 0 and 1 in two bits each, divided by a scale.
pub(super) fn bitnet(list: &mut Unpacking<'_>) -> Result<()> {
    for (scale, base) in list.ending(".weight_scale") {
        let number = list.need(base, ".weight", scale)?;
        let inputs = [list.stored(number)?, unscaled(list.checkpoint, scale)?];
        let name = &list.tensor(number).name;
        let values =
            Expression::decode(TernaryRows::new(), &inputs).map_err(|error| error.tensor(name))?;
        list.replace(number, &**name, Content::Values(values));
        list.leave_out(scale);
    }
    Ok(())
}
