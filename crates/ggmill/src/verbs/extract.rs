//! `extract`: writes tensors or metadata of a model to files.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ggmill_core::{MetadataBuf, RawStr, Sink as _};
use ggmill_edit::{extract_metadata, similar_pattern, subset};
use ggmill_pipeline::formats::{extract_npy, extract_safetensors, npy_len, safetensors_len};
use ggmill_pipeline::{Checkpoint as _, GgufCheckpoint, SourceTensor};
use ggmill_text::Glob;

use crate::error::Kind;
use crate::open::refuse_interrupted;
use crate::output::{Destination, ToPlan, start};
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Hint, Model, Planned, Result, Written};

/// Extracts tensors or metadata from a model into a file, whose extension selects the format, or into
/// a directory with a NumPy file for each tensor.
///
/// Float and integer tensors keep their type. Quantized tensors are decoded to F32, unless
/// [`raw`](Extract::raw) keeps their blocks.
///
/// ```no_run
/// let model = ggmill::Model::open("model.gguf")?;
/// ggmill::extract(&model)?.tensors(["*norm*".parse()?]).write("norms.safetensors")?;
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn extract<'a>(model: &Model) -> Result<Extract<'a>> {
    Ok(Extract {
        checkpoint: model.checkpoint()?,
        inputs: model.files(),
        call: Call::default(),
        tensors: Vec::new(),
        keys: Vec::new(),
        format: None,
        raw: false,
    })
}

/// A format of [`extract()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtractFormat {
    /// A GGUF file with the selected tensors and metadata.
    Gguf,
    /// Tensors in a safetensors file.
    Safetensors,
    /// One tensor in a NumPy file, or a directory of such files.
    Npy,
    /// Metadata as JSON, in the form of a patch.
    Json,
}

impl ExtractFormat {
    /// Returns the format for the name of an output. Fails for an unknown extension.
    pub fn of(out: impl AsRef<Path>) -> Result<Self> {
        let out = out.as_ref();
        match out.extension().and_then(|ending| ending.to_str()) {
            _ if is_directory(out) => Ok(Self::Npy),
            Some("gguf") => Ok(Self::Gguf),
            Some("safetensors") => Ok(Self::Safetensors),
            Some("npy") => Ok(Self::Npy),
            Some("json") => Ok(Self::Json),
            _ => {
                let message = "the output format cannot be determined from the name";
                Err(Error::misuse(message).at(out).with_hint(Hint::OutputFormat))
            }
        }
    }
}

/// Returns `true` for a directory, and for a path with a separator at its end.
fn is_directory(path: &Path) -> bool {
    let last = path.as_os_str().as_encoded_bytes().last();
    path.is_dir() || last.is_some_and(|&last| std::path::is_separator(last.into()))
}

/// The options of [`extract()`].
#[derive(Debug)]
pub struct Extract<'a> {
    checkpoint: GgufCheckpoint,
    inputs: Vec<PathBuf>,
    call: Call<'a>,
    tensors: Vec<Glob>,
    keys: Vec<Glob>,
    format: Option<ExtractFormat>,
    raw: bool,
}

impl<'a> Extract<'a> {
    call_options!(overwrite);

    /// Selects tensors by name; all by default. Every pattern must match a tensor.
    #[must_use]
    pub fn tensors(mut self, names: impl IntoIterator<Item = Glob>) -> Self {
        self.tensors.extend(names);
        self
    }

