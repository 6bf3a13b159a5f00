//! `check --fix` and `--diff`: what can be mended is, through the same recipes as any edit.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use ggmill_check::{Fix, Options, Report};
use ggmill_core::{Pair, RawStr, Value};
use ggmill_edit::{Edit, Editor, Given, KeyType, RepackOptions};
use ggmill_io::{FileSink, Overwrite};
use ggmill_pipeline::GgufCheckpoint;

use super::look::{Look, Standard, look};
use crate::console::Console;
use crate::making::{refuse_interrupted, shown};
use crate::outcome::Failure;

/// The findings in a file that can be mended.
pub(super) struct Proposal {
    /// The rules whose findings are mended, as often as they are broken, with what mends them.
    fixes: Vec<(Vec<&'static str>, Fix)>,
    /// What the keys are now, for those that change.
    before: Vec<Option<String>>,
}

impl Proposal {
    pub(super) fn is_empty(&self) -> bool {
        self.fixes.is_empty()
    }

    fn rewrites(&self) -> bool {
        self.fixes.iter().any(|(_, fix)| *fix == Fix::Anew)
    }

    fn edits(&self) -> Result<Vec<Edit>, Failure> {
        let edit = |fix: &Fix| {
            Ok(Some(match fix {
                Fix::Set { key, value_type, value } => {
                    let key_type: KeyType = value_type.to_string().parse().map_err(Failure::new)?;
                    Edit::Set { key: key.clone(), key_type: Some(key_type), value: Given::Json(value.clone()) }
                }
                Fix::Rename { from, to } => Edit::Rename { from: from.clone(), to: to.clone() },
                // A key is no pattern.
                Fix::Unset { key } => Edit::Unset(key.chars().map(|c| if "*?[]".contains(c) { format!("[{c}]") } else { c.to_string() }).collect()),
                _ => return Ok(None),
            }))
        };
        self.fixes.iter().filter_map(|(_, fix)| edit(fix).transpose()).collect()
    }

