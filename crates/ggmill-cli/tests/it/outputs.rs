//! Checks of outputs before the work: every command that writes a model fails before anything is
//! printed, in a dry run, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ggmill_testdata::legacy::legacy_models;
use ggmill_testdata::models::models;

use crate::support::{Directory, ggmill, real};

/// The commands that write; `{}` is replaced by the output.
const COMMANDS: [&str; 14] = [
    "edit model.gguf --set general.name=x -o {}.gguf",
    "merge part-00001-of-00003.gguf {}.gguf",
    "merge cut.part1of1 -o {}.gguf",
    "repack model.gguf -o {}.gguf --align 64",
    "extract model.gguf *weight -o {}.gguf",
    "extract model.gguf -o {}.safetensors",
    "extract model.gguf classifier.0.weight -o {}.npy",
    "extract vocabulary.gguf --key * -o {}.json",
    "graft model.gguf --from model.gguf -o {}.gguf",
    "convert checkpoint --type f16 -o {}.gguf",
    "convert ggjt3-q8_0.bin -o {}.gguf",
    "quantize llama.gguf {}.gguf f16",
    "split model.gguf {} --max-tensors 100",
    "quantize part-00001-of-00003.gguf {}.gguf COPY --keep-split",
];

fn directory() -> Directory {
    let legacy = legacy_models().into_iter().find(|model| model.name == "ggjt3-q8_0.bin").unwrap();
    let llama = models().into_iter().find(|model| model.name == "llama").unwrap();
    let model = fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let directory = Directory::new()
        .with("model.gguf", &model)
        .with("cut.part1of1", model)
        .with("llama.gguf", llama.file)
        .with(legacy.name, legacy.file);
    fs::copy(real("ggml-vocab-bert-bge.gguf"), directory.path().join("vocabulary.gguf")).unwrap();
    fs::create_dir(directory.path().join("checkpoint")).unwrap();
    for entry in fs::read_dir(real("tinystories260K")).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(entry.path(), directory.path().join("checkpoint").join(entry.file_name()))
            .unwrap();
    }
    let made = ggmill(directory.path(), &["split", "model.gguf", "part", "--max-size", "1200K"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    directory
}

/// Returns every file and directory with its bytes.
fn content(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.to_str().unwrap().to_owned(), fs::read(&path).unwrap_or_default()))
        .collect()
}

fn args(command: &str, output: &str) -> Vec<String> {
    command.replace("{}", output).split(' ').map(str::to_owned).collect()
}

#[test]
fn invalid_outputs_are_refused_first_in_a_dry_run_too() {
    let directory = directory();
    for ending in ["gguf", "safetensors", "npy", "json"] {
        fs::create_dir(directory.path().join(format!("taken.{ending}"))).unwrap();
        fs::write(directory.path().join(format!("there.{ending}")), "precious").unwrap();
    }
    for (output, words) in [
        ("no/such/x", "no/such: cannot write into this directory: no such file\nhint: `mkdir -p"),
        ("model.gguf/x", "model.gguf: cannot write into this directory: "),
        ("taken", "is a directory, expected a regular file"),
        ("there", "already exists\nhint: --force replaces it"),
    ] {
        let before = content(directory.path());
        for command in COMMANDS {
            // An existing file or directory does not conflict with the names of shards.
            let is_set = command.contains("split");
            // A directory is valid: each tensor is written to a file in it.
            let is_directory = command.starts_with("extract") && output == "taken";
            if is_directory || is_set && matches!(output, "taken" | "there") {
                continue;
            }
            let run = ggmill(directory.path(), &args(command, output));
            assert_eq!((run.code, &*run.stdout), (2, ""), "{command} {output}: {}", run.stderr);
            assert!(run.stderr.contains(words), "{command} {output}: {}", run.stderr);
            let mut dry = args(command, output);
            dry.push("--dry-run".to_owned());
            let dry = ggmill(directory.path(), &dry);
            assert_eq!((dry.code, &*dry.stdout), (2, ""), "{command} {output}: {}", dry.stderr);
            assert!(dry.stderr.contains(words), "{command} {output}: {}", dry.stderr);
            assert!(content(directory.path()) == before, "{command} {output}");
        }
    }
    for command in COMMANDS {
        let mut dry = args(command, "fresh");
        dry.push("--dry-run".to_owned());
        let (dry, before) = (ggmill(directory.path(), &dry), content(directory.path()));
        assert_eq!(dry.code, 0, "{command}: {}", dry.stderr);
        assert!(content(directory.path()) == before, "{command}");
        let run = ggmill(directory.path(), &args(command, "fresh"));
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        for path in content(directory.path()).into_keys().filter(|path| !before.contains_key(path))
        {
            fs::remove_file(path).unwrap();
        }
    }
}

