//! `ggmill hash`: hashes weights, or verifies them against a manifest.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ggmill::{HashList, HashReport};
use ggmill_edit::hash::{Conclusion, FileSums, HashKind, HashLine, HashSubject, Manifest, Verdict};
use ggmill_text::LosslessStr;
use serde_json::json;

use crate::console::Console;
use crate::files::{open_model, shown};
use crate::outcome::{Failure, Status, each};
use crate::progress::{Bars, with_bars};
use crate::remote;

/// Hash a model's weights, per tensor and in total, or verify them against a manifest
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags as they are typed")]
#[command(after_help = "\
Examples:
  ggmill hash model.gguf --sha256 > model.manifest
  ggmill hash model.gguf --check model.manifest
  ggmill hash *.gguf --sha256 --no-layer

Only tensor data is hashed, so editing metadata, splitting the model or renaming the file does \
not change the hashes. A renamed file can be checked if the manifest is about a single model. The \
format is that of llama-gguf-hash, and each program can verify the other's manifests, except that \
llama-gguf-hash ignores BLAKE3 lines. The default hash is xxh64 or, with --check, the strongest \
one in the manifest. Contradictory lines are ignored, and so are lines that --check printed as \
mismatches when its output is used as a manifest.

--check also reads the output of sha256sum, of certutil and of Get-FileHash, which are about whole files: \
each FILE is then hashed as a whole, metadata included. --expect does the same for one file.")]
pub(crate) struct Args {
    /// The models: files, or any shard of a split model
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// XXH64: fast; detects accidental corruption
    #[arg(long)]
    xxh64: bool,
    /// SHA-1: for manifests that use it
    #[arg(long)]
    sha1: bool,
    /// SHA-256: detects deliberate tampering
    #[arg(long)]
    sha256: bool,
    /// BLAKE3: detects deliberate tampering; faster than SHA-256
    #[arg(long)]
    blake3: bool,
    /// All of the above
    #[arg(long)]
    all: bool,
    /// A UUID (version 5) of the whole model
    #[arg(long)]
    uuid: bool,
    /// Print only the hash of the whole model, not those of its tensors
    #[arg(long)]
    no_layer: bool,
    /// Verify against the hashes in this file; - is standard input
    #[arg(short, long, value_name = "MANIFEST")]
    check: Option<PathBuf>,
    /// Verify that the SHA-256 of the file is this one, as model hubs show it
    #[arg(long, value_name = "HEX", conflicts_with = "check")]
    expect: Option<String>,
    /// With --check: print every line, not only failures and the result
    #[arg(short, long, requires = "check")]
    verbose: bool,
    /// Write JSON: one document per model
    #[arg(long)]
    json: bool,
}

impl Args {
    fn kinds(&self) -> Vec<HashKind> {
        let chosen = [
            (HashKind::Xxh64, self.all || self.xxh64),
            (HashKind::Sha1, self.all || self.sha1),
            (HashKind::Sha256, self.all || self.sha256),
            (HashKind::Blake3, self.all || self.blake3),
            (HashKind::Uuid, self.uuid),
        ];
        chosen.into_iter().filter(|(_, chosen)| *chosen).map(|(kind, _)| kind).collect()
    }
}

/// Hashes each model, and continues after one that cannot be read.
pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let read = |path| HashList::read(path).map(|list| (path, list));
    let list = match &args.expect {
        Some(digest) => Some((Path::new("--expect"), HashList::Files(expected(digest, args)?))),
        None => args.check.as_deref().map(read).transpose()?,
    };
    match &list {
        Some((path, HashList::Files(sums))) => {
            if let Some(other) = args.kinds().iter().find(|kind| **kind != HashKind::Sha256) {
                return Err(Failure::new(format_args!(
                    "{}: contains SHA-256 hashes of whole files, but {other} was requested",
                    shown(path)
                )));
            }
            each(&args.files, console, |_, file| check_file(file, args, (path, sums), console))
        }
        Some((path, HashList::Weights(manifest))) => each(&args.files, console, |_, file| {
            hash_one(file, args, Some((path, manifest)), console)
        }),
        _ => each(&args.files, console, |_, file| hash_one(file, args, None, console)),
    }
}

/// Returns the list that has the hash of `--expect` for the file.
fn expected(digest: &str, args: &Args) -> Result<FileSums, Failure> {
    let [file] = &*args.files else {
        return Err(Failure::new("--expect is the hash of one file, but several were given"));
    };
    FileSums::expecting(digest.trim(), &file.to_string_lossy()).ok_or_else(|| {
        Failure::new("--expect: expected a SHA-256, which has 64 hexadecimal digits")
    })
}

fn hash_one(
    path: &Path,
    args: &Args,
    manifest: Option<(&Path, &Manifest)>,
    console: Console,
) -> Result<Status, Failure> {
    let bars = Bars::new(console);
    let model = open_model(path)?;
    let mut builder = ggmill::hash(&model)?.kinds(&args.kinds()).tensors(!args.no_layer);
    if let Some((_, manifest)) = manifest {
        builder = builder.manifest(manifest);
    }
    let report = with_bars!(builder, bars).run()?;
    bars.clear();
    let kinds = manifest.map(|(_, manifest)| manifest.kinds()).unwrap_or_default();
    let list = manifest.map(|(path, _)| (path, &*kinds));
    finish(&report, path, list, args, console)
}

