//! Tiny models of every architecture that is described, made from the descriptions alone, and the
//! same models with one thing wrong.
//!
//! `python3 conformance/run.py architectures --load` gives them to llama.cpp's loader and records what it
//! says.

use ggmill_arch::{Architecture, KeySpec, RequiredBy, Resolved, TensorSpec};
use ggmill_core::{GgmlType, Header, ValueType};
use ggmill_testdata::bytes::Value;

use crate::support::{Model, strings};

/// The numbers of the models, by key without the architecture's name: small, and each different
/// where a mix-up should show.
const NUMBERS: &[(&str, u32)] = &[
    ("block_count", 2),
    ("context_length", 24),
    ("embedding_length", 32),
    ("feed_forward_length", 40),
    ("attention.head_count", 4),
    ("ssm.conv_kernel", 4),
    ("ssm.inner_size", 64),
    ("ssm.state_size", 16),
    ("ssm.time_step_rank", 8),
    ("ssm.group_count", 2),
    ("wkv.head_size", 16),
    ("time_mix_extra_dim", 6),
    ("time_decay_extra_dim", 10),
    ("attention.decay_lora_rank", 6),
    ("attention.iclr_lora_rank", 10),
    ("attention.value_residual_mix_lora_rank", 12),
    ("attention.gate_lora_rank", 14),
    ("attention.relative_buckets_count", 8),
    ("attention.sliding_window", 16),
    ("attention.q_lora_rank", 20),
    ("attention.kv_lora_rank", 28),
    ("expert_count", 6),
    ("expert_used_count", 2),
    ("expert_feed_forward_length", 36),
    ("expert_shared_count", 2),
    ("tokenizer.ggml.token_type_count", 2),
    ("rope.dimension_count", 8),
    ("architecture_version", 4),
    ("encoder.context_length", 24),
    ("encoder.embedding_length", 32),
    ("encoder.block_count", 2),
    ("encoder.mels_count", 10),
    ("encoder.attention.head_count", 4),
    ("decoder.context_length", 20),
    ("decoder.embedding_length", 48),
    ("decoder.block_count", 3),
    ("decoder.attention.head_count", 4),
];

/// A name, the architecture, and keys with their numbers.
type Further = (&'static str, &'static str, &'static [(&'static str, u32)]);

/// Models whose architecture has parts that the least set of keys does not call for. Where the name
/// is the architecture's own, that least set makes no model.
const FURTHER: &[Further] = &[
    ("llama grouped", "llama", &[("attention.head_count_kv", 2)]),
    (
        "llama long heads",
        "llama",
        &[
            ("attention.key_length", 12),
            ("attention.value_length", 12),
            ("rope.dimension_count", 12),
        ],
    ),
    ("llama experts", "llama", &[("expert_count", 6), ("expert_used_count", 2)]),
    ("gpt2 grouped", "gpt2", &[("attention.head_count_kv", 2)]),
    ("falcon one key head", "falcon", &[("attention.head_count_kv", 1)]),
    ("qwen2 grouped", "qwen2", &[("attention.head_count_kv", 2)]),
    ("qwen2moe", "qwen2moe", &[("feed_forward_length", 40)]),
    ("qwen3moe", "qwen3moe", &[("feed_forward_length", 40)]),
    (
        "qwen2moe widths",
        "qwen2moe",
        &[
            ("expert_feed_forward_length", 36),
            ("expert_shared_feed_forward_length", 44),
            ("attention.head_count_kv", 2),
        ],
    ),
    (
        "qwen3 long heads",
        "qwen3",
        &[
            ("attention.key_length", 12),
            ("attention.value_length", 12),
            ("attention.head_count_kv", 2),
        ],
    ),
    ("qwen3moe width", "qwen3moe", &[("expert_feed_forward_length", 36)]),
    (
        "gemma long heads",
        "gemma",
        &[
            ("attention.key_length", 12),
            ("attention.value_length", 12),
            ("attention.head_count_kv", 1),
        ],
    ),
    ("stablelm grouped", "stablelm", &[("attention.head_count_kv", 2)]),
    ("olmo2 grouped", "olmo2", &[("attention.head_count_kv", 2)]),
    ("command-r plus", "command-r", &[("block_count", 64), ("attention.head_count_kv", 2)]),
    ("phi3 half turned", "phi3", &[("rope.dimension_count", 4)]),
    (
        "t5 fewer decoders",
        "t5",
        &[("decoder_block_count", 1), ("attention.key_length", 12), ("attention.value_length", 12)],
    ),
    (
        "gpt-oss long heads",
        "gpt-oss",
        &[
            ("attention.key_length", 12),
            ("attention.value_length", 12),
            ("attention.head_count_kv", 2),
        ],
    ),
    (
        "deepseek2",
        "deepseek2",
        &[
            ("rope.dimension_count", 2),
            ("leading_dense_block_count", 1),
            ("feed_forward_length", 40),
        ],
    ),
    (
        "deepseek2 latent",
        "deepseek2",
        &[
            ("attention.head_count_kv", 1),
            ("attention.key_length", 30),
            ("attention.value_length", 28),
            ("attention.key_length_mla", 12),
            ("attention.value_length_mla", 10),
            ("rope.dimension_count", 2),
        ],
    ),
    ("deepseek2 lite", "deepseek2", &[("block_count", 26), ("rope.dimension_count", 2)]),
    (
        "deepseek2 predicting",
        "deepseek2",
        &[("block_count", 3), ("nextn_predict_layers", 1), ("rope.dimension_count", 2)],
    ),
    ("granite experts", "granite", &[("expert_count", 6), ("expert_used_count", 2)]),
    (
        "granite shared expert",
        "granite",
        &[("expert_count", 6), ("expert_used_count", 2), ("expert_shared_feed_forward_length", 44)],
    ),
];

