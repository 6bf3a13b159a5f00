//! `ggmill name`: file names by the naming convention.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use ggmill_core::{FileName, FileType, Metadata, RawStr, Split, keys};
use serde_json::json;

use crate::console::Console;
use crate::making::{refuse_interrupted, shown};
use crate::outcome::{Failure, Status};

/// Take file names apart, check them, or make them from metadata, by the naming convention
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill name parse Mixtral-8x7B-v0.1-KQ2.gguf
  ggmill name check models/*.gguf
  ggmill name build model.gguf
  ggmill name rename model.gguf --dry-run")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Take names apart
    Parse {
        /// File names; the files need not be there
        #[arg(required = true)]
        names: Vec<PathBuf>,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Say which names do not follow the convention
    Check {
        /// File names; the files need not be there
        #[arg(required = true)]
        names: Vec<PathBuf>,
    },
    /// Print the name that the metadata of a file give it
    Build {
        /// The file
        file: PathBuf,
    },
    /// Give files the names their metadata give them
    Rename {
        /// The files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Only say what would be done
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

/// The last part of a path, as text.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
            let fields =
                name.as_ref().map(|name| parts(name).into_iter().map(|(part, value)| (part.to_owned(), json!(value))).collect::<serde_json::Map<_, _>>());
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
            None => writeln!(out, "  {}", ggmill_check::name_fault(&text).unwrap_or("does not follow the convention"))?,
        }
    }
    if as_json {
        writeln!(out, "{:#}", json!({ "schema": "ggmill.name/1", "names": all }))?;
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
    let file = ggmill_io::open_alone(path).map_err(|error| Failure::new(&error))?;
    let split = Split::of(&file.metadata()).ok().flatten().filter(Split::is_part);
    // A shard has the name of its model, which the first of them knows; one with metadata of its own needs no other.
    let set = match split.map(|_| ggmill_io::open(path)).transpose() {
        Err(error) if file.metadata().get(keys::GENERAL_ARCHITECTURE).is_none() => return Err(Failure::new(&error)),
        set => set.ok().flatten(),
    };
    let label = match &set {
        Some(model) => ggmill_core::size_label(model.tensors().iter().map(|tensor| (tensor.name(), tensor.shape()))),
        None => ggmill_core::size_label(file.tensors().iter().map(|tensor| (tensor.name(), tensor.shape()))),
    };
    let metadata = set.as_ref().map_or_else(|| file.metadata(), ggmill_core::Model::metadata);
    let text = build(&metadata, label, split).map_err(|missing| {
        Failure::new(format_args!("{}: {missing}", shown(path)))
            .with_hint(Some("`ggmill edit` sets the keys: general.basename, general.size_label, general.finetune, general.version".to_owned()))
    })?;
    match FileName::parse(&text) {
        Some(_) => Ok(text),
        None => Err(Failure::new(format_args!("the metadata make {:?}, which does not follow the convention", RawStr::from(text.as_str())))),
    }
}

/// Base name, size label (from the parameters when missing), fine tune, version (v1.0 when missing), encoding, type, shard.
fn build(metadata: &Metadata<'_>, label: Option<String>, split: Option<Split>) -> Result<String, &'static str> {
    let is_vocabulary = label.is_none();
    let text = |key: &str| metadata.str(key).ok().map(str::trim).filter(|text| !text.is_empty());
    // Text from a file becomes part of a name: nothing in it may lead to another folder.
    let plain = |text: &str| text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' }).collect::<String>();
    let words = |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    let base = [keys::GENERAL_BASENAME, keys::GENERAL_NAME, keys::GENERAL_ARCHITECTURE].into_iter().find_map(text);
    let mut name = String::new();
    let kind = text(keys::GENERAL_TYPE);
    if kind == Some("mmproj") {
        name.push_str("mmproj-");
    }
    let base = base.map(words).filter(|base| !base.is_empty());
    name.push_str(&base.ok_or("neither general.basename, general.name nor general.architecture is there")?);
    let size = text(keys::GENERAL_SIZE_LABEL).map(plain).or(label);
    let size = size.ok_or("general.size_label is missing, and there are no tensors to count")?;
    let mut push = |part: &str| {
        name.push('-');
        name.push_str(part);
    };
    push(&size);
    if let Some(fine_tune) = text(keys::GENERAL_FINETUNE) {
        push(&words(fine_tune));
    }
    let version = text(keys::GENERAL_VERSION).map_or("v1.0".to_owned(), plain);
    push(&if version.starts_with('v') { version } else { format!("v{version}") });
    if let Some(encoding) = metadata.u32(keys::GENERAL_FILE_TYPE).ok().and_then(|number| FileType(number).name()).filter(|_| !is_vocabulary) {
        push(encoding);
    }
    match kind {
        Some("adapter") => push("LoRA"),
        _ if is_vocabulary => push("vocab"),
        _ => {}
    }
    if let Some(split) = split {
        push(&format!("{:05}-of-{:05}", split.number.saturating_add(1), split.count));
    }
    name.push_str(".gguf");
    Ok(name)
}

/// Works out every new name before any file gets its own, so that a file without one, or two of one name, leave all as they are.
fn rename(paths: &[PathBuf], dry_run: bool, console: Console) -> Result<Status, Failure> {
    let mut planned: Vec<(&PathBuf, PathBuf)> = Vec::with_capacity(paths.len());
    for path in paths {
        refuse_interrupted(&[path])?;
        let target = path.with_file_name(built(path)?);
        if target == *path {
            continue;
        }
        if let Some((other, _)) = planned.iter().find(|(_, known)| *known == target) {
            return Err(Failure::new(format_args!("{} and {} would both be {}", shown(other), shown(path), shown(&target))));
        }
        if target.symlink_metadata().is_ok() {
            return Err(Failure::new(format_args!("{} would be {}, which is there already", shown(path), shown(&target))));
        }
        planned.push((path, target));
    }
    let mut out = console.text();
    for (path, target) in planned {
        // A link is made first and fails when the name is taken meanwhile, so that nothing is ever replaced.
        if !dry_run {
            let failed = |error: std::io::Error| Failure::new(format_args!("{} to {}: {error}", shown(path), shown(&target)));
            match std::fs::hard_link(path, &target) {
                Ok(()) => std::fs::remove_file(path).map_err(failed)?,
                // File systems without links.
                Err(error) if error.kind() == std::io::ErrorKind::Unsupported || error.raw_os_error() == Some(EPERM) => {
                    std::fs::rename(path, &target).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        writeln!(out, "{} -> {}", shown(path), shown(&target))?;
    }
    out.flush()?;
    Ok(Status::Fine)
}

/// What Unix systems answer when a file system has no links.
const EPERM: i32 = 1;
