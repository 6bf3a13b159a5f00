use std::io;
use std::path::Path;

use ggmill_core::{Limits, Metadata, Optional as _, ShardName, Split, Tensor, keys};

use crate::error::{Detail, Error, Result, ShardFault};
use crate::file::{GgufFile, open_with};

/// How many files of one set are open at a time; the rest is put aside. Systems let a process have as few as 256 open, and it may read one set and write another.
pub const MOST_OPEN: usize = 100;

/// A model on disk: one GGUF file, or the files of a set of shards seen as one.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};
/// # let folder = tempfile::tempdir()?;
/// # for number in 0..2u16 {
/// #     let mut metadata = MetadataBuf::new();
/// #     metadata.set("split.no", number);
/// #     metadata.set("split.count", 2u16);
/// #     let plan = Builder::new().metadata(metadata).tensor(format!("blk.{number}"), GgmlType::F32, Shape::new(&[8])?).plan()?;
/// #     std::fs::write(folder.path().join(format!("tiny-0000{}-of-00002.gguf", number + 1)), [plan.header(), &[0; 32]].concat())?;
/// # }
/// let model = ggmill_io::open_model(folder.path().join("tiny-00002-of-00002.gguf"))?;
/// for (shard, tensor) in model.tensors() {
///     println!("{:<40} in shard {}", tensor.name(), shard + 1);
/// }
/// let (shard, tensor) = model.tensor("blk.1")?;
/// assert_eq!((shard, model.read_tensor(shard, &tensor)?.len()), (1, 32));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Model {
    /// In the order of their numbers. Never empty.
    shards: Vec<GgufFile>,
}

/// Opens a model by its file, or by any shard of a set.
///
/// A set is recognized by `split.count` above 1 and by the name `<prefix>-00002-of-00003.gguf`; the two must agree. The other shards are looked for in the same
/// folder under the names that follow from this one; nothing inside a file is ever taken for a path. Besides the errors of [`open`](crate::open), a shard that
/// is missing, stands there twice or belongs to another set is an error of kind [`Shards`](crate::ErrorKind::Shards) that names the file.
pub fn open_model(path: impl AsRef<Path>) -> Result<Model> {
    open_model_with(path, &Limits::default())
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
    path.file_name().and_then(|name| name.to_str()).and_then(ShardName::parse).filter(|name| name.count() > 1)
}

/// [`open_model`] with limits of one's own; they hold for each shard.
pub fn open_model_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Model> {
    let path = path.as_ref();
    let opened = open_with(path, limits)?;
    if let Some(name) = shard_name(path) {
        check_keys(&opened, &name, name.number())?;
        return open_set(opened, &name, limits);
    }
    match split_of(&opened)?.filter(Split::is_part) {
        Some(split) => Err(Error::shards(path, ShardFault::NotAShardName { number: split.number.saturating_add(1), count: split.count })),
        None => Ok(Model { shards: vec![opened] }),
    }
}

/// Opens a model by all of its shards, given in any order, whatever their names and folders are.
///
/// Which shard a file is, its `split.*` keys say. Fails as [`open_model`] does, and when a file is given that is no shard, or no shard of this set.
pub fn open_shards(paths: &[impl AsRef<Path>]) -> Result<Model> {
    let mut shards = Vec::with_capacity(paths.len());
    for path in paths {
        let mut file = open_with(path, &Limits::default())?;
        let Some(split) = split_of(&file)? else { return Err(Error::shards(file.path(), ShardFault::NoShard)) };
        if shards.len() >= MOST_OPEN {
            file.put_aside();
        }
        shards.push((split, file));
    }
    shards.sort_by_key(|(split, _)| split.number);
    check_complete(&shards)?;
    let shards: Vec<GgufFile> = shards.into_iter().map(|(_, file)| file).collect();
    check_agreement(&shards)?;
    check_tensors(&shards)?;
    Ok(Model { shards })
}

/// Files ordered by the numbers their keys give are each shard of one set, once.
fn check_complete(shards: &[(Split, GgufFile)]) -> Result<()> {
    let Some((first, first_file)) = shards.first() else { return Err(Error::shards(Path::new(""), ShardFault::NoShard)) };
    let mut before: Option<&(Split, GgufFile)> = None;
    for shard in shards {
        let (split, file) = shard;
        if split.count != first.count {
            let fault = ShardFault::OtherCount { found: split.count, expected: first.count, other: first_file.path().to_owned() };
            return Err(Error::shards(file.path(), fault));
        }
        if let Some((_, other)) = before.filter(|(before, _)| before.number == split.number) {
            return Err(Error::shards(file.path(), ShardFault::Twice { number: split.number.saturating_add(1), other: other.path().to_owned() }));
        }
        if split.number >= split.count {
            return Err(Error::shards(file.path(), ShardFault::Beyond { number: split.number.saturating_add(1), count: split.count }));
        }
        before = Some(shard);
    }
    // Names have five digits for it, so no set has more; a file can say anything.
    let count = u32::try_from(first.count).unwrap_or(u32::MAX).min(99_999);
    let numbers: Vec<u32> = (1..=count).filter(|&number| shards.binary_search_by_key(&u64::from(number - 1), |(split, _)| split.number).is_err()).collect();
    if numbers.is_empty() { Ok(()) } else { Err(Error::shards(first_file.path(), ShardFault::NotGiven { numbers, count })) }
}

impl Model {
    /// The files, in the order of their numbers; never none. Shard numbers are places in this slice.
    pub fn shards(&self) -> &[GgufFile] {
        &self.shards
    }

