//! The checks of `ggmill edit`: findings, refused edits, and reserved space.

use std::fs;

use ggmill_core::Header;
use ggmill_testdata::bytes::{FileBytes, Value};
use ggmill_testdata::models::models;
use serde_json::Value as Json;

use crate::support::{Directory, Outcome, command, ggmill, outcome, tiny};

fn edit(directory: &Directory, args: &[&str]) -> Outcome {
    outcome(command(directory.path()).arg("edit").args(args))
}

fn bytes(directory: &Directory, name: &str) -> Vec<u8> {
    fs::read(directory.path().join(name)).unwrap()
}

fn text(directory: &Directory, name: &str, key: &str) -> String {
    let bytes = bytes(directory, name);
    Header::parse(&bytes).unwrap().metadata().str(key).unwrap().to_owned()
}

/// Returns a model with a vocabulary of three tokens.
fn vocabulary() -> Vec<u8> {
    let mut file = FileBytes::v3(0, 4);
    let tokens = ["<s>", "</s>", "a"].map(Value::from).to_vec();
    file.pair("general.architecture", &"llama".into())
        .pair("tokenizer.ggml.model", &"llama".into())
        .pair("tokenizer.ggml.tokens", &Value::Array(8, tokens))
        .pair("tokenizer.ggml.scores", &Value::Array(6, vec![Value::F32(0.5); 3]));
    file.into_bytes()
}

#[test]
fn the_rules_check_the_changed_keys() {
    let llama = models().into_iter().find(|model| model.name == "llama").unwrap();
    let directory = Directory::new().with("tiny.gguf", tiny()).with("llama.gguf", llama.file);
    for (file, args, words) in [
        (
            "tiny.gguf",
            &["--set", "llama.context_lenght=4096", "--force"][..],
            "warning: key \"llama.context_lenght\": did you mean llama.context_length?\n",
        ),
        ("tiny.gguf", &["--set", "general.license=my own"], "(GG2001: "),
        ("llama.gguf", &["--set", "llama.block_count=77", "--force"], "block_count is 77"),
        // A removed key is reported as missing.
        ("llama.gguf", &["--unset", "llama.block_count", "--force"], "key \"llama.block_count\": "),
    ] {
        let dry = [&[file], args, &["--dry-run"]].concat();
        let found = edit(&directory, &dry);
        assert_eq!(found.code, 0, "{args:?}: {}", found.stderr);
        assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
        let quiet = edit(&directory, &[&dry[..], &["--no-check"]].concat());
        assert_eq!((quiet.code, &*quiet.stderr), (0, ""), "{args:?}");
        let json = edit(&directory, &[&dry[..], &["--json"]].concat());
        let json: Json = serde_json::from_str(&json.stdout).unwrap();
        assert!(!json["findings"].as_array().unwrap().is_empty(), "{args:?}");
    }
    // Existing findings about other keys are not reported.
    let found = edit(&directory, &["llama.gguf", "--set", "x.y=1", "--dry-run"]);
    assert_eq!((found.code, &*found.stderr), (0, ""));
    // Warnings do not prevent the edit.
    let found = edit(&directory, &["tiny.gguf", "--set", "general.license=my own"]);
    assert!(found.code == 0 && found.stderr.contains("GG2001"), "{}", found.stderr);
}

