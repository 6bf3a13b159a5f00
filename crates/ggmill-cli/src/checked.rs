//! The rules applied to a model before it is written.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_arch::Catalogue;
use ggmill_check::{CheckedPlans, Report, Severity, render};
use ggmill_pipeline::Plan;

use crate::console::Console;
use crate::outcome::Failure;
use crate::paths::shown;

/// What was found in a model that is going to be written, or that it was not checked.
#[derive(Debug, Default)]
pub(crate) struct Checked(CheckedPlans);

impl Checked {
    /// Holds the files of a model to the rules; one that is refused for it is, with the findings
    /// printed.
    pub(crate) fn of(
        plans: &[Plan],
        outputs: &[PathBuf],
        catalogue: &Catalogue,
        console: Console,
    ) -> Result<Self, Failure> {
        let plans: Vec<&Plan> = plans.iter().collect();
        let checked = CheckedPlans::of(&plans, catalogue).map_err(Failure::new)?;
        if checked.refusal().is_none() {
            return Ok(Self(checked));
        }
        let reports = checked.reports();
        let mut out = console.errors();
        let mut text = render::Text::new(console.styles_errors(), None);
        for (report, output) in
            reports.iter().zip(outputs).filter(|(report, _)| report.has_errors())
        {
            let path = shown(output).to_string();
            text.file(&mut out, &render::Checked::new(&path, report))?;
        }
        out.flush()?;
        let of = outputs.first().map(|output| shown(output).to_string()).unwrap_or_default();
        let errors: u64 = reports.iter().map(|report| report.count(Severity::Error)).sum();
        let errors = if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") };
        Err(Failure::new(format_args!("{of}: not written, because the model has {errors}"))
            .with_hint(Some("--no-check writes the file anyway".to_owned())))
    }

    /// Says what was found that did not keep the model from being written, and that it lacks a
    /// vocabulary, which is not a finding.
    pub(crate) fn tell(&self, has_vocabulary: bool, console: Console) {
        const NAMED: usize = 4;
        let reports = self.0.reports();
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
}
