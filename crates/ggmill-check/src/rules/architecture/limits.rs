//! Numbers that llama.cpp uses as lengths of arrays or as divisors.

use ggmill_arch::TensorNames;
use ggmill_core::Value;

use super::{LIMIT, NO_HEADS};
use crate::Input;
use crate::report::{Findings, Place};

/// The maximum number of layers of llama.cpp, `LLAMA_MAX_LAYERS`, and of sections of RoPE.
const MAX_LAYERS: u64 = 512;
const MAX_SECTIONS: u64 = 4;

/// Checks numbers that llama.cpp uses as lengths of arrays or as divisors.
pub(super) fn limits(input: &Input<'_>, name: &str, out: &mut Findings<'_>) {
    let find = |key: &str| {
        let entry = input.metadata().get(format!("{name}.{key}"))?;
        Some((entry, entry.value().ok()?))
    };
    let number = |key: &str| find(key).and_then(|(entry, value)| Some((entry, value.as_u64()?)));
    let blocks = number("block_count");
    // Programs other than llama.cpp have other limits.
    let by_loader = TensorNames::of(name).is_some();
    if let Some((entry, count)) = blocks.filter(|_| by_loader)
        && !(1..=MAX_LAYERS).contains(&count)
    {
        out.add(&LIMIT, Place::value(&entry), || {
            format!("{count} layers, but llama.cpp supports 1 to {MAX_LAYERS}")
        });
    }
    for key in ["nextn_predict_layers", "posnet.block_count", "convnext.block_count"] {
        if let (Some((entry, count)), Some((_, blocks))) = (number(key), blocks)
            && count > blocks
        {
            out.add(&LIMIT, Place::value(&entry), || {
                format!("is {count}, but block_count is {blocks}")
            });
        }
    }
    if let Some((entry, Value::Array(sections))) = find("rope.dimension_sections") {
        let has_positive = sections.integers().into_iter().flatten().any(|section| section > 0);
        if sections.len() > MAX_SECTIONS || !has_positive {
            out.add(&LIMIT, Place::value(&entry), || {
                format!(
                    "{} sections, expected at most {MAX_SECTIONS}, one of them positive",
                    sections.len()
                )
            });
        }
    }
    let has_attention = input.model_tensors().any(|(_, tensor)| {
        tensor.name().to_str().is_ok_and(|name| {
            [".attn_q.weight", ".attn_k.weight", ".attn_qkv.weight"]
                .iter()
                .any(|end| name.ends_with(end))
        })
    });
    for key in ["attention.head_count", "attention.head_count_kv"] {
        let Some((entry, value)) = find(key).filter(|_| has_attention) else { continue };
        let is_zero = match &value {
            Value::Array(heads) => {
                !heads.is_empty()
                    && heads.integers().is_some_and(|mut all| all.all(|count| count == 0))
            }
            value => value.as_i128() == Some(0),
        };
        if is_zero {
            out.add(&NO_HEADS, Place::value(&entry), || "is 0".into());
        }
    }
}
