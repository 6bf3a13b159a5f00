//! Gemma since its third generation, with inputs for every block and keys of other blocks.

use super::{Case, Value, case};
use crate::models::Value::{Bools, F, U, Us};

const FOUR: [(&str, Value); 9] = [
    ("block_count", U(4)),
    ("attention.sliding_window", U(5)),
    ("attention.key_length", U(8)),
    ("attention.value_length", U(8)),
    ("attention.key_length_swa", U(4)),
    ("attention.value_length_swa", U(4)),
    ("rope.dimension_count", U(8)),
    ("rope.dimension_count_swa", U(4)),
    ("rope.freq_base", F(1e6)),
];

pub(super) const CASES: &[Case] = &[
    case(
        "muse-glimmer",
        "muse-glimmer",
        &[
            ("block_count", U(5)),
            ("attention.sliding_window", U(5)),
            ("attention.sliding_window_pattern", Bools(&[true, true, true, false, true])),
            ("rope.freq_base", F(500.0)),
            ("logit_scale", F(0.7)),
            ("final_logit_softcapping", F(2.5)),
        ],
        &["output"],
    ),
    case(
        "gemma4",
        "gemma4",
        &[
            FOUR[0],
            FOUR[1],
            FOUR[2],
            FOUR[3],
            FOUR[4],
            FOUR[5],
            FOUR[6],
            FOUR[7],
            FOUR[8],
            ("attention.sliding_window_pattern", Bools(&[true, false, true, false])),
            ("attention.head_count_kv", Us(&[2, 1, 2, 1])),
            ("attention.shared_kv_layers", U(2)),
            ("embedding_length_per_layer_input", U(12)),
            ("final_logit_softcapping", F(3.0)),
        ],
        &["layer_output_scale"],
    ),
    case(
        "gemma4-experts",
        "gemma4",
        &[
            FOUR[0],
            FOUR[1],
            FOUR[2],
            FOUR[3],
            FOUR[4],
            FOUR[5],
            FOUR[6],
            FOUR[7],
            FOUR[8],
            ("attention.sliding_window_pattern", Bools(&[true, true, false, true])),
            ("attention.shared_kv_layers", U(0)),
            ("embedding_length_per_layer_input", U(0)),
            ("expert_count", U(6)),
            ("expert_used_count", U(2)),
            ("expert_feed_forward_length", U(20)),
            ("rope.freq_base_swa", F(500.0)),
        ],
        &["output"],
    ),
    // What llama.cpp does not read from the file: 20 blocks with keys, the rank and the second width.
    // So many blocks add to the error of GELU's table, the less the wider they are.
    case(
        "gemma3n",
        "gemma3n",
        &[
            ("block_count", U(22)),
            ("attention.sliding_window", U(5)),
            ("attention.key_length", U(4)),
            ("attention.value_length", U(4)),
            ("attention.shared_kv_layers", U(2)),
            ("altup.num_inputs", U(4)),
            ("altup.active_idx", U(0)),
            ("embedding_length", U(128)),
            ("feed_forward_length", U(256)),
            ("embedding_length_per_layer_input", U(256)),
        ],
        &[],
    ),
];