    /// Selects metadata by key. If no tensors are selected, none are extracted then.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = Glob>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Sets the format, instead of taking it from the name of the output.
    #[must_use]
    pub fn format(mut self, format: ExtractFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// Keeps quantized tensors as the bytes of their blocks.
    #[must_use]
    pub fn raw(mut self, raw: bool) -> Self {
        self.raw = raw;
        self
    }

    /// Returns the metadata as JSON, in the form of a patch.
    pub fn metadata_json(&self) -> Result<String> {
        refuse_interrupted(&self.inputs)?;
        self.select(ExtractFormat::Json)?;
        self.json()
    }

    /// Writes the files: `plan(out)?.write()`.
    pub fn write(self, out: impl AsRef<Path>) -> Result<Extracted> {
        self.plan(out)?.write()
    }

    /// Plans the files, and writes nothing.
    pub fn plan(self, out: impl AsRef<Path>) -> Result<ExtractPlan<'a>> {
        let out = out.as_ref();
        let format = self.format.map_or_else(|| ExtractFormat::of(out), Ok)?;
        refuse_interrupted(&self.inputs)?;
        let numbers = self.select(format)?;
        if format == ExtractFormat::Gguf {
            return self.plan_gguf(out, &numbers);
        }
        let Self { checkpoint, call, raw, .. } = &self;
        let file = |len| vec![(out.to_owned(), len)];
        let (what, files) = match format {
            ExtractFormat::Json => {
                let text = self.json()?;
                let len = text.len() as u64;
                (Content::Json(text), file(len))
            }
            ExtractFormat::Safetensors => {
                (Content::Safetensors, file(safetensors_len(checkpoint, &numbers, *raw)?))
            }
            _ if is_directory(out) => {
                let mut files = Vec::with_capacity(numbers.len());
                let mut names = FileNames::default();
                for &number in &numbers {
                    let Some(tensor) = checkpoint.tensors().get(number) else { continue };
                    let path = out.join(names.of(&tensor.name));
                    ggmill_io::refuse_inputs(&path, &self.inputs)?;
                    files.push((path, npy_len(checkpoint, number, *raw)?));
                }
                let is_new = !out.exists();
                (Content::Npy { directory: Some((out.to_owned(), is_new)) }, files)
            }
            _ => {
                let [one] = *numbers else {
                    let message = format_args!(
                        "{} tensors, but a .npy file contains only one array",
                        numbers.len()
                    );
                    return Err(Error::misuse(message).with_hint(Hint::TensorDirectory));
                };
                (Content::Npy { directory: None }, file(npy_len(checkpoint, one, *raw)?))
            }
        };
        let overwrite = call.overwrite;
        let Self { checkpoint, inputs, call, raw, .. } = self;
        let plan = FilePlan { checkpoint, inputs, call, numbers, raw, what, files, overwrite };
        plan.check(false)?;
        Ok(ExtractPlan(How::Files(plan)))
    }

    fn plan_gguf(self, out: &Path, numbers: &[usize]) -> Result<ExtractPlan<'a>> {
        let Self { checkpoint, inputs, call, keys, .. } = self;
        let has_key =
            |key: RawStr<'_>| keys.is_empty() || keys.iter().any(|glob| glob.matches(key));
        let recipe = subset(&checkpoint, numbers, has_key)?;
        let destination = Destination::File(out.to_owned());
        let plan = ToPlan::new(vec![recipe], checkpoint, destination, inputs);
        Ok(ExtractPlan(How::Gguf(Planned::new(plan, call)?)))
    }

    /// Returns the numbers of the selected tensors: those that match, none if only keys were
    /// selected, otherwise all.
    fn select(&self, format: ExtractFormat) -> Result<Vec<usize>> {
        let tensors = self.checkpoint.tensors();
        check_patterns("tensor", &self.tensors, || tensors.iter().map(SourceTensor::name))?;
        let fits = |tensor: &SourceTensor| match &*self.tensors {
            [] => self.keys.is_empty(),
            globs => globs.iter().any(|glob| glob.matches(tensor.name())),
        };
        let numbers = 0..tensors.len();
        let numbers: Vec<usize> =
            numbers.filter(|&number| tensors.get(number).is_some_and(fits)).collect();
        let metadata = self.checkpoint.metadata();
        check_patterns("key", &self.keys, || metadata.iter().map(|entry| entry.key()))?;
        let needs_tensors = matches!(format, ExtractFormat::Npy | ExtractFormat::Safetensors);
        if needs_tensors && numbers.is_empty() {
            let hint = (!self.keys.is_empty()).then_some(Hint::MetadataFormats);
            return Err(Error::misuse("no tensors to extract").with_hint(hint));
        }
        if format == ExtractFormat::Json && !self.tensors.is_empty() {
            let message = "a JSON file contains metadata, not tensors";
            return Err(Error::misuse(message).with_hint(Hint::OnlyMetadata));
        }
        Ok(numbers)
    }

    fn json(&self) -> Result<String> {
        let metadata = MetadataBuf::copy_of(&self.checkpoint.metadata())?;
        let has_key = |key: RawStr<'_>| {
            self.keys.is_empty() || self.keys.iter().any(|glob| glob.matches(key))
        };
        extract_metadata(&metadata, has_key)
            .map_err(|error| Error::from(error).replace_hint(Hint::SelectKeys))
    }
}

/// Fails for a pattern that matches nothing. The hint is a similar pattern that matches.
pub(super) fn check_patterns<'n, I: Iterator<Item = RawStr<'n>>>(
    what: &str,
    globs: &[Glob],
    names: impl Fn() -> I,
) -> Result<()> {
    match globs.iter().find(|glob| !names().any(|name| glob.matches(name))) {
        Some(glob) => {
            let message = format_args!("no {what} matches {:?}", RawStr::from(glob.as_str()));
            let meant = similar_pattern(glob, names).map(Hint::Pattern);
            Err(Error::new(Kind::NotFound, "pattern", message).with_hint(meant))
        }
        None => Ok(()),
    }
}

