//! `ggmill tokenize`, `ggmill detokenize` and `ggmill inspect --vocab`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ggmill_testdata::bytes::{FileBytes, Value};
use serde_json::{Value as Json, json};

use crate::support::{Directory, command, ggmill, outcome, real, tiny};

const PHI: &str = "ggml-vocab-phi-3.gguf";

/// Returns a BPE vocabulary with the name of a pre-tokenizer.
fn model(pre: &str, merges: &[&str]) -> Vec<u8> {
    let strings =
        |texts: &[&str]| Value::Array(8, texts.iter().map(|text| Value::from(*text)).collect());
    let mut file = FileBytes::v3(0, 6);
    file.pair("general.architecture", &"llama".into())
        .pair("tokenizer.ggml.model", &"gpt2".into())
        .pair("tokenizer.ggml.pre", &pre.into())
        .pair("tokenizer.ggml.tokens", &strings(&["a", "b", "1", "ab", "11", "<end>", "Ġ"]))
        .pair(
            "tokenizer.ggml.token_type",
            &Value::Array(5, [1, 1, 1, 1, 1, 3, 1].map(Value::I32).into()),
        )
        .pair("tokenizer.ggml.merges", &strings(merges));
    file.into_bytes()
}

fn directory() -> Directory {
    Directory::new()
        .with("a.gguf", model("gpt-2", &["a b", "1 1"]))
        .with("b.gguf", model("qwen2", &["a b", "1 1"]))
        .with("other.gguf", model("qwen2", &[]))
        .with("tiny.gguf", tiny())
        .with("odd.gguf", model("gpt-3", &[]))
}

fn with_input(directory: &Path, arguments: &[&str], input: &str) -> crate::support::Outcome {
    let path = directory.join("input");
    fs::File::create(&path).unwrap().write_all(input.as_bytes()).unwrap();
    let mut program = command(directory);
    program.args(arguments).stdin(Stdio::from(fs::File::open(path).unwrap()));
    outcome(&mut program)
}

#[test]
fn tokens_of_a_real_vocabulary() {
    let directory = Directory::new();
    let phi = real(PHI);
    let phi = phi.to_str().unwrap();
    let run = |arguments: &[&str]| {
        let arguments = [&["tokenize", phi][..], arguments].concat();
        let found = ggmill(directory.path(), &arguments);
        assert_eq!(found.code, 0, "{}", found.stderr);
        found.stdout
    };
    assert_eq!(run(&["Hello world", "--ids"]), "[1, 15043, 3186]\n");
    assert_eq!(run(&["Hello world", "--ids", "--no-bos"]), "[15043, 3186]\n");
    assert_eq!(run(&["Hello world", "--count"]), "3\n");
    assert_eq!(run(&["Hello world"]), "     1  \"<s>\"\n 15043  \" Hello\"\n  3186  \" world\"\n");
    let offsets = run(&["Hello world", "--offsets", "--no-bos"]);
    assert_eq!(
        offsets,
        "       0..5         15043  \" Hello\"\n       5..11         3186  \" world\"\n"
    );
    assert_eq!(run(&["<|end|>", "--ids", "--no-bos"]), "[32007]\n");
    let text = run(&["<|end|>", "--ids", "--no-bos", "--no-parse-special"]);
    assert_eq!(text.matches(',').count(), 4, "{text}");
    assert_eq!(run(&[r"a\nb", "--ids", "--no-bos", "--escape"]), "[263, 13, 29890]\n");
    let json: Json = serde_json::from_str(&run(&["é", "--json", "--no-bos"])).unwrap();
    let expected =
        json!({"count": 1, "tokens": [{"id": 904, "piece": " é", "start": 0, "end": 2}]});
    assert_eq!(json, expected);
    let coloured = run(&["Hello world", "--color", "always", "--no-bos"]);
    assert!(coloured.contains(" Hello") && coloured.contains('\u{1b}'), "{coloured:?}");
    assert!(coloured.contains("2 tokens"), "{coloured:?}");
}

