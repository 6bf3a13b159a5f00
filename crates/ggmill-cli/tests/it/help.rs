//! The help of every command, on a terminal with 80 columns.

use crate::support::{Directory, command, outcome};

/// The number of columns of the terminal.
const WIDTH: usize = 80;

/// Adds the help of a command and of its subcommands.
fn collect(words: &[String], found: &mut Vec<(String, String)>) {
    let directory = Directory::new();
    let shown = outcome(
        command(directory.path()).args(words).arg("--help").env("COLUMNS", WIDTH.to_string()),
    );
    assert_eq!(shown.code, 0, "{words:?}: {}", shown.stderr);
    let listed = shown.stdout.split("\nCommands:\n").nth(1).unwrap_or_default();
    for line in listed.lines().take_while(|line| !line.is_empty()) {
        // A continuation line of a description is indented more.
        let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '));
        let name = name.and_then(|line| line.split_whitespace().next());
        if let Some(name) = name.filter(|name| *name != "help") {
            collect(&[words, &[name.to_owned()]].concat(), found);
        }
    }
    found.push((words.join(" "), shown.stdout));
}

fn every_help() -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(&[], &mut found);
    assert!(found.len() > 30, "{}", found.len());
    found
}

fn columns(line: &str) -> usize {
    line.chars().count()
}

/// No line is longer than the terminal, and prose fills its lines: the first word of a line would
/// not fit into the previous one.
#[test]
fn help_is_wrapped_once() {
    for (name, help) in every_help() {
        let lines: Vec<&str> = help.lines().collect();
        for line in &lines {
            assert!(columns(line) <= WIDTH, "{name}: {line:?}");
        }
        for pair in lines.windows(2) {
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            if !pair.iter().all(|line| is_prose(line)) || pair[0].ends_with(':') {
                continue;
            }
            let next = pair[1].split_whitespace().next().unwrap_or_default();
            assert!(
                columns(pair[0]) + 1 + columns(next) > WIDTH,
                "{name}: {:?} is broken before {next:?}",
                pair[0]
            );
        }
    }
}

/// An example is one line: a broken line cannot be copied.
#[test]
fn examples_are_whole_lines() {
    for (name, help) in every_help() {
        let Some(examples) = help.split("\nExamples:\n").nth(1) else { continue };
        for line in examples.lines().take_while(|line| !line.is_empty()) {
            assert!(line.starts_with("  ggmill "), "{name}: {line:?}");
        }
    }
}

/// clap reads `help help` as the help of a command with this name.
#[test]
fn help_of_help_is_the_general_help() {
    let directory = Directory::new();
    let run = |args: &[&str]| outcome(command(directory.path()).args(args));
    let found = run(&["help", "--help"]);
    assert_eq!((found.code, found.stdout), (0, run(&["--help"]).stdout));
}
