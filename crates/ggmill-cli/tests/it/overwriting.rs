//! No command overwrites an input: neither with --force, nor by a different path to the same file.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{Directory, ggmill, real, shard};

/// Returns every file of a directory with its bytes.
fn content(directory: &Directory) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    files
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect()
}

/// The commands that write, each with an input that its output must not be; the output is the last
/// argument.
const COMMANDS: [(&str, &[&str]); 11] = [
    ("model.gguf", &["edit", "model.gguf", "--set", "general.name=x", "--force", "-o"]),
    ("text", &["edit", "model.gguf", "--set", "general.name=@text", "--force", "-o"]),
    ("text", &["edit", "model.gguf", "--chat-template", "text", "--force", "-o"]),
    ("model.gguf", &["repack", "model.gguf", "--align", "64", "--force", "-o"]),
    ("a-00002-of-00002.gguf", &["merge", "a-00001-of-00002.gguf", "--force", "-o"]),
    ("m.part1of1", &["merge", "m.part1of1", "--force", "-o"]),
    ("model.gguf", &["quantize", "model.gguf", "--type", "f16", "--force"]),
    ("text", &["quantize", "model.gguf", "--type", "f16", "--tensor-type-file", "text", "--force"]),
    ("model.gguf", &["extract", "model.gguf", "--format", "safetensors", "--force", "-o"]),
    ("m.part1of1", &["graft", "model.gguf", "--from", "m.part1of1", "--force", "-o"]),
    ("config.json", &["convert", ".", "--type", "f16", "--force", "-o"]),
];

fn directory() -> Directory {
    let model = fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let directory =
        Directory::new().with("m.part1of1", &model).with("model.gguf", model).with("text", "x=f16");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(real("tinystories260K").join(name), directory.path().join(name)).unwrap();
    }
    directory.with("a-00001-of-00002.gguf", shard(0, 2)).with("a-00002-of-00002.gguf", shard(1, 2))
}

#[test]
fn no_input_is_overwritten_by_any_path() {
    let directory = directory();
    fs::create_dir(directory.path().join("elsewhere")).unwrap();
    for (input, args) in COMMANDS {
        fs::hard_link(directory.path().join(input), directory.path().join("hard")).unwrap();
        let mut outputs = vec![format!("elsewhere/../{input}"), "hard".to_owned()];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(input, directory.path().join("soft")).unwrap();
            outputs.push("soft".to_owned());
        }
        let before = content(&directory);
        for output in &outputs {
            let found = ggmill(directory.path(), &[args, &[output]].concat());
            assert_eq!(found.code, 2, "{args:?} {output}: {}", found.stderr);
            let said = found.stderr.contains("is an input, so it cannot be the output")
                || found.stderr.contains("has the name of a shard");
            assert!(said, "{args:?} {output}: {}", found.stderr);
            assert!(content(&directory) == before, "{args:?} {output}");
        }
        let written = ggmill(directory.path(), &[args, &["elsewhere/out.gguf"]].concat());
        assert_eq!(written.code, 0, "{args:?}: {}", written.stderr);
        for link in ["hard", "soft"] {
            let _ = fs::remove_file(directory.path().join(link));
        }
    }
}

/// A file named `-` would be created by mistake.
#[test]
fn models_are_not_written_to_standard_output() {
    let directory = directory();
    let before = content(&directory);
    for (_, args) in COMMANDS {
        let found = ggmill(directory.path(), &[args, &["-"]].concat());
        assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{args:?}");
        assert!(
            found
                .stderr
                .starts_with("error: -: a model is written to a file, not to standard output"),
            "{}",
            found.stderr
        );
    }
    assert!(content(&directory) == before);
}
