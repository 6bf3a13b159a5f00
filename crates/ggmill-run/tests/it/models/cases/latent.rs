//! Models with latent attention.

use super::{Case, Value, case};
use crate::models::Value::{B, F, S, U};

const LATENT: [(&str, Value); 12] = [
    ("block_count", U(3)),
    ("leading_dense_block_count", U(1)),
    ("attention.head_count_kv", U(1)),
    ("attention.kv_lora_rank", U(16)),
    ("attention.key_length", U(24)),
    ("attention.value_length", U(16)),
    ("attention.key_length_mla", U(20)),
    ("attention.value_length_mla", U(12)),
    ("rope.dimension_count", U(8)),
    ("expert_count", U(6)),
    ("expert_used_count", U(2)),
    ("expert_feed_forward_length", U(20)),
];

pub(super) const CASES: &[Case] = &[
    case(
        "deepseek2",
        "deepseek2",
        &[
            LATENT[0],
            LATENT[1],
            LATENT[2],
            LATENT[3],
            LATENT[4],
            LATENT[5],
            LATENT[6],
            LATENT[7],
            LATENT[8],
            LATENT[9],
            LATENT[10],
            LATENT[11],
            ("attention.q_lora_rank", U(12)),
            ("expert_shared_count", U(1)),
            ("expert_gating_func", U(2)),
            ("expert_weights_norm", B(true)),
            ("expert_weights_scale", F(1.5)),
            ("rope.scaling.type", S("yarn")),
            ("rope.scaling.factor", F(4.0)),
            ("rope.scaling.original_context_length", U(16)),
            ("rope.scaling.yarn_log_multiplier", F(0.1)),
            ("vocab_size", U(259)),
        ],
        &["exp_probs_b", "output"],
    ),
    case(
        "deepseek2-heads",
        "deepseek2",
        &[
            LATENT[0],
            LATENT[1],
            ("attention.head_count_kv", U(4)),
            LATENT[3],
            ("attention.key_length", U(20)),
            ("attention.value_length", U(12)),
            LATENT[8],
            LATENT[9],
            LATENT[10],
            LATENT[11],
            ("attention.q_lora_rank", U(12)),
            ("expert_shared_count", U(1)),
            ("rope.scaling.type", S("linear")),
            ("rope.scaling.factor", F(4.0)),
            ("rope.scaling.yarn_log_multiplier", F(0.0707)),
            ("vocab_size", U(259)),
        ],
        &["output"],
    ),
];
