//! Memory maps: the one place of this crate with `unsafe`.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ggmill_core::{Limits, Model, RawStr, ReadAt};
use memmap2::{Mmap, MmapOptions};

use crate::error::{Detail, Error, Result};
use crate::open::{open_set, parse};
use crate::random_access::RandomAccess;

/// A memory-mapped file, paged in by the operating system on access.
pub struct Mapping {
    /// `None` for an empty file, which cannot be mapped.
    map: Option<Mmap>,
    pub(crate) file: RandomAccess,
}

impl ReadAt for Mapping {
    fn len(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> ggmill_core::Result<()> {
        self.as_ref().read_at(offset, out)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self.as_ref())
    }

    fn verify(&self) -> ggmill_core::Result<()> {
        Ok(self.file.verify()?)
    }

    fn name(&self) -> Option<RawStr<'_>> {
        self.file.name()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        self.file.as_any()
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("len", &self.as_ref().len()).finish()
    }
}

/// Maps and parses a GGUF file, or all shards of a set from any of them: the fastest way to open a
/// model, with tensor data as slices instead of copies.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("model.gguf");
/// # std::fs::write(&path, ggmill_core::Builder::new().plan()?.header())?;
/// // SAFETY: nothing writes to this file while it is mapped.
/// let model = unsafe { ggmill_io::map(&path)? };
/// println!("{} tensors", model.tensors().len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Fails like [`open`](crate::open).
///
/// # Safety
///
/// While the mapping lives, neither this process nor another may shorten the file or write to it.
/// The bytes are handed out as `&[u8]`, which promises that they do not change, and touching a page
/// after a file's new end kills the process (`SIGBUS`). Replacing the file by renaming another over
/// it is harmless, and it is how this crate writes. Where the promise cannot be kept, as on a
/// network share or with files still being downloaded, use [`open`](crate::open), which reads.
pub unsafe fn map(path: impl AsRef<Path>) -> Result<Model> {
    // SAFETY: the caller upholds the same contract.
    unsafe { map_with(path, &Limits::default()) }
}

/// [`map`] with custom limits, which apply to each shard.
///
/// # Safety
///
/// That of [`map`].
pub unsafe fn map_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Model> {
    open_set(path.as_ref(), &|path| {
        // SAFETY: the caller upholds the same contract.
        unsafe { map_alone_with(path, limits) }
    })
}

/// Maps a single file and ignores the set it may belong to.
///
/// # Safety
///
/// That of [`map`].
pub unsafe fn map_alone_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Model> {
    // SAFETY: the caller upholds the same contract.
    let mapping = Arc::new(unsafe { map_file(path)? });
    parse(&mapping.file, Arc::clone(&mapping), limits)
}

/// Maps a file of any format, such as safetensors. An empty file gives an empty slice.
///
/// # Safety
///
/// That of [`map`].
pub unsafe fn map_file(path: impl AsRef<Path>) -> Result<Mapping> {
    let file = RandomAccess::open(path)?;
    if file.is_empty() {
        return Ok(Mapping { map: None, file });
    }
    let len = usize::try_from(file.len())
        .map_err(|_| Error::new(file.path(), Detail::TooLarge { size: file.len() }))?;
    // `open` above gives a local file.
    let Ok(opened) = file.local() else { return Ok(Mapping { map: None, file }) };
    let opened = opened?;
    // SAFETY: the map is read-only, of a regular file, and as long as the file was a moment ago;
    // the caller promises that the file stays as it is.
    let map = unsafe { MmapOptions::new().len(len).map(&*opened) };
    let map = map.map_err(|source| Error::io(file.path(), "cannot map", source))?;
    Ok(Mapping { map: Some(map), file })
}
