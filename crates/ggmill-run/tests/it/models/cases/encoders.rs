//! Models that give vectors for texts.

use super::{Case, case};
use crate::models::Value::{B, U};

pub(super) const CASES: &[Case] = &[case(
    "bert",
    "bert",
    &[
        ("attention.head_count_kv", U(4)),
        ("attention.causal", B(false)),
        ("tokenizer.ggml.token_type_count", U(2)),
    ],
    &[
        "token_types",
        "attn_q.bias",
        "attn_k.bias",
        "attn_v.bias",
        "attn_output.bias",
        "ffn_up.bias",
        "ffn_down.bias",
    ],
)];
