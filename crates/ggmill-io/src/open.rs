//! Opening a model: one file, all shards of a set, or a stream.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ggmill_core::{Decoder, ErrorKind, Header, Limits, Model, Progress, ReadAt, ShardName, Split};

use crate::error::{Detail, EditFault, Error, Missing, Result, shown};
use crate::in_place::pending_journal;
use crate::random_access::RandomAccess;

/// The number of files of one set that are kept open; further files are reopened for each read.
/// Some systems allow a process only 256 open files, and it may read one set and write another.
pub const MAX_OPEN_FILES: usize = 100;

/// Opens a model by its file, or by any shard of a set: reads the headers now and tensor data by
/// position on request. The safe counterpart of [`map`](crate::map).
///
/// A set is recognized by `split.count` above 1 and by the name `<prefix>-00002-of-00003.gguf`; the
/// two must agree. The other shards are expected in the same directory under the names derived from
/// this one; nothing inside a file is ever used as a path.
///
/// A later change to the files can only make a read fail. Fails if a file cannot be opened, is not
/// a regular file or is not valid GGUF; for a truncated file the error states its actual length. A
/// shard that is missing, exists more than once or belongs to another set is an error of kind
/// [`Shards`](crate::ErrorKind::Shards) that names the file.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};
/// # let directory = tempfile::tempdir()?;
/// # for number in 0..2u16 {
/// #     let mut metadata = MetadataBuf::new();
/// #     metadata.set("split.no", number);
/// #     metadata.set("split.count", 2u16);
/// #     let plan = Builder::new().metadata(metadata).tensor(format!("blk.{number}"), GgmlType::F32, Shape::new(&[8])?).plan()?;
/// #     std::fs::write(directory.path().join(format!("tiny-0000{}-of-00002.gguf", number + 1)), [plan.header(), &[0; 32]].concat())?;
/// # }
/// let model = ggmill_io::open(directory.path().join("tiny-00002-of-00002.gguf"))?;
/// for tensor in model.tensors() {
///     println!("{:<40} {:<8} {} in file {}", tensor.name(), tensor.ggml_type(), tensor.shape(), tensor.part() + 1);
/// }
/// assert_eq!(model.read_tensor(&model.tensor("blk.1")?)?.len(), 32);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(path: impl AsRef<Path>) -> Result<Model> {
    open_with(path, &Limits::default())
}

/// [`open`] with custom limits, which apply to each shard.
pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Model> {
    open_set(path.as_ref(), &|path| open_alone_with(path, limits))
}

/// Opens a single file and ignores the set it may belong to. Fails like [`open`].
pub fn open_alone(path: impl AsRef<Path>) -> Result<Model> {
    open_alone_with(path, &Limits::default())
}

/// [`open_alone`] with custom limits.
pub fn open_alone_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Model> {
    let file = Arc::new(RandomAccess::open(path)?);
    parse(&file, Arc::clone(&file), limits)
}

/// Opens a possibly damaged or truncated file and records every fault for which [`open`] would
/// refuse it ([`Model::open_damaged`]).
///
/// Fails if the file cannot be read or is not GGUF at all. In a file with faults, tensors can lie
/// outside the file or overlap.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("cut.gguf");
/// # let header = ggmill_core::Builder::new().tensor("w", ggmill_core::GgmlType::F32, ggmill_core::Shape::new(&[64])?).plan()?.header().to_vec();
/// # std::fs::write(&path, &header)?;
/// let model = ggmill_io::open_damaged(&path)?;
/// assert_eq!((model.tensors().len(), model.faults().count()), (1, 1));
/// assert!(ggmill_io::open(&path).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_damaged(path: impl AsRef<Path>) -> Result<Model> {
    let file = Arc::new(RandomAccess::open(path)?);
    Model::open_damaged(Arc::clone(&file)).map_err(|error| of_file(file.path(), error))
}

/// Opens a set from the paths of all its shards, in any order and under any names.
///
/// The `split.*` keys give the number of each shard. Fails like [`open`], and if a file is not a
/// shard or belongs to another set.
pub fn open_shards(paths: &[impl AsRef<Path>]) -> Result<Model> {
    let mut shards = Vec::with_capacity(paths.len());
    for path in paths {
        let path = path.as_ref();
        let model = open_alone(path)?;
        split_of(&model, path)?;
        if shards.len() >= MAX_OPEN_FILES {
            close_idle(&model);
        }
        shards.push(model);
    }
    join(shards, &paths.iter().map(|path| path.as_ref().to_owned()).collect::<Vec<_>>())
}

