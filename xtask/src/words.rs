//! Words that texts for users avoid (messages, help, documentation, rule pages): they use the terms
//! of `docs/glossary.md`. The list is data; a test checks every text against it.

mod list;
mod text;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Done, root};
use crate::rust::Source;
use crate::sources::sources;
use list::{Avoided, COMMENTS, EXCEPTIONS, Exception, MESSAGES, WORDS};

/// Packages without text for users.
const UNPUBLISHED: &[&str] = &["ggmill-testdata", "ggmill-bench"];

/// The uses of avoided words, and the exceptions.
#[derive(Default)]
struct Findings {
    lines: Vec<String>,
    /// The exceptions that were needed, by file and words.
    used: BTreeSet<(&'static str, &'static str)>,
}

impl Findings {
    /// Adds the use of an avoided word, unless it is an exception.
    fn add(&mut self, place: &str, line: usize, avoided: &Avoided) {
        let is_known = |known: &&Exception| known.file == place && known.words == avoided.words;
        if let Some(exception) = EXCEPTIONS.iter().find(is_known) {
            self.used.insert((exception.file, exception.words));
            return;
        }
        self.lines.push(format!(
            "{place}:{line}: {:?}: {}; use {}",
            avoided.words, avoided.because, avoided.instead
        ));
    }

    /// Returns the findings, and the exceptions that no text needs.
    fn into_lines(self) -> Vec<String> {
        let unused = EXCEPTIONS
            .iter()
            .filter(|exception| !self.used.contains(&(exception.file, exception.words)))
            .map(|exception| {
                let Exception { file, words, .. } = exception;
                format!("{file}: may have {words:?}, and does not: remove the exception")
            });
        let mut lines: Vec<String> = self.lines.into_iter().chain(unused).collect();
        lines.sort();
        lines
    }
}

/// Returns the places where a text has a word that is avoided, and the exceptions that are not needed.
pub(crate) fn findings() -> Done<Vec<String>> {
    let mut findings = Findings::default();
    let crates = root().join("crates");
    for package in entries(&crates)? {
        if UNPUBLISHED.iter().any(|name| package.ends_with(name)) {
            continue;
        }
        for path in sources(&package.join("src"))? {
            let place = place(&path);
            let source = Source::read(&path)?;
            collect(&place, source.literals(), WORDS, &mut findings);
            collect(&place, source.documentation(), WORDS, &mut findings);
            collect(&place, source.literals(), MESSAGES, &mut findings);
            collect_comments(&place, &source, COMMENTS, &mut findings);
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
    Ok(findings.into_lines())
}

fn collect_comments(place: &str, source: &Source, words: &[Avoided], findings: &mut Findings) {
    collect(place, source.documentation(), words, findings);
    let comments = source.comments();
    for avoided in words.iter().filter(|avoided| !avoided.is_opening) {
        collect(place, comments.clone(), std::slice::from_ref(avoided), findings);
    }
}

fn collect(place: &str, texts: Vec<(usize, String)>, words: &[Avoided], findings: &mut Findings) {
    for (line, text) in texts {
        let text = text::normalized(&text);
        for avoided in words.iter().filter(|avoided| is_used(avoided, &text)) {
            findings.add(place, line, avoided);
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
    fn texts_of_a_description_are_its_reasons() {
        let description = "[x]\n  because = \"no\"\nother = \"because = x\"\n";
        assert_eq!(text::of_description(description), [(2, "\"no\"".to_owned())]);
        assert_eq!(place(&root().join("docs/x.md")), "docs/x.md");
    }
}
