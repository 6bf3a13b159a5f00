//! `hash`: hashes the weights of a model, or verifies them against a list of hashes.

use std::path::{Path, PathBuf};

use ggmill_core::{RawStr, ReadAt as _};
use ggmill_edit::hash::{Conclusion, FileSums, HashKind, HashLine, Manifest, file_sha256};

use crate::open::refuse_interrupted;
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Hint, Model, Note, OpenOptions, Result, display_path, read_bytes};

/// The maximum size of a list of hashes, in bytes. Four hashes of a million tensors fit.
const MAX_LIST_LEN: u64 = 64 << 20;

/// Hashes the weights of a model, per tensor and in total, or verifies them against a manifest.
///
/// Only tensor data is hashed, so editing the metadata, splitting the model or renaming the file does
/// not change the hashes.
///
/// ```no_run
/// use ggmill::hash::HashKind;
/// let model = ggmill::Model::open("model.gguf")?;
/// for line in ggmill::hash(&model)?.kinds(&[HashKind::Sha256]).run()?.lines() {
///     println!("{} {}", line.kind, line.digest);
/// }
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn hash(model: &Model) -> Result<HashModel<'_>> {
    Ok(HashModel { model, call: Call::default(), kinds: Vec::new(), tensors: true, manifest: None })
}

/// A list of hashes in a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum HashList {
    /// Hashes of the weights of models.
    Weights(Manifest),
    /// Hashes of whole files, as sha256sum writes them.
    Files(FileSums),
}

impl HashList {
    /// Reads a list of hashes; `-` is standard input. Fails for a file without hashes.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = decoded(&read_bytes(path, MAX_LIST_LEN)?);
        let manifest = Manifest::parse(&text);
        if !manifest.kinds().is_empty() {
            return Ok(Self::Weights(manifest));
        }
        let sums = FileSums::parse(&text);
        if sums.is_empty() {
            let error = Error::malformed("contains no line with a hash").at(path);
            return Err(error.with_hint(Hint::HashLines));
        }
        Ok(Self::Files(sums))
    }
}

/// Decodes a text as UTF-16 if it begins with its byte order mark, as the output of PowerShell does, else
/// as UTF-8. Names that are not UTF-8 get replacement characters.
fn decoded(bytes: &[u8]) -> String {
    let utf_16 = |number: fn([u8; 2]) -> u16| {
        let (pairs, _) = bytes[2..].as_chunks();
        String::from_utf16_lossy(&pairs.iter().map(|&pair| number(pair)).collect::<Vec<u16>>())
    };
    match bytes {
        [0xff, 0xfe, ..] => utf_16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf_16(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// The options of [`hash()`].
#[derive(Debug)]
pub struct HashModel<'a> {
    model: &'a Model,
    call: Call<'a>,
    kinds: Vec<HashKind>,
    tensors: bool,
    manifest: Option<&'a Manifest>,
}

impl<'a> HashModel<'a> {
    call_options!();

    /// Sets the hash functions. The default is XXH64, or the strongest one in the manifest.
    #[must_use]
    pub fn kinds(mut self, kinds: &[HashKind]) -> Self {
        self.kinds = kinds.to_vec();
        self
    }

    /// Also hashes each tensor. On by default.
    #[must_use]
    pub fn tensors(mut self, tensors: bool) -> Self {
        self.tensors = tensors;
        self
    }

    /// Verifies the hashes against a manifest. A manifest of a single model also applies to a model
    /// with a different name.
    #[must_use]
    pub fn manifest(mut self, manifest: &'a Manifest) -> Self {
        self.manifest = Some(manifest);
        self
    }

    /// Reads the weights, and hashes them.
    pub fn run(self) -> Result<HashReport<'a>> {
        let Self { model, mut call, mut kinds, tensors, manifest } = self;
        let checkpoint = model.checkpoint()?;
        refuse_interrupted(&model.files())?;
        let file = model.path().map(|path| display_path(path).to_string()).unwrap_or_default();
        let names = file_names(model.core());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let claims = manifest.map(|manifest| {
            match (manifest.about(&file, &names), manifest.only_model()) {
                // The model was renamed, or it is a set of shards.
                (claims, Some(other)) if claims.kinds().is_empty() => {
                    call.note(Note::OtherName { listed: other.to_owned(), file: file.clone() });
                    manifest.about(other, &[])
                }
                (claims, _) => claims,
            }
        });
        if kinds.is_empty() {
            let strongest = claims.as_ref().and_then(|claims| claims.kinds().first().copied());
            kinds.push(strongest.unwrap_or(HashKind::Xxh64));
        }
        let hashes = call.with_report(Stage::Reading, |options, report| {
            ggmill_edit::hash::hash(&checkpoint, &kinds, tensors, options, report)
        })?;
        let names: Vec<RawStr<'a>> =
            model.core().tensors().iter().map(|tensor| tensor.name()).collect();
        let mut lines = hashes.lines(&names);
        let conclusion = claims.map(|claims| claims.verify(&mut lines, &kinds, tensors));
        Ok(HashReport { lines, conclusion, notes: call.notes })
    }
}

/// Hashes a whole file with SHA-256, and verifies the hash against a list of sha256sum.
///
/// ```no_run
/// use ggmill::HashList;
/// let HashList::Files(sums) = HashList::read("SHA256SUMS")? else { return Ok(()) };
/// let report = ggmill::hash_file("model.gguf", &sums)?.run()?;
/// println!("{:?}", report.conclusion());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn hash_file(path: impl AsRef<Path>, sums: &FileSums) -> Result<HashFile<'_>> {
    let path = path.as_ref().to_owned();
    Ok(HashFile { path, sums, call: Call::default(), open: OpenOptions::new() })
}

