//! Renderers of reports.

mod formats;
mod text;

pub(crate) use formats::subject_json;
pub use formats::{github, json, sarif};
pub use text::{Text, page};

use serde_json::Value;

use crate::Report;

/// A file and its findings.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Checked<'a> {
    /// The path as the user specified it.
    pub path: &'a str,
    /// The findings.
    pub report: &'a Report,
    /// The results of running the model, with the first file of a set.
    pub run: Option<&'a Run>,
}

impl<'a> Checked<'a> {
    /// Creates a checked file.
    pub fn new(path: &'a str, report: &'a Report) -> Self {
        Self { path, report, run: None }
    }

    /// Sets the results of running the model.
    #[must_use]
    pub fn with_run(self, run: Option<&'a Run>) -> Self {
        Self { run, ..self }
    }
}

/// The results of running a model, which no rule does. All renderers except [`Text`] report them together
/// with the findings.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "two fields that belong together")]
pub struct Run {
    /// The results, for JSON.
    pub document: Value,
    /// The faults of the results, or why there are none, each in one line.
    pub faults: Vec<String>,
}

impl Run {
    /// The substitute for the code of a rule.
    const CODE: &str = "run";
    /// The substitute for the summary of a rule.
    const SUMMARY: &str = "running the model gives no plausible outputs";
}

/// Formats a count with its noun: `1 error`, `2 errors`.
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Removes the quotes around a name, which a separate field does not need.
fn unquoted(name: &str) -> &str {
    name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name)
}
