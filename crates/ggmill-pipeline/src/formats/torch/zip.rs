//! Archives as PyTorch writes them: zip files whose entries are not compressed, so that their
//! bytes are ranges of the file. Only the directory at the end and the headers of entries that are
//! asked for are read.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use crate::{Error, ErrorKind, Result, zeroed};
use ggmill_core::{ByteSize, RawStr};
use ggmill_io::RandomAccess;

const LOCAL: &[u8; 4] = b"PK\x03\x04";
const ENTRY: &[u8; 4] = b"PK\x01\x02";
const END: &[u8; 4] = b"PK\x05\x06";
const END_64: &[u8; 4] = b"PK\x06\x06";
const LOCATOR_64: &[u8; 4] = b"PK\x06\x07";

const LOCAL_LEN: usize = 30;
const ENTRY_LEN: usize = 46;
const END_LEN: usize = 22;
const LOCATOR_LEN: usize = 20;
const END_64_LEN: usize = 56;

/// Bytes of the directory: the most that a header of safetensors may have.
const MAX_DIRECTORY: u64 = 100_000_000;
/// Bytes of the comment at the end.
const MAX_COMMENT: usize = 0xffff;

/// The directory of an archive.
#[derive(Debug)]
pub(super) struct Archive<'a> {
    file: &'a RandomAccess,
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Where the directory begins: all data are before it.
    directory: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    method: u16,
    is_encrypted: bool,
    packed: u64,
    size: u64,
    /// Where its header is.
    header: u64,
}

impl<'a> Archive<'a> {
    /// Whether a file begins as an archive does.
    pub(super) fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(LOCAL)
    }

    /// Reads the directory of an archive.
    pub(super) fn open(file: &'a RandomAccess) -> Result<Self> {
        let end = End::find(file)?;
        let fault = |offset: u64, message: &dyn Display| fault(file, offset, message);
        if end.size > MAX_DIRECTORY {
            let [len, limit] = ByteSize::both(end.size, MAX_DIRECTORY);
            let message = format!("the directory has {len}, the limit is {limit}");
            return Err(fault(end.offset, &message));
        }
        let mut bytes = zeroed(usize::try_from(end.size).unwrap_or(usize::MAX))?;
        file.read_at(end.start, &mut bytes)?;
        let mut entries = BTreeMap::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let offset = end.start.saturating_add((bytes.len() - rest.len()) as u64);
            let (name, entry, after) = Entry::read(rest).map_err(|what| fault(offset, &what))?;
            if entries.insert(name.to_vec(), entry).is_some() {
                let message =
                    format!("entry {:?} is a duplicate in the directory", RawStr::new(name));
                return Err(fault(offset, &message));
            }
            rest = after;
        }
        if entries.len() as u64 != end.count {
            let message =
                format!("the directory has {} entries, expected {}", entries.len(), end.count);
            return Err(fault(end.offset, &message));
        }
        Ok(Self { file, entries, directory: end.start })
    }

    /// The names of the entries, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.keys().map(Vec::as_slice)
    }

    /// Where the bytes of an entry are; `None` where there is none of this name.
    pub(super) fn range(&self, name: &[u8]) -> Result<Option<Range<u64>>> {
        let Some(&Entry { method, is_encrypted, packed, size, header }) = self.entries.get(name)
        else {
            return Ok(None);
        };
        let fault = |message: &dyn Display| {
            let message = format!("entry {:?}: {message}", RawStr::new(name));
            fault(self.file, header, &message)
        };
        if method != 0 || is_encrypted {
            let found = if is_encrypted {
                "is encrypted".to_owned()
            } else {
                format!("is compressed (method {method})")
            };
            return Err(fault(&format_args!("{found}, expected an uncompressed entry")));
        }
        if packed != size {
            return Err(fault(&format_args!(
                "the packed size is {packed} bytes, but the size is {size}"
            )));
        }
        if header.saturating_add(LOCAL_LEN as u64) > self.directory {
            let message = format!("its header is outside the {} bytes of data", self.directory);
            return Err(fault(&message));
        }
        let mut local = [0; LOCAL_LEN];
        self.file.read_at(header, &mut local)?;
        if !local.starts_with(LOCAL) {
            return Err(fault(&"its header is missing"));
        }
        let start = header
            + LOCAL_LEN as u64
            + u64::from(u16_at(&local, 26))
            + u64::from(u16_at(&local, 28));
        match start.checked_add(size) {
            Some(end) if end <= self.directory => Ok(Some(start..end)),
            _ => Err(fault(&format_args!(
                "{size} bytes from {start:#x} are needed, but the directory begins at {:#x}",
                self.directory
            ))),
        }
    }
}