/// An edit that causes a new error is refused, and nothing is written.
#[test]
fn an_edit_that_causes_an_error_is_refused_unless_forced() {
    let llama = models().into_iter().find(|model| model.name == "llama").unwrap();
    let directory = Directory::new().with("llama.gguf", llama.file);
    let before = bytes(&directory, "llama.gguf");
    for (args, words) in [
        (&["--set", "llama.block_count=77"][..], "block_count is 77"),
        (
            &["--set", "llama.block_count=77", "--dry-run"],
            "(GG1506: block_count does not match the number of layers)",
        ),
        (&["--set", "llama.block_count=77", "-o", "copy.gguf"], "GG1506"),
        (&["--unset", "llama.block_count"], "key \"llama.block_count\": "),
    ] {
        let found = edit(&directory, &[&["llama.gguf"], args].concat());
        let start = "error: llama.gguf: the edit would cause errors: ";
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}: {}", found.stderr);
        assert!(
            found.stderr.starts_with(start)
                && found.stderr.contains(words)
                && found.stderr.ends_with("\nhint: --force makes the edit anyway\n"),
            "{args:?}: {}",
            found.stderr
        );
        assert!(bytes(&directory, "llama.gguf") == before, "{args:?}");
    }
    assert_eq!(directory.files(), ["llama.gguf"]);
    let args = ["set-metadata", "llama.gguf", "llama.block_count", "77"];
    assert_eq!(ggmill(directory.path(), &args).code, 2);
    for more in ["--force", "--no-check"] {
        let set = ["llama.gguf", "--set", "llama.block_count=77", more, "-o"];
        let found = edit(&directory, &[&set[..], &[&format!("x{more}.gguf")]].concat());
        assert_eq!(found.code, 0, "{}", found.stderr);
    }
    // The file has this error already: neither another wrong value nor any other edit is refused.
    for set in ["llama.block_count=78", "general.author=A"] {
        let found = edit(&directory, &["x--force.gguf", "--set", set]);
        assert_eq!(found.code, 0, "{set}: {}", found.stderr);
    }
    // Edits are checked together.
    let block_count = ggmill(directory.path(), &["get", "llama.gguf", "llama.block_count"]).stdout;
    let back = format!("llama.block_count={}", block_count.trim());
    let found = edit(&directory, &["llama.gguf", "--set", "llama.block_count=77", "--set", &back]);
    assert_eq!(found.code, 0, "{}", found.stderr);
}

/// A key without its namespace, or with a misspelled one, is refused, too.
#[test]
fn a_key_without_its_namespace_is_refused_unless_forced() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    for (set, meant) in [
        ("eos_token_id=2", "tokenizer.ggml.eos_token_id"),
        ("context_length=2", "llama.context_length"),
        ("license=mit", "general.license"),
        ("generl.name=x", "general.name"),
        ("lama.context_length=2", "llama.context_length"),
    ] {
        let found = edit(&directory, &["tiny.gguf", "--set", set]);
        let words = format!("did you mean {meant}?\nhint: --force makes the edit anyway\n");
        assert!(found.code == 2 && found.stderr.contains(&words), "{set}: {}", found.stderr);
    }
    for set in ["my.eos_token_id=2", "qwen2.context_length=2", "mine=1"] {
        let found = edit(&directory, &["tiny.gguf", "--set", set, "--dry-run"]);
        assert_eq!(found.code, 0, "{set}: {}", found.stderr);
    }
}

