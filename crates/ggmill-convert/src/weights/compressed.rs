//! The formats of compressed-tensors, except NVFP4.

use ggmill_core::GgmlType;
use ggmill_pipeline::{Error, ErrorKind, Expression, PackedIntegers, Result};
use serde_json::Value;

use super::fp4::repack_mxfp4;
use super::packed::{group_size, read_group_indices};
use super::scaled::{self, UNUSED, block_size};
use super::unpacking::Unpacking;
use super::{invalid_setting, read_bits};

/// Formats with one scale tensor per weight.
const SCALED: [&str; 3] = ["float-quantized", "int-quantized", "naive-quantized"];

/// Decodes or repacks all weights. Returns `true` if they are MXFP4.
pub(super) fn decode(list: &mut Unpacking<'_>, settings: &Value) -> Result<bool> {
    // Groups without `weights` quantize only activations.
    let groups: Vec<&Value> = settings
        .get("config_groups")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|groups| groups.values())
        .filter_map(|group| group.get("weights").filter(|weights| !weights.is_null()))
        .collect();
    let [group] = groups[..] else {
        let message = format!(
            "quantization_config: config_groups has {} groups of weights, expected one",
            groups.len()
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    let format = settings.get("format").unwrap_or(&Value::Null);
    match format.as_str().unwrap_or_default() {
        name if SCALED.contains(&name) => scaled(list, group)?,
        "pack-quantized" => packed(list, group)?,
        "mxfp4-pack-quantized" => {
            for (number, base) in list.ending(".weight_packed") {
                let scales = list.need(base, ".weight_scale", number)?;
                repack_mxfp4(list, number, scales, [base, b".weight"].concat())?;
            }
            list.leave_out_ending(&UNUSED);
            return Ok(true);
        }
        _ => {
            let known = "float-quantized, int-quantized, naive-quantized, pack-quantized, \
                         nvfp4-pack-quantized or mxfp4-pack-quantized";
            return Err(invalid_setting("format", format, known));
        }
    }
    Ok(false)
}

/// Decodes weights with scales.
fn scaled(list: &mut Unpacking<'_>, group: &Value) -> Result<()> {
    let strategy = group.get("strategy").unwrap_or(&Value::Null);
    let block = match strategy.as_str() {
        Some("channel" | "block" | "tensor") => {
            block_size("block_structure", group.get("block_structure"))?
        }
        Some("group") => group_size(group, &["group_size"])?.map(|columns| [1, columns]),
        _ => return Err(invalid_setting("strategy", strategy, "tensor, channel, block or group")),
    };
    list.leave_out_ending(&UNUSED);
    if let Some(&(zeros, _)) = list.ending(".weight_zero_point").first() {
        let message = "zero points of weights are supported only in the format pack-quantized";
        return Err(Error::new(ErrorKind::Unsupported, message).tensor(&list.tensor(zeros).name));
    }
    for (scales, base) in list.ending(".weight_scale") {
        let number = list.need(base, ".weight", scales)?;
        scaled::decode(list, number, scales, block)?;
    }
    Ok(())
}

/// Decodes packed integers. Decoded weights come after all others, as in the reference.
fn packed(list: &mut Unpacking<'_>, group: &Value) -> Result<()> {
    let strategy = group.get("strategy").unwrap_or(&Value::Null);
    if !matches!(strategy.as_str(), Some("group" | "channel" | "tensor")) {
        return Err(invalid_setting("strategy", strategy, "tensor, channel or group"));
    }
    let kind = group.get("type").unwrap_or(&Value::Null);
    if !kind.is_null() && kind.as_str() != Some("int") {
        return Err(invalid_setting("type", kind, "int"));
    }
    list.leave_out_ending(&UNUSED);
    for (number, base) in list.ending(".weight_packed") {
        // Only widths that divide a word: other widths have two incompatible layouts.
        let bits = read_bits(group, &["num_bits"], &[2, 4, 8])?;
        let [scales, shape] =
            [".weight_scale", ".weight_shape"].map(|ending| list.need(base, ending, number));
        let (scales, shape) = (scales?, shape?);
        let zeros = list.find(base, ".weight_zero_point");
        let numbers = list.find(base, ".weight_g_idx");
        let size = group_size(group, &["group_size"])?;
        let values = weights(list, [number, scales, shape], [zeros, numbers], bits, size)
            .map_err(|error| error.tensor(&list.tensor(number).name))?;
        list.append(number, [base, b".weight"].concat(), values);
        for part in [number, scales, shape].into_iter().chain(zeros).chain(numbers) {
            list.leave_out(part);
        }
    }
    Ok(())
}

fn weights(
    list: &Unpacking<'_>,
    [levels, scales, shape]: [usize; 3],
    [zeros, numbers]: [Option<usize>; 2],
    bits: u32,
    group: Option<u64>,
) -> Result<Expression> {
    let [rows, columns] = dimensions(list, shape)?;
    let mut packed = PackedIntegers::new(bits, columns, rows);
    if let Some(group) = group {
        packed = packed.in_groups(group);
    }
    let scales = list.stored(scales)?;
    let groups = scales.shape().row_len();
    let mut inputs = vec![list.stored(levels)?, scales];
    if let Some(zeros) = zeros {
        packed = packed.with_zeros(0);
        inputs.push(list.stored(zeros)?);
    }
    if let Some(numbers) = numbers {
        read_group_indices(list, numbers, columns, groups, &mut packed, &mut inputs)?;
    }
    Expression::decode(packed, &inputs)
}

/// Returns the rows and columns from a tensor of two integers.
fn dimensions(list: &Unpacking<'_>, number: usize) -> Result<[u64; 2]> {
    let bytes = list.bytes(number, 2)?;
    let found: Vec<i64> = match list.tensor(number).ggml_type {
        GgmlType::I64 => bytes.as_chunks().0.iter().map(|&n| i64::from_le_bytes(n)).collect(),
        GgmlType::I32 => {
            bytes.as_chunks().0.iter().map(|&n| i32::from_le_bytes(n).into()).collect()
        }
        _ => Vec::new(),
    };
    let found: Option<Vec<u64>> = found.into_iter().map(|n| u64::try_from(n).ok()).collect();
    found
        .and_then(|found| <[u64; 2]>::try_from(found).ok())
        .ok_or_else(|| list.fault(number, "expected two integers, the rows and columns"))
}
