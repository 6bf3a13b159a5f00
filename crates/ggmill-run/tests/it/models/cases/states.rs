//! Models with recurrent states: state spaces and linear attention.

use super::{Case, Value, case};
use crate::models::Value::{B, U};

const MAMBA: [(&str, Value); 4] = [
    ("ssm.conv_kernel", U(4)),
    ("ssm.inner_size", U(64)),
    ("ssm.state_size", U(8)),
    ("ssm.time_step_rank", U(4)),
];

pub(super) const CASES: &[Case] = &[
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
