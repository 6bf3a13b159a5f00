//! Reading what is checked: the header of a file or of standard input, and the tensor data in parallel.

use std::error::Error as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use ggmill_arch::Catalogue;
use ggmill_check::{DataFacts, DataPiece, Input, Options, ReadAt, Report, check, check_set, data_pieces, unreadable};
use ggmill_core::{Decoder, Error, Gguf, Limits, Progress, Split};
use ggmill_io::{GgufFile, RandomAccess};

use crate::console::Console;
use crate::journal::warn_of_journal;
use crate::outcome::Failure;
use crate::progress::Bar;
use crate::source::{SNIFFED, beginning, hint_for_content};

/// What files are held to.
pub(super) struct Standard<'a> {
    pub(super) options: Options,
    pub(super) catalogue: &'a Catalogue,
}

/// What looking at a file gave.
pub(super) enum Look {
    /// It is GGUF, good or bad.
    Report(Report),
    /// It is not.
    NotGguf {
        /// That, as a finding.
        report: Report,
        /// That, as an error.
        failure: Failure,
    },
}

/// An open file as the rules read it.
struct Bytes<'a>(&'a RandomAccess);

impl ReadAt for Bytes<'_> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out).map_err(io::Error::other)
    }
}

/// An open file with its faults and what its tensor data hold.
struct Opened {
    path: PathBuf,
    name: String,
    file: GgufFile,
    faults: Vec<Error>,
    facts: DataFacts,
}

impl Opened {
    fn input<'a>(&'a self, bytes: &'a Bytes<'a>, standard: &Standard<'a>) -> Input<'a> {
        Input::new(self.file.header(), &self.faults).with_bytes(bytes).with_data(&self.facts).named(&self.name).with_catalogue(standard.catalogue)
    }
}

/// Checks the files of a model, in order; `-` is standard input.
pub(super) fn look(files: &[PathBuf], standard: &Standard<'_>, data: bool, console: Console) -> Vec<Result<Look, Failure>> {
    if let [path] = files
        && path.as_os_str() == "-"
    {
        return vec![look_at_input(&mut io::stdin().lock(), standard, data)];
    }
    // What is no such file keeps none of the others from being looked at.
    let (mut opened, mut looks) = (Vec::with_capacity(files.len()), Vec::with_capacity(files.len()));
    for path in files {
        match open(path, &standard.options, data, console) {
            Ok(Ok(mut file)) => {
                if opened.len() >= ggmill_io::MOST_OPEN {
                    file.file.put_aside();
                }
                opened.push(file);
                looks.push(None);
            }
            Ok(Err(look)) => looks.push(Some(Ok(look))),
            Err(failure) => looks.push(Some(Err(failure))),
        }
    }
    let mut reports = examined(&opened, standard).into_iter();
    looks.into_iter().filter_map(|look| look.or_else(|| reports.next().map(|report| Ok(Look::Report(report))))).collect()
}

fn open(path: &Path, options: &Options, data: bool, console: Console) -> Result<Result<Opened, Look>, Failure> {
    warn_of_journal(path, console);
    let (file, faults) = match ggmill_io::salvage(path) {
        Ok(salvaged) => salvaged,
        Err(error) => {
            let Some(format) = error.source().and_then(|source| source.downcast_ref::<Error>()) else { return Err(Failure::new(&error)) };
            return Ok(Err(not_gguf(format, path, &beginning(path).unwrap_or_default(), options)));
        }
    };
    let facts = if data { examine(file.file(), file.header(), console)? } else { DataFacts::default() };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Ok(Opened { path: path.to_owned(), name, file, faults, facts }))
}

/// Holds files to the rules: as one model where they are all shards of a set, each by itself otherwise.
fn examined(files: &[Opened], standard: &Standard<'_>) -> Vec<Report> {
    let bytes: Vec<_> = files.iter().map(|opened| Bytes(opened.file.file())).collect();
    let mut inputs: Vec<Input<'_>> = files.iter().zip(&bytes).map(|(opened, bytes)| opened.input(bytes, standard)).collect();
    let fault = set_fault(files);
    let is_set = files.len() > 1 && fault.is_none() && inputs.iter().all(Input::is_whole);
    if is_set {
        return check_set(&inputs, &standard.options);
    }
    // What is wrong with a set is told of the first of its shards that is there.
    if let (Some(fault), Some(first)) = (&fault, inputs.first_mut()) {
        *first = first.with_set_fault(fault);
    }
    inputs.iter().map(|input| check(input, &standard.options)).collect()
}

