//! Groups of columns that share a scale.

use ggmill_core::GgmlType;
use ggmill_pipeline::{Expression, PackedIntegers, Result};
use serde_json::Value;

use super::quantization::refused;
use super::unpacking::Unpacking;

/// Columns of a group as settings have it; `None` for one group for each row.
pub(super) fn group_size(settings: &Value, names: &[&str]) -> Result<Option<u64>> {
    let found = names.iter().find_map(|name| Some((*name, settings.get(name)?)));
    let Some((name, value)) = found.filter(|(_, value)| !value.is_null()) else { return Ok(None) };
    match (value.as_i64(), value.as_u64()) {
        (Some(-1), _) => Ok(None),
        (_, Some(size)) if size > 0 => Ok(Some(size)),
        _ => Err(refused(name, value, "a positive number or -1")),
    }
}

/// Has the groups of columns from a tensor (`g_idx`), which becomes an input where it is not in
/// order. Returns whether the tensor says anything: numbers that are all −1 do not.
pub(super) fn numbered(
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

/// Fails for a tensor that is not a matrix; its rows and columns.
pub(super) fn matrix(list: &Unpacking<'_>, number: usize) -> Result<[u64; 2]> {
    let shape = &list.tensor(number).shape;
    <[u64; 2]>::try_from(shape.dimensions())
        .map_err(|_| list.fault(number, format!("has shape {shape}, expected a matrix")))
}

/// The stored matrix, turned.
pub(super) fn turned(list: &Unpacking<'_>, number: usize) -> Result<Expression> {
    matrix(list, number)?;
    list.stored(number)?.transpose()
}

/// Levels in a word of the type of a tensor. Fails where that is not an integer.
pub(super) fn levels_in_word(list: &Unpacking<'_>, number: usize, bits: u32) -> Result<u64> {
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
