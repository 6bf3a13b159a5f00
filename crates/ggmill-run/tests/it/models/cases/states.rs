//! Models with recurrent states: state spaces and linear attention.

use super::{Case, Value, case};
use crate::models::Value::{B, F, U, Us};

const MAMBA: [(&str, Value); 4] = [
    ("ssm.conv_kernel", U(4)),
    ("ssm.inner_size", U(64)),
    ("ssm.state_size", U(8)),
    ("ssm.time_step_rank", U(4)),
];

const HYBRID: [(&str, Value); 3] =
    [("ssm.group_count", U(2)), ("block_count", U(4)), ("vocab_size", U(259))];

pub(super) const CASES: &[Case] = &[
    case(
        "lfm2",
        "lfm2",
        &[
            ("block_count", U(4)),
            ("attention.head_count_kv", Us(&[0, 2, 0, 2])),
            ("shortconv.l_cache", U(3)),
            ("vocab_size", U(259)),
        ],
        &[],
    ),
    case(
        "lfm2moe",
        "lfm2moe",
        &[
            ("block_count", U(3)),
            ("attention.head_count_kv", Us(&[0, 2, 0])),
            ("shortconv.l_cache", U(3)),
            ("vocab_size", U(259)),
            ("leading_dense_block_count", U(1)),
            ("expert_count", U(6)),
            ("expert_used_count", U(2)),
            ("expert_feed_forward_length", U(20)),
            ("expert_gating_func", U(2)),
        ],
        &[],
    ),
    case("mamba", "mamba", &MAMBA, &["output"]),
    case(
        "mamba-norms",
        "mamba",
        &[MAMBA[0], MAMBA[1], MAMBA[2], MAMBA[3], ("ssm.dt_b_c_rms", B(true))],
        &[],
    ),
    case(
        "mamba2",
        "mamba2",
        &[MAMBA[0], MAMBA[1], MAMBA[2], MAMBA[3], ("ssm.group_count", U(2))],
        &["output"],
    ),
    case(
        "granitehybrid",
        "granitehybrid",
        &[
            MAMBA[0],
            MAMBA[1],
            MAMBA[2],
            MAMBA[3],
            ("ssm.group_count", U(2)),
            ("block_count", U(3)),
            ("attention.head_count_kv", Us(&[0, 2, 0])),
            ("expert_count", U(6)),
            ("expert_used_count", U(2)),
            ("expert_shared_feed_forward_length", U(28)),
            ("attention.scale", F(0.2)),
            ("embedding_scale", F(3.0)),
            ("residual_scale", F(0.5)),
            ("logit_scale", F(2.0)),
        ],
        &["ssm_conv1d.bias"],
    ),
    case(
        "granitehybrid-dense",
        "granitehybrid",
        &[
            MAMBA[0],
            MAMBA[1],
            MAMBA[2],
            MAMBA[3],
            ("ssm.group_count", U(1)),
            ("attention.head_count_kv", Us(&[2, 0])),
            ("rope.scaling.finetuned", B(false)),
        ],
        &["output", "ssm_conv1d.bias"],
    ),
    case(
        "nemotron_h",
        "nemotron_h",
        &[
            MAMBA[0],
            MAMBA[1],
            MAMBA[2],
            MAMBA[3],
            HYBRID[0],
            HYBRID[1],
            HYBRID[2],
            ("attention.head_count_kv", Us(&[0, 2, 0, 0])),
            ("feed_forward_length", Us(&[0, 0, 48, 0])),
        ],
        &["ssm_conv1d.bias", "ffn_up.bias", "ffn_down.bias", "output"],
    ),
    case(
        "nemotron_h_moe",
        "nemotron_h_moe",
        &[
            MAMBA[0],
            MAMBA[1],
            MAMBA[2],
            MAMBA[3],
            HYBRID[0],
            HYBRID[1],
            HYBRID[2],
            ("attention.head_count_kv", Us(&[0, 2, 0, 0])),
            ("feed_forward_length", Us(&[0, 0, 20, 20])),
            ("expert_feed_forward_length", U(20)),
            ("expert_shared_feed_forward_length", U(28)),
            ("expert_shared_count", U(1)),
            ("expert_count", U(6)),
            ("expert_used_count", U(2)),
            ("expert_weights_norm", B(true)),
            ("expert_weights_scale", F(1.5)),
            ("moe_latent_size", U(16)),
        ],
        &["ssm_conv1d.bias", "ffn_latent_down", "ffn_latent_up", "output"],
    ),
];