fn not_gguf(error: &Error, path: &Path, beginning: &[u8], options: &Options) -> Look {
    let name = path.file_name().and_then(|name| name.to_str());
    let failure = Failure::new(format_args!("{}: not readable as GGUF: {error}", crate::paths::shown(path)));
    Look::NotGguf { report: unreadable(error, options), failure: failure.with_hint(hint_for_content(error, beginning, name)) }
}

/// What is wrong with the set of shards that some files are all of, or all that is there of it.
fn set_fault(files: &[Opened]) -> Option<String> {
    let first = files.first()?;
    let splits: Vec<_> = files.iter().map(|opened| Split::of(&opened.file.metadata()).ok().flatten().filter(Split::is_part)).collect();
    // A file without the keys of a shard has a rule of its own.
    if splits.iter().all(Option::is_none) || first.faults.iter().any(|fault| fault.offset().is_none_or(|offset| offset >= first.file.index().header_len())) {
        return None;
    }
    let error = ggmill_io::open_model(&first.path).err()?;
    let in_order = splits.iter().enumerate().all(|(place, split)| split.is_some_and(|split| (split.number, split.count) == (place as u64, files.len() as u64)));
    // What is wrong within one of the files is told of that file, and keeps nobody from seeing the whole.
    if in_order && matches!(error.kind(), ggmill_io::ErrorKind::Format(_)) {
        return None;
    }
    let text = error.to_string();
    let own = format!("{}: ", crate::paths::shown(error.path()));
    Some(text.strip_prefix(&own).map_or_else(|| text.clone(), |rest| format!("{}: {rest}", error.path().file_name().unwrap_or_default().to_string_lossy())))
}

/// Checks what comes in by a pipe: the header is kept, the rest is counted, so that data beyond the end are found.
fn look_at_input(input: &mut dyn Read, standard: &Standard<'_>, data: bool) -> Result<Look, Failure> {
    if data {
        return Err(Failure::new("standard input: its tensor data cannot be examined").with_hint(Some("--data takes files".to_owned())));
    }
    let failed = |error: io::Error| Failure::new(format_args!("standard input: {error}"));
    let mut kept = Vec::new();
    let mut decoder = Decoder::new(None, &Limits::default());
    let mut buffer = vec![0; 64 << 10];
    let (mut len, mut reading) = (0u64, true);
    loop {
        let read = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        len += read as u64;
        let bytes = buffer.get(..read).unwrap_or_default();
        if reading {
            kept.extend_from_slice(bytes);
            reading = matches!(decoder.feed(bytes), Ok(Progress::Needs(_)));
        }
    }
    // Once more, with the length of the whole to hold counts and places against.
    let mut decoder = Decoder::new(Some(len), &Limits::default());
    let _ = decoder.feed(&kept);
    match decoder.salvage() {
        Ok((header, faults)) => Ok(Look::Report(check(&Input::new(&header, &faults).with_catalogue(standard.catalogue), &standard.options))),
        Err(error) => Ok(not_gguf(&error, Path::new("standard input"), kept.get(..SNIFFED).unwrap_or(&kept), &standard.options)),
    }
}

/// Reads all tensor data once, on every processor there is.
fn examine(file: &RandomAccess, header: &Gguf<Vec<u8>>, console: Console) -> Result<DataFacts, Failure> {
    let pieces: Vec<DataPiece> = data_pieces(header).collect();
    let total = pieces.iter().map(|piece| piece.len() as u64).sum();
    let workers = thread::available_parallelism().map_or(1, usize::from).min(pieces.len().max(1));
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let work = |mut bar: Option<Bar>| -> Result<DataFacts, ggmill_io::Error> {
        let mut facts = DataFacts::default();
        let mut buffer = Vec::new();
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            buffer.resize(piece.len(), 0);
            file.read_at(piece.offset(), &mut buffer)?;
            facts.add(piece.examine(&buffer));
            let so_far = done.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if let Some(bar) = &mut bar {
                let name = header.tensors().nth(piece.tensor()).map(|tensor| tensor.name().to_string());
                bar.update(so_far, total, &name.unwrap_or_default());
            }
        }
        Ok(facts)
    };
    let gathered: Vec<_> = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(|| work(None))).collect();
        let own = work(Some(Bar::new(console)));
        others.into_iter().filter_map(|other| other.join().ok()).chain([own]).collect()
    });
    let mut all = DataFacts::default();
    for facts in gathered {
        all.merge(facts.map_err(|error| Failure::new(&error))?);
    }
    Ok(all)
}
