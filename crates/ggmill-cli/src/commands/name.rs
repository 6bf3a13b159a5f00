//! `ggmill name`: file names by the naming convention.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use ggmill_core::{FileName, NamingError, RawStr, ShardName, Split, keys, suggested_file_name};
use serde_json::json;

use crate::console::Console;
use crate::gather::{Files, models};
use crate::outcome::{Failure, Status};
use crate::outputs::refuse_interrupted;
use crate::paths::{file_name, shown};
use crate::remote;
use crate::source::open_alone;

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
            writeln!(out, "{}", built(file)?)?;
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

/// The name that the metadata of a file give it.
fn built(path: &Path) -> Result<String, Failure> {
    let file = open_alone(path)?;
    let split = Split::of(&file.metadata()).ok().flatten().filter(Split::is_part);
    // A shard has the name of its model, which the first of them knows; one with metadata of its
    // own needs no other.
    let whole = || {
        remote::open(path, false)
            .unwrap_or_else(|| ggmill_io::open(path).map_err(|error| Failure::new(&error)))
    };
    let set = match split.map(|_| whole()).transpose() {
        Err(failure) if file.metadata().get(keys::GENERAL_ARCHITECTURE).is_none() => {
            return Err(failure);
        }
        set => set.ok().flatten(),
    };
    let label = match &set {
        Some(model) => ggmill_core::size_label(
            model.tensors().iter().map(|tensor| (tensor.name(), tensor.shape())),
        ),
        None => ggmill_core::size_label(
            file.tensors().iter().map(|tensor| (tensor.name(), tensor.shape())),
        ),
    };
    let metadata = set.as_ref().map_or_else(|| file.metadata(), ggmill_core::Model::metadata);
    suggested_file_name(&metadata, label, split).map_err(|error| match error {
        NamingError::Unconventional(_) => Failure::new(error),
        missing => Failure::new(format_args!("{}: {missing}", shown(path))).with_hint(Some(
            "`ggmill edit` sets the keys: general.basename, general.size_label, general.finetune, \
             general.version"
                .to_owned(),
        )),
    })
}

/// Works out every new name before any file gets its own, so that a file without one, or two of one
/// name, leave all as they are. Any shard of a set stands for all of them: a set in which some have
/// another name cannot be read.
fn rename(paths: &[PathBuf], dry_run: bool, console: Console) -> Result<Status, Failure> {
    if let Some(path) = paths.iter().find(|path| remote::is_remote(path)) {
        return Err(Failure::new(format_args!(
            "{}: is not on this machine, so it cannot be renamed",
            shown(path)
        )));
    }
    let mut planned: Vec<(PathBuf, PathBuf)> = Vec::with_capacity(paths.len());
    for files in models(paths.to_vec()) {
        for (path, target) in new_names(files)? {
            refuse_interrupted(&[&path])?;
            if target == path {
                continue;
            }
            if let Some((other, _)) = planned.iter().find(|(_, known)| *known == target) {
                return Err(Failure::new(format_args!(
                    "{} and {} would both be renamed to {}",
                    shown(other),
                    shown(&path),
                    shown(&target)
                )));
            }
            if target.symlink_metadata().is_ok() {
                return Err(Failure::new(format_args!(
                    "{} would be renamed to {}, which already exists",
                    shown(&path),
                    shown(&target)
                )));
            }
            planned.push((path, target));
        }
    }
    if !dry_run {
        ggmill_io::rename_all(&planned).map_err(Failure::new)?;
    }
    let mut out = console.text();
    for (path, target) in planned {
        writeln!(out, "{} -> {}", shown(&path), shown(&target))?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// The models: files, or any shard of a split model, of which all shards are renamed
fn new_names(files: Files) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    let Some(first) = files.first() else { return Ok(Vec::new()) };
    // A shard that is missing would keep its old name, wherever it is.
    if ggmill_io::shard_name(first).is_some_and(|name| name.count() > 1) {
        ggmill_io::open(first).map_err(|error| {
            let hint = "all shards of a set are renamed together, so all of them must exist";
            Failure::new(&error).with_hint(Some(hint.to_owned()))
        })?;
    }
    let name = built(first)?;
    let Some(of_set) = ShardName::parse(&name).filter(|_| files.len() > 1) else {
        let target = first.with_file_name(&name);
        return Ok(files.into_iter().take(1).map(|path| (path, target.clone())).collect());
    };
    let numbered = files.into_iter().zip(1..).map(|(path, number)| {
        let target = path.with_file_name(of_set.sibling(number));
        (path, target)
    });
    Ok(numbered.collect())
}
