//! `ggmill extract`: tensors and metadata out of a model.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ggmill_core::{MetadataBuf, RawStr};
use ggmill_edit::{extract_metadata, meant_pattern, subset};
use ggmill_formats::{extract_npy, extract_safetensors, npy_len, safetensors_len};
use ggmill_io::FileSink;
use ggmill_pipeline::{Checkpoint as _, GgufCheckpoint, RunOptions, SourceTensor};
use ggmill_text::Glob;

use crate::console::Console;
use crate::making::Making;
use crate::outcome::{Failure, Status};
use crate::outputs::{Output, inputs_of, refuse_inputs, start};
use crate::paths::shown;
use crate::progress::Bar;
use crate::source::open_checkpoint;

/// Extract tensors or metadata from a model
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ggmill extract model.gguf 'blk.0.*' -o layer0.gguf
  ggmill extract model.gguf token_embd.weight -o embedding.npy
  ggmill extract model.gguf '*norm*' -o norms.safetensors
  ggmill extract model.gguf --key 'tokenizer.*' -o tokenizer-metadata.json

The extension of OUT selects the format; in a directory, each tensor is written to a .npy file of \
its own. Float and integer tensors keep their type; quantized tensors are converted to F32, \
unless --raw keeps their blocks. `ggmill graft` inserts extracted tensors into a model again, \
which is lossless for float and integer tensors, and with --raw for all of them. A JSON file \
contains metadata, in the form that `ggmill edit --set-from` reads.")]
pub(crate) struct Args {
    /// The model: a file, or any shard of a split model
    file: PathBuf,
    /// Tensors to extract, by name: * matches any text, ? one character [default: all]
    #[arg(value_name = "GLOB")]
    tensors: Vec<Glob>,
    /// Metadata to extract, by key (repeatable); without a tensor GLOB, no tensors are extracted
    #[arg(short, long = "key", value_name = "GLOB")]
    keys: Vec<Glob>,
    /// The file to write: .gguf, .safetensors, .npy, .json, or a directory; - for JSON on standard
    /// output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The output format, if the extension of OUT does not determine it
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Keep quantized tensors as the bytes of their blocks
    #[arg(long)]
    raw: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    /// Print what would be written, with exact sizes and offsets, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Gguf,
    Safetensors,
    Npy,
    Json,
}

impl Args {
    fn format(&self) -> Result<Format, Failure> {
        let by_ending = || match self.output.extension().and_then(|ending| ending.to_str()) {
            _ if self.output.as_os_str() == "-" => Some(Format::Json),
            _ if self.is_directory() => Some(Format::Npy),
            Some("gguf") => Some(Format::Gguf),
            Some("safetensors") => Some(Format::Safetensors),
            Some("npy") => Some(Format::Npy),
            Some("json") => Some(Format::Json),
            _ => None,
        };
        let unknown = || {
            let hint = "use --format, or a name that ends in .gguf, .safetensors, .npy or .json, \
                        or in / for a directory";
            Failure::new(format_args!(
                "{}: the output format cannot be determined from the name",
                shown(&self.output)
            ))
            .with_hint(Some(hint.to_owned()))
        };
        self.format.or_else(by_ending).ok_or_else(unknown)
    }

    fn is_directory(&self) -> bool {
        self.output.is_dir()
            || self
                .output
                .as_os_str()
                .as_encoded_bytes()
                .last()
                .is_some_and(|&last| std::path::is_separator(last.into()))
    }

    /// The tensors asked for: those that match, none where only keys were asked for, else all.
    /// Every pattern has to match one.
    fn numbers(&self, tensors: &[SourceTensor]) -> Result<Vec<usize>, Failure> {
        fits_any("tensor", &self.tensors, || tensors.iter().map(SourceTensor::name))?;
        let fits = |tensor: &SourceTensor| match &*self.tensors {
            [] => self.keys.is_empty(),
            globs => globs.iter().any(|glob| glob.matches(tensor.name())),
        };
        Ok((0..tensors.len()).filter(|&number| tensors.get(number).is_some_and(fits)).collect())
    }

    fn has_key(&self, key: RawStr<'_>) -> bool {
        self.keys.is_empty() || self.keys.iter().any(|glob| glob.matches(key))
    }
}

/// Refuses patterns that match nothing: a pattern that was typed was meant to match. The hint is a
/// pattern like it that matches something.
pub(crate) fn fits_any<'a, I: Iterator<Item = RawStr<'a>>>(
    what: &str,
    globs: &[Glob],
    names: impl Fn() -> I,
) -> Result<(), Failure> {
    match globs.iter().find(|glob| !names().any(|name| glob.matches(name))) {
        Some(glob) => {
            let hint = meant_pattern(glob, names)
                .map(|meant| format!("did you mean '{}'?", RawStr::from(&*meant)));
            let message = format!("no {what} matches {:?}", RawStr::from(glob.as_str()));
            Err(Failure::new(message).with_hint(hint))
        }
        None => Ok(()),
    }
}

