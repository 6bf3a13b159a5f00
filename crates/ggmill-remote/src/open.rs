//! Opening a model: one file, or all shards of a set.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ggmill_core::{Header, Model, RawStr, ReadAt as _, ShardName, Split};

use crate::client::Client;
use crate::error::{Detail, Error, ErrorKind, Missing, Result};
use crate::file::{
    Chunk, FIRST_REQUEST, FIRST_REQUEST_OF_SHARD, HeaderRead, RemoteFile, Target, read_header,
};
use crate::location::Location;

/// Shards that are requested in parallel.
const MAX_PARALLEL: usize = 8;
/// Missing shards after which no more are requested. The count comes from a file name, so it can be
/// large.
const MAX_MISSING: usize = 16;

impl Client {
    /// Opens a model by the location of its file, or of any shard of a set. Headers are read now, tensor
    /// data on demand.
    ///
    /// A set is recognized by its file name and its `split.*` keys, which must agree. The other shards
    /// are requested in parallel, with the file names derived from this one, and on the Hub from the
    /// same commit. After 16 missing shards, the rest is not requested.
    ///
    /// Fails if a file cannot be read or is not valid. The error for a truncated file has its actual
    /// length.
    pub fn open(&self, location: &Location) -> Result<Model> {
        let name = location.shard_name();
        // The header of a later shard is small.
        let is_later = name.is_some_and(|name| name.number() > 1);
        let first = if is_later { FIRST_REQUEST_OF_SHARD } else { FIRST_REQUEST };
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

    /// Opens one file, without the other shards of its set. Fails as [`open`](Self::open) does.
    pub fn open_alone(&self, location: &Location) -> Result<Model> {
        self.open_one(location, FIRST_REQUEST).map(|(model, _)| model)
    }

    /// Opens the readable part of a file that may be damaged or truncated. Its faults are the reasons for
    /// which [`open_alone`](Self::open_alone) would fail. Fails if the file cannot be read or does not
    /// begin like a GGUF file.
    pub fn open_damaged(&self, location: &Location) -> Result<Model> {
        let (header, file) = self.header(location, FIRST_REQUEST)?;
        Ok(Model::from_header(header.with_source(file)))
    }

    /// Opens a file of any format for reads by position. Sends one request, which returns the length.
    pub fn open_file(&self, location: &Location) -> Result<RemoteFile> {
        let first = Target::contact(self, location, FIRST_REQUEST_OF_SHARD, None)?;
        Ok(RemoteFile::new(first.target, Chunk { start: 0, bytes: first.bytes }))
    }

    /// Reads the header of one file, from the cache if possible. Returns it with its faults, and the file.
    fn header(&self, location: &Location, first: u64) -> Result<(Header<'static>, RemoteFile)> {
        let cache = self.options().cache.as_ref();
        let address = self.address(location)?.to_text();
        let cached = cache.and_then(|cache| cache.load(&address));
        let HeaderRead { file, decoder, was_cached } =
            read_header(self, location, first, cached.as_ref())?;
        let header = decoder
            .finish_damaged()
            .map_err(|error| Error::of_core(file.target().name(), error, None))?;
        if let Some(cache) = cache.filter(|_| !was_cached)
            && let Some(entry) = file.target().cache_entry(header.bytes())
        {
            cache.store(&address, &entry);
        }
        Ok((header, file))
    }

    /// Opens one file without faults. Returns the model, and the location at the commit that was found.
    fn open_one(&self, location: &Location, first: u64) -> Result<(Model, Location)> {
        let (mut header, file) = self.header(location, first)?;
        let needed = header.needed_len();
        if let Some(fault) = header.take_faults().into_iter().next() {
            let missing = needed
                .filter(|_| fault.kind() == ggmill_core::ErrorKind::Truncated)
                .map(|needed| Missing { len: file.len(), needed });
            return Err(Error::of_core(file.target().name(), fault, missing));
        }
        let found = file.target().location();
        Ok((Model::from_header(header.with_source(file)), found))
    }

    /// Opens the other shards of a set and combines all.
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
                let first = if number == 1 { FIRST_REQUEST } else { FIRST_REQUEST_OF_SHARD };
                let result = self.open_one(&sibling, first).and_then(|(model, location)| {
                    check(&model, number, &location)?;
                    Ok(model)
                });
                let is_final = match &result {
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        absent.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= MAX_MISSING
                    }
                    result => result.is_err(),
                };
                results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                if is_final {
                    // The result is an error, so the remaining shards need not be requested.
                    next.store(numbers.len(), Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..MAX_PARALLEL.min(numbers.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_unstable_by_key(|(number, _)| *number);
        let all_requested = results.len() == numbers.len();
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
            return Err(if all_requested { error } else { error.with_unrequested_shards() });
        }
        Model::from_shards(shards).map_err(|error| Error::of_core(&found.to_string(), error, None))
    }
}