    fn first(&self) -> &GgufFile {
        &self.shards[0]
    }

    /// The metadata of the first shard, which is where the model's are. Those of the others hold little but their place in the set.
    pub fn metadata(&self) -> Metadata<'_> {
        self.first().metadata()
    }

    /// The tensors of all shards with the numbers of their shards, in order.
    pub fn tensors(&self) -> impl Iterator<Item = (usize, Tensor<'_>)> + Clone {
        self.shards.iter().enumerate().flat_map(|(shard, file)| file.tensors().iter().map(move |tensor| (shard, tensor)))
    }

    /// The tensor with this name, and the number of its shard.
    pub fn tensor(&self, name: &str) -> Result<(usize, Tensor<'_>)> {
        let found = self.shards.iter().enumerate().find_map(|(shard, file)| Some((shard, file.tensors().get(name)?)));
        // Where no shard has it, the first one's error says so.
        found.map_or_else(|| self.first().tensor(name).map(|tensor| (0, tensor)), Ok)
    }

    /// The data of a tensor of shard number `shard`. Fails as [`GgufFile::read_tensor`] does, and when there is no such shard.
    pub fn read_tensor(&self, shard: usize, tensor: &Tensor<'_>) -> Result<Vec<u8>> {
        let no_shard = || Error::new(self.first().path(), Detail::NoShard { number: shard, count: self.shards.len() });
        self.shards.get(shard).ok_or_else(no_shard)?.read_tensor(tensor)
    }

    /// Bytes of all files together.
    pub fn total_len(&self) -> u64 {
        self.shards.iter().map(GgufFile::len).fold(0, u64::saturating_add)
    }
}

/// Opens the files beside the one that is open already, and holds them against each other.
fn open_set(opened: GgufFile, name: &ShardName<'_>, limits: &Limits) -> Result<Model> {
    let path = opened.path().to_owned();
    let sibling = |number| path.with_file_name(name.sibling(number));

    // All of them, before any is opened: whoever has to fetch them wants to know which.
    let is_missing = |number: &u32| matches!(std::fs::metadata(sibling(*number)), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let numbers: Vec<u32> = (1..=name.count()).filter(|&number| number != name.number()).filter(is_missing).collect();
    if let Some(&first) = numbers.first() {
        return Err(Error::shards(&sibling(first), ShardFault::Missing { numbers, count: name.count() }));
    }

    let mut opened = Some(opened);
    let mut shards = Vec::new();
    for number in 1..=name.count() {
        let mut shard = match opened.take_if(|_| number == name.number()) {
            Some(shard) => shard,
            None => open_with(sibling(number), limits)?,
        };
        check_keys(&shard, name, number)?;
        if shards.len() >= MOST_OPEN {
            shard.put_aside();
        }
        shards.push(shard);
    }
    check_agreement(&shards)?;
    check_tensors(&shards)?;
    Ok(Model { shards })
}

fn split_of(file: &GgufFile) -> Result<Option<Split>> {
    Split::of(&file.metadata()).map_err(|error| Error::format(file.path(), error))
}

/// The keys of a shard must say what its name says.
fn check_keys(file: &GgufFile, name: &ShardName<'_>, number: u32) -> Result<()> {
    let count = name.count();
    let fault = match split_of(file)? {
        None => ShardFault::NoKeys { number, count },
        Some(split) if split.count != u64::from(count) => ShardFault::Count { found: split.count, named: count },
        Some(split) if split.number.checked_add(1) != Some(u64::from(number)) => ShardFault::Number { found: split.number, named: number, count },
        Some(_) => return Ok(()),
    };
    Err(Error::shards(file.path(), fault))
}

/// Byte order, and the architecture where a shard repeats it: what differs comes from another model.
fn check_agreement(shards: &[GgufFile]) -> Result<()> {
    let mut first_endian = None;
    let mut first_architecture = None;
    for file in shards {
        let (endian, other) = *first_endian.get_or_insert((file.index().endian(), file));
        if file.index().endian() != endian {
            let fault = ShardFault::Endian { found: file.index().endian(), other: other.path().to_owned() };
            return Err(Error::shards(file.path(), fault));
        }
        let architecture = file.metadata().raw_str(keys::GENERAL_ARCHITECTURE).optional().map_err(|error| Error::format(file.path(), error))?;
        let Some(found) = architecture else { continue };
        let (expected, other) = *first_architecture.get_or_insert((found, file));
        if found != expected {
            let fault = ShardFault::Architecture { found: found.as_bytes().into(), expected: expected.as_bytes().into(), other: other.path().to_owned() };
            return Err(Error::shards(file.path(), fault));
        }
    }
    Ok(())
}

/// No tensor in two shards, and as many in all as each shard that counts them says.
fn check_tensors(shards: &[GgufFile]) -> Result<()> {
    let mut names: Vec<(&[u8], usize)> =
        shards.iter().enumerate().flat_map(|(shard, file)| file.tensors().iter().map(move |tensor| (tensor.name().as_bytes(), shard))).collect();
    let found = names.len() as u64;
    names.sort_unstable();
    for pair in names.windows(2) {
        if let &[(first, a), (second, b)] = pair
            && first == second
            && a != b
        {
            let fault = ShardFault::DuplicateTensor { name: second.into(), other: shards[a].path().to_owned() };
            return Err(Error::shards(shards[b].path(), fault));
        }
    }
    for file in shards {
        if let Some(expected) = split_of(file)?.and_then(|split| split.tensors).filter(|&expected| expected != found) {
            return Err(Error::shards(file.path(), ShardFault::Tensors { found, expected }));
        }
    }
    Ok(())
}
