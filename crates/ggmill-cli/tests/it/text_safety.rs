//! Text output: nothing in a file controls the terminal or the log that shows a message.

use ggmill_testdata::bytes::{FileBytes, Value};

use crate::support::{Directory, command, outcome};

/// Escape sequences that set a color, a title and clear the screen, with ESC and as C1 controls, a
/// character that reorders text, and commands to the runner of a workflow.
const HOSTILE: &str = "a\u{1b}[31mRED\u{1b}]0;T\u{7}\u{9b}2J\u{202e}\u{2066}\r\n::error::PWN\n##[error]PWN\n\
                       \u{a0}::error::PWN\nx ##vso[PWN]z";

/// Text without control characters, with which a line can begin.
const COMMANDS: &str = "\u{a0}::error::PWN ##[error]PWN ##vso[PWN]";

/// A file with hostile text in every place: the architecture, keys, values, tokens and tensors.
fn model(architecture: &str, hostile: &str) -> Vec<u8> {
    let names = ["token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight"];
    let count = names.len() + 3;
    let hyperparameters = [
        "context_length",
        "embedding_length",
        "block_count",
        "feed_forward_length",
        "attention.head_count",
        "rope.dimension_count",
    ];
    let texts = [
        "general.name",
        "general.type",
        "general.license",
        "general.basename",
        "general.version",
        "general.size_label",
        "general.url",
        "general.repo_url",
        "general.description",
        "tokenizer.chat_template",
        "tokenizer.ggml.pre",
        "quantize.imatrix.file",
        "split.no",
    ];
    let mut file =
        FileBytes::v3(count as u64, 8 + texts.len() as u64 + hyperparameters.len() as u64);
    file.pair("general.architecture", &architecture.into());
    for key in texts {
        file.pair(key, &hostile.into());
    }
    for key in hyperparameters {
        file.pair(format!("{architecture}.{key}"), &Value::U32(32));
    }
    file.pair("llama.vocab_size", &Value::U32(4));
    file.pair(hostile, &hostile.into());
    file.pair(format!("{architecture}.{hostile}"), &hostile.into());
    file.pair(format!("{architecture}.rope.scaling.type"), &hostile.into());
    file.pair("tokenizer.ggml.model", &"gpt2".into());
    file.pair("tokenizer.ggml.tokens", &Value::Array(8, vec![hostile.into(), "a".into()]));
    file.pair("general.tags", &Value::Array(8, vec![hostile.into()]));
    for (index, name) in names
        .iter()
        .map(|name| (*name).to_owned())
        .chain([hostile.to_owned(), format!("blk.0.{hostile}"), format!("{hostile}.weight")])
        .enumerate()
    {
        file.tensor(name, &[32, 4], 0, 512 * index as u64);
    }
    file.pad(32);
    file.raw(&vec![0; 512 * count]);
    file.into_bytes()
}

fn check(output: &str, what: &dyn std::fmt::Debug) {
    for line in output.split('\n') {
        let text = line.trim_start();
        assert!(!text.starts_with("::error::PWN"), "{what:?}: {line}");
        // A line that is a command cannot contain another. Lists of hashes are documents.
        if !text.starts_with("::") && !text.starts_with("xxh64 ") {
            assert!(!text.contains("##[") && !text.contains("##vso["), "{what:?}: {line}");
        }
    }
    assert!(!output.contains("\u{1b}[31mRED"), "{what:?}: {output:?}");
    let mut rest = output;
    while let Some(at) = rest.find(|c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || ('\u{202a}'..='\u{2069}').contains(&c) && c > '\u{2065}'
            || ('\u{202a}'..='\u{202e}').contains(&c)
    }) {
        let after = &rest[at..];
        let style = after
            .strip_prefix("\u{1b}[")
            .map(|style| style.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        rest = style.and_then(|style| style.strip_prefix('m')).unwrap_or_else(|| {
            panic!("{what:?}: {:?}", after.chars().take(40).collect::<String>())
        });
    }
}

#[test]
fn no_command_prints_control_characters_in_text() {
    let directory = Directory::new()
        .with("h.gguf", model(HOSTILE, HOSTILE))
        .with("l.gguf", model("llama", HOSTILE))
        .with("c.gguf", model("llama", COMMANDS))
        .with("t.jinja", format!("{{{{ raise_exception('{}') }}}}", HOSTILE.replace('\n', "\\n")));
    let commands: &[&[&str]] = &[
        &["inspect", "FILE", "--full"],
        &["check", "FILE", "--data"],
        &["check", "FILE", "--profile", "run"],
        &["check", "FILE", "--format", "github"],
        &["explain", "FILE", "--graph"],
        &["estimate", "FILE"],
        &["hash", "FILE"],
        &["diff", "FILE", "h.gguf", "--data"],
        &["tokenize", "FILE", "a"],
        &["detokenize", "FILE", "99"],
        &["template", "lint", "FILE"],
        &["template", "list", "FILE"],
        &["template", "render", "t.jinja", "-m", "user:a"],
        &["edit", "FILE", "--unset", "*", "--dry-run"],
        &["edit", "FILE", "--rename", "general.name=general.x", "--dry-run"],
        &["quantize", "FILE", "o.gguf", "Q4_K_M", "--force"],
        &["split", "FILE", "o", "--split-max-tensors", "2", "--dry-run"],
        &["extract", "FILE", "--force", "-o", "x.safetensors"],
        &["measure", "FILE", "t.jinja"],
        &["convert", "FILE", "-o", "out"],
        &["ls", "."],
        &["name", "FILE"],
    ];
    for args in commands {
        for file in ["h.gguf", "l.gguf", "c.gguf"] {
            let args: Vec<&str> =
                args.iter().map(|arg| if *arg == "FILE" { file } else { *arg }).collect();
            for color in ["always", "never"] {
                let found = outcome(command(directory.path()).args(["--color", color]).args(&args));
                check(&found.stdout, &args);
                check(&found.stderr, &args);
            }
        }
    }
}

/// Patterns of the shell pass names of files as arguments.
#[test]
fn usage_errors_do_not_print_control_characters() {
    let directory = Directory::new();
    let option = format!("--{HOSTILE}");
    for args in [
        &[&*option][..],
        &[HOSTILE],
        &["name", HOSTILE],
        &["check", "FILE", &option],
        &["check", "FILE", "--profile", HOSTILE],
        &["check", "FILE", "--select", HOSTILE],
        &["quantize", "FILE", "o.gguf", HOSTILE],
        &["quantize", "FILE", "o.gguf", "Q4_0", "--threads", HOSTILE],
        &["tokenize", "FILE", COMMANDS, COMMANDS],
        &["--color", COMMANDS],
    ] {
        for color in ["always", "never"] {
            let found = outcome(command(directory.path()).args(["--color", color]).args(args));
            assert_eq!(found.code, 2, "{args:?}");
            assert!(!found.stderr.is_empty(), "{args:?}");
            check(&found.stdout, &args);
            check(&found.stderr, &args);
        }
    }
}
