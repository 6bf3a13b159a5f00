//! `ggmill imatrix make`: measurement over a text, in parts, resumed, and used for quantization.

use std::fs;

use ggmill_arch::Architecture;
use ggmill_core::{Builder, GgmlType, MetadataBuf, Model};
use ggmill_quantize::Imatrix;

use crate::support::{Directory, Outcome, command, ggmill, outcome, real};

/// A text in the style of the bundled model's training data: four chunks of 32 tokens.
const STORY: &str = "Once upon a time, there was a little girl named Lily. She loved to play outside \
                     in the park. One day, she saw a big, red ball. She wanted to play with it, but \
                     it was too high. Lily's mom said, \"Lily, let's go to the park.\" Lily was sad \
                     and did not know what to do. She wanted to play with her friends.\n";

fn directory() -> Directory {
    let directory = Directory::new().with("story.txt", STORY);
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K")).args(["-o", "m.gguf", "--type", "f32"]);
    let found = outcome(&mut convert);
    assert_eq!(found.code, 0, "{}", found.stderr);
    directory
}

fn make(directory: &Directory, more: &[&str]) -> Outcome {
    let args = ["imatrix", "make", "m.gguf", "--text", "story.txt", "--ctx", "32"];
    ggmill(directory.path(), &[&args[..], more].concat())
}

fn imatrix(directory: &Directory, name: &str) -> Imatrix {
    Imatrix::open(directory.path().join(name)).unwrap()
}

/// Compares entries, up to the precision of the sums in a file.
fn assert_close(left: &Imatrix, right: &Imatrix) {
    assert_eq!(left.entries().len(), right.entries().len());
    for ((name, a), (other, b)) in left.entries().zip(right.entries()) {
        assert_eq!((name, a.counts()), (other, b.counts()));
        for (a, b) in a.weights().iter().zip(b.weights()) {
            assert!((a - b).abs() <= 1e-6 * b, "{name}: {a}, expected {b}");
        }
    }
}

#[test]
fn parts_and_interrupted_runs_equal_one_run() {
    let directory = directory();
    let fine = |found: Outcome| {
        assert_eq!((found.code, &*found.stdout), (0, ""), "{}", found.stderr);
        found.stderr
    };
    let said = fine(make(&directory, &["-o", "all.gguf"]));
    assert!(said.contains("wrote all.gguf: GGUF, 35 entries, "), "{said}");
    let all = imatrix(&directory, "all.gguf");
    let chunks = all.chunk_count();
    assert!(chunks >= 3, "{chunks}");
    assert_eq!(all.chunk_size(), 32);
    assert_eq!(all.datasets().map(|name| name.to_string()).collect::<Vec<_>>(), ["story.txt"]);
    let tokens = i64::from(chunks * 32);
    assert!(all.entries().all(|(_, entry)| entry.counts() == [tokens]));
    // In two parts, which are merged.
    fine(make(&directory, &["-o", "a.gguf", "--chunks", "2", "-t", "1"]));
    fine(make(&directory, &["-o", "b.gguf", "--from-chunk", "2", "--memory", "90MiB"]));
    let merge = ["imatrix", "merge", "a.gguf", "b.gguf", "-o", "merged.gguf"];
    fine(ggmill(directory.path(), &merge));
    assert_close(&imatrix(&directory, "merged.gguf"), &all);
    assert_eq!(imatrix(&directory, "merged.gguf").chunk_count(), chunks);
    // Interrupted after two chunks, and resumed.
    fine(make(&directory, &["-o", "a.gguf", "--resume"]));
    let resumed = imatrix(&directory, "a.gguf");
    assert_close(&resumed, &all);
    assert_eq!((resumed.chunk_count(), resumed.datasets().len()), (chunks, 1));
    let before = fs::read(directory.path().join("a.gguf")).unwrap();
    let said = fine(make(&directory, &["-o", "a.gguf", "--resume"]));
    assert!(said.contains("has all"), "{said}");
    assert_eq!(fs::read(directory.path().join("a.gguf")).unwrap(), before);
    // The legacy format.
    fine(make(&directory, &["-o", "all.dat"]));
    let legacy = imatrix(&directory, "all.dat");
    assert_eq!(legacy.chunk_count(), chunks);
    for ((name, a), (_, b)) in legacy.entries().zip(all.entries()) {
        for (a, b) in a.weights().iter().zip(b.weights()) {
            assert!((a - b).abs() <= 1e-5 * b, "{name}: {a}, expected {b}");
        }
    }
}