/// What the end of an archive says about its directory.
struct End {
    /// Where the end itself is.
    offset: u64,
    count: u64,
    start: u64,
    size: u64,
}

impl End {
    fn find(file: &RandomAccess) -> Result<Self> {
        let most = (MAX_COMMENT + END_LEN + LOCATOR_LEN) as u64;
        let len = file.len().min(most);
        let base = file.len() - len;
        let mut tail = zeroed(usize::try_from(len).unwrap_or(usize::MAX))?;
        file.read_at(base, &mut tail)?;
        // The comment follows, and the file ends with it.
        let at = (0..=tail.len().saturating_sub(END_LEN)).rev().find(|&at| {
            tail.get(at..).is_some_and(|end| {
                end.starts_with(END)
                    && end.len() >= END_LEN
                    && end.len() - END_LEN == usize::from(u16_at(end, 20))
            })
        });
        let Some(at) = at else {
            let message = "the archive has no directory at its end, perhaps because of an \
                           incomplete download";
            return Err(fault(file, file.len(), &message));
        };
        let offset = base + at as u64;
        let end = tail.get(at..).unwrap_or_default();
        let mut this = Self {
            offset,
            count: u16_at(end, 10).into(),
            size: u32_at(end, 12).into(),
            start: u32_at(end, 16).into(),
        };
        let locator = at.checked_sub(LOCATOR_LEN).and_then(|at| tail.get(at..));
        if let Some(locator) = locator.filter(|locator| locator.starts_with(LOCATOR_64)) {
            this = Self::large(file, u64_at(locator, 8))?;
        }
        if this.start.checked_add(this.size).is_none_or(|end| end > this.offset) {
            let message = format!(
                "a directory of {} bytes from {:#x}, expected one that ends before its end record",
                this.size, this.start
            );
            return Err(fault(file, this.offset, &message));
        }
        Ok(this)
    }

    /// The end of an archive of more than 4 GB.
    fn large(file: &RandomAccess, offset: u64) -> Result<Self> {
        let mut bytes = [0; END_64_LEN];
        if offset.checked_add(END_64_LEN as u64).is_none_or(|end| end > file.len()) {
            return Err(fault(file, offset, &"the end of the directory is outside of the file"));
        }
        file.read_at(offset, &mut bytes)?;
        if !bytes.starts_with(END_64) {
            return Err(fault(file, offset, &"expected the end of the directory"));
        }
        Ok(Self {
            offset,
            count: u64_at(&bytes, 32),
            size: u64_at(&bytes, 40),
            start: u64_at(&bytes, 48),
        })
    }
}

impl Entry {
    /// The entry at the beginning of some bytes with its name, and the bytes after it.
    fn read(bytes: &[u8]) -> Result<(&[u8], Self, &[u8]), &'static str> {
        const SHORT: &str = "the directory ends within an entry";
        if bytes.len() < ENTRY_LEN {
            return Err(SHORT);
        }
        if !bytes.starts_with(ENTRY) {
            return Err("expected an entry of the directory");
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(u16_at(bytes, at)));
        let (_, rest) = bytes.split_at_checked(ENTRY_LEN).ok_or(SHORT)?;
        let (name, rest) = rest.split_at_checked(name).ok_or(SHORT)?;
        let (mut extra, rest) = rest.split_at_checked(extra).ok_or(SHORT)?;
        let (_, after) = rest.split_at_checked(comment).ok_or(SHORT)?;
        let mut this = Self {
            method: u16_at(bytes, 10),
            is_encrypted: u16_at(bytes, 8) & 1 != 0,
            packed: u32_at(bytes, 20).into(),
            size: u32_at(bytes, 24).into(),
            header: u32_at(bytes, 42).into(),
        };
        // Numbers of 64 bits take the place of those that do not fit, in this order.
        while extra.len() >= 4 {
            let (id, len) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
            let field = extra.get(4..).and_then(|rest| rest.split_at_checked(len));
            let (mut field, others) = field.ok_or(SHORT)?;
            for number in [&mut this.size, &mut this.packed, &mut this.header] {
                if id == 1 && *number == u64::from(u32::MAX) {
                    let (large, rest) = field.split_at_checked(8).ok_or(SHORT)?;
                    (*number, field) = (u64_at(large, 0), rest);
                }
            }
            extra = others;
        }
        Ok((name, this, after))
    }
}

#[cold]
fn fault(file: &RandomAccess, offset: u64, message: &dyn Display) -> Error {
    Error::new(ErrorKind::Checkpoint, format!("offset {offset:#x}: {message}")).file(file.path())
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
