//! `ggmill template lint`.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_check::render::{Checked, Text, json};
use ggmill_check::{Input, Options, Profile, Severity, check};
use ggmill_text::json as safe_json;

use super::source::Source;
use crate::console::Console;
use crate::outcome::{Failure, Status};

/// Report what is wrong with the templates of a file, by rendering them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill template lint model.gguf
  ggmill template lint chat_template.jinja --json

The rules are those of ggmill check about templates (GG17), and those that render them over
conversations (GG22), which ggmill check --profile run has too; each finding names the conversation
that shows it. ggmill explain CODE tells more. Without a vocabulary, nothing is found about tokens.
Exits with 1 if there are warnings or errors; notes are worth knowing.")]
pub(crate) struct Args {
    /// The model, or a file with a template
    file: PathBuf,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let source = Source::open(&args.file)?;
    let select = ["template", "rendering"].map(str::parse).into_iter().collect::<Result<_, _>>();
    let options =
        Options::default().with_profile(Profile::Run).with_select(select.map_err(Failure::new)?);
    let part = source.model.parts().first();
    let report = part.map(|part| check(&Input::new(part), &options)).unwrap_or_default();
    let path = args.file.to_string_lossy();
    let checked = Checked { path: &path, report: &report };
    if args.json {
        let mut out = console.bytes();
        safe_json::write_pretty(&mut out, &json(&[checked]))?;
        out.write_all(b"\n")?;
        out.flush()?;
    } else {
        let mut out = console.text();
        Text::new(console.is_styled(), console.width()).file(&mut out, &checked)?;
        out.flush()?;
    }
    let serious = report.count(Severity::Error) + report.count(Severity::Warning);
    Ok(if serious == 0 { Status::Fine } else { Status::Findings })
}
