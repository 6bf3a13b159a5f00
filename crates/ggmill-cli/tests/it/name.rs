//! `ggmill name`.

use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::Value as Json;

use crate::support::{Directory, ggmill, tiny};

/// Returns a model with metadata for its name.
fn named(pairs: &[(&str, Value)], tensors: bool) -> Vec<u8> {
    let mut file = FileBytes::v3(u64::from(tensors), 1 + pairs.len() as u64);
    file.pair("general.architecture", &"llama".into());
    for (key, value) in pairs {
        file.pair(key, value);
    }
    if tensors {
        file.tensor("token_embd.weight", &[1024, 2], 1, 0).pad(32).raw(&[0; 4096]);
    }
    file.into_bytes()
}

/// The test cases of the specification's Node.js example, and its second example in prose, which
/// the specification's own expression rejects.
#[test]
fn names_of_the_specification() {
    let directory = Directory::new();
    let cases = [
        ("Mixtral-8x7B-v0.1-KQ2.gguf", Some(["Mixtral", "8x7B", "", "v0.1", "KQ2", ""])),
        (
            "Grok-100B-v1.0-Q4_0-00003-of-00009.gguf",
            Some(["Grok", "100B", "", "v1.0", "Q4_0", "00003-of-00009"]),
        ),
        (
            "Hermes-2-Pro-Llama-3-8B-v1.0-F16.gguf",
            Some(["Hermes-2-Pro-Llama-3", "8B", "", "v1.0", "F16", ""]),
        ),
        (
            "Phi-3-mini-3.8B-ContextLength4k-instruct-v1.0.gguf",
            Some(["Phi-3-mini", "3.8B-ContextLength4k", "instruct", "v1.0", "", ""]),
        ),
        ("not-a-known-arrangement.gguf", None),
        ("Hermes-2-Pro-Llama-3-8B-F16.gguf", None),
    ];
    for (name, expected) in cases {
        let found = ggmill(directory.path(), &["name", "parse", "--json", name]);
        assert_eq!(found.code, i32::from(expected.is_none()), "{name}");
        let json: Json = serde_json::from_str(&found.stdout).unwrap();
        let parts = &json["names"][0]["parts"];
        let Some(expected) = expected else {
            assert!(parts.is_null(), "{name}");
            continue;
        };
        for (part, value) in
            ["base_name", "size_label", "fine_tune", "version", "encoding", "shard"]
                .into_iter()
                .zip(expected)
        {
            assert_eq!(parts[part].as_str().unwrap_or_default(), value, "{name}: {part}");
        }
    }
}

#[test]
fn names_are_parsed_and_checked() {
    let directory = Directory::new();
    let found = ggmill(
        directory.path(),
        &["name", "parse", "directory/mmproj-Qwen-2-7B-Instruct-v1.0-F16.gguf", "x.gguf"],
    );
    assert_eq!(found.code, 1);
    insta::assert_snapshot!("parse", found.stdout);
    let checked = ggmill(
        directory.path(),
        &[
            "name",
            "check",
            "Grok-100B-v1.0-Q4_0.gguf",
            "Grok-100B-Q4_0.gguf",
            "grok.bin",
            "\u{1b}[2J.gguf",
        ],
    );
    assert_eq!(checked.code, 1);
    insta::assert_snapshot!("check", checked.stdout);
    let good = ggmill(directory.path(), &["name", "check", "Grok-100B-v1.0-Q4_0.gguf"]);
    assert_eq!((good.code, good.stdout.as_str()), (0, ""));
}

#[test]
fn names_are_built_from_metadata() {
    let text = |key: &'static str, value: &str| (key, Value::from(value));
    let full = [
        text("general.basename", "Hermes 2 Pro"),
        text("general.size_label", "8B"),
        text("general.finetune", "Chat"),
        text("general.version", "1.1"),
        ("general.file_type", Value::U32(15)),
    ];
    let files = [
        ("full", named(&full, true), "Hermes-2-Pro-8B-Chat-v1.1-Q4_K_M.gguf"),
        ("counted", named(&[text("general.name", "Tiny")], true), "Tiny-2.0K-v1.0.gguf"),
        ("nameless", named(&[], true), "llama-2.0K-v1.0.gguf"),
        (
            "adapter",
            named(&[text("general.name", "T"), text("general.type", "adapter")], true),
            "T-2.0K-v1.0-LoRA.gguf",
        ),
        (
            "mmproj",
            named(&[text("general.name", "T"), text("general.type", "mmproj")], true),
            "mmproj-T-2.0K-v1.0.gguf",
        ),
        (
            "vocab",
            named(&[text("general.name", "T"), text("general.size_label", "7B")], false),
            "T-7B-v1.0-vocab.gguf",
        ),
        (
            "shard",
            named(
                &[
                    text("general.name", "T"),
                    ("split.no", Value::U16(2)),
                    ("split.count", Value::U16(3)),
                ],
                true,
            ),
            "T-2.0K-v1.0-00003-of-00003.gguf",
        ),
        // A name in the metadata is never used as a path.
        (
            "hostile",
            named(&[text("general.name", "../../etc/x\u{1b}")], true),
            "etc-x-2.0K-v1.0.gguf",
        ),
    ];
    for (name, bytes, expected) in files {
        let directory = Directory::new().with(name, bytes);
        let found = ggmill(directory.path(), &["name", "build", name]);
        assert_eq!(found.stdout, format!("{expected}\n"), "{name}: {}", found.stderr);
        assert_eq!(ggmill(directory.path(), &["name", "check", expected]).code, 0, "{expected}");
    }
    let directory =
        Directory::new().with("bare", named(&[], false)).with("page", "<!DOCTYPE html>");
    for (file, why) in
        [("bare", "no tensors to count"), ("page", "expected \"GGUF\""), ("absent", "no such file")]
    {
        let found = ggmill(directory.path(), &["name", "build", file]);
        assert!(found.code == 2 && found.stderr.contains(why), "{file}: {}", found.stderr);
    }
}

