//! From an address to a model: one file, or all shards of a set.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ggmill_core::{Model, RawStr, ReadAt as _, ShardName, Split};

use crate::client::Client;
use crate::error::{Detail, Error, ErrorKind, Missing, Result};
use crate::file::{Piece, RemoteFile};
use crate::header::{self, FIRST, FIRST_OF_SHARD, HeaderRead};
use crate::location::Location;
use crate::target::Target;

/// A header with its bytes.
type Header = ggmill_core::Gguf<Vec<u8>>;
/// A fault of a file.
type Fault = ggmill_core::Error;

/// Shards that are asked for at the same time.
const SIDE_BY_SIDE: usize = 8;
/// Shards that are missing before no more are asked for: how many there are is what a name says.
const MISSING: usize = 16;

impl Client {
    /// Opens a model by its file, or by any shard of a set: headers are read now, tensor data when
    /// asked for.
    ///
    /// A set is recognized by its name and its `split.*` keys, which must agree; the other shards
    /// are asked for side by side, under the names that follow from this one. On the Hub they are
    /// those of one commit. Where 16 are missing, the rest is not asked for.
    ///
    /// Fails when a file cannot be read, and when its content is refused; of one that ends too
    /// early the error states its actual length.
    pub fn open(&self, location: &Location) -> Result<Model> {
        let name = location.shard_name();
        // The header of a later shard is small.
        let is_later = name.is_some_and(|name| name.number() > 1);
        let first = if is_later { FIRST_OF_SHARD } else { FIRST };
        let (model, found) = self.open_one(location, first)?;
        let Some(name) = found.shard_name() else {
            let split = Split::of(&model.metadata());
            let split = split.map_err(|error| Error::of_core(&found.to_string(), error, None))?;
            return match split.filter(Split::is_part) {
                Some(Split { number, count, .. }) => {
                    let number = number.saturating_add(1);
                    Err(Error::new(location, Detail::NotAShardName { number, count }))
                }
                None => Ok(model),
            };
        };
        self.open_others(model, &found, name)
    }

    /// Opens one file by itself, whatever set it belongs to. Fails as [`open`](Self::open) does of
    /// the file.
    pub fn open_alone(&self, location: &Location) -> Result<Model> {
        self.open_one(location, FIRST).map(|(model, _)| model)
    }

    /// Opens what can be known of one file that may be broken or cut short, with everything that
    /// [`open_alone`](Self::open_alone) would refuse it for. Fails when it cannot be read, and when
    /// it is not GGUF at all.
    pub fn salvage(&self, location: &Location) -> Result<Model> {
        let (header, faults, file) = self.header(location, FIRST)?;
        model_of(header, faults, file)
    }

    /// Asks for a file, whatever is in it: for its length, and to read it by position.
    pub fn open_file(&self, location: &Location) -> Result<RemoteFile> {
        let first = Target::contact(self, location, FIRST_OF_SHARD, None)?;
        Ok(RemoteFile::new(first.target, Piece { start: 0, bytes: first.bytes }))
    }

    /// The header of one file with its faults, and the file.
    fn header(&self, location: &Location, first: u64) -> Result<(Header, Vec<Fault>, RemoteFile)> {
        let cache = self.options().cache.as_ref();
        let address = self.address(location)?.to_text();
        let known = cache.and_then(|cache| cache.load(&address));
        let HeaderRead { file, decoder, was_known } =
            header::read(self, location, first, known.as_ref())?;
        let (header, faults) =
            decoder.salvage().map_err(|error| Error::of_core(file.target().name(), error, None))?;
        if let Some(cache) = cache.filter(|_| !was_known)
            && let Some(known) = file.target().known(header.bytes())
        {
            cache.store(&address, &known);
        }
        Ok((header, faults, file))
    }

    /// A model of one file without faults, and where it was found.
    fn open_one(&self, location: &Location, first: u64) -> Result<(Model, Location)> {
        let (header, faults, file) = self.header(location, first)?;
        // By the last tensor rather than by the first that is missing.
        let is_cut = |fault: &&Fault| fault.kind() == ggmill_core::ErrorKind::Truncated;
        let needed = faults.iter().filter(is_cut).filter_map(Fault::needed_length).max();
        let missing = needed
            .filter(|&needed| needed > file.len())
            .map(|needed| Missing { len: file.len(), needed });
        if let Some(fault) = faults.into_iter().next() {
            let missing = missing.filter(|_| is_cut(&&fault));
            return Err(Error::of_core(file.target().name(), fault, missing));
        }
        let found = file.target().location();
        Ok((model_of(header, Vec::new(), file)?, found))
    }

    /// The model of a shard with its siblings.
    fn open_others(&self, opened: Model, found: &Location, name: ShardName<'_>) -> Result<Model> {
        let check = |model: &Model, number: u32, location: &Location| {
            model
                .expect_shard(number, name.count())
                .map_err(|error| Error::of_core(&location.to_string(), error, None))
        };
        check(&opened, name.number(), found)?;
        let numbers: Vec<u32> =
            (1..=name.count()).filter(|&number| number != name.number()).collect();
        let (next, absent) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results = Mutex::new(Vec::new());
        let work = || {
            while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sibling = found.with_file_name(&name.sibling(number));
                let first = if number == 1 { FIRST } else { FIRST_OF_SHARD };
                let result = self.open_one(&sibling, first).and_then(|(model, location)| {
                    check(&model, number, &location)?;
                    Ok(model)
                });
                let hopeless = match &result {
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        absent.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= MISSING
                    }
                    result => result.is_err(),
                };
                results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                if hopeless {
                    // The others are of no help.
                    next.store(numbers.len(), Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..SIDE_BY_SIDE.min(numbers.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_unstable_by_key(|(number, _)| *number);
        let is_all = results.len() == numbers.len();
        let (mut shards, mut missing) = (vec![opened], Vec::new());
        for (number, result) in results {
            match result {
                Ok(model) => shards.push(model),
                Err(error) if error.kind() == ErrorKind::NotFound => missing.push(number),
                Err(error) => return Err(error),
            }
        }
        if let Some(&first) = missing.first() {
            let first = found.with_file_name(&name.sibling(first)).to_string();
            let error = Model::missing_shards(RawStr::from(&*first), missing, name.count());
            let error = Error::of_core(&first, error, None);
            return Err(if is_all { error } else { error.and_perhaps_more() });
        }
        Model::from_shards(shards).map_err(|error| Error::of_core(&found.to_string(), error, None))
    }
}

fn model_of(header: Header, faults: Vec<Fault>, file: RemoteFile) -> Result<Model> {
    let name = file.target().name().to_owned();
    let model = Model::from_header(header, faults).with_source(file);
    model.map_err(|error| Error::of_core(&name, error, None))
}
