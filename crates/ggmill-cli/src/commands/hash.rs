//! `ggmill hash`: what the weights are, and whether they are what a manifest says.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ggmill_core::{RawStr, ReadAt as _};
use ggmill_edit::hash::{
    Conclusion, FileSums, HashKind, HashLine, HashSubject, Manifest, Verdict, file_sha256,
};
use ggmill_pipeline::{Checkpoint as _, RunOptions};
use ggmill_text::LosslessStr;
use serde_json::json;

use crate::console::Console;
use crate::each::each;
use crate::outcome::{Failure, Status};
use crate::outputs::inputs_of;
use crate::paths::shown;
use crate::progress::Bar;
use crate::source::{file_names, open_bytes, open_checkpoint};
use crate::text_file::read_bytes;

/// A manifest is text about tensors; one of a million tensors and four hashes stays below this.
const MAX_MANIFEST_LEN: u64 = 64 << 20;

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

--check also reads the output of sha256sum, which is about whole files: each FILE is then hashed \
as a whole, metadata included.")]
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

/// Hashes each model. If one cannot be read, the others are hashed nevertheless.
pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let claims = args.check.as_deref().map(|path| read_claims(path, args)).transpose()?;
    let manifest = match claims {
        Some((path, Claimed::Files(sums))) => {
            return each(&args.files, console, |_, file| {
                check_file(file, args, (path, &sums), console)
            });
        }
        Some((path, Claimed::Weights(manifest))) => Some((path, manifest)),
        None => None,
    };
    each(&args.files, console, |_, path| hash_one(path, args, manifest.as_ref(), console))
}

fn hash_one(
    path: &Path,
    args: &Args,
    manifest: Option<&(&Path, Manifest)>,
    console: Console,
) -> Result<Status, Failure> {
    let checkpoint = open_checkpoint(path)?;
    inputs_of(&checkpoint)?;
    let file = shown(path).to_string();
    let files = file_names(checkpoint.model());
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let claims = manifest.map(|(_, manifest)| {
        match (manifest.about(&file, &files), manifest.only_model()) {
            // The model has another name now, or lies in shards.
            (claims, Some(other)) if claims.kinds().is_empty() => {
                tell_of_name(other, &file, console);
                manifest.about(other, &[])
            }
            (claims, _) => claims,
        }
    });
    let mut kinds = args.kinds();
    if kinds.is_empty() {
        let strongest = claims.as_ref().and_then(|claims| claims.kinds().first().copied());
        kinds.push(strongest.unwrap_or(HashKind::Xxh64));
    }

    let mut bar = Bar::new(console);
    let options = RunOptions::default();
    let hashes =
        ggmill_edit::hash::hash(&checkpoint, &kinds, !args.no_layer, &options, &mut |progress| {
            bar.update(progress.written, progress.total, progress.tensor);
            ControlFlow::Continue(())
        })
        .map_err(Failure::new)?;
    drop(bar);

    let names: Vec<RawStr<'_>> =
        checkpoint.tensors().iter().map(ggmill_pipeline::SourceTensor::name).collect();
    let mut lines = hashes.lines(&names);
    let (Some((path, manifest)), Some(claims)) = (manifest, claims) else {
        print(&lines, &file, None, args, console)?;
        return Ok(Status::Fine);
    };
    let conclusion = claims.verify(&mut lines, &kinds, !args.no_layer);
    let checked = Checked { path, kinds: &manifest.kinds(), conclusion };
    print(&lines, &file, Some(checked), args, console)?;
    Ok(if conclusion == Conclusion::Success { Status::Fine } else { Status::Findings })
}

/// Says which hashes a file is compared with that has another name in the list.
fn tell_of_name(listed: &str, file: &str, console: Console) {
    console.note(format_args!(
        "all hashes in the list are of {listed:?}; they are compared with those of {file}"
    ));
}

/// What a file of hashes is about.
enum Claimed {
    /// The weights of models.
    Weights(Manifest),
    /// Whole files.
    Files(FileSums),
}

fn read_claims<'a>(path: &'a Path, args: &Args) -> Result<(&'a Path, Claimed), Failure> {
    let text = read_bytes(path, MAX_MANIFEST_LEN)?;
    let text = String::from_utf8_lossy(&text);
    let manifest = Manifest::parse(&text);
    if !manifest.kinds().is_empty() {
        return Ok((path, Claimed::Weights(manifest)));
    }
    let sums = FileSums::parse(&text);
    if sums.is_empty() {
        let hint = "expected lines with a kind (xxh64, sha1, sha256, blake3, uuid), a digest and a \
                    file, for a tensor followed by a colon and its name; or the output of \
                    sha256sum";
        return Err(Failure::new(format_args!("{}: contains no line with a hash", shown(path)))
            .with_hint(Some(hint.to_owned())));
    }
    if let Some(other) = args.kinds().iter().find(|kind| **kind != HashKind::Sha256) {
        return Err(Failure::new(format_args!(
            "{}: contains SHA-256 hashes of whole files, but {other} was requested",
            shown(path)
        )));
    }
    Ok((path, Claimed::Files(sums)))
}

/// Checks a file against the SHA-256 of its bytes.
fn check_file(
    file: &Path,
    args: &Args,
    (list, sums): (&Path, &FileSums),
    console: Console,
) -> Result<Status, Failure> {
    let source = open_bytes(file)?;
    let mut bar = Bar::new(console);
    // One request for several pieces.
    source.prefetch(std::slice::from_ref(&(0..source.len())));
    let digest = file_sha256(&source, &mut |progress| {
        bar.update(progress.written, progress.total, progress.tensor);
        ControlFlow::Continue(())
    });
    drop(bar);
    let digest = digest.map_err(|error| Failure::new(format_args!("{}: {error}", shown(file))))?;
    let name = shown(file).to_string();
    let digest = digest.to_string();
    let (line, conclusion) = match (sums.verify(&name, &digest), sums.only_file()) {
        ((_, Conclusion::MissingEntry), Some(other)) => {
            tell_of_name(other, &name, console);
            sums.verify(other, &digest)
        }
        (verified, _) => verified,
    };
    let checked = Checked { path: list, kinds: &[HashKind::Sha256], conclusion };
    print(&[line], &name, Some(checked), args, console)?;
    Ok(if conclusion == Conclusion::Success { Status::Fine } else { Status::Findings })
}

/// A list of hashes that lines were compared with, and the result.
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
            // It comes from the manifest, where it was shown once already.
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

/// The schema of `docs/formats/hash.md`.
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
