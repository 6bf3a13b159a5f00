//! Opening what the user named, and saying what it is when it is no GGUF file.

use std::error::Error as _;
use std::io::{self, Read};
use std::path::Path;

use ggmill_core::{Decoder, ErrorKind, Gguf, Limits, Progress, RawStr};
use ggmill_inspect::{FileKind, Part, View, sniff};
use ggmill_io::{GgufFile, Model, RandomAccess};
use ggmill_pipeline::GgufCheckpoint;

use crate::outcome::Failure;

/// How much of a file is looked at to tell what it is.
pub(crate) const SNIFFED: usize = 4096;

/// An open model.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file, or all shards of a set.
    Model(Model),
    /// One file, whatever set it belongs to.
    Alone(GgufFile),
    /// The header of what comes in by standard input.
    Input(Gguf<Vec<u8>>),
}

impl Source {
    /// Opens a path; `-` is standard input. A set of shards is opened whole unless it is to be `alone`.
    pub(crate) fn open(path: &Path, alone: bool) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return read_input(&mut io::stdin().lock(), input_len()).map(Self::Input);
        }
        let opened = if alone { ggmill_io::open(path).map(Self::Alone) } else { ggmill_io::open_model(path).map(Self::Model) };
        opened.map_err(|error| Failure::new(&error).with_hint(hint(&error)))
    }

    pub(crate) fn view(&self) -> Result<View<'_>, Failure> {
        Ok(match self {
            Self::Alone(file) => View::new(part(file)),
            Self::Input(header) => View::new(Part::new(header)),
            Self::Model(model) => {
                let mut shards = model.shards().iter().map(part);
                let first = shards.next().ok_or_else(|| Failure::new("a model without files"))?;
                shards.fold(View::new(first), View::with_shard)
            }
        })
    }
}

fn part(file: &GgufFile) -> Part<'_> {
    let part = Part::new(file.header());
    match file.path().file_name() {
        Some(name) => part.named(name.to_string_lossy()),
        None => part,
    }
}

/// The bytes that standard input has from here on, where it is a file: `ggmill inspect - < model.gguf`.
#[cfg(unix)]
fn input_len() -> Option<u64> {
    use std::os::fd::AsFd as _;
    let mut file = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    metadata.len().checked_sub(io::Seek::stream_position(&mut file).ok()?)
}

#[cfg(not(unix))]
fn input_len() -> Option<u64> {
    None
}

/// Reads just the header.
fn read_input(input: &mut dyn Read, len: Option<u64>) -> Result<Gguf<Vec<u8>>, Failure> {
    let mut decoder = Decoder::new(len, &Limits::default());
    let mut beginning = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let result = loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => break decoder.finish(),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::new(format_args!("standard input: {error}"))),
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        beginning.extend(bytes.iter().take(SNIFFED.saturating_sub(beginning.len())));
        match decoder.feed(bytes) {
            Ok(Progress::Needs(_)) => {}
            Ok(Progress::Complete) => break decoder.finish(),
            Err(error) => break Err(error),
        }
    };
    result.map_err(|error| Failure::new(format_args!("standard input: {error}")).with_hint(hint_for_content(&error, &beginning, None)))
}

/// Opens a model to take its tensors: a file, or any shard of a set. Says what the file is when it is none.
pub(crate) fn open_checkpoint(path: &Path) -> Result<GgufCheckpoint, Failure> {
    let model = ggmill_io::open_model(path).map_err(|error| {
        // What is said of standard input and of single shards is for commands that only look.
        let is_about_content = path.is_dir() || matches!(error.kind(), ggmill_io::ErrorKind::Format(_));
        Failure::new(&error).with_hint(is_about_content.then(|| hint(&error)).flatten())
    })?;
    GgufCheckpoint::new(model).map_err(Failure::new)
}

/// What to do about a file that could not be opened.
fn hint(error: &ggmill_io::Error) -> Option<String> {
    let path = error.path();
    match error.kind() {
        ggmill_io::ErrorKind::Io if path.is_dir() => hint_for_folder(path),
        ggmill_io::ErrorKind::Io if path.exists() && !path.is_file() => Some("what is no regular file can be read as standard input: -".to_owned()),
        ggmill_io::ErrorKind::Shards => Some("--alone looks at one file by itself".to_owned()),
        ggmill_io::ErrorKind::Format(_) => {
            hint_for_content(error.source()?.downcast_ref()?, &beginning(path)?, path.file_name().and_then(|name| name.to_str()))
        }
        _ => None,
    }
}

/// What a regular file is, by its first bytes.
pub(crate) fn what_it_is(path: &Path) -> Option<FileKind> {
    sniff(&beginning(path)?, path.file_name().and_then(|name| name.to_str()))
}

/// The first bytes of a regular file, as many as tell what it is.
pub(crate) fn beginning(path: &Path) -> Option<Vec<u8>> {
    let file = RandomAccess::open(path).ok()?;
    let mut bytes = vec![0; SNIFFED.min(usize::try_from(file.len()).unwrap_or(SNIFFED))];
    file.read_at(0, &mut bytes).ok()?;
    Some(bytes)
}

/// What the bytes are when they are not GGUF, and what to do about them when they are.
pub(crate) fn hint_for_content(error: &ggmill_core::Error, beginning: &[u8], name: Option<&str>) -> Option<String> {
    match sniff(beginning, name) {
        None | Some(FileKind::Gguf) => match error.kind() {
            // Lengths that no file has, or counts that no length is known for, are not made good by more of the same.
            ErrorKind::Truncated if error.needed_length().is_some_and(|length| length < 1 << 50) => {
                Some("fetch the rest of the file, or all of it again".to_owned())
            }
            ErrorKind::Truncated => Some("the file is damaged or cut short; fetch all of it again".to_owned()),
            ErrorKind::Version => Some("the file is damaged, or newer than this program".to_owned()),
            _ => None,
        },
        Some(found) => {
            let advice = found.hint().map(|advice| format!("; {advice}")).unwrap_or_default();
            Some(format!("this is {found}{advice}"))
        }
    }
}

/// The files in a folder that could have been meant.
fn hint_for_folder(folder: &Path) -> Option<String> {
    const SHOWN: usize = 4;
    if folder.join("config.json").is_file() {
        return Some("this is a checkpoint's folder; `ggmill convert` makes a GGUF file of it".to_owned());
    }
    let files = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut names: Vec<_> = files.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "gguf")).collect();
    names.sort_unstable();
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| RawStr::new(name.as_encoded_bytes()).to_string()).collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    (!shown.is_empty()).then(|| format!("GGUF files in it: {}{more}", shown.join(", ")))
}
