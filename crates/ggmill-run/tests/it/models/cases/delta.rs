//! Models with linear attention.

use super::{Case, LONG, Value, case};
use crate::models::Value::{Bools, U, Us};

const DELTA: [(&str, Value); 9] = [
    ("block_count", U(3)),
    ("ssm.conv_kernel", U(4)),
    ("ssm.inner_size", U(32)),
    ("ssm.state_size", U(8)),
    ("ssm.group_count", U(2)),
    ("ssm.time_step_rank", U(4)),
    ("attention.recurrent_layers", Bools(&[true, false, true])),
    ("rope.dimension_count", U(4)),
    ("rope.dimension_sections", Us(&[1, 1, 0, 0])),
];
const EXPERTS: [(&str, Value); 4] = [
    ("expert_count", U(6)),
    ("expert_used_count", U(2)),
    ("expert_feed_forward_length", U(20)),
    ("expert_shared_feed_forward_length", U(28)),
];

pub(super) const CASES: &[Case] = &[
    case(
        "qwen3next",
        "qwen3next",
        &[
            LONG[0], LONG[1], DELTA[0], DELTA[1], DELTA[2], DELTA[3], DELTA[4], DELTA[5], DELTA[6],
            DELTA[7], EXPERTS[0], EXPERTS[1], EXPERTS[2], EXPERTS[3],
        ],
        &["output"],
    ),
    case(
        "qwen35",
        "qwen35",
        &[
            LONG[0], LONG[1], DELTA[0], DELTA[1], DELTA[2], DELTA[3], DELTA[4], DELTA[5], DELTA[6],
            DELTA[7], DELTA[8],
        ],
        &[],
    ),
    case(
        "qwen35moe",
        "qwen35moe",
        &[
            LONG[0], LONG[1], DELTA[0], DELTA[1], DELTA[2], DELTA[3], DELTA[4], DELTA[5], DELTA[6],
            DELTA[7], DELTA[8], EXPERTS[0], EXPERTS[1], EXPERTS[2], EXPERTS[3],
        ],
        &["output"],
    ),
];
