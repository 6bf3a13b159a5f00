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

use crate::Report;

/// A file and what was found in it.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "two fields that belong together")]
pub struct Checked<'a> {
    /// The path as the user wrote it.
    pub path: &'a str,
    /// The findings.
    pub report: &'a Report,
}

/// `1 error`, `2 errors`.
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Messages quote names; a field of its own needs no quotes.
fn unquoted(name: &str) -> &str {
    name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name)
}