/// Verifies the SHA-256 of a whole file against a list of sha256sum.
fn check_file(
    file: &Path,
    args: &Args,
    (list, sums): (&Path, &FileSums),
    console: Console,
) -> Result<Status, Failure> {
    let bars = Bars::new(console);
    let builder = ggmill::hash_file(file, sums)?.open_with(remote::options(file)?);
    let report = with_bars!(builder, bars).run()?;
    bars.clear();
    finish(&report, file, Some((list, &[HashKind::Sha256])), args, console)
}

/// Prints hashes and the result of the verification, and returns the status.
fn finish(
    report: &HashReport<'_>,
    file: &Path,
    list: Option<(&Path, &[HashKind])>,
    args: &Args,
    console: Console,
) -> Result<Status, Failure> {
    let conclusion = report.conclusion();
    let checked =
        list.zip(conclusion).map(|((path, kinds), conclusion)| Checked { path, kinds, conclusion });
    print(report.lines(), &shown(file).to_string(), checked, args, console)?;
    let holds = conclusion.is_none_or(|conclusion| conclusion == Conclusion::Success);
    Ok(if holds { Status::Fine } else { Status::Findings })
}

/// The list that hashes were verified against, and the result.
#[derive(Clone, Copy)]
struct Checked<'a> {
    path: &'a Path,
    kinds: &'a [HashKind],
    conclusion: Conclusion,
}

fn print(
    lines: &[HashLine<'_>],
    file: &str,
    checked: Option<Checked<'_>>,
    args: &Args,
    console: Console,
) -> Result<(), Failure> {
    let mut out = console.bytes();
    if args.json {
        print_json(&mut out, lines, file, checked)?;
    } else {
        print_text(&mut out, lines, file, checked, args.verbose)?;
    }
    Ok(out.flush()?)
}

fn print_text(
    out: &mut dyn Write,
    lines: &[HashLine<'_>],
    file: &str,
    checked: Option<Checked<'_>>,
    verbose: bool,
) -> io::Result<()> {
    if let Some(Checked { path, kinds, .. }) = checked.filter(|_| verbose) {
        write!(out, "manifest  {}", shown(path))?;
        kinds.iter().try_for_each(|kind| write!(out, "  {kind}"))?;
        writeln!(out)?;
    }
    let is_shown = |line: &&HashLine<'_>| verbose || line.verdict != Some(Verdict::Ok);
    for line in lines.iter().filter(is_shown) {
        write!(out, "{:<8}  {}  {file}", line.kind, line.digest)?;
        match &line.subject {
            HashSubject::Tensor(tensor) => write!(out, ":{tensor}")?,
            // A name in the manifest, which may have been escaped when it was written.
            HashSubject::Unknown(tensor) => write!(out, ":{}", tensor.escape_debug())?,
            HashSubject::File => write!(out, " (whole file)")?,
            _ => {}
        }
        match line.verdict {
            Some(verdict) => writeln!(out, "  -  {}", verdict.name())?,
            None => writeln!(out)?,
        }
    }
    if let Some(Checked { path, conclusion, .. }) = checked {
        let (blank, of) = if verbose { ("\n", String::new()) } else { ("", format!("{file}: ")) };
        writeln!(
            out,
            "{blank}{of}Verification results for {} - {}",
            shown(path),
            conclusion.name()
        )?;
    }
    Ok(())
}

/// Writes hashes as JSON: see `docs/formats/hash.md`.
fn print_json(
    out: &mut dyn Write,
    lines: &[HashLine<'_>],
    file: &str,
    checked: Option<Checked<'_>>,
) -> io::Result<()> {
    write!(
        out,
        "{{\"schema\":\"ggmill.hash/1\",\n\"file\":{},\n",
        ggmill_text::json::to_string(file)?
    )?;
    if let Some(Checked { path, conclusion, .. }) = checked {
        let result = match conclusion {
            Conclusion::Success => "ok",
            Conclusion::MissingEntry => "missing",
            _ => "failed",
        };
        write!(
            out,
            "\"manifest\":{},\n\"result\":\"{result}\",\n",
            ggmill_text::json::to_string(&shown(path).to_string())?
        )?;
    }
    write!(out, "\"hashes\":[")?;
    for (number, line) in lines.iter().enumerate() {
        let tensor = match &line.subject {
            HashSubject::Tensor(name) => json!(LosslessStr(*name)),
            HashSubject::Unknown(name) => json!(name),
            _ => serde_json::Value::Null,
        };
        let mut object =
            json!({ "hash": line.kind.name(), "digest": line.digest, "tensor": tensor });
        if let (Some(verdict), Some(object)) = (line.verdict, object.as_object_mut()) {
            object.insert("verdict".to_owned(), json!(verdict.name().to_lowercase()));
        }
        if line.subject == HashSubject::File {
            object["whole_file"] = json!(true);
        }
        writeln!(out, "{}", if number == 0 { "" } else { "," })?;
        ggmill_text::json::write(out, &object)?;
    }
    writeln!(out, "\n]}}")
}
