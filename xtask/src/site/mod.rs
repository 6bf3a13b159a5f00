//! The documentation: its links, and its site, which mdBook builds.

mod links;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use self::links::of_sources as links;
use crate::process::{Done, cargo, command, output, root, run as run_command, succeeds, target};

/// Pages generated from `ggmill explain`: file, title, and the beginning of the group's heading in
/// its list of topics.
const GENERATED: [(&str, &str, &str); 4] = [
    ("types", "Tensor types", "Tensor types"),
    ("mixtures", "Mixtures of types", "Mixtures"),
    ("keys", "Metadata keys", "Standard metadata keys"),
    ("architectures", "Architectures", "Architectures"),
];

/// Assembles the sources of the site in `target/site`, and builds it if mdBook is installed.
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
    run_command(command("mdbook").arg("build").arg(&directory))?;
    let pages = links::of_pages(&directory.join("book"))?;
    println!("{pages} pages in {}, no dead link", directory.join("book").display());
    Ok(())
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
    rewrite(&source, &|text| {
        // Lists become indexes, and mdBook does not change the links to them.
        text.replace("](../../", &["](", REPOSITORY].concat())
            .replace("rules/README.md", "rules/index.md")
            .replace("decisions/README.md", "decisions/index.md")
    })?;
    for list in ["rules", "decisions"] {
        let list = source.join(list);
        fs::rename(list.join("README.md"), list.join("index.md"))?;
    }
    for document in ["exactness.md", "ARCHITECTURE.md"] {
        let path = source.join(document);
        fs::write(&path, out_of_docs(&fs::read_to_string(&path)?))?;
    }
    let summary = source.join("SUMMARY.md");
    let listed = with_rules(&fs::read_to_string(&summary)?, &source.join("rules"))?;
    fs::write(summary, listed)?;

    let command = built_command()?;
    let index = explain(&command, &[])?;
    for (name, title, group) in GENERATED {
        let mut page = format!("# {title}\n");
        for topic in topics(&index, group)? {
            for line in explain(&command, &[topic])?.lines() {
                // One heading level deeper than on a page of its own.
                let deeper = if line.starts_with('#') { "#" } else { "" };
                page.push_str(&["\n", deeper, line].concat());
            }
            page.push('\n');
        }
        fs::write(source.join(name).with_extension("md"), page)?;
    }
    Ok(())
}

/// Returns the topics under a heading of the list: the first word of each indented line.
fn topics<'a>(index: &'a str, group: &str) -> std::io::Result<Vec<&'a str>> {
    let heading = format!("## {group}");
    let mut lines = index.lines();
    let topics: Vec<&str> = if lines.any(|line| line.starts_with(&heading)) {
        let lines = lines.take_while(|line| !line.starts_with("## "));
        lines.filter_map(|line| line.split_whitespace().next()).collect()
    } else {
        Vec::new()
    };
    if topics.is_empty() {
        return Err(std::io::Error::other(format!("`explain` lists nothing under \"{heading}\"")));
    }
    Ok(topics)
}

/// Returns the summary with a line for each rule: mdBook builds only pages that its summary names.
fn with_rules(summary: &str, rules: &Path) -> std::io::Result<String> {
    let mut pages: Vec<PathBuf> = fs::read_dir(rules)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    pages.sort();
    let mut lines = String::new();
    for page in pages {
        let (Some(name), Some(code)) = (page.file_name(), page.file_stem()) else { continue };
        let (name, code) = (name.to_string_lossy(), code.to_string_lossy());
        if code.starts_with("GG") {
            let text = fs::read_to_string(&page)?;
            let title = text.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
            let title = if title.is_empty() { &code } else { title };
            lines.push_str(&["  - [", title, "](rules/", &name, ")\n"].concat());
        }
    }
    let list = "- [Rules](rules/index.md)\n";
    if lines.is_empty() || !summary.contains(list) {
        return Err(std::io::Error::other("no rule, or no line for their list in SUMMARY.md"));
    }
    Ok(summary.replace(list, &(list.to_owned() + &lines)))
}

const REPOSITORY: &str = "https://github.com/ggmill/ggmill/blob/main/";

/// Rewrites the links of the README for a page in `docs`.
fn from_docs(readme: &str) -> String {
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

/// Rewrites links out of `docs` to links into the repository on its host.
fn out_of_docs(document: &str) -> String {
    document.replace("](../", &["](", REPOSITORY].concat())
}

/// Changes the text of every Markdown file below a directory.
fn rewrite(directory: &Path, change: &dyn Fn(&str) -> String) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            rewrite(&path, change)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            fs::write(&path, change(&fs::read_to_string(&path)?))?;
        }
    }
    Ok(())
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

/// Builds the command, which runs about a hundred times, and returns its path.
fn built_command() -> std::io::Result<PathBuf> {
    let built = run_command(&mut cargo(&["build", "--quiet", "--package=ggmill-cli"]));
    let target = built.and_then(|()| target()).map_err(std::io::Error::other)?;
    Ok(target.join("debug").join("ggmill").with_extension(std::env::consts::EXE_EXTENSION))
}

fn explain(ggmill: &Path, topic: &[&str]) -> std::io::Result<String> {
    output(command(ggmill).arg("explain").args(topic)).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::topics;

    #[test]
    fn a_topic_is_the_first_word_of_a_line() {
        let index = "# What is known\n\n## A, and more\n\n    F32   32 bits\n    F16   16 bits\n\n## B\n\n    x\n";
        assert_eq!(topics(index, "A").unwrap(), ["F32", "F16"]);
        assert_eq!(topics(index, "B").unwrap(), ["x"]);
        assert!(topics(index, "C").is_err());
    }
}
