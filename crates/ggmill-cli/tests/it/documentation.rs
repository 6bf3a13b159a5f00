//! The commands in the documentation, run as printed.

use std::fs;
use std::path::Path;

use crate::lora::write_adapter;
use crate::support::{Directory, command, ggmill, outcome, real};

/// Returns the commands in the shell blocks of a page.
fn commands(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut blocks = text.split("```");
    let mut found = Vec::new();
    while let (Some(_), Some(block)) = (blocks.next(), blocks.next()) {
        let Some(lines) = block.strip_prefix("sh\n") else { continue };
        found.extend(lines.lines().filter(|line| line.starts_with("ggmill ")).map(str::to_owned));
    }
    found
}

/// Splits a command into words like a shell, as far as these pages need it.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(end)) if c == end => quote = None,
            (' ', None) if word.is_empty() => {}
            (' ', None) => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn run_page(page: &str, directory: &Directory) {
    let commands = commands(page);
    assert!(commands.len() > 5, "{page}: {commands:?}");
    for line in commands {
        let (command, comment) = line.split_once(" # ").unwrap_or((&line, ""));
        let expected = i32::from(comment.starts_with("exit code 1"));
        let (command, output) = match command.split_once(" > ") {
            Some((command, output)) => (command, Some(output.trim())),
            None => (command, None),
        };
        let words = words(command);
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let made = ggmill(directory.path(), &arguments);
        assert_eq!(made.code, expected, "{page}: {line}: {}", made.stderr);
        if let Some(output) = output {
            fs::write(directory.path().join(output), made.stdout).unwrap();
        }
    }
}

#[test]
fn every_command_of_the_tutorial_works() {
    let directory = Directory::new();
    let checkpoint = directory.path().join("my-model");
    fs::create_dir(&checkpoint).unwrap();
    for entry in fs::read_dir(real("tinystories260K")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), checkpoint.join(entry.file_name())).unwrap();
    }
    run_page("tutorial.md", &directory);
}

#[test]
fn every_command_of_the_how_tos_works() {
    let directory = Directory::new();
    let made = outcome(
        command(directory.path())
            .arg("convert")
            .arg(real("tinystories260K"))
            .args(["-o", "model.gguf"]),
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\
        {{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";
    let set = format!("tokenizer.chat_template={template}");
    let made = ggmill(directory.path(), &["edit", "model.gguf", "--set", &set]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    fs::write(directory.path().join("template.jinja"), template).unwrap();
    let base = directory.path().join("my-model");
    fs::create_dir(&base).unwrap();
    fs::copy(real("tinystories260K").join("config.json"), base.join("config.json")).unwrap();
    write_adapter(&directory.path().join("my-adapter"), &serde_json::json!({ "lora_alpha": 8 }));
    run_page("how-to.md", &directory);
}
