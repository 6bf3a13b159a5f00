//! Weights packed as integers or codes of a count_within bits: AWQ, GPTQ and bitsandbytes.

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{
    CodedBlocks, Error, ErrorKind, Expression, Fp8Blocks, PackedIntegers, Result,
};
use serde_json::Value;

use super::unpacking::{Content, Unpacking, unscaled};
use super::{invalid_setting, read_bits};

/// Returns the number of columns that share a scale, or `None` for one group per row.
pub(super) fn group_size(settings: &Value, names: &[&str]) -> Result<Option<u64>> {
    let found = names.iter().find_map(|name| Some((*name, settings.get(name)?)));
    let Some((name, value)) = found.filter(|(_, value)| !value.is_null()) else { return Ok(None) };
    match (value.as_i64(), value.as_u64()) {
        (Some(-1), _) => Ok(None),
        (_, Some(size)) if size > 0 => Ok(Some(size)),
        _ => Err(invalid_setting(name, value, "a positive number or -1")),
    }
}

/// Sets the groups of columns from a tensor (`g_idx`), which becomes an input if the groups are not
/// consecutive. Returns `false` if the tensor has no information (all its elements are −1).
pub(super) fn read_group_indices(
    list: &Unpacking<'_>,
    number: usize,
    columns: u64,
    groups: u64,
    packed: &mut PackedIntegers,
    inputs: &mut Vec<Expression>,
) -> Result<bool> {
    let tensor = list.tensor(number);
    let count = tensor.shape.elements();
    if count != columns {
        return Err(list.fault(number, format!("has {count} elements, expected {columns}")));
    }
    let numbers: Vec<i64> = match tensor.ggml_type {
        GgmlType::I32 if tensor.stored_type.is_none() => {
            let bytes = list.bytes(number, columns)?;
            bytes.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes).into()).collect()
        }
        GgmlType::I64 if tensor.stored_type.is_none() => {
            let bytes = list.bytes(number, columns)?;
            bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect()
        }
        _ => {
            let message =
                format!("has elements of type {}, expected numbers of groups", tensor.type_name());
            return Err(list.fault(number, message));
        }
    };
    if !numbers.is_empty() && numbers.iter().all(|&number| number == -1) {
        return Ok(false);
    }
    let is_known = |number: i64| u64::try_from(number).is_ok_and(|number| number < groups);
    if let Some(column) = numbers.iter().position(|&number| !is_known(number)) {
        let message =
            format!("column {column} has group {}, but there are {groups} groups", numbers[column]);
        return Err(list.fault(number, message));
    }
    let size = numbers.iter().take_while(|&&number| number == numbers[0]).count().max(1);
    let is_ordered = numbers.iter().zip(0usize..).all(|(&number, column)| {
        usize::try_from(number).is_ok_and(|number| number == column / size)
    });
    if is_ordered && columns.div_ceil(size as u64) == groups {
        *packed = packed.in_groups(size as u64);
    } else {
        *packed = packed.with_group_numbers();
        inputs.push(list.stored(number)?);
    }
    Ok(true)
}

/// Returns the rows and columns of a tensor. Fails if it is not a matrix.
fn matrix_extents(list: &Unpacking<'_>, number: usize) -> Result<[u64; 2]> {
    let shape = &list.tensor(number).shape;
    <[u64; 2]>::try_from(shape.dimensions())
        .map_err(|_| list.fault(number, format!("has shape {shape}, expected a matrix")))
}

/// Returns the transpose of the stored matrix.
fn transposed_matrix(list: &Unpacking<'_>, number: usize) -> Result<Expression> {
    matrix_extents(list, number)?;
    list.stored(number)?.transpose()
}

/// Returns how many levels of `bits` bits an element of a tensor holds. Fails if its type is not an
/// integer.
fn levels_in_word(list: &Unpacking<'_>, number: usize, bits: u32) -> Result<u64> {
    let tensor = list.tensor(number);
    let is_integer =
        [GgmlType::I8, GgmlType::I16, GgmlType::I32, GgmlType::I64].contains(&tensor.ggml_type);
    let layout = tensor.ggml_type.layout().filter(|_| is_integer);
    let bytes = layout.map(|layout| u64::from(layout.bytes)).ok_or_else(|| {
        let message =
            format!("has elements of type {}, expected packed integers", tensor.type_name());
        list.fault(number, message)
    })?;
    Ok(8 * bytes / u64::from(bits))
}

