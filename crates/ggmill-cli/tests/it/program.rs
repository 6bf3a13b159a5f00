//! Usage errors, help, manual pages, pipes.

use std::io::Read as _;
use std::process::Stdio;

use ggmill_testdata::{REAL_GGUF, real};

use crate::support::{Directory, command, ggmill};

fn run(args: &[&str]) -> (i32, String, String) {
    let found = ggmill(Directory::new().path(), args);
    (found.code, found.stdout, found.stderr)
}

#[test]
fn misuse_is_code_2() {
    for args in [
        &[][..],
        &["nonsense"],
        &["inspect"],
        &["inspect", "a", "--all", "--metadata"],
        &["inspect", "a", "--key", "[", "--json"],
    ] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains("Usage:") || stderr.contains("For more information"), "{stderr}");
    }
}

#[test]
fn help_and_version_are_not_errors() {
    let (code, stdout, _) = run(&["--version"]);
    assert_eq!((code, stdout), (0, format!("ggmill {}\n", env!("CARGO_PKG_VERSION"))));
    let (code, stdout, _) = run(&["inspect", "--help"]);
    assert_eq!(code, 0);
    assert_eq!(stdout.matches("\n  ggmill inspect ").count(), 6, "six examples");
}

#[test]
fn every_command_has_a_page_and_completions() {
    let (code, page, _) = run(&["man"]);
    assert!(code == 0 && page.contains("ggmill\\-inspect(1)"), "{page}");
    for name in ["inspect", "convert", "completions", "man"] {
        let (code, page, _) = run(&["man", name]);
        assert!(code == 0 && page.contains(&format!(".TH ggmill-{name} 1")), "{page}");
        assert!(page.contains("Examples:"), "{page}");
    }
    assert_eq!(run(&["man", "nonsense"]).0, 2);
    for words in [&["man", "imatrix", "show"][..], &["man", "imatrix show"]] {
        let (code, page, _) = run(words);
        assert!(code == 0 && page.contains(".TH ggmill-imatrix-show 1"), "{page}");
    }
    let (code, _, stderr) = run(&["man", "imatrix", "nonsense"]);
    assert!(code == 2 && stderr.contains("show") && stderr.contains("merge"), "{stderr}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, _) = run(&["completions", shell]);
        assert!(code == 0 && script.contains("inspect"), "{shell}");
    }
}

/// A reader that closes the pipe early is not a failure.
#[test]
fn a_closed_pipe_is_success() {
    for args in [&["--json", "--full"][..], &["--full"], &["--metadata", "--full"]] {
        let mut child = command(&real(""))
            .args(["inspect", REAL_GGUF[2]])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut beginning = [0; 16];
        child.stdout.take().unwrap().read_exact(&mut beginning).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8(output.stderr).unwrap()),
            (Some(0), String::new()),
            "{args:?}"
        );
    }
}

/// A full disk is a failure with a message.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported() {
    for args in [&["inspect", REAL_GGUF[0]][..], &["inspect", "--json", REAL_GGUF[0]], &["man"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command(&real("")).args(args).stdout(Stdio::from(full)).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr.starts_with("error: cannot write to standard output: "), "{stderr}");
    }
}

/// Help has colors on request.
#[test]
fn help_has_colors_on_request() {
    let directory = Directory::new();
    for (args, is_styled) in [
        (&["--color", "always", "inspect", "--help"][..], true),
        (&["inspect", "--color=always", "--help"], true),
        (&["inspect", "--color=never", "--help"], false),
        (&["inspect", "--help"], false),
    ] {
        let help = ggmill(directory.path(), args);
        assert_eq!((help.code, help.stdout.contains('\u{1b}')), (0, is_styled), "{args:?}");
    }
}