/// Parses the name of a shard; `None` if the name is not that of one of several shards.
///
/// ```
/// let name = ggmill_io::shard_name("models/tiny-00002-of-00003.gguf".as_ref()).ok_or("a shard's")?;
/// assert_eq!((name.number(), name.count()), (2, 3));
/// assert!(ggmill_io::shard_name("tiny.gguf".as_ref()).is_none());
/// # Ok::<(), &str>(())
/// ```
pub fn shard_name(path: &Path) -> Option<ShardName<'_>> {
    path.file_name()
        .and_then(|name| name.to_str())
        .and_then(ShardName::parse)
        .filter(|name| name.count() > 1)
}

/// Returns the file that a part of a model is read from, or `None` if its source is not a file.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("model.gguf");
/// # std::fs::write(&path, ggmill_core::Builder::new().plan()?.header())?;
/// let model = ggmill_io::open(&path)?;
/// assert_eq!(ggmill_io::file_of(&model.parts()[0]).map(|file| file.path()), Some(&*path));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn file_of<'a>(part: &'a Header<'_>) -> Option<&'a RandomAccess> {
    part.source()?.as_any()?.downcast_ref()
}

/// Returns the files of a model, in the order of its shards.
pub fn files(model: &Model) -> impl Iterator<Item = &RandomAccess> {
    model.parts().iter().filter_map(file_of)
}

/// Closes the files of a model; each read reopens its file ([`RandomAccess::close_idle`]).
pub fn close_idle(model: &Model) {
    files(model).for_each(RandomAccess::close_idle);
}

/// Parses `source`, which reads `file`. Errors name the file; for a truncated file they state the
/// length it should have.
pub(crate) fn parse(
    file: &RandomAccess,
    source: Arc<impl ReadAt + 'static>,
    limits: &Limits,
) -> Result<Model> {
    Model::open_with(Arc::clone(&source), limits).map_err(|error| {
        if let Some(error) = interrupted(file.path(), &error) {
            return error;
        }
        // The end of the last tensor, because the error has only the end of the first missing one.
        let full_len = || Model::open_damaged(source).ok()?.parts().first()?.needed_len();
        let needed = || full_len().max(error.needed_length()).filter(|&needed| needed > file.len());
        let missing = (error.kind() == ErrorKind::Truncated)
            .then(needed)
            .flatten()
            .map(|needed| Missing { len: file.len(), needed });
        match error.into_cause().map(<dyn std::error::Error + Send + Sync>::downcast) {
            Ok(Ok(error)) => *error,
            Ok(Err(cause)) => {
                Error::format(file.path(), ggmill_core::Error::caused(ErrorKind::Io, cause))
            }
            Err(source) => Error::new(file.path(), Detail::Format { source, missing }),
        }
    })
}

/// Returns the error for a file that cannot be read because an edit of it was interrupted: until that is
/// finished or undone, the file can begin with zeros, or with parts of two headers.
fn interrupted(path: &Path, error: &ggmill_core::Error) -> Option<Error> {
    let journal = pending_journal(path).filter(|_| error.kind() != ErrorKind::Io)?;
    Some(Error::new(path, Detail::Edit(EditFault::PendingJournal { journal })))
}

/// Adds the path to an error, unless it wraps an [`Error`] of this crate.
fn of_file(path: &Path, error: ggmill_core::Error) -> Error {
    if let Some(error) = interrupted(path, &error) {
        return error;
    }
    let kind = error.kind();
    match error.into_cause().map(<dyn std::error::Error + Send + Sync>::downcast) {
        Ok(Ok(error)) => *error,
        Ok(Err(cause)) => Error::format(path, ggmill_core::Error::caused(kind, cause)),
        Err(error) => Error::format(path, error),
    }
}

