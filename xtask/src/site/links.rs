//! The links of the documentation: of the Markdown files, and of the pages that were built of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::GENERATED;
use crate::process::{Done, command, output, root};

/// Checks that every relative link of every tracked Markdown file leads to a file, and to a heading
/// if it names one.
pub(crate) fn of_sources() -> Done {
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

/// Returns the relative links of a page, without those in code.
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
        // Text between backticks is code.
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

fn leads_somewhere(file: &str, link: &str) -> bool {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let page = if path.is_empty() {
        PathBuf::from(file)
    } else {
        normal(&Path::new(file).parent().unwrap_or(Path::new("")).join(path))
    };
    // The introduction of the site is the README of the repository.
    let is_generated = GENERATED
        .iter()
        .any(|(name, ..)| page == Path::new("docs").join(name).with_extension("md"))
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

/// Resolves `..` in a path.
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

/// Returns the anchors of a page's headings.
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

/// Checks that every relative link of the built pages leads to a file. Returns the number of pages.
pub(super) fn of_pages(site: &Path) -> Done<usize> {
    let mut pages = Vec::new();
    collect(site, &mut pages).map_err(|error| format!("{}: {error}", site.display()))?;
    let mut dead = Vec::new();
    for page in &pages {
        let text =
            fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
        let from = page.parent().unwrap_or(site);
        for link in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let path = link.split(['#', '?']).next().unwrap_or_default();
            let is_elsewhere = path.is_empty() || path.contains(':');
            if !is_elsewhere && !normal(&from.join(path)).exists() {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    if dead.is_empty() { Ok(pages.len()) } else { Err(format!("dead links:\n{}", dead.join("\n"))) }
}

fn collect(directory: &Path, pages: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            pages.push(path);
        }
    }
    Ok(())
}
