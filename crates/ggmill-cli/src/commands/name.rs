//! `ggmill name`: parses, checks and builds file names by the naming convention.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use ggmill_core::{FileName, RawStr};
use serde_json::json;

use crate::console::Console;
use crate::files::{file_name, shown};
use crate::outcome::{Failure, Status};
use crate::remote;

/// Parse, check and build file names that follow the GGUF naming convention
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  ggmill name parse Mixtral-8x7B-v0.1-KQ2.gguf
  ggmill name check models/*.gguf
  ggmill name build model.gguf
  ggmill name rename model.gguf --dry-run

A name has the form BaseName-SizeLabel-FineTune-Version-Encoding-Type-Shard. The version is v1.0 \
if the metadata has no general.version.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Parse names
    Parse {
        /// File names; the files need not exist
        #[arg(required = true)]
        names: Vec<PathBuf>,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Report names that do not follow the convention
    Check {
        /// File names; the files need not exist
        #[arg(required = true)]
        names: Vec<PathBuf>,
    },
    /// Print the file name that the naming convention prescribes for a model
    Build {
        /// The model: a file, or any shard of a split model
        file: PathBuf,
    },
    /// Rename models to follow the naming convention
    Rename {
        /// The models: files, or any shard of a split model (all of its shards are renamed)
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Only print what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    match &args.action {
        Action::Parse { names, json } => parse(names, *json, console),
        Action::Check { names } => check(names, console),
        Action::Build { file } => {
            let mut out = console.text();
            writeln!(out, "{}", ggmill::suggested_name(file, &remote::options(file)?)?)?;
            out.flush()?;
            Ok(Status::Fine)
        }
        Action::Rename { files, dry_run } => rename(files, *dry_run, console),
    }
}

fn parts<'a>(name: &FileName<'a>) -> [(&'static str, Option<&'a str>); 8] {
    [
        ("sidecar", name.sidecar),
        ("base_name", Some(name.base_name)),
        ("size_label", name.size_label),
        ("fine_tune", name.fine_tune),
        ("version", Some(name.version)),
        ("encoding", name.encoding),
        ("type", name.kind),
        ("shard", name.shard),
    ]
}

fn parse(paths: &[PathBuf], as_json: bool, console: Console) -> Result<Status, Failure> {
    let mut out = console.text();
    let mut status = Status::Fine;
    let mut all = Vec::new();
    for path in paths {
        let text = file_name(path);
        let name = FileName::parse(&text);
        if name.is_none() {
            status = Status::Findings;
        }
        if as_json {
            let fields = name.as_ref().map(|name| {
                parts(name)
                    .into_iter()
                    .map(|(part, value)| (part.to_owned(), json!(value)))
                    .collect::<serde_json::Map<_, _>>()
            });
            all.push(json!({ "name": text, "parts": fields }));
            continue;
        }
        writeln!(out, "{}", RawStr::from(text.as_str()))?;
        match &name {
            Some(name) => {
                for (part, value) in parts(name) {
                    if let Some(value) = value {
                        writeln!(out, "  {part:<10} {}", RawStr::from(value))?;
                    }
                }
            }
            None => writeln!(
                out,
                "  {}",
                ggmill_check::name_fault(&text).unwrap_or("does not follow the convention")
            )?,
        }
    }
    if as_json {
        ggmill_text::json::write_pretty(
            &mut out,
            &json!({ "schema": "ggmill.name/1", "names": all }),
        )?;
    }
    out.flush()?;
    Ok(status)
}

fn check(paths: &[PathBuf], console: Console) -> Result<Status, Failure> {
    let mut out = console.text();
    let mut status = Status::Fine;
    for path in paths {
        let text = file_name(path);
        if let Some(fault) = ggmill_check::name_fault(&text) {
            writeln!(out, "{}: {fault}", RawStr::from(text.as_str()))?;
            status = Status::Findings;
        }
    }
    out.flush()?;
    Ok(status)
}

fn rename(paths: &[PathBuf], dry_run: bool, console: Console) -> Result<Status, Failure> {
    let rename = ggmill::rename(paths)?;
    let names = if dry_run { rename.names().to_vec() } else { rename.apply()? };
    let mut out = console.text();
    for (path, target) in names {
        writeln!(out, "{} -> {}", shown(&path), shown(&target))?;
    }
    out.flush()?;
    Ok(Status::Fine)
}
