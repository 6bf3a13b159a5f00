//! `ggmill ls`: the GGUF files of a repository of the Hugging Face Hub.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ggmill_core::{FileType, RawStr, ShardName};
use indicatif::HumanBytes;
use serde_json::json;

use crate::console::Console;
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
parameters. A split model is shown on one line.")]
pub(crate) struct Args {
    /// The repository, or a directory in it
    #[arg(value_name = "hf://OWNER/NAME")]
    location: PathBuf,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// A model: a file, or the shards of a set.
#[derive(Debug)]
struct Listed {
    /// The path, of a set that of its first shard.
    name: String,
    /// Shards that exist, and that there should be.
    shards: (u32, u32),
    bytes: u64,
}

impl Listed {
    /// The type that the name states.
    fn file_type(&self) -> Option<&'static str> {
        let name = self.name.rsplit('/').next()?;
        let stem =
            ShardName::parse(name).map_or(name.strip_suffix(".gguf")?, |shard| shard.prefix());
        let known = |word: &str| word.parse::<FileType>().ok()?.name();
        stem.rsplit(['-', '.']).find_map(known)
    }

    /// Bits per weight of the whole model; none of files that are not all of it.
    fn bits_per_weight(&self, parameters: Option<u64>) -> Option<f64> {
        let parameters = parameters.filter(|&count| count > 0)?;
        let name = self.name.rsplit('/').next()?;
        let is_beside = ["mmproj", "mtp", "imatrix"].iter().any(|word| name.contains(word));
        let is_whole = self.shards.0 == self.shards.1 && self.file_type().is_some() && !is_beside;
        #[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
        is_whole.then(|| self.bytes as f64 * 8.0 / parameters as f64)
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let (files, parameters) = remote::list(&args.location).unwrap_or_else(|| {
        let hint = Some("a file or a set is shown by `ggmill inspect`".to_owned());
        let message = format!("{}: expected hf://OWNER/NAME", shown(&args.location));
        Err(Failure::new(message).with_hint(hint))
    })?;
    let listed = gathered(files);
    let mut out = console.text();
    if args.json {
        let files: Vec<_> = listed
            .iter()
            .map(|file| {
                json!({
                    "name": file.name,
                    "shards": file.shards.1,
                    "bytes": file.bytes,
                    "type": file.file_type(),
                    "bits_per_weight": file.bits_per_weight(parameters),
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
        for file in &listed {
            let size = HumanBytes(file.bytes).to_string();
            let bits = file
                .bits_per_weight(parameters)
                .map_or_else(String::new, |bits| format!("{bits:.2} bpw"));
            let shards = match file.shards {
                (1, 1) => String::new(),
                (there, count) if there == count => format!("  ({count} shards)"),
                (there, count) => format!("  ({there} of {count} shards)"),
            };
            let kind = file.file_type().unwrap_or("-");
            writeln!(
                out,
                "{size:>11}  {kind:<8}  {bits:>9}  {}{shards}",
                RawStr::from(&*file.name)
            )?;
        }
    }
    out.flush()?;
    if listed.is_empty() {
        console.warn(format_args!("{}: no GGUF files there", shown(&args.location)));
        return Ok(Status::Findings);
    }
    Ok(Status::Fine)
}

/// The GGUF files among these, the shards of a set as one.
fn gathered(files: Vec<(String, u64)>) -> Vec<Listed> {
    let mut found: BTreeMap<String, Listed> = BTreeMap::new();
    let is_gguf = |path: &str| {
        Path::new(path).extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
    };
    for (path, bytes) in files.into_iter().filter(|(path, _)| is_gguf(path)) {
        let (directory, name) = path.rsplit_once('/').map_or(("", &*path), |(a, b)| (a, b));
        let (first, count) = match ShardName::parse(name) {
            Some(shard) if directory.is_empty() => (shard.sibling(1), shard.count()),
            Some(shard) => (format!("{directory}/{}", shard.sibling(1)), shard.count()),
            None => (path.clone(), 1),
        };
        let set = found.entry(first.clone()).or_insert(Listed {
            name: first,
            shards: (0, count),
            bytes: 0,
        });
        set.shards.0 = set.shards.0.saturating_add(1);
        set.bytes = set.bytes.saturating_add(bytes);
    }
    found.into_values().collect()
}
