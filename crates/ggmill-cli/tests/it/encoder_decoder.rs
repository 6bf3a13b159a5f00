//! Models with an encoder and a decoder: `measure`, `imatrix make`, `quantize --measure`, `check --run`.

use ggmill_arch::Architecture;
use ggmill_core::{Builder, GgmlType, MetadataBuf};
use serde_json::Value as Json;

use crate::support::{Directory, Outcome, ggmill};

/// Returns a T5 with one encoder block and one decoder block, pseudorandom weights, and no
/// vocabulary.
fn model(start: Option<u32>) -> Vec<u8> {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "t5");
    let numbers = [
        ("block_count", 1u32),
        ("decoder_block_count", 1),
        ("context_length", 64),
        ("embedding_length", 32),
        ("feed_forward_length", 64),
        ("attention.head_count", 2),
        ("attention.key_length", 16),
        ("attention.value_length", 16),
        ("attention.relative_buckets_count", 8),
        ("vocab_size", 96),
    ];
    for (key, value) in numbers {
        metadata.set(format!("t5.{key}"), value);
    }
    metadata.set("t5.attention.layer_norm_rms_epsilon", 1e-6f32);
    metadata.set("t5.attention.layer_norm_epsilon", 1e-6f32);
    if let Some(start) = start {
        metadata.set("t5.decoder_start_token_id", start);
    }
    let resolved = Architecture::builtin("t5").unwrap().resolve_metadata(&metadata).unwrap();
    let is_there = |name: &str| name.ends_with("attn_rel_b.weight") || name == "output.weight";
    let specs = resolved
        .tensors()
        .iter()
        .filter(|spec| (spec.required && spec.tied.is_none()) || is_there(&spec.name));
    let specs: Vec<_> = specs.collect();
    let mut builder = Builder::new().metadata(metadata);
    for spec in &specs {
        builder = builder.tensor(&spec.name, GgmlType::F32, spec.shape);
    }
    let plan = builder.plan().unwrap();
    let mut file = vec![0; usize::try_from(plan.total_len()).unwrap()];
    file[..plan.header().len()].copy_from_slice(plan.header());
    let data = plan.header().len();
    let mut state = 7u32;
    for bytes in file[data..].chunks_exact_mut(4) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let weight = f32::from(u16::try_from(state >> 16).unwrap()) / 65536.0 - 0.5;
        bytes.copy_from_slice(&weight.to_le_bytes());
    }
    file
}

fn directory() -> Directory {
    let ids: Vec<u32> = (0..160u32).map(|place| (place * place * 3 + place) % 96).collect();
    Directory::new()
        .with("t5.gguf", model(Some(0)))
        .with("nameless.gguf", model(None))
        .with("ids.json", format!("{ids:?}"))
}

fn run(directory: &Directory, args: &[&str]) -> Outcome {
    ggmill(directory.path(), args)
}

fn json(found: &Outcome) -> Json {
    assert_eq!(found.code, 0, "{}", found.stderr);
    serde_json::from_str(&found.stdout).unwrap()
}

#[test]
fn an_encoder_decoder_model_is_measured_and_quantized() {
    let directory = directory();
    let checked = run(&directory, &["check", "t5.gguf", "--run"]);
    assert!(checked.code < 2, "{}", checked.stderr);
    let quantize = ["quantize", "t5.gguf", "small.gguf", "Q4_0"];
    assert_eq!(run(&directory, &quantize).code, 0);
    let measure = ["measure", "small.gguf", "--against", "t5.gguf", "--tokens", "ids.json"];
    let rest = ["--ctx", "32", "--json"];
    let found = json(&run(&directory, &[&measure[..], &rest].concat()));
    let number = |place: &str| found.pointer(place).and_then(Json::as_f64).unwrap();
    assert!(number("/models/0/comparison/kl_divergence/mean/value") > 0.0, "{found}");
    assert_eq!((&found["chunks"], &found["counted"]), (&5.into(), &75.into()));
    // 16 rows per chunk: the tokens of the decoder.
    let logits = ["measure", "t5.gguf", "--tokens", "ids.json", "--ctx", "32", "--logits", "l.npy"];
    assert_eq!(run(&directory, &logits).code, 0);
    let header = std::fs::read(directory.path().join("l.npy")).unwrap();
    assert!(String::from_utf8_lossy(&header[..128]).contains("(80, 96)"));
    let make = ["imatrix", "make", "t5.gguf", "--tokens", "ids.json", "-c", "32", "-o", "i.gguf"];
    assert_eq!(run(&directory, &make).code, 0);
    let shown = run(&directory, &["imatrix", "show", "i.gguf"]).stdout;
    assert!(
        shown.contains("enc.blk.0.ffn_up") && shown.contains("dec.blk.0.cross_attn_q"),
        "{shown}"
    );
    let by_size = ["quantize", "t5.gguf", "fitted.gguf", "--target-bpw", "7"];
    let text = ["--measure-tokens", "ids.json", "--ctx", "32", "--chunks", "4"];
    let fitted = run(&directory, &[&by_size[..], &text].concat());
    assert_eq!(fitted.code, 0, "{}", fitted.stderr);
    assert!(fitted.stderr.contains("KL divergence on held-out text"), "{}", fitted.stderr);
}

#[test]
fn a_decoder_without_a_start_token_gets_a_hint() {
    let directory = directory();
    let measure = ["measure", "nameless.gguf", "--tokens", "ids.json", "--ctx", "32"];
    let refused = run(&directory, &measure);
    assert_eq!(refused.code, 2);
    let said = "error: nameless.gguf: t5.decoder_start_token_id is not in the metadata";
    assert!(refused.stderr.starts_with(said), "{}", refused.stderr);
    assert!(refused.stderr.contains("ggmill edit FILE --set"), "{}", refused.stderr);
    let edit = ["edit", "nameless.gguf", "--set", "t5.decoder_start_token_id=0"];
    assert_eq!(run(&directory, &edit).code, 0);
    assert_eq!(run(&directory, &measure).code, 0);
}
