//! What the specification requires of each architecture that it describes: a file with exactly
//! these keys passes in its profile, and a file without any one of them does not.
//!
//! The tables are transcribed from the text of the specification, not from the data of the crates:
//! `docs/gguf.md` of ggml at commit `f18a111977d3`, lines 473 to 624, and lines 340 to 353 for the
//! keys of every file.

use ggmill_check::{Options, Profile, Report, Severity};
use ggmill_core::{GgmlType, ValueType};
use ggmill_testdata::bytes::Value;

use crate::support::{Model, report_named};

/// A key without the architecture's name, and the type that the specification gives it: in the
/// architecture's own section, or in the sections *LLM*, *Attention*, *RoPE* and *SSM*.
type Required = (&'static str, ValueType);

const U32: ValueType = ValueType::U32;
const U64: ValueType = ValueType::U64;
const F32: ValueType = ValueType::F32;
const BOOL: ValueType = ValueType::BOOL;

const SPECIFICATION: &[(&str, &[Required])] = &[
    (
        "llama",
        &[
            ("context_length", U64),
            ("embedding_length", U64),
            ("block_count", U64),
            ("feed_forward_length", U64),
            ("rope.dimension_count", U64),
            ("attention.head_count", U64),
            ("attention.layer_norm_rms_epsilon", F32),
        ],
    ),
    (
        "mpt",
        &[
            ("context_length", U64),
            ("embedding_length", U64),
            ("block_count", U64),
            ("attention.head_count", U64),
            ("attention.alibi_bias_max", F32),
            ("attention.clip_kqv", F32),
            ("attention.layer_norm_epsilon", F32),
        ],
    ),
    (
        "gptneox",
        &[
            ("context_length", U64),
            ("embedding_length", U64),
            ("block_count", U64),
            ("use_parallel_residual", BOOL),
            ("rope.dimension_count", U64),
            ("attention.head_count", U64),
            ("attention.layer_norm_epsilon", F32),
        ],
    ),
    (
        "gptj",
        &[
            ("context_length", U64),
            ("embedding_length", U64),
            ("block_count", U64),
            ("rope.dimension_count", U64),
            ("attention.head_count", U64),
            ("attention.layer_norm_epsilon", F32),
        ],
    ),
    (
        "gpt2",
        &[
            ("context_length", U64),
            ("embedding_length", U64),
            ("block_count", U64),
            ("attention.head_count", U64),
            ("attention.layer_norm_epsilon", F32),
        ],
    ),
    (
        "bloom",
        &[
            ("context_length", U64),
            ("embedding_length", U64),
            ("block_count", U64),
            ("feed_forward_length", U64),
            ("attention.head_count", U64),
            ("attention.layer_norm_epsilon", F32),
        ],
    ),
    (
        "falcon",
        &[
            ("context_length", U64),
            ("embedding_length", U64),
            ("block_count", U64),
            ("attention.head_count", U64),
            ("attention.head_count_kv", U64),
            // No section gives it a type.
            ("attention.use_norm", BOOL),
            ("attention.layer_norm_epsilon", F32),
        ],
    ),
    (
        "mamba",
        &[
            ("context_length", U64),
            ("embedding_length", U64),
            ("block_count", U64),
            ("ssm.conv_kernel", U32),
            ("ssm.inner_size", U32),
            ("ssm.state_size", U32),
            ("ssm.time_step_rank", U32),
            ("attention.layer_norm_rms_epsilon", F32),
        ],
    ),
    (
        "rwkv",
        &[
            ("architecture_version", U32),
            ("context_length", U64),
            ("block_count", U64),
            ("embedding_length", U64),
            ("feed_forward_length", U64),
        ],
    ),
    (
        "whisper",
        &[
            ("encoder.context_length", U64),
            ("encoder.embedding_length", U64),
            ("encoder.block_count", U64),
            ("encoder.mels_count", U64),
            ("encoder.attention.head_count", U64),
            ("decoder.context_length", U64),
            ("decoder.embedding_length", U64),
            ("decoder.block_count", U64),
            ("decoder.attention.head_count", U64),
        ],
    ),
];

/// Spellings that the section of an architecture has for a key that another section defines under
/// another name: lines 504 and 435, 505 and 436.
const SPELLINGS: &[(&str, &str)] = &[
    ("mpt.attention.alibi_bias_max", "mpt.attention.max_alibi_bias"),
    ("mpt.attention.clip_kqv", "mpt.attention.clamp_kqv"),
];

/// "By convention, most counts/lengths/etc are `uint64` unless otherwise specified ... Some models
/// may use `uint32`": either is to be accepted.
#[derive(Clone, Copy, PartialEq)]
enum Width {
    U64,
    U32,
}

/// What the file holds beside its metadata.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Holds {
    /// Nothing: the specification asks for no tensor by name.
    Metadata,
    /// A tensor that is not quantized.
    Tensor,
    /// A quantized tensor, with which the specification requires
    /// `general.quantization_version`.
    Quantized,
}

fn value(key: &str, value_type: ValueType, width: Width) -> Value {
    let number: u32 = match key {
        "architecture_version" => 4,
        _ if key.ends_with("block_count") => 1,
        _ => 8,
    };
    match value_type {
        ValueType::BOOL => Value::Bool(1),
        ValueType::F32 => Value::F32(1e-5),
        ValueType::U64 if width == Width::U64 => Value::U64(number.into()),
        _ => Value::U32(number),
    }
}