    /// Writes the changes as lines that go and lines that come.
    pub(super) fn write(&self, out: &mut dyn Write, path: &Path, styled: bool) -> io::Result<()> {
        let style = |color: AnsiColor| if styled { color.on_default() } else { Style::new() };
        let (gone, come, title) = (style(AnsiColor::Red), style(AnsiColor::Green), if styled { Style::new().bold() } else { Style::new() });
        writeln!(out, "{title}{}{title:#}", shown(path))?;
        for ((codes, fix), before) in self.fixes.iter().zip(&self.before) {
            let rules = distinct(codes).join(", ");
            let mut minus = |key: &str| match before {
                Some(before) => writeln!(out, "  {rules} {gone}- {} = {before}{gone:#}", RawStr::from(key)),
                None => Ok(()),
            };
            match fix {
                // Of pairs that say the same one stays.
                Fix::Set { key, .. } if codes.iter().all(|code| *code == DUPLICATE) => {
                    let before = before.as_deref().unwrap_or_default();
                    writeln!(out, "  {rules} {gone}- {} = {before}, all but one{gone:#}", RawStr::from(key.as_str()))?;
                }
                Fix::Set { key, value_type, value } => {
                    minus(key)?;
                    let value = value.to_string();
                    writeln!(out, "  {rules} {come}+ {} = {} ({value_type}){come:#}", RawStr::from(key.as_str()), RawStr::from(value.as_str()))?;
                }
                Fix::Rename { from, to } => {
                    minus(from)?;
                    writeln!(out, "  {rules} {come}+ {} = {}{come:#}", RawStr::from(to.as_str()), before.as_deref().unwrap_or_default())?;
                }
                Fix::Unset { key } => minus(key)?,
                other => writeln!(out, "  {rules} {come}~ {other}{come:#}")?,
            }
        }
        Ok(())
    }
}

/// What can be mended in each of a model's files.
pub(super) fn proposed(files: &[PathBuf], standard: &Standard<'_>) -> Vec<Result<Proposal, Failure>> {
    if files.iter().any(|path| path.as_os_str() == "-") {
        return vec![Err(Failure::new("standard input cannot be mended"))];
    }
    let every = Standard { options: Options { findings_per_rule: usize::MAX, ..standard.options.clone() }, ..*standard };
    let looks = look(files, &every, false, Console::silent());
    let propose = |(path, look): (&PathBuf, Result<Look, Failure>)| {
        refuse_interrupted(&[path])?;
        match look? {
            Look::Report(report) => proposal(path, &report),
            Look::NotGguf { failure, .. } => Err(failure),
        }
    };
    files.iter().zip(looks).map(propose).collect()
}

fn proposal(path: &Path, report: &Report) -> Result<Proposal, Failure> {
    let mut fixes: Vec<(Vec<&'static str>, Fix)> = Vec::new();
    for diagnostic in report.diagnostics() {
        let Some(fix) = &diagnostic.fix else { continue };
        // One rewriting mends all that it mends, and of two values for a key the second knows of the first.
        let same = |known: &Fix| match (known, fix) {
            (Fix::Set { key: known, .. }, Fix::Set { key, .. }) => known == key,
            _ => known == fix,
        };
        match fixes.iter_mut().find(|(_, known)| same(known)) {
            Some((codes, known)) => {
                codes.push(diagnostic.rule.code);
                *known = fix.clone();
            }
            None => fixes.push((vec![diagnostic.rule.code], fix.clone())),
        }
    }
    let mut before = Vec::with_capacity(fixes.len());
    if !fixes.is_empty() {
        let file = ggmill_io::open_alone(path).map_err(Failure::new)?;
        for (_, fix) in &fixes {
            let key = match fix {
                Fix::Set { key, .. } | Fix::Unset { key } | Fix::Rename { from: key, .. } => key,
                _ => "",
            };
            before.push(file.metadata().get(key).map(|pair| brief(&pair)));
        }
    }
    Ok(Proposal { fixes, before })
}

/// The rule about keys that stand twice.
const DUPLICATE: &str = "GG1201";

/// A value on one short line, with its type.
fn brief(pair: &Pair<'_>) -> String {
    const LONGEST: usize = 60;
    let Ok(value) = pair.value() else { return String::new() };
    match value {
        Value::Bool(_) if pair.value_bytes().first().is_some_and(|&byte| byte > 1) => {
            format!("byte {} (bool)", pair.value_bytes().first().copied().unwrap_or_default())
        }
        Value::Str(text) => {
            let shown = format!("{text:?}");
            let short: String = shown.chars().take(LONGEST).collect();
            if short.len() < shown.len() { format!("{short}…") } else { shown }
        }
        Value::Array(array) => format!("{}[{}]", array.element_type(), array.len()),
        Value::Bool(value) => format!("{value} (bool)"),
        Value::F32(value) => format!("{value} (f32)"),
        Value::F64(value) => format!("{value} (f64)"),
        other => other.as_i128().map_or_else(String::new, |number| format!("{number} ({})", other.value_type())),
    }
}

/// Each code once, in order.
fn distinct(codes: &[&'static str]) -> Vec<&'static str> {
    let mut codes = codes.to_vec();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// What was mended in a file.
#[derive(Debug, Default)]
pub(super) struct Mended {
    /// How many findings.
    pub(super) count: usize,
    /// Of which rules.
    pub(super) codes: Vec<&'static str>,
}

/// Mends what can be mended in each of a model's files.
pub(super) fn mend(files: &[PathBuf], standard: &Standard<'_>, console: Console) -> Vec<Result<Mended, Failure>> {
    let mend = |(path, proposal): (&PathBuf, Result<Proposal, Failure>)| match proposal {
        Ok(proposal) if proposal.is_empty() => Ok(Mended::default()),
        Ok(proposal) => apply(path, &proposal, console),
        // What is no GGUF file at all is told by the report.
        Err(_) if path.as_os_str() != "-" => Ok(Mended::default()),
        Err(failure) => Err(failure),
    };
    files.iter().zip(proposed(files, standard)).map(mend).collect()
}

fn apply(path: &Path, proposal: &Proposal, console: Console) -> Result<Mended, Failure> {
    let edits = proposal.edits()?;
    if !edits.is_empty() {
        let mut editor = Editor::open(path).map_err(Failure::new)?;
        let edited = editor.edit(&edits).map_err(Failure::new)?;
        let plan = editor.plan(&edited).map_err(Failure::new)?;
        editor.apply(plan, &edited, &mut |_| ControlFlow::Continue(())).map_err(Failure::new)?;
        for note in edited.notes() {
            console.note(note);
        }
    }
    if proposal.rewrites() {
        anew(path)?;
    }
    let codes: Vec<_> = proposal.fixes.iter().flat_map(|(codes, _)| codes.iter().copied()).collect();
    Ok(Mended { count: codes.len(), codes: distinct(&codes) })
}

/// Lays the file out anew; the old one stays until the new one is whole.
fn anew(path: &Path) -> Result<(), Failure> {
    let checkpoint = GgufCheckpoint::open(path).map_err(Failure::new)?;
    let mut options = RepackOptions::default();
    options.version = Some(3);
    let plan = ggmill_edit::repack(&checkpoint, &options).and_then(|recipe| recipe.plan(&checkpoint)).map_err(Failure::new)?;
    let mut sink = FileSink::create(path, Overwrite::Replace).map_err(Failure::new)?;
    sink.reserve(plan.layout().total_len()).map_err(Failure::new)?;
    let sink =
        ggmill_pipeline::run(&plan, &checkpoint, sink, &ggmill_pipeline::RunOptions::default(), &mut |_| ControlFlow::Continue(())).map_err(Failure::new)?;
    sink.commit().map_err(Failure::new)
}
