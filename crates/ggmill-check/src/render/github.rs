//! Annotations as GitHub's runners read them from a log.

use std::io::{self, Write};

use ggmill_core::RawStr;

use super::{Checked, Run};
use crate::Severity;

/// Writes a line for each finding, and for each fault of a run.
pub fn github(out: &mut dyn Write, checked: &Checked<'_>) -> io::Result<()> {
    for diagnostic in checked.report.diagnostics() {
        let level = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let title = format!("{}: {}", diagnostic.rule.code, diagnostic.rule.summary);
        let message = format!("{}: {}", diagnostic.subject, diagnostic.message);
        annotation(out, level, checked.path, &title, &message)?;
    }
    for fault in checked.run.iter().flat_map(|run| &run.faults) {
        let title = format!("{}: {}", Run::CODE, Run::SUMMARY);
        annotation(out, "error", checked.path, &title, fault)?;
    }
    Ok(())
}

fn annotation(
    out: &mut dyn Write,
    level: &str,
    path: &str,
    title: &str,
    message: &str,
) -> io::Result<()> {
    let (path, title, message) = (property(path), property(title), data(message));
    writeln!(out, "::{level} file={path},title={title}::{message}")
}

/// Text as the runner decodes it. A character that could affect a terminal, which the runner has no
/// escape for, is shown by its number.
fn data(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' => escaped.push_str("%25"),
            '\r' => escaped.push_str("%0D"),
            '\n' => escaped.push_str("%0A"),
            c if RawStr::is_plain(c) => escaped.push(c),
            c => escaped.extend(c.escape_unicode()),
        }
    }
    escaped
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
