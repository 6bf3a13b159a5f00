//! `ggmill ls`: the GGUF files of a repository of the Hugging Face Hub, or of a directory.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill::{ListedModel, Listing};
use ggmill_core::{ByteSize, RawStr};
use serde_json::json;

use crate::console::Console;
use crate::files::shown;
use crate::outcome::{Failure, Status};
use crate::remote;

/// List the GGUF files in a Hugging Face Hub repository or a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill ls hf://OWNER/NAME
  ggmill ls hf://OWNER/NAME@REVISION/DIRECTORY --json
  ggmill ls models/

In a repository, the type is taken from the file name, and bits per weight are shown if the Hub \
knows the number of parameters and the names belong to one model; in a directory, both are taken \
from the header. A split model is shown on one line.")]
pub(crate) struct Args {
    /// The repository, a directory in it, or a directory on this machine
    #[arg(value_name = "LOCATION")]
    location: PathBuf,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let Listing { models, parameters, errors, notes, .. } =
        remote::options(&args.location)?.list(&args.location)?;
    for error in &errors {
        console.warn(error);
    }
    for note in &notes {
        console.tell(note);
    }
    let mut out = console.text();
    if args.json {
        let files: Vec<_> = models
            .iter()
            .map(|file| {
                json!({
                    "name": file.name,
                    "shards": file.shards,
                    "shards_found": file.shards_found,
                    "bytes": file.bytes,
                    "type": file.file_type,
                    "bits_per_weight": file.bits_per_weight,
                })
            })
            .collect();
        let document = json!({
            "schema": "ggmill.ls/1",
            "location": shown(&args.location).to_string(),
            "parameters": parameters,
            "files": files,
        });
        ggmill_text::json::write_pretty(&mut out, &document)?;
    } else {
        let lines: Vec<(String, String)> = models.iter().map(line).collect();
        let widest = lines.iter().map(|(facts, name)| facts.len() + 2 + name.chars().count()).max();
        let is_narrow = console.width().is_some_and(|width| widest.is_some_and(|all| all > width));
        for (facts, name) in lines {
            // On a narrow terminal each name is on its own line, not wrapped.
            let between = if is_narrow { "\n    " } else { "  " };
            writeln!(out, "{facts}{between}{name}")?;
        }
    }
    out.flush()?;
    if models.is_empty() {
        // For a directory this is one of its errors.
        if errors.is_empty() {
            console.warn(format_args!("{}: no GGUF files found", shown(&args.location)));
        }
        return Ok(Status::Findings);
    }
    Ok(Status::Fine)
}

/// Returns the size, type and bits of a model, and its name.
fn line(file: &ListedModel) -> (String, String) {
    let size = ByteSize::from(file.bytes);
    let bits = file.bits_per_weight.map_or_else(String::new, |bits| format!("{bits:.2} bpw"));
    let shards = match (file.shards_found, file.shards) {
        (1, 1) => String::new(),
        (there, count) if there == count => format!("  ({count} shards)"),
        (there, count) => format!("  ({there} of {count} shards)"),
    };
    let kind = file.file_type.unwrap_or("-");
    let name = format!("{}{shards}", RawStr::from(&*file.name));
    (format!("{size:>8}  {kind:<8}  {bits:>9}"), name)
}
