//! Reports as text for people and in the formats of other programs.

mod github;
mod json;
mod page;
mod sarif;
mod text;
mod wrap;

pub use github::github;
pub use json::json;
pub use page::page;
pub use sarif::sarif;
pub use text::Text;

use serde_json::Value;

use crate::Report;

/// A file and what was found in it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Checked<'a> {
    /// The path as the user wrote it.
    pub path: &'a str,
    /// The findings.
    pub report: &'a Report,
    /// What running the model gave, where it was run: of a set, with its first file.
    pub run: Option<&'a Run>,
}

impl<'a> Checked<'a> {
    /// A file with this path and these findings.
    pub fn new(path: &'a str, report: &'a Report) -> Self {
        Self { path, report, run: None }
    }

    /// The same with what running the model gave.
    #[must_use]
    pub fn with_run(self, run: Option<&'a Run>) -> Self {
        Self { run, ..self }
    }
}

/// What running a model gave. Rules do not run models: it is reported beside their findings, by all
/// renderers but that of text.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "two fields that belong together")]
pub struct Run {
    /// Its numbers, for JSON.
    pub document: Value,
    /// What is wrong with them, or why there are none; each in one line.
    pub faults: Vec<String>,
}

impl Run {
    /// In place of the code of a rule.
    const CODE: &str = "run";
    /// In place of the title of a rule.
    const SUMMARY: &str = "running the model gives no plausible outputs";
}

/// `1 error`, `2 errors`.
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Messages quote names; a field of its own needs no quotes.
fn unquoted(name: &str) -> &str {
    name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name)
}