/// A planned extraction.
#[derive(Debug)]
pub struct ExtractPlan<'a>(How<'a>);

#[derive(Debug)]
enum How<'a> {
    Gguf(Planned<'a>),
    Files(FilePlan<'a>),
}

/// Files that are not GGUF.
#[derive(Debug)]
struct FilePlan<'a> {
    checkpoint: GgufCheckpoint,
    inputs: Vec<PathBuf>,
    call: Call<'a>,
    numbers: Vec<usize>,
    raw: bool,
    what: Content,
    /// The files, with their lengths.
    files: Vec<(PathBuf, u64)>,
    overwrite: bool,
}

#[derive(Debug)]
enum Content {
    Json(String),
    Safetensors,
    /// The directory of the files, and `true` if it is created; `None` for one file.
    Npy {
        directory: Option<(PathBuf, bool)>,
    },
}

impl<'a> ExtractPlan<'a> {
    /// Returns the plan of a GGUF file; `None` for other formats.
    pub fn planned(&self) -> Option<&Planned<'a>> {
        match &self.0 {
            How::Gguf(planned) => Some(planned),
            How::Files(_) => None,
        }
    }

    /// Returns the paths of the files, and their lengths in bytes.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        match &self.0 {
            How::Gguf(planned) => {
                planned.paths().iter().map(|path| (path.clone(), planned.total_len())).collect()
            }
            How::Files(plan) => plan.files.clone(),
        }
    }

    /// Fails if [`write`](Self::write) would, for example because the disk is full. Writes nothing.
    pub fn check_outputs(&self) -> Result<()> {
        match &self.0 {
            How::Gguf(planned) => planned.check_outputs(),
            How::Files(plan) => plan.check(true),
        }
    }

    /// Writes the files. If one of several cannot be written, those that did not exist before are
    /// removed.
    pub fn write(self) -> Result<Extracted> {
        match self.0 {
            How::Gguf(planned) => {
                let written = planned.write()?;
                Ok(Extracted {
                    paths: written.paths().to_vec(),
                    tensors: 0,
                    written: Some(written),
                })
            }
            How::Files(plan) => plan.write(),
        }
    }
}

impl FilePlan<'_> {
    /// Fails if the outputs cannot be written, and with `space` also if the disk has too little space.
    fn check(&self, space: bool) -> Result<()> {
        let Self { inputs, files, overwrite, .. } = self;
        let total = files.iter().fold(0u64, |total, (_, len)| total.saturating_add(*len));
        let len = if space { total } else { 0 };
        if let Content::Npy { directory: Some((directory, true)) } = &self.what {
            // A trailing separator hides that a file with this name exists.
            return start(directory.components().as_path(), inputs, false, len).map(drop);
        }
        files.iter().try_for_each(|(path, _)| start(path, inputs, *overwrite, len).map(drop))
    }

    fn write(mut self) -> Result<Extracted> {
        let tensors = if matches!(self.what, Content::Json(_)) { 0 } else { self.numbers.len() };
        match &self.what {
            Content::Json(text) => {
                if let Some((path, len)) = self.files.first() {
                    let mut sink = start(path, &self.inputs, self.overwrite, *len)?;
                    sink.append(text.as_bytes())?;
                    sink.commit()?;
                }
            }
            Content::Safetensors => self.write_safetensors()?,
            Content::Npy { directory: None } => {
                for (number, (path, len)) in self.pairs() {
                    self.write_npy(number, &path, len)?;
                }
            }
            Content::Npy { directory: Some((directory, is_new)) } => {
                let (directory, is_new) = (directory.clone(), *is_new);
                self.write_directory(&directory, is_new)?;
            }
        }
        let paths = self.files.into_iter().map(|(path, _)| path).collect();
        Ok(Extracted { paths, tensors, written: None })
    }

    /// Returns each tensor with its file.
    fn pairs(&self) -> Vec<(usize, (PathBuf, u64))> {
        self.numbers.iter().copied().zip(self.files.iter().cloned()).collect()
    }

    fn write_safetensors(&mut self) -> Result<()> {
        let Some((path, len)) = self.files.first() else { return Ok(()) };
        let sink = start(path, &self.inputs, self.overwrite, *len)?;
        let Self { checkpoint, numbers, raw, call, .. } = self;
        let sink = call.with_report(Stage::Writing, |options, report| {
            extract_safetensors(checkpoint, numbers, *raw, sink, options, report)
        })?;
        Ok(sink.commit()?)
    }

    fn write_npy(&mut self, number: usize, path: &Path, len: u64) -> Result<()> {
        let sink = start(path, &self.inputs, self.overwrite, len)?;
        let Self { checkpoint, raw, call, .. } = self;
        let sink = call.with_report(Stage::Writing, |options, report| {
            extract_npy(checkpoint, number, *raw, sink, options, report)
        })?;
        Ok(sink.commit()?)
    }

    fn write_directory(&mut self, directory: &Path, is_new: bool) -> Result<()> {
        self.check(true)?;
        if is_new {
            fs::create_dir(directory).map_err(|error| {
                let message = format_args!("cannot create: {error}");
                Error::new(Kind::Io, "io", message).at(directory)
            })?;
        }
        let mut created: Vec<PathBuf> = Vec::new();
        for (number, (path, len)) in self.pairs() {
            let replaces = path.exists();
            if let Err(error) = self.write_npy(number, &path, len) {
                // The error of writing is reported; a file that cannot be removed remains.
                for path in created {
                    drop(fs::remove_file(path));
                }
                if is_new {
                    drop(fs::remove_dir(directory));
                }
                return Err(error);
            }
            if !replaces {
                created.push(path);
            }
        }
        Ok(())
    }
}

