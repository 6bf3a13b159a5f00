//! The documentation: its links, and the site that mdBook makes of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::process::{Done, cargo, command, output, root, run as run_command, succeeds, target};

/// Checks every relative link of every tracked Markdown file: the file is there, and where a
/// heading is named, so is the heading.
pub(crate) fn links() -> Done {
    let files = output(command("git").args(["ls-files", "*.md"]))?;
    let mut dead = Vec::new();
    for file in files.lines() {
        let text =
            fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))?;
        let broken = links_of(&text).into_iter().filter(|link| !leads_somewhere(file, link));
        dead.extend(broken.map(|link| format!("{file}: {link}")));
    }
    if dead.is_empty() { Ok(()) } else { Err(format!("dead links:\n{}", dead.join("\n"))) }
}

/// The relative links of a page, those in code left out.
fn links_of(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // What is between backticks is code too.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for rest in prose.split("](").skip(1) {
            let link = rest.split([')', ' ']).next().unwrap_or_default();
            let is_elsewhere = link.contains("://") || link.starts_with("mailto:");
            if !link.is_empty() && !is_elsewhere {
                links.push(link.to_owned());
            }
        }
    }
    links
}

/// Pages that `assemble` generates.
const GENERATED: [&str; 2] = ["docs/types.md", "docs/architectures.md"];

fn leads_somewhere(file: &str, link: &str) -> bool {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let page = if path.is_empty() {
        PathBuf::from(file)
    } else {
        normal(&Path::new(file).parent().unwrap_or(Path::new("")).join(path))
    };
    // The introduction of the site is the README of the repository, which is in another place.
    let is_generated = GENERATED.iter().any(|generated| page == Path::new(generated))
        || (file == "docs/SUMMARY.md" && path == "README.md");
    if is_generated {
        return true;
    }
    let full = root().join(&page);
    if heading.is_empty() {
        return full.exists();
    }
    fs::read_to_string(full).is_ok_and(|text| headings(&text).contains(heading))
}

/// A path without `..` in it.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

/// The names by which the headings of a page are linked to.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept =
                title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Assembles the sources of the site under `target/site`, and builds it where mdBook is installed.
pub(crate) fn run() -> Done {
    links()?;
    let directory = target()?.join("site");
    assemble(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    if !succeeds(command("mdbook").arg("--version")) {
        println!(
            "{} holds the sources of the site; `cargo install mdbook` installs what builds it",
            directory.display()
        );
        return Ok(());
    }
    run_command(command("mdbook").arg("build").arg(&directory))
}

fn assemble(directory: &Path) -> std::io::Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    let docs = root().join("docs");
    let source = directory.join("src");
    copy(&docs, &source)?;
    fs::rename(source.join("book.toml"), directory.join("book.toml"))?;
    let readme = fs::read_to_string(root().join("README.md"))?;
    fs::write(source.join("README.md"), from_docs(&readme))?;
    for (name, title, group) in [
        ("types", "Tensor types", "## Tensor types"),
        ("architectures", "Architectures", "## Architectures"),
    ] {
        let index = explain(&[])?;
        let names = index
            .split(group)
            .nth(1)
            .and_then(|rest| rest.split("\n## ").next())
            .unwrap_or_default();
        let mut page = format!("# {title}\n");
        for topic in names.split(|c: char| c == ',' || c.is_whitespace()).filter(|t| !t.is_empty())
        {
            let text = explain(&[topic])?;
            for line in text.lines() {
                // One level further down than on a page of its own.
                let deeper = if line.starts_with('#') { "#" } else { "" };
                page.push_str(&["\n", deeper, line].concat());
            }
            page.push('\n');
        }
        fs::write(source.join(name).with_extension("md"), page)?;
    }
    Ok(())
}

/// The links of the README, as they are from within `docs`.
fn from_docs(readme: &str) -> String {
    const REPOSITORY: &str = "https://github.com/ggmill/ggmill/blob/main/";
    let mut text = String::new();
    for (number, part) in readme.split("](").enumerate() {
        if number > 0 {
            text += "](";
            let is_relative =
                !part.starts_with('#') && !part.split(')').next().unwrap_or("").contains("://");
            if is_relative && !part.starts_with("docs/") {
                text += REPOSITORY;
            }
        }
        text += part.strip_prefix("docs/").filter(|_| number > 0).unwrap_or(part);
    }
    text
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &place)?;
        } else {
            fs::copy(entry.path(), place)?;
        }
    }
    Ok(())
}

fn explain(topic: &[&str]) -> std::io::Result<String> {
    let mut run = cargo(&["run", "--quiet", "-p", "ggmill-cli", "--", "explain"]);
    output(run.args(topic)).map_err(std::io::Error::other)
}
