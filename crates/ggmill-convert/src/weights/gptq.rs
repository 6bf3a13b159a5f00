//! GPTQ: integers of 2, 4 or 8 bits down the columns, a scale and a zero point for each group of
//! columns, and the group of each column (`g_idx`).

use ggmill_pipeline::{Expression, PackedIntegers, Result};
use serde_json::Value;

use super::groups::{levels_in_word, matrix, numbered, turned};
use super::quantization::{bits_of, refused};
use super::unpacking::Unpacking;

/// Decodes all weights, which come after all others, as in the reference.
pub(super) fn decode(list: &mut Unpacking<'_>, settings: &Value) -> Result<()> {
    let format = settings.get("checkpoint_format").unwrap_or(&Value::Null);
    let plus = match format.as_str() {
        // The first version stores zero points less one.
        Some("gptq") => 1,
        None if format.is_null() => 1,
        Some("gptq_v2") => 0,
        _ => return Err(refused("checkpoint_format", format, "gptq or gptq_v2")),
    };
    for (number, base) in list.ending(".qweight") {
        let bits = bits_of(settings, &["bits"], &[2, 4, 8])?;
        let [zeros, scales, groups] =
            [".qzeros", ".scales", ".g_idx"].map(|ending| list.need(base, ending, number));
        let parts = [number, zeros?, scales?, groups?];
        let values = weights(list, parts, bits, plus)
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
    [levels, zeros, scales, groups]: [usize; 4],
    bits: u32,
    plus: i16,
) -> Result<Expression> {
    let [rows, words] = matrix(list, levels)?;
    let columns = words.saturating_mul(levels_in_word(list, levels, bits)?);
    let [_, count] = matrix(list, scales)?;
    let mut packed = PackedIntegers::new(bits, columns, rows).with_zeros(plus);
    let mut inputs = vec![turned(list, levels)?, turned(list, scales)?, turned(list, zeros)?];
    if !numbered(list, groups, columns, count, &mut packed, &mut inputs)? {
        return Err(list.fault(groups, "has no groups"));
    }
    Expression::decode(packed, &inputs)
}
