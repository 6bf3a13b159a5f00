//! AWQ: integers of 4 bits, eight rows in a word out of order, a scale and a zero point for each
//! group of columns.

use ggmill_pipeline::{Expression, PackedIntegers, Result};
use serde_json::Value;

use super::groups::{group_size, levels_in_word, matrix, turned};
use super::quantization::{bits_of, refused};
use super::unpacking::Unpacking;

/// Decodes all weights, which come after all others, as those of GPTQ do.
pub(super) fn decode(list: &mut Unpacking<'_>, settings: &Value) -> Result<()> {
    let version = settings.get("version").unwrap_or(&Value::Null);
    if !version.is_null() && !version.as_str().is_some_and(|text| text.eq_ignore_ascii_case("gemm"))
    {
        return Err(refused("version", version, "gemm"));
    }
    let group = group_size(settings, &["group_size", "q_group_size"])?;
    for (number, base) in list.ending(".qweight") {
        let bits = bits_of(settings, &["bits", "w_bit"], &[4])?;
        let [zeros, scales] = [".qzeros", ".scales"].map(|ending| list.need(base, ending, number));
        let parts = [number, zeros?, scales?];
        let values = weights(list, parts, bits, group)
            .map_err(|error| error.tensor(&list.tensor(number).name))?;
        list.append(number, [base, b".weight"].concat(), values);
        for part in parts {
            list.leave_out(part);
        }
    }
    Ok(())
}

fn weights(
    list: &Unpacking<'_>,
    [levels, zeros, scales]: [usize; 3],
    bits: u32,
    group: Option<u64>,
) -> Result<Expression> {
    let [words, columns] = matrix(list, levels)?;
    let rows = words.saturating_mul(levels_in_word(list, levels, bits)?);
    let mut packed = PackedIntegers::new(bits, columns, rows).interleaved().with_zeros(0);
    if let Some(group) = group {
        packed = packed.in_groups(group);
    }
    let inputs = [turned(list, levels)?, turned(list, scales)?, turned(list, zeros)?];
    Expression::decode(packed, &inputs)
}
