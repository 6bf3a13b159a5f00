//! A real trained checkpoint, compared with the reference converter and with the weights of
//! llama2.c's file of the same model.

use std::fs;
use std::ops::ControlFlow;

use ggmill_arch::Architecture;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, Header};
use ggmill_pipeline::formats::CheckpointDirectory;
use ggmill_pipeline::{RunOptions, run};
use ggmill_testdata::{expected, real, sha256};
use serde_json::Value as Json;

use crate::support::converted;

const TYPES: [(FileType, &str); 4] = [
    (FileType::F32, "f32"),
    (FileType::F16, "f16"),
    (FileType::BF16, "bf16"),
    (FileType::Q8_0, "q8_0"),
];

fn fixture(name: &str) -> Json {
    serde_json::from_str(
        &fs::read_to_string(expected(&format!("converted/tinystories260K-{name}.gguf.json")))
            .unwrap(),
    )
    .unwrap()
}

/// Compares keys and tensors first, for a readable error; then the whole file including padding.
#[test]
fn files_equal_the_reference() {
    for (file_type, name) in TYPES {
        let fixture = fixture(name);
        let bytes = converted(&real("tinystories260K"), file_type).unwrap();
        let model = Header::parse(&bytes).unwrap();
        let keys: Vec<String> =
            model.metadata().iter().map(|pair| pair.key().to_string()).collect();
        let expected_keys: Vec<&str> = fixture["metadata"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| pair["key"].as_str().unwrap())
            .collect();
        assert_eq!(keys, expected_keys, "{name}");
        let tensors = fixture["tensors"].as_array().unwrap();
        assert_eq!(model.tensors().len(), tensors.len());
        for (found, expected) in model.tensors().iter().zip(tensors) {
            assert_eq!(found.name(), expected["name"].as_str().unwrap(), "{name}");
            assert_eq!(
                found.ggml_type().name(),
                expected["type"].as_str(),
                "{name}: {}",
                found.name()
            );
            assert_eq!(
                sha256(found.raw_data().unwrap()),
                expected["sha256"],
                "{name}: {}",
                found.name()
            );
        }
        assert_eq!(sha256(&bytes), fixture["sha256"], "{name}");
    }
}

/// Compares the file without vocabulary, as the reference writes it for models that have none.
#[test]
fn a_file_without_vocabulary_has_the_model_none() {
    let fixture = fixture("f16-no-vocab");
    let checkpoint = CheckpointDirectory::open(&real("tinystories260K")).unwrap();
    let mut options = ConvertOptions::new(FileType::F16);
    options.no_vocab = true;
    let architecture = Architecture::builtin("llama").unwrap();
    let plan = convert(&checkpoint, architecture, &options).unwrap().plan(&checkpoint).unwrap();
    let file = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    let model = Header::parse(&file).unwrap();
    assert_eq!(model.metadata().str("tokenizer.ggml.model").unwrap(), "none");
    assert_eq!(sha256(&file), fixture["sha256"]);
}

/// llama2.c keeps attention heads in the order of the original training code, like ggml, so the
/// permutation must be undone.
#[test]
fn weights_equal_the_llama2c_file() {
    let form = fs::read(real("tinystories260K.llama2c.bin")).unwrap();
    let word = |at: usize| i32::from_le_bytes(form[at * 4..at * 4 + 4].try_into().unwrap());
    let [dim, hidden, layers, heads, kv_heads, vocab, _context] =
        [0, 1, 2, 3, 4, 5, 6].map(|at| usize::try_from(word(at)).unwrap());
    let kv_dim = dim / heads * kv_heads;

    let bytes = converted(&real("tinystories260K"), FileType::F32).unwrap();
    let model = Header::parse(&bytes).unwrap();
    let mut at = 7 * 4;
    let mut next = |name: String, elements: usize| {
        let data = &form[at..at + elements * 4];
        at += data.len();
        assert!(model.tensor(&name).unwrap().data().unwrap() == data, "{name}");
    };
    next("token_embd.weight".into(), vocab * dim);
    let blocks = [
        ("attn_norm", dim),
        ("attn_q", dim * dim),
        ("attn_k", dim * kv_dim),
        ("attn_v", dim * kv_dim),
        ("attn_output", dim * dim),
        ("ffn_norm", dim),
        ("ffn_gate", dim * hidden),
        ("ffn_down", dim * hidden),
        ("ffn_up", dim * hidden),
    ];
    for (part, elements) in blocks {
        for layer in 0..layers {
            next(format!("blk.{layer}.{part}.weight"), elements);
        }
    }
    next("output_norm.weight".into(), dim);
    // The rest are the RoPE tables, which a GGUF file does not contain.
    assert!(form.len() > at);
}

#[test]
fn output_is_independent_of_the_thread_count() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| converted(&real("tinystories260K"), FileType::Q8_0).unwrap())
    };
    let one = on(1);
    assert!(on(5) == one);
    assert!(on(5) == one, "and are the same every time");
}