pub(crate) fn run(args: &Args, console: Console) -> Result<Status, Failure> {
    let format = args.format()?;
    let is_directory = format == Format::Npy && args.is_directory();
    let is_text = format == Format::Json && args.output.as_os_str() == "-";
    let named = std::slice::from_ref(&args.file);
    // What a directory gets is looked at when its names are known.
    let output = (!is_directory && !is_text)
        .then(|| Output::new(&args.output, named, args.force, args.dry_run))
        .transpose()?;
    let checkpoint = open_checkpoint(&args.file)?;
    let inputs = inputs_of(&checkpoint)?;
    let numbers = args.numbers(checkpoint.tensors())?;
    fits_any("key", &args.keys, || checkpoint.metadata().iter().map(|entry| entry.key()))?;
    if matches!(format, Format::Npy | Format::Safetensors) && numbers.is_empty() {
        return Err(Failure::new("no tensors to extract").with_hint(
            (!args.keys.is_empty())
                .then(|| "metadata can be extracted only to .gguf or .json".to_owned()),
        ));
    }
    let taking = Taking { args, checkpoint: &checkpoint, inputs: &inputs, console };
    match format {
        Format::Json => return taking.json(),
        Format::Gguf => {
            let plan = subset(&checkpoint, &numbers, |key| args.has_key(key))
                .and_then(|recipe| recipe.plan(&checkpoint))
                .map_err(Failure::new)?;
            let output = output
                .map_or_else(|| Output::new(&args.output, &inputs, args.force, args.dry_run), Ok)?;
            return Making { output, inputs: &inputs, json: false }.run(
                &plan,
                &checkpoint,
                console,
            );
        }
        Format::Safetensors => taking.safetensors(&numbers)?,
        Format::Npy if args.is_directory() => taking.directory(&numbers)?,
        Format::Npy => {
            let [one] = *numbers else {
                let hint = Some(
                    "with a / at its end, OUT is a directory with a file for each tensor"
                        .to_owned(),
                );
                return Err(Failure::new(format_args!(
                    "{} tensors, but a .npy file contains only one array",
                    numbers.len()
                ))
                .with_hint(hint));
            };
            taking.npy(one, &args.output)?;
        }
    }
    if args.dry_run {
        console.note(NOTHING);
        return Ok(Status::Fine);
    }
    let of = if numbers.len() == 1 {
        "1 tensor".to_owned()
    } else {
        format!("{} tensors", numbers.len())
    };
    console.note(format_args!("wrote {}: {of}", shown(&args.output)));
    Ok(Status::Fine)
}

const NOTHING: &str = "nothing was written";

/// The selected tensors and their outputs.
#[derive(Clone, Copy)]
struct Taking<'a> {
    args: &'a Args,
    checkpoint: &'a GgufCheckpoint,
    inputs: &'a [PathBuf],
    console: Console,
}

