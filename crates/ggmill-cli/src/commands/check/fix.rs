//! `check --fix` and `--diff`: what can be fixed is, through the same recipes as any edit.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use ggmill_check::{Fix, ProposedFix, Report};
use ggmill_core::{Entry, RawStr, Value};
use ggmill_edit::apply_fixes;

use super::read::{CheckOutcome, Criteria, check_model};
use crate::console::Console;
use crate::outcome::Failure;
use crate::outputs::refuse_interrupted;
use crate::paths::shown;

/// The findings in a file that can be fixed.
pub(super) struct Proposal {
    fixes: Vec<ProposedFix>,
    /// The current values of the keys that change.
    before: Vec<Option<String>>,
}

impl Proposal {
    pub(super) fn is_empty(&self) -> bool {
        self.fixes.is_empty()
    }

    /// Writes the changes as lines that go and lines that come.
    pub(super) fn write(&self, out: &mut dyn Write, path: &Path, styled: bool) -> io::Result<()> {
        let style = |color: AnsiColor| if styled { color.on_default() } else { Style::new() };
        let (gone, come, title) = (
            style(AnsiColor::Red),
            style(AnsiColor::Green),
            if styled { Style::new().bold() } else { Style::new() },
        );
        writeln!(out, "{title}{}{title:#}", shown(path))?;
        for (ProposedFix { codes, fix, .. }, before) in self.fixes.iter().zip(&self.before) {
            let rules = distinct(codes).join(", ");
            let mut minus = |key: &str| match before {
                Some(before) => {
                    writeln!(out, "  {rules} {gone}- {} = {before}{gone:#}", RawStr::from(key))
                }
                None => Ok(()),
            };
            match fix {
                // Of entries that say the same one stays.
                Fix::Set { key, .. } if codes.iter().all(|code| *code == DUPLICATE) => {
                    let before = before.as_deref().unwrap_or_default();
                    writeln!(
                        out,
                        "  {rules} {gone}- {} = {before}, all but one{gone:#}",
                        RawStr::from(key.as_str())
                    )?;
                }
                Fix::Set { key, value_type, value } => {
                    minus(key)?;
                    let value = value.to_string();
                    writeln!(
                        out,
                        "  {rules} {come}+ {} = {} ({value_type}){come:#}",
                        RawStr::from(key.as_str()),
                        RawStr::from(value.as_str())
                    )?;
                }
                Fix::Rename { from, to } => {
                    minus(from)?;
                    writeln!(
                        out,
                        "  {rules} {come}+ {} = {}{come:#}",
                        RawStr::from(to.as_str()),
                        before.as_deref().unwrap_or_default()
                    )?;
                }
                Fix::Unset { key } => minus(key)?,
                other => writeln!(out, "  {rules} {come}~ {other}{come:#}")?,
            }
        }
        Ok(())
    }
}

/// The proposed fixes for each of a model's files.
pub(super) fn proposed(
    files: &[PathBuf],
    criteria: &Criteria<'_>,
) -> Vec<Result<Proposal, Failure>> {
    if files.iter().any(|path| path.as_os_str() == "-") {
        return vec![Err(Failure::new("standard input cannot be fixed"))];
    }
    let every = Criteria {
        options: criteria.options.clone().with_findings_per_rule(usize::MAX),
        ..*criteria
    };
    let outcomes = check_model(files, &every, false, Console::silent());
    let propose = |(path, outcome): (&PathBuf, Result<CheckOutcome, Failure>)| {
        refuse_interrupted(&[path])?;
        match outcome? {
            CheckOutcome::Report { report, .. } => proposal(path, &report),
            CheckOutcome::NotGguf { failure, .. } => Err(failure),
        }
    };
    files.iter().zip(outcomes).map(propose).collect()
}

fn proposal(path: &Path, report: &Report) -> Result<Proposal, Failure> {
    let fixes = report.fixes();
    let mut before = Vec::with_capacity(fixes.len());
    if !fixes.is_empty() {
        let file = ggmill_io::open_alone(path).map_err(Failure::new)?;
        for ProposedFix { fix, .. } in &fixes {
            let key = match fix {
                Fix::Set { key, .. } | Fix::Unset { key } | Fix::Rename { from: key, .. } => key,
                _ => "",
            };
            before.push(file.metadata().get(key).map(|entry| brief(&entry)));
        }
    }
    Ok(Proposal { fixes, before })
}

/// The rule about duplicate keys.
const DUPLICATE: &str = "GG1201";

/// A value on one short line, with its type.
fn brief(entry: &Entry<'_>) -> String {
    const MAX_LEN: usize = 60;
    let Ok(value) = entry.value() else { return String::new() };
    match value {
        Value::Bool(_) if entry.value_bytes().first().is_some_and(|&byte| byte > 1) => {
            format!("byte {} (bool)", entry.value_bytes().first().copied().unwrap_or_default())
        }
        Value::Str(text) => {
            let shown = format!("{text:?}");
            let short: String = shown.chars().take(MAX_LEN).collect();
            if short.len() < shown.len() { format!("{short}…") } else { shown }
        }
        Value::Array(array) => format!("{}[{}]", array.element_type(), array.len()),
        Value::Bool(value) => format!("{value} (bool)"),
        Value::F32(value) => format!("{value} (f32)"),
        Value::F64(value) => format!("{value} (f64)"),
        other => other
            .as_i128()
            .map_or_else(String::new, |number| format!("{number} ({})", other.value_type())),
    }
}

/// Each code once, in order.
fn distinct(codes: &[&'static str]) -> Vec<&'static str> {
    let mut codes = codes.to_vec();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The applied fixes of a file.
#[derive(Debug, Default)]
pub(super) struct FixOutcome {
    /// How many findings.
    pub(super) count: usize,
    /// Of which rules.
    pub(super) codes: Vec<&'static str>,
}

/// Fixes what can be fixed in each of a model's files.
pub(super) fn apply_all(
    files: &[PathBuf],
    criteria: &Criteria<'_>,
    console: Console,
) -> Vec<Result<FixOutcome, Failure>> {
    let fix_one = |(path, proposal): (&PathBuf, Result<Proposal, Failure>)| match proposal {
        Ok(proposal) if proposal.is_empty() => Ok(FixOutcome::default()),
        Ok(proposal) => apply(path, &proposal, console),
        // A file that is not GGUF is reported.
        Err(_) if path.as_os_str() != "-" => Ok(FixOutcome::default()),
        Err(failure) => Err(failure),
    };
    files.iter().zip(proposed(files, criteria)).map(fix_one).collect()
}

fn apply(path: &Path, proposal: &Proposal, console: Console) -> Result<FixOutcome, Failure> {
    let fixes = proposal.fixes.iter().map(|proposed| &proposed.fix);
    for note in
        apply_fixes(path, fixes, &mut |_| ControlFlow::Continue(())).map_err(Failure::new)?
    {
        console.note(note);
    }
    let codes: Vec<_> =
        proposal.fixes.iter().flat_map(|proposed| proposed.codes.iter().copied()).collect();
    Ok(FixOutcome { count: codes.len(), codes: distinct(&codes) })
}
