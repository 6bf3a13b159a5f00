//! Memory maps: the one place of this crate with `unsafe`.

use std::fmt;
use std::path::Path;

use ggmill_core::{Gguf, Limits};
use memmap2::{Mmap, MmapOptions};

use crate::error::{Detail, Error, Result};
use crate::file::with_missing;
use crate::random_access::RandomAccess;

/// A whole file as bytes, paged in by the operating system as they are touched.
pub struct Mapping {
    /// `None` for an empty file, of which there is nothing to map.
    map: Option<Mmap>,
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

/// Maps a GGUF file and parses it: the fastest way to open one, and tensor data without a copy.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.gguf");
/// # std::fs::write(&path, ggmill_core::Builder::new().plan()?.header())?;
/// // SAFETY: nothing writes to this file while it is mapped.
/// let model = unsafe { ggmill_io::map(&path)? };
/// println!("{} tensors", model.tensors().len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Fails as [`open`](crate::open) does.
///
/// # Safety
///
/// While the mapping lives, nobody, this process or another, may shorten the file or write to it. The bytes are handed out as `&[u8]`, which promises that they
/// do not change, and touching a page behind a file's new end kills the process (`SIGBUS`). Replacing the file by renaming another over it is harmless, and it
/// is how this crate writes. Where the promise cannot be kept, as on a network share or with files still being downloaded, use [`open`](crate::open), which
/// reads.
pub unsafe fn map(path: impl AsRef<Path>) -> Result<Gguf<Mapping>> {
    // SAFETY: the caller upholds the same contract.
    unsafe { map_with(path, &Limits::default()) }
}

/// [`map`] with limits of one's own.
///
/// # Safety
///
/// That of [`map`].
pub unsafe fn map_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Gguf<Mapping>> {
    let file = RandomAccess::open(path)?;
    // SAFETY: the caller upholds the same contract.
    let mapping = unsafe { map_open(&file)? };
    Gguf::parse_with(mapping, limits).map_err(|error| with_missing(&file, error, limits))
}

/// Maps a file of any format, a checkpoint of safetensors say. An empty file gives no bytes.
///
/// # Safety
///
/// That of [`map`].
pub unsafe fn map_file(path: impl AsRef<Path>) -> Result<Mapping> {
    let file = RandomAccess::open(path)?;
    // SAFETY: the caller upholds the same contract.
    unsafe { map_open(&file) }
}

/// # Safety
///
/// That of [`map`].
unsafe fn map_open(file: &RandomAccess) -> Result<Mapping> {
    if file.is_empty() {
        return Ok(Mapping { map: None });
    }
    let len = usize::try_from(file.len()).map_err(|_| Error::new(file.path(), Detail::TooLarge { size: file.len() }))?;
    let opened = file.file()?;
    // SAFETY: the map is read-only, of a regular file, and as long as the file was a moment ago; the caller promises that the file stays as it is.
    let map = unsafe { MmapOptions::new().len(len).map(&*opened) };
    let map = map.map_err(|source| Error::io(file.path(), "cannot map", source))?;
    Ok(Mapping { map: Some(map) })
}