impl Taking<'_> {
    fn json(self) -> Result<Status, Failure> {
        let Self { args, checkpoint, console, .. } = self;
        if !args.tensors.is_empty() {
            return Err(Failure::new("a JSON file contains metadata, not tensors").with_hint(
                Some("--key GLOB selects keys; `ggmill inspect --json` lists tensors".to_owned()),
            ));
        }
        let metadata = MetadataBuf::copy_of(&checkpoint.metadata()).map_err(Failure::new)?;
        let text = extract_metadata(&metadata, |key| args.has_key(key)).map_err(|error| {
            Failure::new(error).with_hint(Some(
                "--key selects entries; `ggmill inspect --json --full` shows all of them"
                    .to_owned(),
            ))
        })?;
        if args.output.as_os_str() == "-" && !args.dry_run {
            let mut out = console.bytes();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            return Ok(Status::Fine);
        }
        let Some(mut sink) = self.begin(&args.output, text.len() as u64)? else {
            console.note(NOTHING);
            return Ok(Status::Fine);
        };
        ggmill_core::Sink::append(&mut sink, text.as_bytes()).map_err(Failure::new)?;
        sink.commit().map_err(Failure::new)?;
        console.note(format_args!("wrote {}", shown(&args.output)));
        Ok(Status::Fine)
    }

    /// Starts a file of this many bytes. In a dry run there is none: what would refuse it does, and
    /// how long it would be is printed before want of space does.
    fn begin(self, path: &Path, len: u64) -> Result<Option<FileSink>, Failure> {
        let Self { args, inputs, .. } = self;
        if args.dry_run {
            let is_file = path.as_os_str() != "-";
            if is_file {
                drop(start(path, inputs, args.force, 0)?);
            }
            self.announce(path, len)?;
            if is_file {
                drop(start(path, inputs, args.force, len)?);
            }
            return Ok(None);
        }
        start(path, inputs, args.force, len).map(Some)
    }

    /// The line of a dry run about a file.
    fn announce(self, path: &Path, len: u64) -> Result<(), Failure> {
        let mut out = self.console.text();
        writeln!(out, "{}  {len} bytes", shown(path))?;
        Ok(out.flush()?)
    }

    fn safetensors(self, numbers: &[usize]) -> Result<(), Failure> {
        let len = safetensors_len(self.checkpoint, numbers, self.args.raw).map_err(Failure::new)?;
        let Some(sink) = self.begin(&self.args.output, len)? else { return Ok(()) };
        let (mut bar, options) = (Bar::new(self.console), RunOptions::default());
        let sink = extract_safetensors(
            self.checkpoint,
            numbers,
            self.args.raw,
            sink,
            &options,
            &mut |progress| {
                bar.update(progress.written, progress.total, progress.tensor);
                ControlFlow::Continue(())
            },
        );
        sink.map_err(Failure::new)?.commit().map_err(Failure::new)
    }

    fn npy(self, number: usize, output: &Path) -> Result<(), Failure> {
        let len = npy_len(self.checkpoint, number, self.args.raw).map_err(Failure::new)?;
        let Some(sink) = self.begin(output, len)? else { return Ok(()) };
        let (mut bar, options) = (Bar::new(self.console), RunOptions::default());
        let sink =
            extract_npy(self.checkpoint, number, self.args.raw, sink, &options, &mut |progress| {
                bar.update(progress.written, progress.total, progress.tensor);
                ControlFlow::Continue(())
            });
        sink.map_err(Failure::new)?.commit().map_err(Failure::new)
    }

    /// A file for each tensor. When one cannot be written, those that were not there before go
    /// again.
    fn directory(self, numbers: &[usize]) -> Result<(), Failure> {
        let directory = &self.args.output;
        let outputs: Vec<PathBuf> = numbers
            .iter()
            .filter_map(|&number| self.checkpoint.tensors().get(number))
            .map(|tensor| directory.join(file_name(&tensor.name)))
            .collect();
        let is_new = !directory.exists();
        let mut lens = Vec::with_capacity(outputs.len());
        for (&number, output) in numbers.iter().zip(&outputs) {
            refuse_inputs(output, self.inputs)?;
            lens.push(npy_len(self.checkpoint, number, self.args.raw).map_err(Failure::new)?);
        }
        // Before the work: the directory, every file in it, and the space for all.
        let total = lens.iter().fold(0u64, |total, len| total.saturating_add(*len));
        let look = |total| {
            if is_new {
                // Without the slash at its end, the path is that of a file that could be written.
                let directory = directory.components().as_path();
                drop(start(directory, self.inputs, false, total)?);
            }
            for output in outputs.iter().filter(|_| !is_new) {
                drop(start(output, self.inputs, self.args.force, total)?);
            }
            Ok::<_, Failure>(())
        };
        if self.args.dry_run {
            look(0)?;
            for (output, &len) in outputs.iter().zip(&lens) {
                self.announce(output, len)?;
            }
            return look(total);
        }
        look(total)?;
        if is_new {
            fs::create_dir(directory).map_err(|error| {
                Failure::new(format_args!("{}: cannot create: {error}", shown(directory)))
            })?;
        }
        let mut made: Vec<&Path> = Vec::new();
        for (&number, output) in numbers.iter().zip(&outputs) {
            let replaces = output.exists();
            if let Err(failure) = self.npy(number, output) {
                // What cannot be taken away stays; the failure that matters is the first.
                for path in made {
                    drop(fs::remove_file(path));
                }
                if is_new {
                    drop(fs::remove_dir(directory));
                }
                return Err(failure);
            }
            if !replaces {
                made.push(output);
            }
        }
        Ok(())
    }
}

/// The name of a tensor's file: a name from a file is never a path, so all but letters, digits,
/// `_`, `-` and dots within is written as `%2F`.
fn file_name(name: &[u8]) -> String {
    let mut text = String::new();
    for (place, &byte) in name.iter().enumerate() {
        if byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || byte == b'.' && place > 0 {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text + ".npy"
}

/// The name of the tensor that a file is named after.
pub(crate) fn tensor_name(path: &Path) -> Vec<u8> {
    let stem = path.file_stem().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    let (mut name, mut rest) = (Vec::new(), stem);
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
            .filter(|_| first == b'%');
        name.push(code.unwrap_or(first));
        rest = if code.is_some() { behind.get(2..).unwrap_or_default() } else { behind };
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tensors_are_never_paths() {
        for (name, file) in [
            (&b"blk.0.attn_q.weight"[..], "blk.0.attn_q.weight.npy"),
            (b"../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd.npy"),
            (b".", "%2E.npy"),
            (b"", ".npy"),
            (b"a\\b:c%41\xff", "a%5Cb%3Ac%2541%FF.npy"),
        ] {
            assert_eq!(file_name(name), file);
            if !name.is_empty() {
                assert_eq!(tensor_name(Path::new("directory").join(file).as_path()), name);
            }
        }
    }
}
