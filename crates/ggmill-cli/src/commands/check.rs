//! `ggmill check`: what is wrong with files.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ggmill_check::{Input, Options, Profile, ReadAt, Report, Selector, check, render, unreadable};
use ggmill_core::{Decoder, Limits, Progress};
use ggmill_io::RandomAccess;

use crate::console::Console;
use crate::outcome::{Failure, Status};

/// The first piece of a header that is read.
const FIRST_CHUNK: u64 = 64 << 10;
/// The largest.
const LARGEST_CHUNK: u64 = 256 << 10;
/// Folders within folders that are looked into.
const DEPTH: usize = 16;

/// Say everything that is wrong with GGUF files, why it matters and what to do
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill check model.gguf
  ggmill check models/ --select structure,GG13 --format json
  ggmill check model.gguf --profile ggml --format github

Exit codes: 0 no error, 1 errors found, 2 not readable as GGUF.")]
pub(crate) struct Args {
    /// Files, or folders with .gguf files in them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How findings are written
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Whose demands count: the specification's, llama.cpp's, or everybody's
    #[arg(long, value_enum, default_value_t)]
    profile: Demands,
    /// Only these rules: codes, beginnings of codes, or groups
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    select: Vec<Selector>,
    /// Not these rules
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    ignore: Vec<Selector>,
    /// Findings of one rule that are told one by one; the rest are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: usize,
    /// Exit with 0 though there are errors
    #[arg(long)]
    exit_zero: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Sarif,
    Github,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Demands {
    Spec,
    Ggml,
    #[default]
    All,
}

impl From<Demands> for Profile {
    fn from(demands: Demands) -> Self {
        match demands {
            Demands::Spec => Self::Spec,
            Demands::Ggml => Self::Ggml,
            Demands::All => Self::All,
        }
    }
}

/// A file that was looked at.
struct Looked {
    path: String,
    report: Report,
    readable: bool,
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let options =
        Options { profile: args.profile.into(), select: args.select.clone(), ignore: args.ignore.clone(), findings_per_rule: args.most, ..Options::default() };
    let mut paths = Vec::new();
    for path in &args.files {
        gather(path, DEPTH, &mut paths)?;
    }
    if paths.is_empty() {
        return Err(Failure::new("no .gguf files there"));
    }
    let mut looked = Vec::with_capacity(paths.len());
    let mut out = console.text();
    for path in &paths {
        let one = look(path, &options)?;
        // Text goes out file by file: a thousand files take a while.
        let shown = render::Checked { path: &one.path, report: &one.report };
        match args.format {
            Format::Text => {
                if !looked.is_empty() {
                    writeln!(out)?;
                }
                render::text(&mut out, &shown, console.is_styled())?;
            }
            Format::Github => render::github(&mut out, &shown)?,
            Format::Json | Format::Sarif => {}
        }
        looked.push(one);
    }
    let all: Vec<_> = looked.iter().map(|one| render::Checked { path: &one.path, report: &one.report }).collect();
    match args.format {
        Format::Text if looked.len() > 1 => render::summary(&mut out, &looked.iter().map(|one| &one.report).collect::<Vec<_>>())?,
        Format::Json => writeln!(out, "{:#}", render::json(&all))?,
        Format::Sarif => writeln!(out, "{:#}", render::sarif(&all))?,
        _ => {}
    }
    out.flush()?;
    let unreadable: Vec<_> = looked.iter().filter(|one| !one.readable).map(|one| one.path.as_str()).collect();
    if let Some(first) = unreadable.first() {
        let others = if unreadable.len() > 1 { format!(" and {} more", unreadable.len() - 1) } else { String::new() };
        return Err(Failure::new(format_args!("{}{others}: not readable as GGUF", ggmill_core::RawStr::from(*first))));
    }
    let errors = looked.iter().any(|one| one.report.has_errors());
    Ok(if errors && !args.exit_zero { Status::Findings } else { Status::Fine })
}

/// The file, or the GGUF files of a folder and those in it, in order. A link to a folder is not followed: it could lead in a circle.
fn gather(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let failed = |error: io::Error| Failure::new(format_args!("{}: {error}", ggmill_core::RawStr::new(path.as_os_str().as_encoded_bytes())));
    let mut entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        if is_folder && depth > 0 {
            gather(&path, depth - 1, files)?;
        } else if !is_folder && path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
            files.push(path);
        }
    }
    Ok(())
}

/// An open file as the rules read it.
struct Bytes<'a>(&'a RandomAccess);

impl ReadAt for Bytes<'_> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out).map_err(io::Error::other)
    }
}

fn look(path: &Path, options: &Options) -> Result<Looked, Failure> {
    let shown = path.to_string_lossy().into_owned();
    let file = RandomAccess::open(path).map_err(|error| Failure::new(&error))?;
    let salvaged = read_header(&file).map_err(|error| Failure::new(&error))?.salvage();
    let (header, faults) = match salvaged {
        Ok(salvaged) => salvaged,
        Err(error) => return Ok(Looked { path: shown, report: unreadable(&error, options), readable: false }),
    };
    let bytes = Bytes(&file);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut input = Input::new(&header, &faults).with_bytes(&bytes);
    if let Some(name) = &name {
        input = input.named(name);
    }
    let report = check(&input, options);
    Ok(Looked { path: shown, report, readable: true })
}

/// Feeds a decoder with the header, as far as it goes; what is wrong with it the decoder knows.
fn read_header(file: &RandomAccess) -> Result<Decoder, ggmill_io::Error> {
    let mut decoder = Decoder::new(Some(file.len()), &Limits::default());
    let (mut chunk, mut needs) = (FIRST_CHUNK, 0);
    let mut piece = Vec::new();
    while decoder.position() < file.len() {
        let wanted = chunk.max(u64::saturating_sub(needs, decoder.position())).min(LARGEST_CHUNK).min(file.len() - decoder.position());
        piece.resize(usize::try_from(wanted).unwrap_or(usize::MAX), 0);
        file.read_at(decoder.position(), &mut piece)?;
        match decoder.feed(&piece) {
            Ok(Progress::Needs(end)) if end <= file.len() => needs = end,
            _ => break,
        }
        chunk = chunk.saturating_mul(2);
    }
    Ok(decoder)
}