/// The options of [`hash_file()`].
#[derive(Debug)]
pub struct HashFile<'a> {
    path: PathBuf,
    sums: &'a FileSums,
    call: Call<'a>,
    open: OpenOptions,
}

impl<'a> HashFile<'a> {
    call_options!();

    /// Sets how an address is opened.
    #[must_use]
    pub fn open_with(mut self, options: OpenOptions) -> Self {
        self.open = options;
        self
    }

    /// Reads the file, and verifies its hash.
    pub fn run(self) -> Result<HashReport<'static>> {
        let Self { path, sums, mut call, open } = self;
        let source = open.open_bytes(&path)?;
        // Read ahead: one request of a remote file covers several pieces.
        source.prefetch(std::slice::from_ref(&(0..source.len())));
        let digest = call.with_report(Stage::Reading, |_, report| file_sha256(&source, report));
        let digest = digest.map_err(|error| Error::from(error).within(&path))?.to_string();
        let name = display_path(&path).to_string();
        let (line, conclusion) = match (sums.verify(&name, &digest), sums.only_file()) {
            ((_, Conclusion::MissingEntry), Some(other)) => {
                call.note(Note::OtherName { listed: other.to_owned(), file: name.clone() });
                sums.verify(other, &digest)
            }
            (verified, _) => verified,
        };
        Ok(HashReport { lines: vec![line], conclusion: Some(conclusion), notes: call.notes })
    }
}

/// The hashes of a model or a file.
#[derive(Debug)]
pub struct HashReport<'a> {
    lines: Vec<HashLine<'a>>,
    conclusion: Option<Conclusion>,
    notes: Vec<Note>,
}

impl<'a> HashReport<'a> {
    /// Returns the hashes of the tensors, then those of the model, each with the verdict of the
    /// manifest, if there is one.
    pub fn lines(&self) -> &[HashLine<'a>] {
        &self.lines
    }

    /// Returns the verdict of the manifest; `None` without a manifest.
    pub fn conclusion(&self) -> Option<Conclusion> {
        self.conclusion
    }

    /// Returns the facts worth knowing about the call.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// Returns the names of a model's files, without their directories.
fn file_names(model: &ggmill_core::Model) -> Vec<String> {
    let last = |name: RawStr<'_>| {
        let bytes = name.as_bytes();
        RawStr::new(bytes.rsplit(|&byte| byte == b'/').next().unwrap_or(bytes)).to_string()
    };
    let of_part = |part: &ggmill_core::Header<'_>| match ggmill_io::file_of(part) {
        Some(file) => Some(RawStr::new(file.path().file_name()?.as_encoded_bytes()).to_string()),
        None => part.name().map(last),
    };
    model.parts().iter().filter_map(of_part).collect()
}