#[test]
fn models_and_texts_that_cannot_be_measured_get_hints() {
    let directory = directory().with("short.txt", "Once upon a time").with("kept.gguf", "old");
    let refused = |args: &[&str]| {
        let found = ggmill(directory.path(), &[&["imatrix", "make"], args].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}");
        found.stderr
    };
    let before = directory.files();
    let error = refused(&["m.gguf", "--text", "short.txt", "-o", "x.gguf"]);
    assert!(
        error.contains("expected at least 1024") && error.contains("too short for any --ctx"),
        "{error}"
    );
    let error = refused(&["m.gguf", "--text", "story.txt", "-c", "32", "-o", "kept.gguf"]);
    assert!(error.contains("--force"), "{error}");
    let error = refused(&["m.gguf", "--text", "story.txt", "-c", "8", "-o", "x.gguf"]);
    assert!(error.contains("chunks of 8 tokens, expected at least 16"), "{error}");
    let from = ["m.gguf", "--text", "story.txt", "-c", "32", "--from-chunk", "99", "-o", "x.gguf"];
    let error = refused(&from);
    assert!(error.contains("there is no chunk 99"), "{error}");
    assert!(make(&directory, &["-o", "m.gguf", "--force"]).code == 2, "the model is an input");
    assert_eq!(directory.files(), before, "nothing is left behind");
    make(&directory, &["-o", "a.gguf"]);
    let other = ["m.gguf", "--text", "story.txt", "-c", "16", "-o", "a.gguf", "--resume"];
    let error = refused(&other);
    assert!(error.contains("chunks of 32 tokens, expected 16"), "{error}");
    let other = ["m.gguf", "--text", "short.txt", "-c", "32", "-o", "a.gguf", "--resume"];
    let error = refused(&other);
    assert!(error.contains("measured on story.txt, expected short.txt"), "{error}");
    let output = ["m.gguf", "--text", "story.txt", "-c", "32", "-o", "a.gguf", "--resume"];
    let error = refused(&[&output[..], &["--process-output"]].concat());
    assert!(error.contains("a.gguf: measured without matrices outside the blocks"), "{error}");
    assert!(error.contains("leave out --process-output or --all-matrices"), "{error}");
}

/// Returns a model of one block whose rows are multiples of every block size, with pseudorandom
/// weights.
fn wide() -> Vec<u8> {
    let mut metadata = MetadataBuf::new();
    metadata.set("general.architecture", "llama");
    let numbers = [
        ("block_count", 1u32),
        ("context_length", 64),
        ("embedding_length", 256),
        ("feed_forward_length", 256),
        ("attention.head_count", 4),
        ("vocab_size", 40),
    ];
    for (key, number) in numbers {
        metadata.set(format!("llama.{key}"), number);
    }
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    let resolved = Architecture::builtin("llama").unwrap().resolve_metadata(&metadata).unwrap();
    let mut builder = Builder::new().metadata(metadata.clone());
    for tensor in resolved.tensors().iter().filter(|tensor| tensor.required) {
        builder = builder.tensor(&tensor.name, GgmlType::F32, tensor.shape);
    }
    let plan = builder.plan().unwrap();
    let mut file = plan.header().to_vec();
    let mut state = 7u32;
    while (file.len() as u64) < plan.total_len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, _, low, high] = state.to_le_bytes();
        let value = f32::from(i16::from_le_bytes([low, high]));
        file.extend((value / 200_000.0).to_le_bytes());
    }
    file
}

#[test]
fn a_model_is_quantized_with_its_own_importance_matrix() {
    let ids: Vec<u32> = (0..64u32).map(|place| place * 7 % 40).collect();
    let directory = Directory::new().with("wide.gguf", wide()).with("ids.json", format!("{ids:?}"));
    let run = |args: &[&str]| {
        let found = ggmill(directory.path(), args);
        assert_eq!(found.code, 0, "{args:?}: {}", found.stderr);
    };
    let make = ["imatrix", "make", "wide.gguf", "--tokens", "ids.json", "-c", "32"];
    run(&[&make[..], &["-o", "i.gguf", "--process-output"]].concat());
    let importance = imatrix(&directory, "i.gguf");
    assert!(importance.entries().len() == 8 && importance.get(b"output.weight").is_some());
    run(&["quantize", "wide.gguf", "small.gguf", "--type", "IQ2_S", "--imatrix", "i.gguf"]);
    let small = Model::open(fs::read(directory.path().join("small.gguf")).unwrap()).unwrap();
    // As in llama-quantize, most tensors of this mixture are IQ2_XS.
    let of = |name: &str| small.tensor(name).unwrap().ggml_type();
    assert_eq!(of("blk.0.ffn_up.weight"), GgmlType::IQ2_XS);
    run(&["measure", "small.gguf", "--against", "wide.gguf", "--tokens", "ids.json", "-c", "32"]);
}
