//! bitsandbytes: places in a table of 16 numbers (NF4, FP4) with a scale for each block, and
//! integers of one byte with a scale for each row.

use ggmill_core::Shape;
use ggmill_pipeline::{CodedBlocks, Error, ErrorKind, Expression, Fp8Blocks, Result};
use serde_json::Value;

use super::unpacking::{Content, Unpacking, unscaled};

/// Endings of the tensors with the JSON that says how weights of four bits are stored.
const STATES: [&str; 2] = [".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"];
/// Bytes of that JSON, which has a few hundred.
const MAX_STATE: u64 = 1 << 16;
/// One in 127 steps: the number that the library multiplies with.
const STEP: f64 = 7.874_015_718_698_502e-3;

/// Decodes all weights, in their places.
pub(super) fn decode(list: &mut Unpacking<'_>) -> Result<()> {
    for ending in STATES {
        for (state, base) in list.ending(ending) {
            let number = list.need(base, "", state)?;
            let name = &list.tensor(number).name;
            let (values, parts) =
                four_bits(list, number, state).map_err(|error| error.tensor(name))?;
            list.replace(number, &**name, Content::Values(values));
            for part in parts {
                list.leave_out(part);
            }
        }
    }
    for (scales, base) in list.ending(".SCB") {
        let number = list.need(base, ".weight", scales)?;
        let format = list.find(base, ".weight_format");
        if let Some(format) = format
            && list.bytes(format, 1)?.first() != Some(&0)
        {
            let message = "weights are not stored row by row, the only supported order";
            return Err(
                Error::new(ErrorKind::Unsupported, message).tensor(&list.tensor(format).name)
            );
        }
        let name = &list.tensor(number).name;
        let values = rows(list, number, scales).map_err(|error| error.tensor(name))?;
        list.replace(number, &**name, Content::Values(values));
        [Some(scales), format].into_iter().flatten().for_each(|part| list.leave_out(part));
    }
    Ok(())
}

/// The values, and the tensors that say how they are stored.
fn four_bits(
    list: &Unpacking<'_>,
    number: usize,
    state: usize,
) -> Result<(Expression, Vec<usize>)> {
    let base = &*list.tensor(number).name;
    let fault = |what: &str| list.fault(state, format!("has no {what}"));
    let json: Value = serde_json::from_slice(&list.bytes(state, MAX_STATE)?)
        .map_err(|error| list.fault(state, format!("is not valid JSON: {error}")))?;
    let size = |name: &str| json.get(name).and_then(Value::as_u64).filter(|&size| size > 0);
    let dimensions: Option<Vec<u64>> = json
        .get("shape")
        .and_then(Value::as_array)
        .and_then(|shape| shape.iter().rev().map(Value::as_u64).collect());
    let shape = Shape::new(&dimensions.ok_or_else(|| fault("shape"))?)
        .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let block = size("blocksize").ok_or_else(|| fault("blocksize"))?;
    let [scales, table] = [".absmax", ".quant_map"].map(|ending| list.need(base, ending, number));
    let (scales, table) = (scales?, table?);
    let mut blocks = CodedBlocks::new(shape, block);
    let mut parts = vec![state, scales, table];
    let mut inputs = vec![list.stored(number)?, unscaled(list.checkpoint, table)?];
    if let Some(outer) = list.find(base, ".nested_absmax") {
        let outer_block = size("nested_blocksize").ok_or_else(|| fault("nested_blocksize"))?;
        let offset = json.get("nested_offset").and_then(Value::as_f64);
        let outer_table = list.need(base, ".nested_quant_map", number)?;
        #[expect(clippy::cast_possible_truncation, reason = "the text of an f32")]
        let offset = offset.ok_or_else(|| fault("nested_offset"))? as f32;
        blocks = blocks.with_coded_scales(outer_block, offset);
        parts.extend([outer, outer_table]);
        inputs.push(list.stored(scales)?);
        inputs.push(unscaled(list.checkpoint, outer_table)?);
        inputs.push(unscaled(list.checkpoint, outer)?);
    } else {
        inputs.push(unscaled(list.checkpoint, scales)?);
    }
    Ok((Expression::decode(blocks, &inputs)?, parts))
}

/// Integers times the scales of their rows.
fn rows(list: &Unpacking<'_>, number: usize, scales: usize) -> Result<Expression> {
    let tensor = list.tensor(number);
    if tensor.stored_type.is_some() {
        let message = format!("has elements of type {}, expected I8", tensor.type_name());
        return Err(list.fault(number, message));
    }
    let weights = list.stored(number)?;
    let scales = unscaled(list.checkpoint, scales)?;
    let height = scales.shape().elements();
    let scales = scales.reshape(
        Shape::new(&[1, height]).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?,
    )?;
    let blocks = Fp8Blocks::new(weights.shape().row_len(), 1).with_stored_numbers();
    Expression::decode(blocks, &[weights, scales])?.mul(STEP)
}
