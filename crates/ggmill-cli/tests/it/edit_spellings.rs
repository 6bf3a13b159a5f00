//! The spellings of values, and the options of other tools.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use ggmill_testdata::bytes::{FileBytes, Value};

use crate::support::{Directory, Outcome, command, ggmill, outcome};

fn model() -> Vec<u8> {
    let mut file = FileBytes::v3(0, 5);
    let tokens = ["<unk>", "<s>", "</s>", "a"].map(Value::from).to_vec();
    file.pair("general.architecture", &"llama".into())
        .pair("general.name", &"Tiny".into())
        .pair("tokenizer.ggml.model", &"llama".into())
        .pair("tokenizer.ggml.tokens", &Value::Array(8, tokens))
        .pair("tokenizer.ggml.scores", &Value::Array(6, vec![Value::F32(0.5); 4]));
    file.into_bytes()
}

fn get(directory: &Directory, key: &str) -> String {
    let found = ggmill(directory.path(), &["get", "model.gguf", key]);
    assert_eq!(found.code, 0, "{key}: {}", found.stderr);
    found.stdout
}

fn fine(directory: &Directory, args: &[&str]) {
    let found = ggmill(directory.path(), &[&["edit", "model.gguf", "--no-check"], args].concat());
    assert_eq!((found.code, &*found.stderr), (0, ""), "{args:?}");
}

fn piped(directory: &Directory, input: &str, args: &[&str]) -> Outcome {
    let mut command = command(directory.path());
    fs::write(directory.path().join("input"), input).unwrap();
    let input = fs::File::open(directory.path().join("input")).unwrap();
    outcome(command.args(["edit", "model.gguf", "--no-check"]).args(args).stdin(Stdio::from(input)))
}

#[test]
fn values_by_name_by_element_and_from_standard_input() {
    let directory = Directory::new().with("model.gguf", model());
    for (args, key, expected) in [
        (&["--set", "general.file_type=Q4_K_M"][..], "general.file_type", "15\n"),
        (&["--set", "general.file_type:u32=mostly_q8_0"], "general.file_type", "7\n"),
        (&["--set", "general.file_type=1"], "general.file_type", "1\n"),
        (
            &["--set", "tokenizer.ggml.scores[2]=-3"],
            "tokenizer.ggml.scores",
            "0.5\n0.5\n-3.0\n0.5\n",
        ),
        (&["--set", "tokenizer.ggml.tokens[3]=[b]"], "tokenizer.ggml.tokens[3]", "[b]"),
        (&["--set", "general.name=-"], "general.name", "-"),
    ] {
        fine(&directory, args);
        assert_eq!(get(&directory, key), expected, "{args:?}");
    }
    for (input, args, key, expected) in [
        ("from a pipe", &["--set", "general.name=@-"][..], "general.name", "from a pipe"),
        ("{{ 1 }}", &["--chat-template", "-"], "tokenizer.chat_template", "{{ 1 }}"),
        ("{\"x.a\": 1}", &["--set-from", "-"], "x.a", "1\n"),
        ("x.b = 'toml'", &["--set-from", "-"], "x.b", "toml"),
        ("<unk>\n<s>\n</s>\nb\n", &["--tokens-from", "-"], "tokenizer.ggml.tokens[3]", "b"),
        ("9\n", &["--set", "tokenizer.ggml.scores[0]=@-"], "tokenizer.ggml.scores[0]", "9.0\n"),
        // Only a value that begins with @ is a file.
        ("in", &["--set", "x.c=y=@-", "--set", "x.d=@-"], "x.c", "y=@-"),
        ("in", &["--set", "x.e=@-", "--set", "x.f=@@-"], "x.f", "@-"),
        ("in", &["--rename", "x.f=@-", "--rename", "x.e=x.g", "--set", "x.h=@-"], "@-", "@-"),
    ] {
        let found = piped(&directory, input, args);
        assert_eq!((found.code, &*found.stderr), (0, ""), "{args:?}");
        assert_eq!(get(&directory, key), expected, "{args:?}");
    }
    for (args, words) in [
        (
            &["--set", "x.a=@-", "--set-from", "-"][..],
            "standard input can be used for only one value",
        ),
        (
            &["--set", "tokenizer.ggml.scores[4]=1"],
            "has no element 4: the array has 4, counted from 0",
        ),
        (&["--set", "tokenizer.ggml.scores[x]=1"], "expected key[index]=value"),
        (&["--set", "tokenizer.ggml.scores[1]:u32=1"], "expected key[index]=value, without a type"),
        (&["--set", "tokenizer.ggml.scores[1]=x"], "is not a number, expected f32"),
        (&["--set", "general.name[0]=x"], "is not an array"),
        (&["--set", "general.file_type=Q4_K_XXL"], "expected u32"),
    ] {
        let found = piped(&directory, "", args);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{args:?}");
        assert!(found.stderr.contains(words), "{args:?}: {}", found.stderr);
    }
}

