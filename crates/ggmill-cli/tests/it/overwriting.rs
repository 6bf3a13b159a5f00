//! No command writes over what it reads: not by force, and not by another way to the same file.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{Folder, ggmill, real, shard};

/// Every file of a folder with its bytes.
fn content(folder: &Folder) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    files
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect()
}

/// The commands that write, each with an input that its output must not be; the output is said
/// last.
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

fn folder() -> Folder {
    let model = fs::read(real("mobilenetv3_3class_v3_fp16.gguf")).unwrap();
    let folder =
        Folder::new().with("m.part1of1", &model).with("model.gguf", model).with("text", "x=f16");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(real("stories260K").join(name), folder.path().join(name)).unwrap();
    }
    folder.with("a-00001-of-00002.gguf", shard(0, 2)).with("a-00002-of-00002.gguf", shard(1, 2))
}

#[test]
fn no_input_is_written_over_by_whatever_path() {
    let folder = folder();
    fs::create_dir(folder.path().join("elsewhere")).unwrap();
    for (input, args) in COMMANDS {
        fs::hard_link(folder.path().join(input), folder.path().join("hard")).unwrap();
        let mut outputs = vec![format!("elsewhere/../{input}"), "hard".to_owned()];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(input, folder.path().join("soft")).unwrap();
            outputs.push("soft".to_owned());
        }
        let before = content(&folder);
        for output in &outputs {
            let found = ggmill(folder.path(), &[args, &[output]].concat());
            assert_eq!(found.code, 2, "{args:?} {output}: {}", found.stderr);
            let said = found.stderr.contains("is read from, and cannot be the output")
                || found.stderr.contains("has the name of a shard");
            assert!(said, "{args:?} {output}: {}", found.stderr);
            assert!(content(&folder) == before, "{args:?} {output}");
        }
        let written = ggmill(folder.path(), &[args, &["elsewhere/out.gguf"]].concat());
        assert_eq!(written.code, 0, "{args:?}: {}", written.stderr);
        for link in ["hard", "soft"] {
            let _ = fs::remove_file(folder.path().join(link));
        }
    }
}

/// A file of the name `-` is nobody's wish.
#[test]
fn a_model_is_no_text_for_standard_output() {
    let folder = folder();
    let before = content(&folder);
    for (_, args) in COMMANDS {
        let found = ggmill(folder.path(), &[args, &["-"]].concat());
        assert_eq!((found.code, found.stdout.as_str()), (2, ""), "{args:?}");
        assert!(
            found
                .stderr
                .starts_with("error: -: a model is written to a file, not to standard output"),
            "{}",
            found.stderr
        );
    }
    assert!(content(&folder) == before);
}
