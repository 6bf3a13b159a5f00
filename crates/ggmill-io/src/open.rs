//! From a path to a model: one file, or all shards of a set.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ggmill_core::{ErrorKind, Limits, Model, Part, ReadAt, ShardName, Split};

use crate::error::{Detail, Error, Missing, Result, shown};
use crate::random_access::RandomAccess;

/// How many files of one set are open at a time; the rest is opened for each read. Systems let a
/// process have as few as 256 open, and it may read one set and write another.
pub const MAX_OPEN_FILES: usize = 100;

/// Opens a model by its file, or by any shard of a set: headers are read, tensor data by position
/// when asked for. The safe twin of [`map`](crate::map).
///
/// A set is recognized by `split.count` above 1 and by the name `<prefix>-00002-of-00003.gguf`; the
/// two must agree. The other shards are looked for in the same directory under the names that
/// follow from this one; nothing inside a file is ever used as a path.
///
/// Nothing that happens to the files afterwards can do more than make a later read fail. Fails when
/// a file cannot be opened or is not a regular file, and when its content is refused; of a file
/// that ends too early the error states its actual length. A shard that is missing, exists more
/// than once or belongs to another set is an error of kind [`Shards`](crate::ErrorKind::Shards)
/// that names the file.
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

/// [`open`] with limits of one's own; they hold for each shard.
pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Model> {
    open_set(path.as_ref(), &|path| open_alone_with(path, limits))
}

/// Opens one file by itself, whatever set it belongs to. Fails as [`open`] does of the file.
pub fn open_alone(path: impl AsRef<Path>) -> Result<Model> {
    open_alone_with(path, &Limits::default())
}

/// [`open_alone`] with limits of one's own.
pub fn open_alone_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Model> {
    let file = Arc::new(RandomAccess::open(path)?);
    parse(&file, Arc::clone(&file), limits)
}

/// Opens what can be known of one file that may be broken or cut short, with everything that
/// [`open`] would refuse it for: [`Model::salvage`] on a file.
///
/// Fails when the file cannot be read, and when it is not GGUF at all. With faults, tensors can lie
/// outside the file or in each other.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("cut.gguf");
/// # let header = ggmill_core::Builder::new().tensor("w", ggmill_core::GgmlType::F32, ggmill_core::Shape::new(&[64])?).plan()?.header().to_vec();
/// # std::fs::write(&path, &header)?;
/// let model = ggmill_io::salvage(&path)?;
/// assert_eq!((model.tensors().len(), model.faults().count()), (1, 1));
/// assert!(ggmill_io::open(&path).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn salvage(path: impl AsRef<Path>) -> Result<Model> {
    let file = Arc::new(RandomAccess::open(path)?);
    Model::salvage(Arc::clone(&file)).map_err(|error| of_file(file.path(), error))
}

/// Opens a model by all of its shards, given in any order, whatever their names and directories
/// are.
///
/// Which shard a file is, its `split.*` keys say. Fails as [`open`] does, and when a file is given
/// that is not a shard, or no shard of this set.
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

/// The name of a file taken apart, where it says that the file is one shard of several.
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

/// The file that a part of a model is read from, where it is one: for those who need its path, or
/// hand ranges of it on.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("model.gguf");
/// # std::fs::write(&path, ggmill_core::Builder::new().plan()?.header())?;
/// let model = ggmill_io::open(&path)?;
/// assert_eq!(ggmill_io::file_of(&model.parts()[0]).map(|file| file.path()), Some(&*path));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn file_of(part: &Part) -> Option<&RandomAccess> {
    part.source()?.as_any()?.downcast_ref()
}

/// The files a model is read from, in order.
pub fn files(model: &Model) -> impl Iterator<Item = &RandomAccess> {
    model.parts().iter().filter_map(file_of)
}

/// Closes the files of a model: each read opens one again for itself. See
/// [`RandomAccess::close_idle`].
pub fn close_idle(model: &Model) {
    files(model).for_each(RandomAccess::close_idle);
}

/// A model over a source that is this file. What it is refused for names the file, and says of one
/// that ends too early how long it should be.
pub(crate) fn parse(
    file: &RandomAccess,
    source: Arc<impl ReadAt + 'static>,
    limits: &Limits,
) -> Result<Model> {
    Model::open_with(Arc::clone(&source), limits).map_err(|error| {
        // By the last tensor, where there is one, rather than by the first that is missing.
        let whole = || Model::salvage(source).ok()?.parts().first()?.needed_len();
        let needed = || whole().max(error.needed_length()).filter(|&needed| needed > file.len());
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

/// The error of a file, which may be one of this crate already.
fn of_file(path: &Path, error: ggmill_core::Error) -> Error {
    let kind = error.kind();
    match error.into_cause().map(<dyn std::error::Error + Send + Sync>::downcast) {
        Ok(Ok(error)) => *error,
        Ok(Err(cause)) => Error::format(path, ggmill_core::Error::caused(kind, cause)),
        Err(error) => Error::format(path, error),
    }
}

/// The file, or the whole set it is a shard of, each file opened by `open`.
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

    // All of them, before any is opened: the caller who has to fetch them wants to know which.
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
