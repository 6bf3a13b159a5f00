//! `ggmill ls`: the GGUF files of a repository of the Hugging Face Hub.

use std::io::Write as _;
use std::path::PathBuf;

use ggmill_core::RawStr;
use indicatif::HumanBytes;
use serde_json::json;

use crate::console::Console;
use crate::listing::Listing;
use crate::outcome::{Failure, Status};
use crate::paths::shown;
use crate::remote;

/// List the GGUF files in a Hugging Face Hub repository
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill ls hf://OWNER/NAME
  ggmill ls hf://OWNER/NAME@REVISION/DIRECTORY --json

The type is taken from the file name. Bits per weight are shown if the Hub knows the number of \
parameters and the names belong to one model. A split model is shown on one line.")]
pub(crate) struct Args {
    /// The repository, or a directory in it
    #[arg(value_name = "hf://OWNER/NAME")]
    location: PathBuf,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let Listing { models, parameters } = remote::list(&args.location).unwrap_or_else(|| {
        let hint = Some("`ggmill inspect` shows a file or a shard set".to_owned());
        let message = format!("{}: expected hf://OWNER/NAME", shown(&args.location));
        Err(Failure::new(message).with_hint(hint))
    })?;
    let mut out = console.text();
    if args.json {
        let files: Vec<_> = models
            .iter()
            .map(|file| {
                json!({
                    "name": file.name,
                    "shards": file.shards.1,
                    "bytes": file.bytes,
                    "type": file.file_type,
                    "bits_per_weight": file.bits_per_weight,
                })
            })
            .collect();
        let document = json!({
            "schema": "ggmill.ls/1",
            "repository": shown(&args.location).to_string(),
            "parameters": parameters,
            "files": files,
        });
        ggmill_text::json::write_pretty(&mut out, &document)?;
    } else {
        for file in &models {
            let size = HumanBytes(file.bytes).to_string();
            let bits =
                file.bits_per_weight.map_or_else(String::new, |bits| format!("{bits:.2} bpw"));
            let shards = match file.shards {
                (1, 1) => String::new(),
                (there, count) if there == count => format!("  ({count} shards)"),
                (there, count) => format!("  ({there} of {count} shards)"),
            };
            let kind = file.file_type.unwrap_or("-");
            writeln!(
                out,
                "{size:>11}  {kind:<8}  {bits:>9}  {}{shards}",
                RawStr::from(&*file.name)
            )?;
        }
    }
    out.flush()?;
    if models.is_empty() {
        console.warn(format_args!("{}: no GGUF files found", shown(&args.location)));
        return Ok(Status::Findings);
    }
    Ok(Status::Fine)
}
