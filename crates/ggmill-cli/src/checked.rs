//! The findings of the check of a model before it is written.

use std::io::Write as _;

use ggmill::Planned;
use ggmill_check::{Report, Severity, render};

use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;

/// Refuses a model that is not written because of errors, after printing them.
pub(crate) fn refuse(planned: &Planned<'_>, console: Console) -> Result<(), Failure> {
    let Some(refusal) = planned.check_refusal() else { return Ok(()) };
    let mut out = console.errors();
    let mut text = render::Text::new(console.styles_errors(), None);
    let reports = planned.reports().iter().zip(planned.paths());
    for (report, path) in reports.filter(|(report, _)| report.has_errors()) {
        text.file(&mut out, &render::Checked::new(&shown(path).to_string(), report))?;
    }
    out.flush()?;
    Err(refusal.into())
}

/// Summarizes the findings for which a model was written nevertheless, and notes that it lacks a
/// vocabulary, which is not a finding.
pub(crate) fn tell(reports: &[Report], has_vocabulary: bool, console: Console) {
    const NAMED: usize = 4;
    if reports.is_empty() {
        return;
    }
    let count = |severity| reports.iter().map(|report| report.count(severity)).sum::<u64>();
    let counted = |number: u64, thing: &str| match number {
        0 => None,
        1 => Some(format!("1 {thing}")),
        _ => Some(format!("{number} {thing}s")),
    };
    let severities =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let found: Vec<String> = severities
        .into_iter()
        .filter_map(|(severity, name)| counted(count(severity), name))
        .collect();
    let lacks = if has_vocabulary { "" } else { "; the file has no vocabulary" };
    if found.is_empty() {
        return console.note(format_args!("check: no findings{lacks}"));
    }
    let mut rules: Vec<String> = Vec::new();
    for (rule, _) in reports.iter().flat_map(Report::counts) {
        let named = format!("{} ({})", rule.summary, rule.code);
        if !rules.contains(&named) {
            rules.push(named);
        }
    }
    let more = match rules.len().saturating_sub(NAMED) {
        0 => "",
        _ => ", …",
    };
    rules.truncate(NAMED);
    let message = format!("check: {}: {}{more}{lacks}", found.join(", "), rules.join(", "));
    if count(Severity::Error) + count(Severity::Warning) > 0 {
        console.warn(message);
    } else {
        console.note(message);
    }
}