/// A shell passes `<(…)` as a named pipe.
#[cfg(unix)]
#[test]
fn values_from_a_named_pipe() {
    let directory = Directory::new().with("model.gguf", model());
    let mut child = command(directory.path());
    let child = child.args(["edit", "model.gguf", "--set-from", "/dev/stdin", "--no-check"]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"x.piped\": true}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(get(&directory, "x.piped"), "true\n");
}

#[test]
fn options_of_other_tools_are_accepted() {
    let directory = Directory::new().with("model.gguf", model());
    for (args, key, expected) in [
        (&["--special-token", "unknown=<unk>"][..], "tokenizer.ggml.unknown_token_id", "0\n"),
        (&["--special-token", "unk=<s>"], "tokenizer.ggml.unknown_token_id", "1\n"),
        (&["--special-token", "padding=a"], "tokenizer.ggml.padding_token_id", "3\n"),
        (&["--special-token", "seperator=a"], "tokenizer.ggml.seperator_token_id", "3\n"),
        (&["--special-token", "separator=</s>"], "tokenizer.ggml.seperator_token_id", "2\n"),
        (&["--special-token-by-id", "eos=2"], "tokenizer.ggml.eos_token_id", "2\n"),
        (&["--pre-tokenizer", "llama-bpe"], "tokenizer.ggml.pre", "llama-bpe"),
        (&["--general-name", "Peer"], "general.name", "Peer"),
        (&["--general-description", "It is"], "general.description", "It is"),
    ] {
        fine(&directory, args);
        assert_eq!(get(&directory, key), expected, "{args:?}");
    }
    fine(&directory, &["--remove-metadata", "general.description"]);
    assert_eq!(ggmill(directory.path(), &["get", "model.gguf", "general.description"]).code, 2);
    // Two arguments instead of one: the hint shows what to type.
    let two = ["edit", "--special-token", "eos", "</s>", "model.gguf"];
    let found = ggmill(directory.path(), &two);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("hint: --special-token eos='</s>'"), "{}", found.stderr);

    let called = ["edit", "model.gguf", "general.name", "Two words"];
    let found = ggmill(directory.path(), &called);
    let hint = "hint: `ggmill edit model.gguf --set general.name=VALUE` sets a key";
    assert!(found.code == 2 && found.stderr.contains(hint), "{}", found.stderr);
    let found =
        ggmill(directory.path(), &["edit", "https://127.0.0.1/model.gguf", "--set", "x.a=1"]);
    assert!(found.code == 2 && found.stderr.contains("but not edited"), "{}", found.stderr);

    let found = ggmill(directory.path(), &["set-metadata", "model.gguf", "general.name", "Set"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert_eq!(get(&directory, "general.name"), "Set");
    let args = ["set-metadata", "model.gguf", "tokenizer.ggml.eos_token_id", "1", "--dry-run"];
    let found = ggmill(directory.path(), &args);
    assert!(found.stdout.contains("would be edited in place"), "{}", found.stdout);
    assert_eq!(get(&directory, "tokenizer.ggml.eos_token_id"), "2\n");
}