#[test]
fn texts_come_from_files_and_pipes() {
    let directory = directory().with("text", "ab 11");
    let found = ggmill(directory.path(), &["tokenize", "a.gguf", "--file", "text", "--ids"]);
    assert_eq!((found.code, &*found.stdout), (0, "[3, 6, 4]\n"), "{}", found.stderr);
    for arguments in [&["tokenize", "a.gguf", "--ids"][..], &["tokenize", "a.gguf", "-", "--ids"]] {
        let found = with_input(directory.path(), arguments, "ab<end>1");
        assert_eq!((found.code, &*found.stdout), (0, "[3, 5, 2]\n"), "{}", found.stderr);
    }
}

#[test]
fn jsonl_is_processed_line_by_line() {
    let directory = directory();
    let lines = "\"ab\"\n\n\"1\\u0031\"\n\"\"\n";
    let found = with_input(directory.path(), &["tokenize", "a.gguf", "--jsonl"], lines);
    assert_eq!((found.code, &*found.stdout), (0, "[3]\n[4]\n[]\n"), "{}", found.stderr);
    let back = with_input(directory.path(), &["detokenize", "a.gguf", "--jsonl"], &found.stdout);
    assert_eq!((back.code, &*back.stdout), (0, "\"ab\"\n\"11\"\n\"\"\n"), "{}", back.stderr);
    for (command, input, words) in [
        ("tokenize", "\"a\"\nab\n", "line 2: expected a JSON string"),
        ("detokenize", "[1]\n[\"a\"]\n", "line 2: expected a JSON array of token IDs"),
        ("detokenize", "[7]\n", "line 1: token 7, but there are 7 tokens"),
    ] {
        let found = with_input(directory.path(), &[command, "a.gguf", "--jsonl"], input);
        assert_eq!(found.code, 2);
        assert!(found.stderr.contains(words), "{}", found.stderr);
    }
}

#[test]
fn tokens_are_converted_to_text() {
    let directory = directory();
    let run = |arguments: &[&str]| {
        ggmill(directory.path(), &[&["detokenize", "a.gguf"][..], arguments].concat())
    };
    assert_eq!(run(&["3", "6", "4"]).stdout, "ab 11");
    assert_eq!(run(&["[3, 6,4]", "0"]).stdout, "ab 11a");
    assert_eq!(run(&["3", "5"]).stdout, "ab");
    assert_eq!(run(&["3", "5", "--special"]).stdout, "ab<end>");
    let piped = with_input(directory.path(), &["detokenize", "a.gguf", "-"], "[3, 6, 4]\n");
    assert_eq!((piped.code, &*piped.stdout), (0, "ab 11"));
    let piped = with_input(directory.path(), &["detokenize", "a.gguf"], "3 6 4");
    assert_eq!((piped.code, &*piped.stdout), (0, "ab 11"), "{}", piped.stderr);
    for (ids, words) in
        [("x", "\"x\" is not a token ID"), ("99", "token 99, but there are 7 tokens"), ("-1", "-1")]
    {
        let found = run(&["--", ids]);
        assert_eq!(found.code, 2, "{ids}");
        assert!(found.stderr.contains(words), "{}", found.stderr);
    }
}

#[test]
fn files_and_directories_are_counted() {
    let directory = directory();
    let texts = directory.path().join("texts");
    fs::create_dir_all(texts.join("more")).unwrap();
    fs::write(texts.join("more/b.txt"), "ab ab").unwrap();
    fs::write(texts.join("a.txt"), "ab").unwrap();
    let run = |arguments: &[&str]| {
        ggmill(directory.path(), &[&["tokenize", "a.gguf", "--count"][..], arguments].concat())
    };
    assert_eq!(run(&["--file", "texts/a.txt"]).stdout, "1\n");
    let found = run(&["--file", "texts"]);
    let separator = std::path::MAIN_SEPARATOR;
    assert_eq!(
        found.stdout,
        format!(
            "           1  texts{separator}a.txt\n           3  texts{separator}more{separator}b.txt\n           4  all 2 files\n"
        )
    );
    assert_eq!(run(&["--file", "absent"]).code, 2);
    // The name of a file as TEXT is text, too.
    let found = run(&["texts/a.txt"]);
    assert!(found.code == 0 && found.stderr.contains("--file"), "{}", found.stderr);
    assert_eq!(run(&["ab"]).stderr, "");
}

