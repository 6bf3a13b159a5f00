//! `ggmill quantize --measure`: types chosen by their effect on the output.

use std::fs;

use ggmill_core::Model;
use serde_json::Value as Json;

use crate::support::{Directory, command, ggmill, outcome, quantize, quantized, real};

/// Stories in the style of the bundled model's training data: a few chunks of 32 tokens.
const STORIES: &str = "Once upon a time, there was a little girl named Lily. She loved to play \
    outside in the park. One day, she saw a big, red ball. She wanted to play with it, but it was \
    too high. Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and did not know what to \
    do. She wanted to play with her friends. Tom and Ben were friends. They liked to run in the sun. \
    One day they found a small dog. The dog was lost and scared. Tom said, \"We must help the dog.\" \
    They went to the house of the dog and the man was very happy. He gave them a big cake.\n";

/// Returns a directory with the bundled model in F32, and a text.
fn directory() -> Directory {
    let directory = Directory::new().with("stories.txt", STORIES);
    let mut convert = command(directory.path());
    convert.arg("convert").arg(real("tinystories260K"));
    let found = outcome(convert.args(["-o", "base.gguf", "--type", "f32"]));
    assert_eq!(found.code, 0, "{}", found.stderr);
    directory
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

/// Returns the number after these words.
fn number_after(text: &str, words: &str) -> f64 {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("{words:?}: {text}"));
    let digits = |letter: char| !(letter.is_ascii_digit() || letter == '.');
    rest.split(digits).next().unwrap().trim_end_matches('.').parse().unwrap()
}

const MEASURE: [&str; 4] = ["--measure", "stories.txt", "--ctx", "32"];

/// Returns the KL divergence of a file from the bundled model on the text.
fn divergence(directory: &Directory, name: &str) -> f64 {
    let args = ["measure", name, "--against", "base.gguf", "--text", "stories.txt"];
    let found = ggmill(directory.path(), &[&args[..], &["--ctx", "32", "--json"]].concat());
    let found = json(&found.stdout);
    let value = found.pointer("/models/0/comparison/kl_divergence/mean/value");
    value.and_then(Json::as_f64).unwrap()
}

#[test]
fn types_are_chosen_by_measured_sensitivities_and_tested() {
    let directory = directory();
    let goal = ["base.gguf", "direct.gguf", "--target-bpw", "8", "--no-imatrix"];
    let direct =
        quantized(&directory, &[&goal[..], &MEASURE, &["--report", "report.json"]].concat());
    assert!(directory.path().join("report.json").exists());
    let predicted = number_after(&direct.stderr, "a predicted KL divergence of ");
    let found = number_after(&direct.stderr, "KL divergence on held-out text: ");
    assert!(
        predicted > 0.0 && found > predicted / 4.0 && found < predicted * 4.0,
        "{predicted} {found}"
    );
    let end = format!(", {predicted:.6} was predicted; the most probable token is the same at ");
    assert!(direct.stderr.contains(&end), "{}", direct.stderr);

    // A dry run writes the same plan, whose sensitivities give the same choice without a text.
    let goal = ["base.gguf", "x.gguf", "--target-bpw", "8", "--no-imatrix", "--dry-run", "--json"];
    let dry = quantized(&directory, &[&goal[..], &MEASURE].concat());
    assert!(!dry.stderr.contains("on held-out text"), "{}", dry.stderr);
    fs::write(directory.path().join("plan.json"), &dry.stdout).unwrap();
    let known = ["base.gguf", "known.gguf", "--target-bpw", "8", "--sensitivities", "plan.json"];
    quantized(&directory, &known);
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert!(read("direct.gguf") == read("known.gguf"));
    let plan = json(&dry.stdout);
    let tensors = plan["tensors"].as_array().unwrap();
    let matrices = |tensor: &&Json| tensor["shape"].as_array().unwrap().len() > 1;
    for tensor in tensors.iter().filter(matrices) {
        let found = &tensor["sensitivity"];
        // Rows of 172 elements are not a multiple of blocks of 32.
        let is_ragged = tensor["shape"][0] == 172;
        let expected = if is_ragged { "BF16" } else { "Q4_0" };
        assert_eq!(found["type"], expected, "{tensor}");
        assert!(found["kl_divergence"].as_f64().unwrap() > 0.0, "{tensor}");
    }
    assert!(tensors.iter().any(|tensor| tensor["sensitivity"].is_null()), "norms have none");

    // Without sensitivities, all weights count equally, which is worse: the embeddings have most
    // weights.
    quantized(&directory, &["base.gguf", "even.gguf", "--target-bpw", "8"]);
    let (measured, even) =
        (divergence(&directory, "direct.gguf"), divergence(&directory, "even.gguf"));
    assert!(measured < even, "{measured} {even}");
}