/// Decodes AWQ: 4-bit integers, eight interleaved rows in a word, and a scale and a zero point per
/// group of columns. Decoded weights come after all others, as for GPTQ.
pub(super) fn awq(list: &mut Unpacking<'_>, settings: &Value) -> Result<()> {
    let version = settings.get("version").unwrap_or(&Value::Null);
    if !version.is_null() && !version.as_str().is_some_and(|text| text.eq_ignore_ascii_case("gemm"))
    {
        return Err(invalid_setting("version", version, "gemm"));
    }
    let group = group_size(settings, &["group_size", "q_group_size"])?;
    for (number, base) in list.ending(".qweight") {
        let bits = read_bits(settings, &["bits", "w_bit"], &[4])?;
        let [zeros, scales] = [".qzeros", ".scales"].map(|ending| list.need(base, ending, number));
        let parts = [number, zeros?, scales?];
        let values = awq_weights(list, parts, bits, group)
            .map_err(|error| error.tensor(&list.tensor(number).name))?;
        list.append(number, [base, b".weight"].concat(), values);
        for part in parts {
            list.leave_out(part);
        }
    }
    Ok(())
}

fn awq_weights(
    list: &Unpacking<'_>,
    [levels, zeros, scales]: [usize; 3],
    bits: u32,
    group: Option<u64>,
) -> Result<Expression> {
    let [words, columns] = matrix_extents(list, levels)?;
    let rows = words.saturating_mul(levels_in_word(list, levels, bits)?);
    let mut packed = PackedIntegers::new(bits, columns, rows).interleaved().with_zeros(0);
    if let Some(group) = group {
        packed = packed.in_groups(group);
    }
    let inputs = [
        transposed_matrix(list, levels)?,
        transposed_matrix(list, scales)?,
        transposed_matrix(list, zeros)?,
    ];
    Expression::decode(packed, &inputs)
}

/// Decodes GPTQ: integers of 2, 4 or 8 bits packed along columns, a scale and a zero point per
/// group of columns, and the group of each column (`g_idx`). Decoded weights come after all others,
/// as in the reference.
pub(super) fn gptq(list: &mut Unpacking<'_>, settings: &Value) -> Result<()> {
    let format = settings.get("checkpoint_format").unwrap_or(&Value::Null);
    let plus = match format.as_str() {
        // The first version of the format stores zero points minus one.
        Some("gptq") => 1,
        None if format.is_null() => 1,
        Some("gptq_v2") => 0,
        _ => return Err(invalid_setting("checkpoint_format", format, "gptq or gptq_v2")),
    };
    for (number, base) in list.ending(".qweight") {
        let bits = read_bits(settings, &["bits"], &[2, 4, 8])?;
        let [zeros, scales, groups] =
            [".qzeros", ".scales", ".g_idx"].map(|ending| list.need(base, ending, number));
        let parts = [number, zeros?, scales?, groups?];
        let values = gptq_weights(list, parts, bits, plus)
            .map_err(|error| error.tensor(&list.tensor(number).name))?;
        list.append(number, [base, b".weight"].concat(), values);
        for part in parts {
            list.leave_out(part);
        }
    }
    Ok(())
}

fn gptq_weights(
    list: &Unpacking<'_>,
    [levels, zeros, scales, groups]: [usize; 4],
    bits: u32,
    plus: i16,
) -> Result<Expression> {
    let [rows, words] = matrix_extents(list, levels)?;
    let columns = words.saturating_mul(levels_in_word(list, levels, bits)?);
    let [_, count] = matrix_extents(list, scales)?;
    let mut packed = PackedIntegers::new(bits, columns, rows).with_zeros(plus);
    let mut inputs = vec![
        transposed_matrix(list, levels)?,
        transposed_matrix(list, scales)?,
        transposed_matrix(list, zeros)?,
    ];
    if !read_group_indices(list, groups, columns, count, &mut packed, &mut inputs)? {
        return Err(list.fault(groups, "has no groups"));
    }
    Expression::decode(packed, &inputs)
}

/// Suffixes of the tensors that contain the layout of 4-bit weights as JSON.
const STATES: [&str; 2] = [".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"];
/// Maximum size of this JSON in bytes; it has a count_within hundred.
const MAX_STATE: u64 = 1 << 16;
/// 1/127, rounded as in the library.
const STEP: f64 = 7.874_015_718_698_502e-3;

/// Decodes bitsandbytes: indices into a table of 16 numbers (NF4, FP4) with a scale per block, and
/// one-byte integers with a scale per row.
pub(super) fn bitsandbytes(list: &mut Unpacking<'_>) -> Result<()> {
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

/// Returns the values of 4-bit weights, and the tensors that describe how they are stored.
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

/// Returns integers times the scales of their rows.
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