/// With several files, `--force` is refused before any file is edited, or not at all.
#[test]
fn force_is_refused_for_all_files_or_for_none() {
    let directory = Directory::new().with("a.gguf", tiny()).with("b.gguf", tiny());
    let in_place = |args: &[&str]| {
        edit(&directory, &[&["--in-place", "a.gguf", "b.gguf", "--force"], args].concat())
    };
    let found = in_place(&["--set", "general.name=New"]);
    assert_eq!((found.code, &*found.stdout), (2, ""), "{}", found.stderr);
    assert!(found.stderr.starts_with("error: --force applies only to"), "{}", found.stderr);
    assert!(bytes(&directory, "a.gguf") == tiny() && bytes(&directory, "b.gguf") == tiny());
    // The key is new in one of the files.
    let new = ["b.gguf", "--set", "llama.context_lenght=1", "--force"];
    assert_eq!(edit(&directory, &new).code, 0);
    let found = in_place(&["--set", "llama.context_lenght=2"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    for file in ["a.gguf", "b.gguf"] {
        let get = ggmill(directory.path(), &["get", file, "llama.context_lenght"]);
        assert_eq!(get.stdout, "2\n", "{file}");
    }
    // An error of every file is reported as usual.
    let found = in_place(&["--unset", "no.such.key"]);
    assert!(found.stderr.contains("2 of 2 files failed"), "{}", found.stderr);
}

/// The text of a template can be longer than a file name.
#[test]
fn a_template_can_be_given_as_text() {
    let directory = Directory::new().with("model.gguf", vocabulary());
    let template =
        format!("{{%- if tools %}}\n{{{{- 'a/b\\n' }}}}{{% endif %}}{}", "x".repeat(5000));
    for (more, written) in [(&["-o", "copy.gguf"][..], "copy.gguf"), (&[], "model.gguf")] {
        let args = [&["model.gguf", "--chat-template", &template], more].concat();
        let found = edit(&directory, &args);
        assert_eq!(found.code, 0, "{}", found.stderr);
        assert_eq!(text(&directory, written, "tokenizer.chat_template"), template);
    }
}

/// A key that is similar to a known one is refused before anything is written.
#[test]
fn a_misspelled_key_is_refused_unless_forced() {
    let directory = Directory::new().with("tiny.gguf", tiny()).with("other.gguf", tiny());
    let before = bytes(&directory, "tiny.gguf");
    let refused = "key \"llama.context_lenght\" is not a known key; did you mean \
                   llama.context_length?\nhint: --force makes the edit anyway\n";
    for args in [
        &["tiny.gguf", "--set", "llama.context_lenght=4096"][..],
        &["tiny.gguf", "--set", "llama.context_lenght=4096", "--dry-run"],
        &["tiny.gguf", "--set", "llama.context_lenght=4096", "-o", "copy.gguf"],
        &["tiny.gguf", "--rename", "llama.context_length=llama.context_lenght"],
    ] {
        let found = edit(&directory, args);
        let expected = format!("error: tiny.gguf: {refused}");
        assert_eq!((found.code, &*found.stdout, &*found.stderr), (2, "", &*expected), "{args:?}");
        assert!(bytes(&directory, "tiny.gguf") == before, "{args:?}");
    }
    let args = ["set-metadata", "tiny.gguf", "llama.context_lenght", "4096"];
    assert_eq!(ggmill(directory.path(), &args).code, 2);
    assert_eq!(directory.files(), ["other.gguf", "tiny.gguf"]);
    for more in ["--force", "--no-check"] {
        let set = ["tiny.gguf", "--set", "llama.context_lenght=4096", more, "-o"];
        let found = edit(&directory, &[&set[..], &[&format!("x{more}.gguf")]].concat());
        assert_eq!(found.code, 0, "{}", found.stderr);
    }
    let forced = ["tiny.gguf", "--set", "llama.context_lenght=4096", "--force"];
    let found = edit(&directory, &forced);
    let warning = "warning: key \"llama.context_lenght\": did you mean llama.context_length?\n";
    assert!(found.code == 0 && found.stderr.contains(warning), "{}", found.stderr);
    assert_eq!(ggmill(directory.path(), &["get", "tiny.gguf", "llama.context_lenght"]).code, 0);
    // Once the key exists, it is not refused.
    let found = edit(&directory, &["tiny.gguf", "--set", "llama.context_lenght=8192"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    // `--remove` is the name of `--unset` in other tools.
    let found = edit(&directory, &["tiny.gguf", "--remove", "llama.context_lenght"]);
    assert!(found.code == 0 && found.stdout.contains("- llama.context_lenght"), "{found:?}");
    let found = edit(&directory, &["tiny.gguf", "--remove", "llama.context_lenght"]);
    assert!(found.code == 2 && !found.stderr.contains("recover"), "{}", found.stderr);
    let found = edit(&directory, &["tiny.gguf", "--unset", "context_length"]);
    let hint = "no key matches \"context_length\"\nhint: did you mean \"*.context_length\"?\n";
    assert!(found.code == 2 && found.stderr.contains(hint), "{}", found.stderr);
    let found = edit(&directory, &["tiny.gguf", "--unset", "general.name", "--force"]);
    assert!(
        found.code == 2 && found.stderr.contains("--force applies only to"),
        "{}",
        found.stderr
    );
}

#[test]
fn a_template_is_read_from_a_configuration() {
    let directory = Directory::new()
        .with("model.gguf", vocabulary())
        .with("template.jinja", "{{ bos_token }}")
        .with("tokenizer_config.json", r#"{"a": 1, "chat_template": "{{ eos_token }}"}"#)
        .with(
            "several.json",
            r#"{"chat_template": [{"name": "default", "template": "{{ 1 }}"},
                {"name": "Tool use", "template": "{{ 2 }}"}]}"#,
        )
        .with("none.json", r#"{"a": 1}"#)
        .with("broken.jinja", "{% if %}")
        .with("broken.json", r#"{"chat_template": "{% if %}"}"#);
    let template = "tokenizer.chat_template";
    for (option, given, expected) in [
        ("--chat-template", "template.jinja", "{{ bos_token }}"),
        ("--chat-template", "tokenizer_config.json", "{{ eos_token }}"),
        ("--chat-template-config", "tokenizer_config.json", "{{ eos_token }}"),
        ("--chat-template-file", "template.jinja", "{{ bos_token }}"),
        ("--chat-template", "{{ 'typed' }}", "{{ 'typed' }}"),
        ("--chat-template", "several.json", "{{ 1 }}"),
    ] {
        let found = edit(&directory, &["model.gguf", option, given, "--no-check"]);
        assert_eq!((found.code, &*found.stderr), (0, ""), "{given}");
        assert_eq!(text(&directory, "model.gguf", template), expected, "{given}");
    }
    assert_eq!(text(&directory, "model.gguf", "tokenizer.chat_template.tool_use"), "{{ 2 }}");
    let names = ggmill(directory.path(), &["get", "model.gguf", "tokenizer.chat_templates"]);
    assert_eq!(names.stdout, "tool_use\n");

    let before = bytes(&directory, "model.gguf");
    for (args, words) in [
        (&["--chat-template", "none.json"][..], "none.json: has no chat_template"),
        (&["--chat-template", "broken.jinja"], "does not parse: line 1: "),
        (&["--chat-template", "broken.json"], "hint: --force sets it anyway"),
        (&["--set", "tokenizer.chat_template=@broken.jinja"], "does not parse"),
        (&["--chat-template", "broken.jinja", "--no-check"], "does not parse"),
        (&["--chat-template", "broken.jinja", "--dry-run"], "does not parse"),
        (&["--chat-template", "broken.jinja", "-o", "copy.gguf"], "does not parse"),
    ] {
        let found = edit(&directory, &[&["model.gguf"], args].concat());
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}");
        assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
        assert!(bytes(&directory, "model.gguf") == before, "{args:?}");
        assert!(!directory.path().join("copy.gguf").exists(), "{args:?}");
    }
    let forced = ["model.gguf", "--chat-template", "broken.jinja", "--force"];
    let found = edit(&directory, &forced);
    assert!(found.code == 0 && found.stderr.contains("GG1701"), "{}", found.stderr);
    assert_eq!(text(&directory, "model.gguf", template), "{% if %}");
}

/// The space that an edit reserves is reported once, and other commands omit it from new files.
#[test]
fn reserved_space_is_reported_and_omitted_from_new_files() {
    const KEY: &str = "ggmill.padding";
    let has = |directory: &Directory, name: &str| {
        let bytes = bytes(directory, name);
        Header::parse(&bytes).unwrap().metadata().get(KEY).is_some()
    };
    let long = format!("general.name={}", "long ".repeat(200));
    let directory = Directory::new().with("tiny.gguf", tiny());
    let found = edit(&directory, &["tiny.gguf", "--set", &long]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stdout.contains("\n+ ggmill.padding  "), "{}", found.stdout);
    assert!(has(&directory, "tiny.gguf"));
    // It is reported once; an edit that fits into it prints one line.
    let again = edit(&directory, &["tiny.gguf", "--set", "llama.context_length=256"]);
    let told = "~ llama.context_length  128 (u32) → 256 (u32)\ntiny.gguf: edited in place\n";
    assert_eq!((again.code, &*again.stdout), (0, told));
    for args in [
        "edit tiny.gguf --set general.name=x -o edit.gguf",
        "repack tiny.gguf -o repack.gguf",
        "graft tiny.gguf --drop output_norm* -o graft.gguf",
        "extract tiny.gguf * -o extract.gguf",
        "quantize tiny.gguf quantize.gguf COPY",
        "split tiny.gguf part --max-tensors 1",
        "merge part-00001-of-00002.gguf merge.gguf",
    ] {
        let before: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
        let found = ggmill(directory.path(), &args.split(' ').collect::<Vec<_>>());
        assert_eq!(found.code, 0, "{args}: {}", found.stderr);
        let after = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path());
        let new: Vec<_> = after.filter(|path| !before.contains(path)).collect();
        assert!(!new.is_empty(), "{args}");
        for path in new {
            assert!(!has(&directory, path.file_name().unwrap().to_str().unwrap()), "{args}");
        }
    }
    let without = edit(&directory, &["tiny.gguf", "--set", "general.name=y", "--no-padding"]);
    assert_eq!(without.code, 0, "{}", without.stderr);
    assert!(!has(&directory, "tiny.gguf"));
    let fresh = Directory::new().with("tiny.gguf", tiny());
    let found = edit(&fresh, &["tiny.gguf", "--set", &long, "--no-padding"]);
    assert!(found.code == 0 && !found.stdout.contains(KEY), "{}", found.stdout);
    assert!(!has(&fresh, "tiny.gguf"));
}

/// Each file is edited or unchanged; after a failure, the others are edited.
#[test]
fn several_files() {
    let directory = Directory::new()
        .with("a.gguf", tiny())
        .with("b.gguf", vocabulary())
        .with("page.gguf", "<!DOCTYPE html>");
    let set = ["--set", "general.author=A"];
    let found = edit(&directory, &[&["a.gguf", "b.gguf", "--in-place"], &set[..]].concat());
    assert_eq!((found.code, &*found.stderr), (0, ""));
    let args = ["-i", "a.gguf", "page.gguf", "b.gguf", "--set", "general.author=B", "--json"];
    let found = edit(&directory, &args);
    assert_eq!(found.code, 2, "{}", found.stdout);
    assert!(found.stderr.contains("1 of 3 files failed"), "{}", found.stderr);
    for name in ["a.gguf", "b.gguf"] {
        assert_eq!(text(&directory, name, "general.author"), "B", "{name}");
    }
    assert_eq!(bytes(&directory, "page.gguf"), b"<!DOCTYPE html>");
    let json: Json = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(json["schema"], "ggmill.edits/1");
    assert_eq!(json["files"].as_array().unwrap().len(), 3);
    assert!(json["files"][1]["error"].as_str().unwrap().contains("page.gguf"), "{json}");
    // The arguments of gguf_new_metadata: nothing is edited by mistake.
    let before = bytes(&directory, "a.gguf");
    let found = edit(&directory, &["a.gguf", "new.gguf", "--set", "general.author=C"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("hint: -o OUT writes an edited copy"), "{}", found.stderr);
    assert!(bytes(&directory, "a.gguf") == before);
    // Also if the output exists: both would be edited.
    for more in [&[][..], &["--dry-run"]] {
        let args = ["a.gguf", "b.gguf", "--set", "general.author=C"];
        let found = edit(&directory, &[&args, more].concat());
        let expected = "error: 2 files were given; no file was edited\nhint: -o b.gguf writes an \
                        edited copy of a.gguf; --in-place edits each of them\n";
        assert_eq!((found.code, &*found.stderr), (2, expected));
    }
    for name in ["a.gguf", "b.gguf"] {
        assert_eq!(text(&directory, name, "general.author"), "B", "{name}");
    }
    let found = edit(&directory, &["a.gguf", "b.gguf", "--set", "x.y=1", "-o", "c.gguf"]);
    assert!(found.code == 2 && found.stderr.contains("of only one file"), "{}", found.stderr);
}

/// As in gguf-set-metadata.
#[test]
fn set_metadata_adds_no_key() {
    let directory = Directory::new().with("tiny.gguf", tiny());
    let before = bytes(&directory, "tiny.gguf");
    let args = ["set-metadata", "tiny.gguf", "general.author", "A"];
    let found = ggmill(directory.path(), &args);
    let expected = "error: tiny.gguf: there is no key \"general.author\"\nhint: `ggmill edit \
                    tiny.gguf --set general.author=VALUE` adds a key\n";
    assert_eq!((found.code, &*found.stderr), (2, expected));
    assert!(bytes(&directory, "tiny.gguf") == before);
    let found = ggmill(directory.path(), &[&args[..], &["--force"]].concat());
    assert_eq!(found.code, 0, "{}", found.stderr);
    // Two arguments instead of one.
    let found = edit(&directory, &["tiny.gguf", "--set", "general.name", "B"]);
    assert!(found.stderr.ends_with("hint: --set general.name=VALUE\n"), "{}", found.stderr);
}