/// A model, whole or with one thing wrong.
pub(crate) struct Sample {
    /// The model.
    pub(crate) model: &'static str,
    /// What was done to it.
    pub(crate) change: String,
    pub(crate) file: Model,
}

/// The models: for each architecture the least one, and those with further parts.
pub(crate) fn models() -> Vec<(&'static str, &'static Architecture, Model)> {
    let least = Architecture::builtin_names()
        .filter(|name| FURTHER.iter().all(|(model, ..)| model != name))
        .map(|name| (name, name, &[][..]));
    let all = least.chain(FURTHER.iter().copied());
    all.map(|(model, name, keys)| {
        let architecture = Architecture::builtin(name).unwrap();
        (model, architecture, with_keys(architecture, keys))
    })
    .collect()
}

/// The model as it should be, with the least set of tensors and with all it may have, and with one
/// thing wrong at a time.
pub(crate) fn samples(
    model: &'static str,
    architecture: &Architecture,
    keys: &Model,
) -> Vec<Sample> {
    let bytes = keys.bytes();
    let header = Header::parse(bytes).unwrap();
    let resolved = architecture
        .resolve_file(header.metadata())
        .unwrap_or_else(|error| panic!("{model}: {error}"));
    let least = with_tensors(keys.clone(), &resolved, |spec| spec.required);
    let mut samples = Vec::new();
    let mut add = |change: String, file: Model| samples.push(Sample { model, change, file });
    add("whole".into(), least.clone());
    add(
        "all".into(),
        with_tensors(keys.clone(), &resolved, |spec| {
            spec.unless.is_none()
                || !resolved.tensors().iter().any(|other| Some(&other.name) == spec.unless.as_ref())
        }),
    );
    for key in architecture.keys().filter(|key| {
        key.required_by.is_some_and(RequiredBy::includes_loader) && architecture.loader().is_some()
    }) {
        let there = least
            .pairs
            .iter()
            .find(|(name, _)| name == key.name.as_bytes())
            .map(|(_, value)| value);
        let Some(value) = there else { continue };
        add(format!("without {}", key.name), least.clone().unset(key.name));
        let wider = match value {
            Value::U32(number) => Value::U64(u64::from(*number)),
            Value::F32(number) => Value::F64(f64::from(*number)),
            _ => Value::U8(1),
        };
        add(format!("{} of another type", key.name), least.clone().set(key.name, wider));
    }
    let last_block = least.tensors.iter().filter_map(|(name, ..)| block(name)).max();
    for (name, shape, _) in
        least.tensors.iter().filter(|(name, ..)| block(name).is_none() || block(name) == last_block)
    {
        let name = core::str::from_utf8(name).unwrap();
        add(format!("without {name}"), least.clone().retensor(name, None));
        let mut longer = shape.clone();
        *longer.last_mut().unwrap() += 1;
        add(format!("{name} longer"), least.clone().retensor(name, Some((&longer, GgmlType::F32))));
    }
    add("another tensor".into(), least.tensor("blk.0.sideways.weight", &[32], GgmlType::F32));
    samples
}