/// Options of similar tools get advice.
#[test]
fn options_of_other_tools_get_advice() {
    for (args, advice) in [
        (&["tokenize", "-m", "x.gguf", "--stdin", "--ids"][..], "- in place of TEXT reads"),
        (&["tokenize", "x.gguf", "a", "--show-count"], "--count prints"),
        (&["convert", "x", "--bigendian"], "`ggmill repack FILE -o OUT --endian big`"),
        (&["convert", "x", "--use-temp-file"], "omit this option"),
        (&["convert", "x", "--mtp"], "written to the file of the model"),
        (&["convert", "x", "--no-nextn"], "always written"),
        (&["convert", "x", "--dspark"], "DeepSeek V4"),
        (&["convert", "x", "--remote"], "`ggmill convert hf://OWNER/NAME`"),
        (&["inspect", "x.gguf", "--no-tensors"], "--metadata shows the metadata only"),
        (&["dump", "x.gguf", "--json-array"], "--full prints arrays"),
        (&["unset", "x.gguf", "key"], "`ggmill edit FILE --unset KEY`"),
        (&["perplexity", "-m", "x.gguf"], "`ggmill measure MODEL --text FILE`"),
        (&["compare", "a.gguf", "b.gguf"], "`ggmill diff A B`"),
        (&["measure", "-m", "x.gguf"], "`ggmill measure MODEL --text FILE`"),
        (&["llama-perplexity", "-m", "x.gguf"], "`ggmill measure MODEL --text FILE`"),
        (&["llama-gguf-split", "--merge", "x.gguf"], "`ggmill merge SHARD -o OUT`"),
        (&["gguf-hash", "x.gguf"], "`ggmill hash FILE`"),
        (&["gguf-convert-endian", "x.gguf"], "`ggmill repack FILE -o OUT --endian big`"),
        (&["convert_lora_to_gguf.py", "x"], "`ggmill convert DIR --base BASE`"),
        (&["gguf-set-metadata", "x.gguf"], "`ggmill edit FILE --set KEY=VALUE`"),
        (&["template", "show", "x.gguf"], "`ggmill get FILE tokenizer.chat_template`"),
        (&["template", "render", "x.gguf", "--user", "Hi"], "-m user:TEXT"),
        (&["check", "x.gguf", "--check-tensors"], "--data reads the weights"),
        (&["quantize", "x.gguf", "-o", "y.gguf", "Q4_K_M"], "`ggmill quantize IN OUT TYPE`"),
        (&["estimate", "-m", "x.gguf"], "`ggmill estimate FILE`"),
        (&["edit", "x.gguf", "--name", "Foo"], "--set general.name=NAME"),
        (&["estimate", "x.gguf", "-ngl", "99"], "--gpu-layers"),
        (&["imatrix", "-m", "x.gguf"], "`ggmill imatrix make MODEL --text FILE -o OUT`"),
        (&["imatrix", "--in-file", "x.dat"], "`ggmill imatrix merge FILE... -o OUT`"),
        (&["imatrix", "show", "x.gguf", "--show-statistics"], "shows the weights of each tensor"),
    ] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, &*stdout), (2, ""), "{args:?}");
        let tips: Vec<&str> = stderr.lines().filter(|line| line.contains("tip:")).collect();
        assert!(tips.len() == 1 && tips[0].contains(advice), "{args:?}: {stderr}");
    }
}

#[test]
fn invalid_numbers_have_clear_messages() {
    for (args, message) in [
        (&["web", "--port", "x"][..], "invalid value 'x' for '--port <N>': expected an integer\n"),
        (&["web", "--port", "70000"], "70000 is not in 0..=65535"),
        (&["measure", "x", "--text", "y", "--ctx", "1.5"], "': expected an integer\n"),
        (&["measure", "x", "--text", "y", "--ctx", "99999999999999999999"], "out of range\n"),
        (
            &["estimate", "x", "--tensor-split", "1,a"],
            "invalid value 'a' for '--tensor-split <SHARE>': expected a number\n",
        ),
        (
            &["estimate", "x", "--cache-type", "q4_9"],
            "not the name of a type, expected one of F32, F16, ",
        ),
    ] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, &*stdout), (2, ""), "{args:?}");
        assert!(stderr.starts_with("error: ") && stderr.contains(message), "{args:?}: {stderr}");
    }
}

/// Misspelled commands get a suggestion, also after `help`.
#[test]
fn misspelled_commands_get_a_suggestion() {
    for (args, name) in [
        (&["quantise", "x.gguf"][..], "quantize"),
        (&["help", "quantise"], "quantize"),
        (&["help", "tokenise"], "tokenize"),
        (&["help", "detokenise"], "detokenize"),
        (&["help", "inspekt"], "inspect"),
        (&["help", "imatrix", "shw"], "show"),
    ] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, &*stdout), (2, ""), "{args:?}");
        let tip = format!("tip: a similar subcommand exists: '{name}'");
        assert!(stderr.contains(&tip), "{args:?}: {stderr}");
    }
    let (code, stdout, _) = run(&["help", "info"]);
    assert!(code == 0 && stdout.contains("Usage: ggmill inspect"), "{stdout}");
    let (_, _, stderr) = run(&["help", "perplexity"]);
    assert!(stderr.contains("tip: `ggmill measure MODEL --text FILE` computes it"), "{stderr}");
}

/// Standard input is rejected with a hint if a command needs random access.
#[test]
fn standard_input_is_refused_for_tensor_data() {
    for args in [
        &["edit", "-", "--set", "general.name=x", "-o", "out.gguf"][..],
        &["edit", "-", "--set", "general.name=x"],
        &["web", "-"],
        &["convert", "-"],
        &["convert", "-", "--to", "safetensors"],
    ] {
        let (code, stdout, stderr) = run(args);
        assert_eq!((code, &*stdout), (2, ""), "{args:?}");
        let message = "error: -: tensor data is read at any place, which standard input does not \
                       allow\nhint: save it to a file, or name the file itself";
        assert!(stderr.starts_with(message), "{args:?}: {stderr}");
    }
}
