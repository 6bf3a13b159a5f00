//! Models with recurrent states: state spaces and linear attention.

use super::{Case, Value, case};
use crate::models::Value::{B, U, Us};

const MAMBA: [(&str, Value); 4] = [
    ("ssm.conv_kernel", U(4)),
    ("ssm.inner_size", U(64)),
    ("ssm.state_size", U(8)),
    ("ssm.time_step_rank", U(4)),
];

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
];