#[test]
fn the_importance_matrix_is_measured_with_the_sensitivities() {
    let directory = directory();
    let goal = ["base.gguf", "with.gguf", "--target-bpw", "7.5", "--chunks", "4"];
    let with = quantized(&directory, &[&goal[..], &MEASURE].concat());
    let goal = ["base.gguf", "without.gguf", "--target-bpw", "7.5", "--chunks", "4"];
    quantized(&directory, &[&goal[..], &MEASURE, &["--no-imatrix"]].concat());
    let [better, worse] = ["with.gguf", "without.gguf"].map(|name| divergence(&directory, name));
    assert!(better < worse, "{better} {worse}: {}", with.stderr);

    // The file names its text: two of the four chunks are for the test.
    let model = Model::open(fs::read(directory.path().join("with.gguf")).unwrap()).unwrap();
    let metadata = model.metadata();
    assert_eq!(metadata.str("quantize.imatrix.dataset").unwrap(), "stories.txt");
    assert_eq!(metadata.u32("quantize.imatrix.chunks_count").unwrap(), 2);
    // Seven matrices in each of five blocks, and the output.
    assert_eq!(metadata.u32("quantize.imatrix.entries_count").unwrap(), 36);
    assert!(metadata.get("quantize.imatrix.file").is_none());

    // The plan records it, and using the plan without a matrix gives a note.
    let goal = ["base.gguf", "x.gguf", "--target-bpw", "7.5", "--chunks", "4"];
    let dry = [&goal[..], &MEASURE, &["--dry-run", "--json"]].concat();
    let plan = quantized(&directory, &dry).stdout;
    assert!(
        json(&plan)["tensors"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tensor| { tensor["sensitivity"]["importance"] == true })
    );
    let directory = directory.with("plan.json", plan);
    let make = ["imatrix", "make", "base.gguf", "--text", "stories.txt", "-c", "32"];
    let found =
        ggmill(directory.path(), &[&make[..], &["--all-matrices", "-o", "i.gguf"]].concat());
    assert_eq!(found.code, 0, "{}", found.stderr);
    let known = ["base.gguf", "y.gguf", "--target-bpw", "7.5", "--sensitivities", "plan.json"];
    let warning = "plan.json: the sensitivities were measured with an importance matrix";
    assert!(quantized(&directory, &known).stderr.contains(warning));
    let known = quantized(&directory, &[&known[..], &["--force", "--imatrix", "i.gguf"]].concat());
    assert!(!known.stderr.contains(warning), "{}", known.stderr);
}

#[test]
fn models_and_texts_that_cannot_be_measured_get_hints() {
    let directory = directory().with("short.txt", "Once upon a time").with("plain.json", {
        r#"{"schema":"ggmill.plan/1","tensors":[{"name":"output.weight","type":"Q4_0"}]}"#
    });
    let model = |name: &str| {
        ggmill_testdata::models::models().into_iter().find(|model| model.name == name).unwrap().file
    };
    // A model of an undescribed architecture with a name of the same length.
    let mut without_graph = model("mamba");
    for start in 0..without_graph.len() - 5 {
        if without_graph[start..].starts_with(b"mamba") {
            without_graph[start..start + 5].copy_from_slice(b"other");
        }
    }
    let ids = format!("{:?}", (0..2048).map(|place| place % 20).collect::<Vec<u32>>());
    let directory = directory
        .with("bare.gguf", model("llama"))
        .with("rwkv.gguf", without_graph)
        .with("ids.json", ids);
    let size = ["--target-bpw", "8"];
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["base.gguf", "x.gguf", "Q4_0", "--measure", "stories.txt"],
            &["--measure chooses types for a size, and there is none", "--target-bpw BITS"],
        ),
        (
            &["base.gguf", "x.gguf", "--measure", "short.txt"],
            &["expected at least 1024", "a longer text is needed"],
        ),
        (
            &["rwkv.gguf", "x.gguf", "--measure-tokens", "ids.json"],
            &["there is no computation graph for \"other\"", "--arch-file"],
        ),
        (
            &["bare.gguf", "x.gguf", "--measure", "stories.txt"],
            &[
                "bare.gguf: key \"tokenizer.ggml.model\": no such key",
                "the file has no vocabulary, or an incomplete one; --measure-tokens IDS.json takes \
                 the IDs of tokens instead",
            ],
        ),
        (
            &["base.gguf", "x.gguf", "--measure", "stories.txt", "--prune-layers", "1"],
            &["leave the layers out first"],
        ),
        (
            &["base.gguf", "x.gguf", "--sensitivities", "plain.json"],
            &["plain.json: has no sensitivities", "writes a plan with sensitivities"],
        ),
        (&["base.gguf", "x.gguf", "--ctx", "32"], &["--measure"]),
        (
            &["base.gguf", "x.gguf", "--measure", "stories.txt", "--chunks", "1"],
            &["'1' for '--chunks <N>'", "1 is not in 2.."],
        ),
        (
            &["base.gguf", "x.gguf", "--measure", "stories.txt", "--memory", "1MiB"],
            &["--memory SIZE"],
        ),
    ];
    for (args, words) in cases {
        let has_type = args.contains(&"Q4_0");
        let mut args = args.to_vec();
        args.extend(if has_type { &[][..] } else { &size });
        if args.contains(&"--memory") {
            args.extend(["--ctx", "32"]);
        }
        let found = quantize(&directory, &args);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}: {}", found.stderr);
        for words in *words {
            assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
        }
        assert!(!directory.path().join("x.gguf").exists(), "{args:?}");
    }
}

/// A plan for one model does not apply to another.
#[test]
fn sensitivities_of_another_model_are_refused() {
    let other = r#"{"schema":"ggmill.plan/1","tensors":[{"name":"blk.77.attn_q.weight","type":"Q4_0",
        "sensitivity":{"type":"Q4_0","kl_divergence":0.1}}]}"#;
    let [wrong, negative] = ["\"much\"", "-0.1"].map(|found| other.replace("0.1", found));
    let directory = directory()
        .with("other.json", other)
        .with("wrong.json", wrong)
        .with("negative.json", negative);
    for (plan, words) in [
        ("other.json", "\"blk.77.attn_q.weight\": has a sensitivity, and is not in the model"),
        ("wrong.json", "has a sensitivity without a type or a finite kl_divergence of at least 0"),
        ("negative.json", "has a sensitivity without a type or a finite kl_divergence"),
    ] {
        let args = ["base.gguf", "x.gguf", "--target-bpw", "8", "--sensitivities", plan];
        let found = quantize(&directory, &args);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{plan}: {}", found.stderr);
        assert!(found.stderr.contains(words), "{}", found.stderr);
    }
}