/// The number of a tensor's block.
fn block(name: &[u8]) -> Option<u32> {
    core::str::from_utf8(name).ok()?.split('.').find_map(|part| part.parse().ok())
}

/// The keys the architecture demands and some more, with a vocabulary.
fn with_keys(architecture: &Architecture, more: &[(&str, u32)]) -> Model {
    let mut model = vocabulary(Model::empty().set("general.architecture", architecture.name()));
    for (key, number) in more {
        model = model.set(format!("{}.{key}", architecture.name()), Value::U32(*number));
    }
    let bytes = model.bytes();
    let header = Header::parse(bytes).unwrap();
    // A condition may lift a demand once other keys are there.
    let wanted = |key: &KeySpec<'_>| {
        key.required_by.is_some_and(RequiredBy::includes_loader) || architecture.loader().is_none()
    };
    for key in architecture.missing_keys(header.metadata()).iter().filter(|key| wanted(key)) {
        model = model.set(key.name, value(architecture, key));
    }
    let bytes = model.bytes();
    let header = Header::parse(bytes).unwrap();
    for key in architecture.keys().filter(|key| header.metadata().get(key.name).is_some()) {
        let needed = architecture
            .missing_keys(header.metadata())
            .iter()
            .all(|missing| missing.name != key.name);
        assert!(needed, "{}", key.name);
    }
    model
}

fn value(architecture: &Architecture, key: &KeySpec<'_>) -> Value {
    let short = key
        .name
        .strip_prefix(architecture.name())
        .and_then(|key| key.strip_prefix('.'))
        .unwrap_or(key.name);
    let number = NUMBERS.iter().find(|(name, _)| *name == short).map_or(0, |(_, number)| *number);
    match key.single {
        Some(ValueType::F32) => Value::F32(1e-5),
        Some(ValueType::BOOL) => Value::Bool(1),
        Some(ValueType::U64) => Value::U64(number.into()),
        _ if number > 0 => Value::U32(number),
        _ => panic!("no number for {}", key.name),
    }
}

/// A vocabulary of the least kind that readers take: three special tokens and one for each byte.
fn vocabulary(model: Model) -> Model {
    let bytes: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let tokens: Vec<&str> =
        ["<unk>", "<s>", "</s>"].into_iter().chain(bytes.iter().map(String::as_str)).collect();
    let types = [2, 3, 3].into_iter().chain(core::iter::repeat_n(6, 256)).map(Value::I32).collect();
    model
        .set("tokenizer.ggml.model", "llama")
        .set("tokenizer.ggml.scores", Value::Array(6, vec![Value::F32(0.0); tokens.len()]))
        .set("tokenizer.ggml.token_type", Value::Array(5, types))
        .set("tokenizer.ggml.bos_token_id", Value::U32(1))
        .set("tokenizer.ggml.eos_token_id", Value::U32(2))
        .set("tokenizer.ggml.unknown_token_id", Value::U32(0))
        .set("tokenizer.ggml.tokens", strings(&tokens))
}

fn with_tensors(
    mut model: Model,
    resolved: &Resolved<'_>,
    wanted: impl Fn(&TensorSpec) -> bool,
) -> Model {
    for spec in resolved.tensors().iter().filter(|spec| wanted(spec)) {
        model = model.tensor(&spec.name, spec.shape.dimensions(), GgmlType::F32);
    }
    model
}