fn model(architecture: &str, keys: &[Required], width: Width, holds: Holds) -> Model {
    let mut model = Model::empty()
        .set("general.architecture", architecture)
        .set("general.alignment", Value::U32(32));
    for &(key, value_type) in keys {
        model = model.set(format!("{architecture}.{key}"), value(key, value_type, width));
    }
    match holds {
        Holds::Metadata => model,
        Holds::Tensor => model.tensor("token_embd.weight", &[32, 8], GgmlType::F32),
        Holds::Quantized => model.set("general.quantization_version", Value::U32(2)).tensor(
            "token_embd.weight",
            &[32, 8],
            GgmlType::Q8_0,
        ),
    }
}

fn held_to(profile: Profile, model: &Model) -> Report {
    report_named("Tiny-1K-v1.0.gguf", &model.bytes(), &Options::default().with_profile(profile))
}

fn every_file(mut look: impl FnMut(&'static str, &'static [Required], Holds, Model)) {
    for &(architecture, keys) in SPECIFICATION {
        for width in [Width::U64, Width::U32] {
            for holds in [Holds::Metadata, Holds::Tensor, Holds::Quantized] {
                look(architecture, keys, holds, model(architecture, keys, width, holds));
            }
        }
    }
}

#[test]
fn exactly_the_keys_that_the_specification_requires_pass() {
    every_file(|architecture, _, holds, file| {
        let found = held_to(Profile::Spec, &file);
        assert!(!found.has_errors(), "{architecture}, {holds:?}: {:?}", found.diagnostics());
    });
}

#[test]
fn a_file_without_one_of_them_does_not_pass() {
    let mut files = 0;
    every_file(|architecture, keys, holds, file| {
        let own = keys.iter().map(|(key, _)| format!("{architecture}.{key}"));
        let version = (holds == Holds::Quantized).then_some("general.quantization_version".into());
        for key in own.chain(version).chain(["general.architecture".to_owned()]) {
            let found = held_to(Profile::Spec, &file.clone().unset(&key));
            let told = found.diagnostics().iter().any(|diagnostic| {
                diagnostic.severity == Severity::Error
                    && diagnostic.subject.to_string().contains(&format!("\"{key}\""))
            });
            assert!(told, "{holds:?} without {key}: {:?}", found.diagnostics());
            files += 1;
        }
    });
    assert!(files > 400, "{files}");
}

/// "If the alignment is **not** specified, assume it is `32`": a required key with a default, which
/// is told of and does not fail.
#[test]
fn a_file_without_its_alignment_passes_with_a_note() {
    every_file(|architecture, _, _, file| {
        let found = held_to(Profile::Spec, &file.unset("general.alignment"));
        assert!(!found.has_errors(), "{architecture}: {:?}", found.diagnostics());
        assert!(found.counts().iter().any(|(rule, _)| rule.code == "GG1111"));
    });
}

#[test]
fn a_key_may_have_the_name_that_its_definition_has() {
    for (stated, defined) in SPELLINGS {
        every_file(|architecture, _, _, file| {
            if stated.starts_with(&format!("{architecture}.")) {
                let found =
                    held_to(Profile::Spec, &file.unset(stated).set(defined, Value::F32(8.0)));
                assert!(!found.has_errors(), "{defined}: {:?}", found.diagnostics());
            }
        });
    }
}

/// What is said of a key that is missing, in the profile of everybody.
fn said(architecture: &str, key: &str) -> Option<(&'static str, String)> {
    let keys =
        SPECIFICATION.iter().find(|(name, _)| *name == architecture).map(|(_, keys)| *keys)?;
    let all = model(architecture, keys, Width::U32, Holds::Tensor)
        .set(format!("{architecture}.feed_forward_length"), Value::U32(8));
    let found = held_to(Profile::All, &all.unset(&format!("{architecture}.{key}")));
    let about = format!("key \"{architecture}.{key}\"");
    found
        .diagnostics()
        .iter()
        .find(|diagnostic| diagnostic.subject.to_string() == about)
        .map(|diagnostic| (diagnostic.rule.code, diagnostic.message.clone()))
}

/// The specification has no `feed_forward_length` in the sections of these architectures;
/// llama.cpp refuses a file without it.
#[test]
fn what_only_llama_cpp_requires_is_not_laid_to_the_specification() {
    for architecture in ["gpt2", "gptneox", "falcon", "mpt"] {
        let (code, message) = said(architecture, "feed_forward_length").unwrap();
        assert_eq!(code, "GG1518", "{architecture}");
        assert!(
            message.ends_with("required by llama.cpp, but not by the specification"),
            "{message}"
        );
    }
    for (architecture, key, expected) in [
        (
            "gpt2",
            "context_length",
            "required by the specification (section \"GPT-2\", line 537) and by llama.cpp",
        ),
        (
            "bloom",
            "feed_forward_length",
            "required by the specification (section \"BLOOM\", line 548) and by llama.cpp",
        ),
    ] {
        let (code, message) = said(architecture, key).unwrap();
        assert_eq!(code, "GG1501");
        assert!(message.ends_with(expected), "{message}");
    }
    let (code, message) = said("gptneox", "rope.dimension_count").unwrap();
    assert_eq!(code, "GG1502");
    assert!(
        message.ends_with("required by the specification (section \"GPT-NeoX\", line 514)"),
        "{message}"
    );
    // No file has it: only the profile of the specification asks for it.
    assert_eq!(said("falcon", "attention.use_norm"), None);
}
