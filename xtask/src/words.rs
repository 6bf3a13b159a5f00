//! Words that texts for users avoid (messages, help, documentation, rule pages): they use the terms
//! of `docs/glossary.md`. The list is data; a test checks every text against it.

mod list;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Done, root};
use crate::sources::sources;
use list::{Avoided, COMMENTS, EXCEPTIONS, MESSAGES, WORDS};

/// Packages without text for users.
const UNPUBLISHED: &[&str] = &["ggmill-testdata", "ggmill-bench"];

/// Returns the places where a text has a word that is avoided.
pub(crate) fn findings() -> Done<Vec<String>> {
    let mut findings = Vec::new();
    let crates = root().join("crates");
    for package in entries(&crates)? {
        if UNPUBLISHED.iter().any(|name| package.ends_with(name)) {
            continue;
        }
        for path in sources(&package.join("src"))? {
            let source = read(&path)?;
            collect(&place(&path), text::of_rust(&source), WORDS, &mut findings);
            collect(&place(&path), text::of_messages(&source), MESSAGES, &mut findings);
            collect_comments(&place(&path), &source, COMMENTS, &mut findings);
        }
        let readme = package.join("README.md");
        if readme.is_file() {
            collect(&place(&readme), text::of_markdown(&read(&readme)?), WORDS, &mut findings);
        }
    }
    for directory in ["architectures", "parts", "projectors"] {
        for path in entries(&crates.join("ggmill-arch/data").join(directory))? {
            let reasons = text::of_description(&read(&path)?);
            collect(&place(&path), reasons.clone(), WORDS, &mut findings);
            collect(&place(&path), reasons, MESSAGES, &mut findings);
        }
    }
    let mut pages = Vec::new();
    for directory in [root().to_path_buf(), root().join("docs")] {
        markdown(&directory, directory != root(), &mut pages)?;
    }
    for path in pages {
        collect(&place(&path), text::of_markdown(&read(&path)?), WORDS, &mut findings);
    }
    findings.sort();
    Ok(findings)
}

fn collect_comments(place: &str, source: &str, words: &[Avoided], findings: &mut Vec<String>) {
    collect(place, text::of_documentation(source), words, findings);
    let comments = text::of_comments(source);
    for avoided in words.iter().filter(|avoided| !avoided.is_opening) {
        collect(place, comments.clone(), std::slice::from_ref(avoided), findings);
    }
}

fn collect(
    place: &str,
    texts: Vec<(usize, String)>,
    words: &[Avoided],
    findings: &mut Vec<String>,
) {
    for (line, text) in texts {
        let text = text::normalized(&text);
        for avoided in words.iter().filter(|avoided| is_used(avoided, &text)) {
            let is_excepted = EXCEPTIONS
                .iter()
                .any(|exception| exception.file == place && exception.words == avoided.words);
            if !is_excepted {
                findings.push(format!(
                    "{place}:{line}: {:?}: {}; use {}",
                    avoided.words, avoided.because, avoided.instead
                ));
            }
        }
    }
}

/// Returns `true` if a normalized text has the words, without a neighbor that makes them plain
/// English.
fn is_used(avoided: &Avoided, text: &str) -> bool {
    let mut matches = text.match_indices(avoided.words);
    matches.any(|(start, words)| {
        if avoided.is_opening && start > 0 {
            return false;
        }
        let (before, after) = (&text[..start], &text[start + words.len()..]);
        let is_letter = |c: char| c.is_alphanumeric() || c == '_';
        if before.ends_with(is_letter) || after.starts_with(is_letter) {
            return false;
        }
        let before = before.trim_end_matches(|c| !is_letter(c));
        let after = after.trim_start_matches(|c| !is_letter(c));
        let (before, after) = (
            before.rsplit(|c| !is_letter(c)).next().unwrap_or_default(),
            after.split(|c| !is_letter(c)).next().unwrap_or_default(),
        );
        !avoided.fine_after.contains(&before) && !avoided.fine_before.contains(&after)
    })
}

fn read(path: &Path) -> Done<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn place(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn entries(directory: &Path) -> Done<Vec<PathBuf>> {
    let failed = |error| format!("{}: {error}", directory.display());
    let entries = fs::read_dir(directory).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

/// Collects the Markdown files of a directory and, if `deep`, of the directories in it.
fn markdown(directory: &Path, deep: bool, found: &mut Vec<PathBuf>) -> Done {
    for path in entries(directory)? {
        if path.is_dir() {
            if deep {
                markdown(&path, deep, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "md")
            // The glossary names some of the words.
            && !path.ends_with("docs/glossary.md")
        {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{COMMENTS, MESSAGES, WORDS, is_used, place, root, text};

    #[test]
    fn every_avoided_word_has_one_replacement_and_can_be_found() {
        let lists = [WORDS, MESSAGES, COMMENTS];
        let all = || lists.into_iter().flatten();
        let mut words: Vec<_> = all().map(|avoided| avoided.words).collect();
        words.sort_unstable();
        words.dedup();
        let openings = COMMENTS.iter().filter(|avoided| avoided.words == "so many").count() - 1;
        assert_eq!(words.len() + openings, all().count(), "a duplicate");
        for avoided in all() {
            assert_eq!(text::normalized(avoided.words), avoided.words);
            assert!(is_used(avoided, &format!("{} y", avoided.words)), "{}", avoided.words);
            let inside = is_used(avoided, &format!("x {} y", avoided.words));
            assert_eq!(inside, !avoided.is_opening, "{}", avoided.words);
            assert!(!is_used(avoided, avoided.instead), "{}", avoided.words);
        }
    }

    #[test]
    fn words_are_found_whole_and_in_their_context() {
        let used = |words: &str, text: &str| {
            let avoided = WORDS.iter().find(|avoided| avoided.words == words).unwrap();
            is_used(avoided, &text::normalized(text))
        };
        assert!(used("folder", "The folder of a model"));
        assert!(!used("folder", "subfolders"));
        assert!(used("is no", "this is no\nfile") && used("is no", "IS NO file"));
        assert!(!used("is no", "there is no file") && !used("is no", "it is no longer there"));
    }

    #[test]
    fn texts_of_a_source_are_its_documentation_and_its_literals() {
        let source = "//! One\n//! two.\n\n// not this\nlet a = \"three \\\n    four\"; // nor \
                      this\nlet b = 'x'; let c = r#\"five \"six\"\"#;\n/// ```\n/// code();\n/// \
                      ```\n#[cfg(test)]\nmod tests { \"seven\" }\n";
        let texts = text::of_rust(source);
        let texts: Vec<_> = texts.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(texts, [(5, "three four"), (7, "five \"six\""), (1, "One two."), (8, "")]);
        assert_eq!(text::of_messages(source).len(), 2);
        let description = "[x]\n  because = \"no\"\nother = \"because = x\"\n";
        assert_eq!(text::of_description(description), [(2, "\"no\"".to_owned())]);
        assert_eq!(place(&root().join("docs/x.md")), "docs/x.md");
    }
}
