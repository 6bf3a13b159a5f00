//! Models that no version of llama.cpp runs: recorded with `transformers`
//! (`xtask/peers/logits_transformers.py`).

use super::{Case, case};
use crate::models::Value::U;

pub(super) const CASES: &[Case] = &[
    case(
        "gptj",
        "gptj",
        &[("attention.head_count_kv", U(4)), ("rope.dimension_count", U(4))],
        &["output.bias"],
    ),
    case("rwkv", "rwkv", &[("architecture_version", U(4))], &[]),
];