/// Opens `path`, or the whole set it is a shard of, with `open` for each file.
pub(crate) fn open_set(path: &Path, open: &dyn Fn(&Path) -> Result<Model>) -> Result<Model> {
    let opened = open(path)?;
    let Some(name) = shard_name(path) else {
        return match split_of(&opened, path)?.filter(Split::is_part) {
            Some(split) => Err(Error::new(
                path,
                Detail::NotAShardName {
                    number: split.number.saturating_add(1),
                    count: split.count,
                },
            )),
            None => Ok(opened),
        };
    };
    let check = |model: &Model, number: u32, path: &Path| {
        model.expect_shard(number, name.count()).map_err(|error| Error::shards(path, error))
    };
    check(&opened, name.number(), path)?;
    let sibling = |number| path.with_file_name(name.sibling(number));

    // Checked before any shard is opened, so that the error lists all missing shards.
    let is_missing = |number: &u32| matches!(std::fs::metadata(sibling(*number)), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let numbers: Vec<u32> =
        (1..=name.count()).filter(|&number| number != name.number()).filter(is_missing).collect();
    if let Some(&first) = numbers.first() {
        let first = sibling(first);
        return Err(Error::shards(
            &first,
            Model::missing_shards(shown(&first), numbers, name.count()),
        ));
    }

    let mut opened = Some(opened);
    let (mut shards, mut paths) = (Vec::new(), Vec::new());
    for number in 1..=name.count() {
        let (shard, path) = match opened.take_if(|_| number == name.number()) {
            Some(shard) => (shard, path.to_owned()),
            None => (open(&sibling(number))?, sibling(number)),
        };
        check(&shard, number, &path)?;
        if shards.len() >= MAX_OPEN_FILES {
            close_idle(&shard);
        }
        shards.push(shard);
        paths.push(path);
    }
    join(shards, &paths)
}

fn join(shards: Vec<Model>, paths: &[PathBuf]) -> Result<Model> {
    Model::from_shards(shards).map_err(|error| {
        let path = error.shard().and_then(|shard| paths.get(shard));
        Error::shards(path.map_or(Path::new(""), PathBuf::as_path), error)
    })
}

fn split_of(model: &Model, path: &Path) -> Result<Option<Split>> {
    Split::of(&model.metadata()).map_err(|error| Error::format(path, error))
}

/// Bytes of the beginning that are kept, enough to recognize another format.
const BEGINNING: usize = 4096;

/// The result of reading a stream.
#[derive(Debug)]
#[non_exhaustive]
pub struct Streamed {
    /// The model, whose tensor data cannot be read, or the error of the header.
    pub model: ggmill_core::Result<Model>,
    /// The first bytes, at most 4096, to recognize a stream of another format.
    pub beginning: Vec<u8>,
}

/// Reads only the header. `len` is the length of the whole stream, if it is known. Fails if the
/// stream cannot be read.
///
/// ```
/// let bytes = ggmill_core::Builder::new().plan()?.header().to_vec();
/// let model = ggmill_io::open_stream(&bytes[..], None)?.model?;
/// assert_eq!(model.header().version(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_stream(mut input: impl Read, len: Option<u64>) -> io::Result<Streamed> {
    let mut decoder = Decoder::new(len, &Limits::default());
    let mut beginning = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let header = loop {
        let bytes = read(&mut input, &mut buffer)?;
        beginning.extend(bytes.iter().take(BEGINNING.saturating_sub(beginning.len())));
        match decoder.feed(bytes) {
            Ok(Progress::Needs(_)) if !bytes.is_empty() => {}
            Ok(_) => break decoder.finish(),
            Err(error) => break Err(error),
        }
    };
    Ok(Streamed { model: header.map(Model::from_header), beginning })
}

/// [`open_damaged`] for a stream: reads it to its end to learn its length, so that tensors beyond the
/// end are reported.
pub fn open_damaged_stream(mut input: impl Read) -> io::Result<Streamed> {
    let mut decoder = Decoder::new(None, &Limits::default());
    let mut buffer = vec![0; 64 << 10];
    let (mut kept, mut len, mut reading) = (Vec::new(), 0u64, true);
    loop {
        let bytes = read(&mut input, &mut buffer)?;
        if bytes.is_empty() {
            break;
        }
        len = len.saturating_add(bytes.len() as u64);
        if reading {
            kept.extend_from_slice(bytes);
            reading = matches!(decoder.feed(bytes), Ok(Progress::Needs(_)));
        }
    }
    // Parsed again now that the length is known, to check counts and offsets against it.
    let mut decoder = Decoder::new(Some(len), &Limits::default());
    let _ = decoder.feed(&kept);
    kept.truncate(BEGINNING);
    let model = decoder.finish_damaged().map(Model::from_header);
    Ok(Streamed { model, beginning: kept })
}

/// Reads the next bytes; an empty slice at the end.
fn read<'a>(input: &mut impl Read, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    loop {
        match input.read(buffer) {
            Ok(read) => return Ok(buffer.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