#[test]
fn an_html_page_shows_the_tokens() {
    let directory = directory();
    let found = ggmill(directory.path(), &["tokenize", "a.gguf", "ab<end>1\u{1b}", "--html"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert!(found.stdout.starts_with("<!DOCTYPE html>"), "{}", found.stdout);
    assert!(found.stdout.contains("title=\"3, bytes 0 to 2\">ab</span>"), "{}", found.stdout);
    assert!(found.stdout.contains("control\" title=\"5, bytes 2 to 7\">&lt;end&gt;</span>"));
    assert!(!found.stdout.contains('\u{1b}'), "{}", found.stdout);
    let page = ["tokenize", "a.gguf", "ab<end>1\u{1b}", "--html", "-o", "page.html"];
    let written = ggmill(directory.path(), &page);
    assert_eq!((written.code, &*written.stdout), (0, ""), "{}", written.stderr);
    assert_eq!(fs::read_to_string(directory.path().join("page.html")).unwrap(), found.stdout);
    let again = ggmill(directory.path(), &page);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("page.html"), "{}", again.stderr);
    assert_eq!(ggmill(directory.path(), &[&page[..], &["--force"]].concat()).code, 0);
    let one = ggmill(directory.path(), &["tokenize", "a.gguf", "ab", "--html"]);
    assert!(one.stdout.contains("<h1>1 token</h1>"), "{}", one.stdout);
}

#[test]
fn the_arguments_of_llama_tokenize_are_accepted() {
    let directory = directory();
    let expected = ggmill(directory.path(), &["tokenize", "a.gguf", "ab1", "--ids"]).stdout;
    for arguments in [
        &["-m", "a.gguf", "-p", "ab1", "--ids"][..],
        &["--model", "a.gguf", "--prompt", "ab1", "--ids"],
        &["-m", "a.gguf", "ab1", "--ids"],
        &["a.gguf", "-p", "ab1", "--ids"],
    ] {
        let found = ggmill(directory.path(), &[&["tokenize"], arguments].concat());
        assert_eq!((found.code, &found.stdout), (0, &expected), "{arguments:?}: {}", found.stderr);
    }
    let found = ggmill(directory.path(), &["tokenize", "-p", "ab1"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("<FILE>"), "{}", found.stderr);
}

#[test]
fn a_template_file_is_named_in_the_error() {
    let directory = Directory::new().with("chat.jinja", "{%- if tools %}{% endif %}");
    let found = ggmill(directory.path(), &["tokenize", "chat.jinja", "a"]);
    assert_eq!(found.code, 2);
    assert!(found.stderr.contains("hint: this is a Jinja template"), "{}", found.stderr);
}

#[test]
fn a_file_without_a_tokenizer_has_no_tokens_to_show() {
    let mut file = FileBytes::v3(0, 3);
    file.pair("general.architecture", &"llama".into())
        .pair("tokenizer.ggml.model", &"none".into())
        .pair("llama.vocab_size", &Value::U32(4));
    let directory = Directory::new().with("none.gguf", file.into_bytes());
    let found = ggmill(directory.path(), &["inspect", "none.gguf", "--vocab"]);
    assert_eq!((found.code, &*found.stdout), (1, ""), "{}", found.stderr);
    assert!(found.stderr.contains("there is no tokenizer"), "{}", found.stderr);
}

#[test]
fn vocabularies_are_compared() {
    let directory = directory();
    let run =
        |text: &str| ggmill(directory.path(), &["tokenize", "a.gguf", text, "--compare", "b.gguf"]);
    let found = run("ab 1a");
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
    assert!(found.stdout.contains("the tokens are identical"), "{}", found.stdout);
    let found = run("ab 11a");
    assert_eq!(found.code, 1, "{}", found.stderr);
    for words in [
        "4 tokens  a.gguf",
        "5 tokens  b.gguf",
        "1 part of the text tokenized differently",
        "bytes 3..5: \"11\"",
        "a.gguf: \"11\" (4)",
        "b.gguf: \"1\" (2) \"1\" (2)",
        "because the pre-tokenizers split this part into different words: gpt-2 and qwen2",
    ] {
        assert!(found.stdout.contains(words), "{words}: {}", found.stdout);
    }
    // With the pre-tokenizer of the other vocabulary, there is no difference.
    let same = ["tokenize", "a.gguf", "ab 11a", "--compare", "b.gguf", "--pre", "qwen2"];
    assert_eq!(ggmill(directory.path(), &same).code, 0);
}

/// The vocabulary of [`model`] as tokenizer.json.
const TOKENIZER_JSON: &str = r#"{"added_tokens": [{"id": 5, "content": "<end>", "special": true,
    "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "1": 2, "ab": 3, "11": 4, "<end>": 5, "Ġ": 6},
    "merges": ["a b", "1 1"]}}"#;

