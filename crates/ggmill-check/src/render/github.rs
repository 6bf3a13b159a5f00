//! Annotations as GitHub's runners read them from a log.

use std::io::{self, Write};

use super::Checked;
use crate::Severity;

/// Writes a line for each finding.
pub fn github(out: &mut dyn Write, checked: &Checked<'_>) -> io::Result<()> {
    for diagnostic in checked.report.diagnostics() {
        let level = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let title = format!("{}: {}", diagnostic.rule.code, diagnostic.rule.summary);
        let message = format!("{}: {}", diagnostic.subject, diagnostic.message);
        writeln!(out, "::{level} file={},title={}::{}", property(checked.path), property(&title), data(&message))?;
    }
    Ok(())
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
