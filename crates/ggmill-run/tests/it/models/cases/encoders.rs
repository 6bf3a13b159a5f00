//! Models that give vectors for texts, and those whose encoder has a decoder beside it.

use super::{Case, Value, case};
use crate::models::Value::{B, Bools, F, S, U};

const NOT_CAUSAL: (&str, Value) = ("attention.causal", B(false));
const ALL_HEADS: (&str, Value) = ("attention.head_count_kv", U(4));
const TYPES: (&str, Value) = ("tokenizer.ggml.token_type_count", U(2));
/// Fewer tokens than the texts of the tests have, to both sides.
const WINDOW: (&str, Value) = ("attention.sliding_window", U(6));

pub(super) const CASES: &[Case] = &[
    case(
        "bert",
        "bert",
        &[ALL_HEADS, NOT_CAUSAL, TYPES],
        &[
            "token_types",
            "attn_q.bias",
            "attn_k.bias",
            "attn_v.bias",
            "attn_output.bias",
            "ffn_up.bias",
            "ffn_down.bias",
        ],
    ),
    case("nomic-bert", "nomic-bert", &[ALL_HEADS, NOT_CAUSAL, TYPES], &["token_types", "attn_qkv"]),
    case(
        "nomic-bert-parts",
        "nomic-bert",
        &[ALL_HEADS, NOT_CAUSAL, ("tokenizer.ggml.token_type_count", U(1))],
        &["attn_q", "attn_k", "attn_v", "attn_output.bias"],
    ),
    case(
        "nomic-bert-moe",
        "nomic-bert-moe",
        &[
            ALL_HEADS,
            NOT_CAUSAL,
            TYPES,
            ("block_count", U(3)),
            ("moe_every_n_layers", U(2)),
            ("expert_count", U(6)),
            ("expert_used_count", U(2)),
        ],
        &["token_types", "attn_qkv", "attn_output.bias", "ffn_up.bias", "ffn_down.bias"],
    ),
    case(
        "jina-bert-v2",
        "jina-bert-v2",
        &[ALL_HEADS, NOT_CAUSAL, TYPES],
        &[
            "attn_q.bias",
            "attn_k.bias",
            "attn_v.bias",
            "attn_q_norm",
            "attn_k_norm",
            "attn_norm_2",
            "ffn_up.bias",
            "ffn_down.bias",
        ],
    ),
    case("jina-bert-v2-plain", "jina-bert-v2", &[ALL_HEADS, NOT_CAUSAL, TYPES], &["ffn_down.bias"]),
    case("eurobert", "eurobert", &[ALL_HEADS, NOT_CAUSAL], &[]),
    case(
        "t5encoder",
        "t5encoder",
        &[ALL_HEADS, NOT_CAUSAL, ("attention.relative_buckets_count", U(8))],
        &["enc.blk.0.attn_rel_b"],
    ),
    case(
        "t5encoder-gated",
        "t5encoder",
        &[ALL_HEADS, NOT_CAUSAL, ("attention.relative_buckets_count", U(32))],
        &[
            "enc.blk.0.attn_rel_b",
            "enc.blk.1.attn_rel_b",
            "enc.blk.0.ffn_gate",
            "enc.blk.1.ffn_gate",
        ],
    ),
    case(
        "t5",
        "t5",
        &[
            ALL_HEADS,
            ("attention.relative_buckets_count", U(8)),
            ("block_count", U(3)),
            ("decoder_block_count", U(2)),
            ("decoder_start_token_id", U(5)),
        ],
        &["enc.blk.0.attn_rel_b", "dec.blk.0.attn_rel_b", "output"],
    ),
    case(
        "t5-gated",
        "t5",
        &[
            ALL_HEADS,
            ("attention.relative_buckets_count", U(32)),
            ("block_count", U(2)),
            ("decoder_block_count", U(1)),
        ],
        &[
            "enc.blk.0.attn_rel_b",
            "enc.blk.1.attn_rel_b",
            "enc.blk.1.ffn_gate",
            "dec.blk.0.attn_rel_b",
            "dec.blk.0.ffn_gate",
        ],
    ),
    case("neo-bert", "neo-bert", &[ALL_HEADS, NOT_CAUSAL], &[]),
    case(
        "modern-bert",
        "modern-bert",
        &[ALL_HEADS, NOT_CAUSAL, ("block_count", U(4)), WINDOW, ("rope.freq_base_swa", F(500.0))],
        &[],
    ),
    case(
        "modern-bert-silu",
        "modern-bert",
        &[ALL_HEADS, NOT_CAUSAL, ("hidden_activation", S("silu"))],
        &["attn_norm"],
    ),
    case(
        "wavtokenizer-dec",
        "wavtokenizer-dec",
        &[
            NOT_CAUSAL,
            ("block_count", U(6)),
            ("features_length", U(32)),
            ("embedding_length", U(20)),
            ("posnet.embedding_length", U(32)),
            ("posnet.block_count", U(6)),
            ("convnext.embedding_length", U(32)),
            ("convnext.block_count", U(2)),
            ("attention.group_norm_epsilon", F(1e-6)),
            ("attention.group_norm_groups", U(4)),
        ],
        &[],
    ),
    case(
        "gemma-embedding",
        "gemma-embedding",
        &[
            ("block_count", U(3)),
            WINDOW,
            ("attention.sliding_window_pattern", Bools(&[true, false, true])),
            ("attention.key_length", U(12)),
            ("attention.value_length", U(12)),
            ("rope.freq_base", F(1e6)),
        ],
        &[],
    ),
];