#[test]
fn files_are_renamed_all_or_none() {
    let file = |name: &str| named(&[("general.name", name.into())], true);
    let directory = Directory::new()
        .with("a.gguf", file("A"))
        .with("b.gguf", file("B"))
        .with("c.gguf", file("A"))
        .with("page.gguf", "<!DOCTYPE html>");
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    };
    let before = names();
    let shown = ggmill(directory.path(), &["name", "rename", "a.gguf", "b.gguf", "--dry-run"]);
    assert_eq!(
        (shown.code, shown.stdout.as_str()),
        (0, "a.gguf -> A-2.0K-v1.0.gguf\nb.gguf -> B-2.0K-v1.0.gguf\n")
    );
    for refused in [&["b.gguf", "page.gguf"][..], &["a.gguf", "c.gguf"]] {
        assert_eq!(
            ggmill(directory.path(), &[&["name", "rename"], refused].concat()).code,
            2,
            "{refused:?}"
        );
    }
    assert_eq!(names(), before);
    assert_eq!(ggmill(directory.path(), &["name", "rename", "a.gguf", "b.gguf"]).code, 0);
    assert_eq!(names(), ["A-2.0K-v1.0.gguf", "B-2.0K-v1.0.gguf", "c.gguf", "page.gguf"]);
    // An existing file with the new name is not replaced.
    let taken = ggmill(directory.path(), &["name", "rename", "c.gguf"]);
    assert!(taken.code == 2 && taken.stderr.contains("already exists"), "{}", taken.stderr);
    let again = ggmill(directory.path(), &["name", "rename", "A-2.0K-v1.0.gguf"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, ""));
}

#[test]
fn a_name_of_another_format_can_be_parsed() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    assert_eq!(ggmill(directory.path(), &["name", "parse"]).code, 2);
    assert_eq!(ggmill(directory.path(), &["name"]).code, 2);
}

/// Shards with different names are not a set, so none of them is renamed.
#[test]
fn a_set_is_renamed_completely_or_not_at_all() {
    let shard = |number: u16| {
        named(
            &[
                ("general.name", "T".into()),
                ("split.no", Value::U16(number)),
                ("split.count", Value::U16(3)),
                ("split.tensors.count", Value::I32(0)),
                ("general.size_label", "2K".into()),
            ],
            false,
        )
    };
    let set = || {
        (0..3u16).fold(Directory::new(), |directory, number| {
            directory.with(&format!("m-0000{}-of-00003.gguf", number + 1), shard(number))
        })
    };
    let old = ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"];
    let directory = set();
    let new: Vec<String> =
        (1..=3).map(|number| format!("T-2K-v1.0-vocab-0000{number}-of-00003.gguf")).collect();
    let lines: Vec<String> =
        old.iter().zip(&new).map(|(old, new)| format!("{old} -> {new}\n")).collect();
    let rename = |directory: &Directory, args: &[&str]| {
        ggmill(directory.path(), &[&["name", "rename"], args].concat())
    };
    for given in [&old[..1], &old[1..2], &old[..]] {
        let shown = rename(&directory, &[given, &["--dry-run"]].concat());
        assert_eq!((shown.code, shown.stdout), (0, lines.concat()), "{given:?}: {}", shown.stderr);
        assert_eq!(directory.files(), old);
    }
    let done = rename(&directory, &[old[1]]);
    assert_eq!((done.code, done.stdout), (0, lines.concat()), "{}", done.stderr);
    assert_eq!(directory.files(), new);
    assert_eq!(ggmill(directory.path(), &["inspect", &*new[2]]).code, 0);

    // One of the new names exists.
    let directory = set().with(&new[2], "another file");
    let before = directory.files();
    let refused = rename(&directory, &[old[0]]);
    assert!(refused.code == 2 && refused.stderr.contains("already exists"), "{}", refused.stderr);
    assert_eq!(directory.files(), before);

    // One shard is missing.
    let directory = set();
    std::fs::remove_file(directory.path().join(old[1])).unwrap();
    for given in [old[0], old[2]] {
        let refused = rename(&directory, &[given]);
        let hint = "all shards of a set are renamed together";
        assert!(refused.code == 2 && refused.stderr.contains(hint), "{}", refused.stderr);
    }
    assert_eq!(directory.files(), [old[0], old[2]]);
}
