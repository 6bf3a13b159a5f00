//! For people: by file, then by rule, the worst first.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use ggmill_core::RawStr;

use super::{Checked, counted};
use crate::{Report, Severity};

struct Styles {
    title: Style,
    faint: Style,
    key: Style,
    severity: fn(Severity) -> Style,
}

impl Styles {
    fn new(styled: bool) -> Self {
        if !styled {
            return Self { title: Style::new(), faint: Style::new(), key: Style::new(), severity: |_| Style::new() };
        }
        let severity = |severity| match severity {
            Severity::Error => AnsiColor::Red.on_default().bold(),
            Severity::Warning => AnsiColor::Yellow.on_default().bold(),
            Severity::Note => AnsiColor::Cyan.on_default().bold(),
        };
        Self { title: Style::new().bold(), faint: Style::new().dimmed(), key: AnsiColor::Blue.on_default(), severity }
    }
}

/// Writes what was found in one file: for each rule the places with what was found there, why it matters, who demands it, and what to do.
pub fn text(out: &mut dyn Write, checked: &Checked<'_>, styled: bool) -> io::Result<()> {
    let Styles { title, faint, key, severity: style_of } = Styles::new(styled);
    let report = checked.report;
    writeln!(out, "{title}{}{title:#} {faint}· {}{faint:#}", RawStr::from(checked.path), totals(report))?;
    for &(rule, count) in report.counts() {
        let style = style_of(rule.severity);
        writeln!(out, "\n  {style}{}{style:#} {title}{}{title:#} {faint}· {}{faint:#}", rule.severity, rule.summary, rule.code)?;
        let mut told = 0;
        let mut help = "";
        for diagnostic in report.diagnostics().iter().filter(|diagnostic| diagnostic.rule.code == rule.code) {
            let subject = diagnostic.subject.to_string();
            let place = diagnostic.offset.map(|offset| format!("{offset:#x}")).unwrap_or_default();
            let space = if place.is_empty() { "" } else { " " };
            writeln!(out, "    {faint}{place}{faint:#}{space}{key}{subject}{key:#}: {}", diagnostic.message)?;
            told += 1;
            help = &diagnostic.help;
        }
        if count > told {
            writeln!(out, "    {faint}and {} more{faint:#}", count - told)?;
        }
        writeln!(out, "    {faint}why:{faint:#} {} {}", rule.why, rule.authority.sentence())?;
        writeln!(out, "    {faint}do:{faint:#}  {help}")?;
    }
    Ok(())
}

fn totals(report: &Report) -> String {
    let count = |severity: Severity| Some(report.count(severity)).filter(|&count| count > 0).map(|count| counted(count, &severity.to_string()));
    let parts: Vec<String> = [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(count).collect();
    if parts.is_empty() { "nothing found".into() } else { parts.join(", ") }
}

/// Writes the line that sums several files up.
pub fn summary(out: &mut dyn Write, reports: &[&Report]) -> io::Result<()> {
    let clean = reports.iter().filter(|report| report.is_clean()).count();
    let bad = reports.iter().filter(|report| report.has_errors()).count();
    writeln!(out, "\n{}: {} with errors, {clean} without findings; `ggmill explain CODE` tells more", counted(reports.len() as u64, "file"), bad)
}