/// Files that were extracted.
#[derive(Debug)]
pub struct Extracted {
    paths: Vec<PathBuf>,
    tensors: usize,
    written: Option<Written>,
}

impl Extracted {
    /// Returns the paths of the files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns the number of tensors in files that are not GGUF.
    pub fn tensors(&self) -> usize {
        self.tensors
    }

    /// Returns the GGUF file that was written; `None` for other formats.
    pub fn written(&self) -> Option<&Written> {
        self.written.as_ref()
    }
}

/// File names for tensors, which differ on file systems that do not distinguish letters by case.
#[derive(Debug, Default)]
struct FileNames {
    /// The names so far, in lower case.
    used: HashSet<String>,
}

impl FileNames {
    /// Returns the file name for a tensor. If only the case of letters distinguishes it from an earlier
    /// one, capital letters are percent-encoded too.
    fn of(&mut self, name: &[u8]) -> String {
        let plain = file_name(name, false);
        if self.used.insert(plain.to_ascii_lowercase()) {
            return plain;
        }
        let encoded = file_name(name, true);
        self.used.insert(encoded.to_ascii_lowercase());
        encoded
    }
}

/// Returns a file name for a tensor. All characters except letters, digits, `_`, `-` and inner dots are
/// percent-encoded, so that a tensor name is never used as a path; the first character also if the name
/// is that of a device on Windows.
fn file_name(name: &[u8], encode_capitals: bool) -> String {
    let mut text = String::new();
    let is_device = is_device(name);
    for (place, &byte) in name.iter().enumerate() {
        let is_plain = byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || byte.is_ascii_uppercase() && !encode_capitals
            || b"_-".contains(&byte)
            || byte == b'.' && place > 0;
        if is_plain && !(is_device && place == 0) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text + ".npy"
}

/// Returns `true` if Windows opens a device by this name, whatever follows its first dot.
fn is_device(name: &[u8]) -> bool {
    let stem = name.split(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_uppercase();
    matches!(
        &*stem,
        b"CON"
            | b"PRN"
            | b"AUX"
            | b"NUL"
            | [b'C', b'O', b'M', b'0'..=b'9']
            | [b'L', b'P', b'T', b'0'..=b'9']
    )
}

/// Returns the name of the tensor for a file name: the inverse of [`file_name`].
pub(super) fn tensor_name(path: &Path) -> Vec<u8> {
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
            (b"CON", "%43ON.npy"),
            (b"nul.weight", "%6Eul.weight.npy"),
            (b"com1.0", "%63om1.0.npy"),
            (b"console", "console.npy"),
            (b"lpt", "lpt.npy"),
        ] {
            assert_eq!(file_name(name, false), file);
            if !name.is_empty() {
                assert_eq!(tensor_name(Path::new("directory").join(file).as_path()), name);
            }
        }
    }

    #[test]
    fn names_differ_without_case() {
        let mut names = FileNames::default();
        let tensors = ["tok", "Tok", "TOK", "%54ok", "%54OK", "a.B", "A.b"];
        let files: Vec<_> = tensors.iter().map(|name| names.of(name.as_bytes())).collect();
        let lower: HashSet<_> = files.iter().map(|name| name.to_ascii_lowercase()).collect();
        assert_eq!(lower.len(), tensors.len(), "{files:?}");
        for (file, tensor) in files.iter().zip(tensors) {
            assert_eq!(tensor_name(Path::new(file)), tensor.as_bytes());
        }
    }
}
