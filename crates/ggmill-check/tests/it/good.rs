//! Valid files of every kind have no findings, not even in the profile of the specification.

use ggmill_check::{Options, Profile, rules};
use ggmill_core::GgmlType;
use ggmill_testdata::bytes::Value;

use crate::support::{Model, codes, report_named, strings};

fn kind(kind: &str, architecture: &str) -> Model {
    Model::empty()
        .set("general.architecture", architecture)
        .set("general.type", kind)
        .set("general.alignment", Value::U32(32))
}

fn i32s(values: &[i32]) -> Value {
    Value::Array(5, values.iter().map(|&value| Value::I32(value)).collect())
}

fn byte_token(byte: u8) -> String {
    if byte.is_ascii_digit() { char::from(byte).to_string() } else { format!("<0x{byte:02X}>") }
}

/// Builds a model that follows the specification to the letter and uses every key that rules check.
fn letter() -> Model {
    let texts = [
        ("general.author", "Someone"),
        ("general.version", "v1.0"),
        ("general.basename", "Tiny"),
        ("general.description", "A test."),
        ("general.size_label", "0.48K"),
    ];
    let model = texts.iter().fold(Model::llama(), |model, (key, text)| model.set(key, *text));
    let ids =
        [("bos", 0), ("eos", 0), ("seperator", 1), ("separator", 1), ("prefix", 2), ("fim_pre", 2)];
    let model = ids.iter().fold(model, |model, (name, id)| {
        model.set(format!("tokenizer.ggml.{name}_token_id"), Value::U32(*id))
    });
    model
        .set("general.url", "https://example.org/tiny")
        .set("general.doi", "10.1000/tiny")
        .set("general.uuid", "00000000-0000-4000-8000-000000000000")
        .set("general.alignment", Value::U32(32))
        .set("general.base_model.count", Value::U32(1))
        .set("general.base_model.0.name", "Parent")
        .set("general.dataset.count", Value::U32(1))
        .set("general.dataset.0.name", "Data")
        .set("general.sampling.top_p", Value::F32(0.9))
        .set("general.tensor_extra.name", strings(&["output.weight"]))
        .set("general.tensor_extra.prec_a4", Value::Array(7, vec![Value::Bool(1)]))
        .set("llama.attention.causal", Value::Bool(1))
        .set("llama.rope.scaling.type", "yarn")
        .set("llama.rope.scaling.factor", Value::F32(4.0))
        .set("tokenizer.huggingface.json", "{}")
        .set(
            "tokenizer.chat_template",
            "{% for message in messages %}{{ message.content }}{% if message.role == 'assistant' %}\
             {{ eos_token }}{% endif %}{% endfor %}",
        )
        .set("community.key", "anything")
}

/// Returns valid files with names.
fn files() -> Vec<(&'static str, Model)> {
    let pair = |model: Model, ends: [&str; 2], shape: [&[u64]; 2]| {
        model.tensor(format!("blk.0.attn_q.weight{}", ends[0]), shape[0], GgmlType::F32).tensor(
            format!("blk.0.attn_q.weight{}", ends[1]),
            shape[1],
            GgmlType::F32,
        )
    };
    let adapter = kind("adapter", "llama")
        .set("adapter.type", "lora")
        .set("adapter.lora.alpha", Value::F32(16.0));
    let split = |number: u16| {
        letter()
            .set("split.no", Value::U16(number))
            .set("split.count", Value::U16(2))
            .set("split.tensors.count", Value::I32(24))
    };
    let quantized = kind("mmproj", "clip")
        .set("clip.has_vision_encoder", Value::Bool(1))
        .set("general.quantization_version", Value::U32(2))
        .set("general.file_type", Value::U32(39))
        .tensor("x.weight", &[64], GgmlType::NVFP4)
        .tensor("y.weight", &[64, 2], GgmlType::NVFP4)
        .tensor("x.scale", &[1], GgmlType::F32)
        .tensor("y.scale", &[1], GgmlType::F32);
    vec![
        ("Tiny-0.48K-v1.0-F32.gguf", letter()),
        ("mmproj-Tiny-0.48K-v1.0-NVFP4.gguf", quantized),
        ("Tiny-0.48K-v1.0-00001-of-00002.gguf", split(0)),
        ("Tiny-0.48K-v1.0-00002-of-00002.gguf", split(1)),
        ("Tiny-1K-v1.0-LoRA.gguf", pair(adapter, [".lora_a", ".lora_b"], [&[8, 2], &[2, 8]])),
        (
            "Tiny-1K-v1.0.gguf",
            pair(kind("imatrix", "llama"), [".in_sum2", ".counts"], [&[8], &[1]]),
        ),
        (
            "Tiny-1K-v1.0.gguf",
            kind("controlvector", "controlvector").tensor("direction.1", &[8], GgmlType::F32),
        ),
        (
            "mmproj-Tiny-1K-v1.0.gguf",
            kind("mmproj", "clip").set("clip.has_vision_encoder", Value::Bool(1)).tensor(
                "v.patch_embd.weight",
                &[8, 8],
                GgmlType::F32,
            ),
        ),
        (
            "Tiny-1K-v1.0-vocab.gguf",
            Model {
                tensors: Vec::new(),
                ..Model::llama()
                    .set("general.type", "vocab")
                    .set("general.alignment", Value::U32(32))
            },
        ),
        (
            "Tiny-0.48K-v1.0-F32.gguf",
            letter()
                .set("tokenizer.ggml.model", "llama")
                .set("tokenizer.ggml.token_type", i32s(&[3, 1, 1, 1, 6]))
                .unset("tokenizer.ggml.merges")
                .unset("tokenizer.ggml.pre"),
        ),
        (
            "Tiny-1K-v1.0-vocab.gguf",
            kind("vocab", "llama")
                .set("tokenizer.ggml.model", "llama")
                // Of the digits the bytes themselves, of all others tokens that stand for them.
                .set(
                    "tokenizer.ggml.tokens",
                    strings(
                        &(0..=255u8)
                            .map(byte_token)
                            .collect::<Vec<_>>()
                            .iter()
                            .map(String::as_str)
                            .collect::<Vec<_>>(),
                    ),
                ),
        ),
    ]
}

#[test]
fn good_files_of_every_kind_have_no_findings() {
    for (name, model) in files() {
        for profile in [Profile::All, Profile::Spec, Profile::Ggml] {
            let found =
                report_named(name, &model.bytes(), &Options::default().with_profile(profile));
            assert_eq!(codes(&found), Vec::<&str>::new(), "{name}: {:?}", found.diagnostics());
        }
    }
}

/// The subject of every rule exists in a good file, so that its silence is meaningful.
#[test]
fn the_subject_of_every_rule_is_in_a_good_file() {
    let (name, bytes) = ("Tiny-0.48K-v1.0-F32.gguf", letter().bytes());
    for rule in rules() {
        let only = Options::default().with_select(vec![rule.code.parse().unwrap()]);
        assert!(only.applies(rule), "{}", rule.code);
        assert!(report_named(name, &bytes, &only).is_clean(), "{}", rule.code);
    }
}
