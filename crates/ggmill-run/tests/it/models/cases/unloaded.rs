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
    case(
        "whisper",
        "whisper",
        &[
            ("encoder.context_length", U(11)),
            ("encoder.embedding_length", U(32)),
            ("encoder.block_count", U(2)),
            ("encoder.mels_count", U(10)),
            ("encoder.attention.head_count", U(4)),
            ("decoder.context_length", U(64)),
            ("decoder.embedding_length", U(32)),
            ("decoder.block_count", U(3)),
            ("decoder.attention.head_count", U(4)),
        ],
        &[],
    ),
];