/// Measuring would fail, too, but later: the message about the output shows that nothing was
/// measured.
#[test]
fn outputs_are_checked_before_measuring() {
    let directory = directory();
    for args in [
        &["quantize", "llama.gguf", "no/x.gguf", "--target-bpw", "0.01"][..],
        &["quantize", "llama.gguf", "no/x.gguf", "IQ2_XS"],
        &["quantize", "llama.gguf", "no/x.gguf", "--target-bpw", "0.01", "--keep-split"],
        &["quantize", "absent.gguf", "no/x.gguf", "Q8_0"],
        &["repack", "absent.gguf", "-o", "no/x.gguf"],
        &["graft", "model.gguf", "--drop", "nothing", "-o", "no/x.gguf"],
        &["merge", "absent.gguf", "no/x.gguf"],
    ] {
        let found = ggmill(directory.path(), args);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}: {}", found.stderr);
        assert!(found.stderr.starts_with("error: no: cannot write into this"), "{}", found.stderr);
    }
}

/// All arrays of a directory are checked before the first one is written.
#[test]
fn a_directory_is_checked_before_its_first_file() {
    let directory = directory();
    let extract = ["extract", "model.gguf", "classifier.*", "-o", "all/"];
    let dry = ggmill(directory.path(), &[&extract[..], &["--dry-run"]].concat());
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert_eq!(ggmill(directory.path(), &extract).code, 0);
    for more in [&[][..], &["--dry-run"]] {
        let again = ggmill(directory.path(), &[&extract[..], more].concat());
        assert_eq!((again.code, &*again.stdout), (2, ""), "{}", again.stderr);
        assert!(again.stderr.contains("already exists\nhint: --force"), "{}", again.stderr);
    }
}

#[test]
fn a_goal_above_the_size_of_the_model_is_noted() {
    let directory = directory();
    let args = ["quantize", "llama.gguf", "out.gguf", "--target-bpw", "40"];
    let found = ggmill(directory.path(), &args);
    assert_eq!(found.code, 0, "{}", found.stderr);
    let said = "warning: 40 bits per weight do not reduce the size of this model, which has ";
    assert!(found.stderr.starts_with(said), "{}", found.stderr);
}

/// `nodir/` has an existing parent, so only the trailing slash shows that it cannot be a file.
#[test]
fn a_missing_directory_with_a_slash_is_refused_before_the_work() {
    let directory = directory();
    let before = content(directory.path());
    // `extract` creates such a directory, with a file for each tensor.
    let with_file = COMMANDS
        .iter()
        .filter(|command| command.contains("{}.gguf") && !command.starts_with("extract"));
    for command in with_file.copied().chain(["split model.gguf {} --max-tensors 100"]) {
        let command = command.replace("{}.gguf", "{}");
        let found = ggmill(directory.path(), &args(&command, "nodir/"));
        let words = if command.contains("split") {
            "nodir/: expected the prefix of the shards' names"
        } else {
            "nodir/: cannot write into this directory: no such file\nhint: `mkdir -p nodir/`"
        };
        assert!(found.code == 2 && found.stderr.contains(words), "{command}: {}", found.stderr);
        assert!(!found.stderr.contains("cannot move"), "{command}: {}", found.stderr);
        assert_eq!(content(directory.path()), before, "{command}");
    }
}
