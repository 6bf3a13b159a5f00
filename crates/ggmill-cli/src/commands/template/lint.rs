//! `ggmill template lint`: checks templates by rendering them.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_check::render::{Checked, Text, json};
use ggmill_check::{Options, Profile, Report};
use ggmill_text::json as safe_json;

use super::input::{files, open_source, variables};
use crate::console::Console;
use crate::files::text_of;
use crate::outcome::{Failure, Status};

/// Check chat templates by rendering them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill template lint model.gguf
  ggmill template lint chat_template.jinja --json
  ggmill template lint chat_template.jinja --set bos_token='<|begin_of_text|>'
  ggmill template lint models/

Applies the rules of `ggmill check` about templates (GG17) and those that render test \
conversations (GG22; also in `ggmill check --profile run`). Each finding names the conversation \
that triggers it; `ggmill explain CODE` explains the rule. Without a vocabulary, rules about \
tokens are not checked, and bos_token and eos_token default to <s> and </s>.

Exit codes: 0 no errors, 1 errors found, 2 a file cannot be read.")]
pub(crate) struct Args {
    /// Models, files with templates, or directories with either
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Set a variable of the templates: eos_token='</s>'. The value is parsed as JSON if possible,
    /// and otherwise used as text (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let select = ["template", "rendering"].map(str::parse).into_iter().collect::<Result<_, _>>();
    let mut options =
        Options::default().with_profile(Profile::Run).with_select(select.map_err(Failure::new)?);
    options.variables = variables(&args.set)?;
    let mut failures = Vec::new();
    let files = files(&args.files, &mut failures);
    let mut out = console.text();
    let mut text = Text::new(console.is_styled(), console.width());
    let mut reports: Vec<(String, Report)> = Vec::new();
    for path in &files {
        let report = match report(path, &options, console) {
            Ok(report) => report,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        let name = text_of(path);
        if !args.json {
            // Text is printed file by file: each can take a second.
            if !reports.is_empty() {
                writeln!(out)?;
            }
            text.file(&mut out, &Checked::new(&name, &report))?;
        }
        reports.push((name, report));
    }
    if args.json {
        let all: Vec<_> = reports.iter().map(|(path, report)| Checked::new(path, report)).collect();
        let mut out = console.bytes();
        safe_json::write_pretty(&mut out, &json(&all))?;
        out.flush()?;
    } else {
        if reports.len() + failures.len() > 1 && !reports.is_empty() {
            let all: Vec<_> = reports.iter().map(|(_, report)| report).collect();
            text.summary(&mut out, &all, failures.len())?;
        }
        out.flush()?;
    }
    match failures.pop() {
        Some(last) => {
            for failure in &failures {
                console.error(failure);
            }
            Err(last)
        }
        None if reports.iter().any(|(_, report)| report.has_errors()) => Ok(Status::Findings),
        None => Ok(Status::Fine),
    }
}

fn report(path: &Path, options: &Options, console: Console) -> Result<Report, Failure> {
    Ok(open_source(path, console)?.check(options)?)
}