#[test]
fn a_tokenizer_is_loaded_from_tokenizer_json() {
    let pairs = r#"{"type": "Sequence", "pretokenizers": [{"type": "FixedLength", "length": 2},
        {"type": "ByteLevel", "#;
    let unknown = TOKENIZER_JSON.replace(r#"{"type": "ByteLevel", "#, pairs);
    let unknown = unknown.replace(r#""use_regex": true}"#, r#""use_regex": true}]}"#);
    let directory =
        directory().with("tokenizer.json", TOKENIZER_JSON).with("unknown.json", &unknown);
    let run = |arguments: &[&str]| ggmill(directory.path(), arguments);
    let found = run(&["tokenize", "tokenizer.json", "ab 11<end>", "--pre", "gpt-2", "--ids"]);
    assert_eq!((found.code, &*found.stdout), (0, "[3, 6, 4, 5]\n"), "{}", found.stderr);
    // The pre-tokenizer is recognized by how it splits texts, unless it is unknown.
    let found = run(&["tokenize", "tokenizer.json", "ab", "--ids"]);
    assert_eq!((found.code, &*found.stdout), (0, "[3]\n"), "{}", found.stderr);
    assert!(found.stderr.contains("gpt-2 was used"), "{}", found.stderr);
    let found = run(&["tokenize", "unknown.json", "ab"]);
    assert_eq!(found.code, 2, "{}", found.stdout);
    assert!(found.stderr.contains("hint: --pre NAME"), "{}", found.stderr);
    let found =
        run(&["tokenize", "tokenizer.json", "ab 11", "--pre", "qwen2", "--compare", "a.gguf"]);
    assert_eq!(found.code, 1, "{}", found.stderr);
    assert!(found.stdout.contains("different words: qwen2 and gpt-2"), "{}", found.stdout);
}

/// The library's tokens are those of the whole pipeline, which no vocabulary expresses.
#[test]
fn tokens_are_compared_with_the_library() {
    let file =
        TOKENIZER_JSON.replace("\"model\"", "\"normalizer\": {\"type\": \"Lowercase\"}, \"model\"");
    let directory = directory().with("tokenizer.json", TOKENIZER_JSON).with("lower.json", &file);
    let run = |text: &str, other: &str| {
        let arguments = ["tokenize", "tokenizer.json", text, "--pre", "gpt-2", "--compare", other];
        ggmill(directory.path(), &arguments)
    };
    let found = run("ab 11<end>", "tokenizer.json");
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
    assert!(found.stdout.contains("the tokens are identical"), "{}", found.stdout);
    let found = run("ab AB", "lower.json");
    assert_eq!(found.code, 1, "{}", found.stderr);
    assert!(found.stdout.contains("the normalizer Lowercase"), "{}", found.stdout);
    assert!(found.stdout.contains("\"ab\" (3)"), "{}", found.stdout);
}

#[test]
fn other_tokenizer_files_are_read_with_their_companions() {
    let directory = directory()
        .with("vocab.json", r#"{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}"#)
        .with("merges.txt", "#version: 0.2\na b\n")
        .with("tiktoken.model", "YQ== 0\nYg== 1\nYWI= 2\n")
        .with("numbers.json", r#"{"a": 1}"#);
    let run = |arguments: &[&str]| ggmill(directory.path(), arguments);
    for file in ["vocab.json", "merges.txt"] {
        let found = run(&["tokenize", file, "abb", "--pre", "gpt-2", "--ids"]);
        assert_eq!((found.code, &*found.stdout), (0, "[2, 1]\n"), "{}", found.stderr);
        // Assumptions are noted.
        let note = format!("note: {file}: no file specifies the class of the tokenizer");
        assert!(found.stderr.contains(&note), "{}", found.stderr);
    }
    let found = run(&["tokenize", "tiktoken.model", "abb", "--pre", "gpt-2", "--ids"]);
    assert_eq!((found.code, &*found.stdout, &*found.stderr), (0, "[2, 1]\n", ""));
    let found = run(&["tokenize", "tiktoken.model", "abb"]);
    assert_eq!(found.code, 2, "{}", found.stdout);
    assert!(found.stderr.contains("hint: --pre NAME"), "{}", found.stderr);
    let found = run(&["tokenize", "numbers.json", "abb"]);
    assert_eq!(found.code, 2, "{}", found.stdout);
    assert!(found.stderr.contains("numbers.json: is not a tokenizer"), "{}", found.stderr);
}

#[test]
fn tokens_are_explained() {
    let directory = directory();
    let found = ggmill(directory.path(), &["tokenize", "a.gguf", "ab 1<end>", "--explain"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert_eq!(lines[0], "text bytes 0..4: \"ab 1\"");
    assert!(lines[1].starts_with("  pass 1 of 1: 's|'t|"), "{}", found.stdout);
    assert_eq!(lines[2], "    \"ab\" \" 1\"");
    let rest = [
        "  word \"ab\"",
        "    merge of rank 0: \"a\" + \"b\"",
        "    token  \"ab\" (3)",
        "  word \" 1\"",
        "    tokens \" \" (6) \"1\" (2)",
        "special token \"<end>\" (5), bytes 4..9",
    ];
    assert_eq!(lines[3..], rest);
    let phi = real(PHI);
    let found = ggmill(directory.path(), &["tokenize", phi.to_str().unwrap(), "é", "--explain"]);
    let lines: Vec<&str> = found.stdout.lines().collect();
    assert_eq!(
        lines[..3],
        ["added token \"<s>\" (1)", "text bytes 0..2: \"é\"", "  becomes \"▁é\""]
    );
    assert!(lines[4].starts_with("    merge of score "), "{}", found.stdout);
    assert_eq!(lines.last(), Some(&"    token  \" é\" (904)"));
}

#[test]
fn the_pre_tokenizer_is_found_from_a_reference() {
    let directory = directory();
    let run = |model: &str| {
        let compare = ["--pre", "auto", "--compare", "b.gguf"];
        let arguments = [&["tokenize", model, "ab 11 1111 a"][..], &compare].concat();
        ggmill(directory.path(), &arguments)
    };
    let found = run("b.gguf");
    assert_eq!((found.code, &*found.stderr), (0, ""), "{}", found.stdout);
    let best = found.stdout.lines().find(|line| line.split(' ').any(|word| word == "qwen2"));
    assert!(best.is_some_and(|line| line.contains(" 0 differences")), "{}", found.stdout);
    let found = run("a.gguf");
    assert_eq!(found.code, 1, "{}", found.stdout);
    for words in ["tokenizer.ggml.pre is \"gpt-2\"", "ggmill edit FILE --set tokenizer.ggml.pre="] {
        assert!(found.stderr.contains(words), "{words}: {}", found.stderr);
    }
    // Of the matching names, that of the reference is preferred.
    assert!(found.stderr.contains("pre=qwen2` sets it"), "{}", found.stderr);
    let found = ggmill(directory.path(), &["tokenize", "a.gguf", "ab", "--pre", "auto"]);
    assert_eq!(found.code, 2, "{}", found.stdout);
    // No pre-tokenizer makes a vocabulary with other tokens equal.
    let compare = ["--pre", "auto", "--compare", "other.gguf"];
    let found =
        ggmill(directory.path(), &[&["tokenize", "a.gguf", "ab 11"][..], &compare].concat());
    assert_eq!(found.code, 1, "{}", found.stdout);
    assert!(found.stderr.contains("differ in more than the pre-tokenizer"), "{}", found.stderr);
}

#[test]
fn errors_name_their_cause() {
    let directory = directory();
    for (arguments, words) in [
        (&["tokenize", "tiny.gguf", "a"][..], "hint: the file has no vocabulary"),
        (&["tokenize", "odd.gguf", "a"], "\"gpt-3\" is not a known pre-tokenizer"),
        (&["tokenize", "odd.gguf", "a"], "hint: --pre NAME"),
        (&["tokenize", "absent.gguf", "a"], "absent.gguf: cannot open"),
        (&["tokenize", "a.gguf", "--file", "a.gguf", "--file", "b.gguf"], "expected one text"),
        (&["detokenize", "tiny.gguf", "1"], "tiny.gguf"),
    ] {
        let found = ggmill(directory.path(), arguments);
        assert_eq!((found.code, &*found.stdout), (2, ""), "{arguments:?}");
        assert!(found.stderr.contains(words), "{words}: {}", found.stderr);
    }
    let given =
        ggmill(directory.path(), &["tokenize", "odd.gguf", "ab", "--pre", "gpt-2", "--ids"]);
    assert_eq!(given.stdout, "[0, 1]\n", "{}", given.stderr);
}

#[test]
fn the_vocabulary_is_shown() {
    let directory = directory();
    let found = ggmill(directory.path(), &["inspect", "a.gguf", "--vocab"]);
    assert_eq!((found.code, found.stdout.lines().count()), (0, 7), "{}", found.stderr);
    let line = found.stdout.lines().last().unwrap();
    assert!(line.contains("normal") && line.contains("\"Ġ\"") && line.ends_with("\" \""), "{line}");
    // By the text in the file, or by what it stands for.
    for glob in ["--vocab= ", "--vocab=Ġ"] {
        let found = ggmill(directory.path(), &["inspect", "a.gguf", glob]);
        assert_eq!(found.stdout.lines().count(), 1, "{glob}: {}", found.stdout);
    }
    let found = ggmill(directory.path(), &["inspect", "a.gguf", "--vocab=<*", "--json"]);
    let json: Json = serde_json::from_str(&found.stdout).unwrap();
    let token = json!({
        "id": 5, "text": "<end>", "type": ["control"], "score": 0.0, "bytes_hex": "3c656e643e",
    });
    assert_eq!(json, json!([token]));
    assert_eq!(ggmill(directory.path(), &["inspect", "a.gguf", "--vocab=zzz"]).code, 1);
}

/// llama.cpp's own texts and IDs, for the vocabularies at hand.
#[test]
fn texts_of_llama_cpp_have_its_ids() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/vocab-gguf");
    let Ok(entries) = fs::read_dir(&shared) else {
        println!("{}: not there", shared.display());
        return;
    };
    let mut texts_compared = 0;
    for path in entries.map(|entry| entry.unwrap().path()) {
        let beside = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
        let Ok(texts) = fs::read_to_string(beside(".inp")) else { continue };
        let directory = Directory::new();
        let expected = fs::read_to_string(beside(".out")).unwrap();
        let mut texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        texts.truncate(expected.lines().count());
        let lines: String =
            texts.iter().map(|text| serde_json::to_string(text).unwrap() + "\n").collect();
        let arguments =
            ["tokenize", path.to_str().unwrap(), "--jsonl", "--no-bos", "--no-parse-special"];
        let found = with_input(directory.path(), &arguments, &lines);
        assert_eq!(found.code, 0, "{}", found.stderr);
        for ((text, found), expected) in
            texts.iter().zip(found.stdout.lines()).zip(expected.lines())
        {
            let ids: Vec<u32> = serde_json::from_str(found).unwrap();
            let expected: Vec<u32> =
                expected.split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert_eq!(ids, expected, "{}: {text:?}", path.display());
            texts_compared += 1;
        }
    }
    assert!(texts_compared > 300, "{texts_compared}");
}

#[test]
fn the_name_of_a_file_is_text_with_a_note() {
    let directory = directory().with("story.txt", "a b");
    for form in ["--ids", "--count", "--pieces"] {
        let run = |text: &str| ggmill(directory.path(), &["tokenize", "a.gguf", text, form]).stderr;
        let note = "note: the argument \"story.txt\" is tokenized as text; --file tokenizes the \
                    file with this name\n";
        assert_eq!((&*run("story.txt"), &*run("a b")), (note, ""), "{form}");
    }
}
