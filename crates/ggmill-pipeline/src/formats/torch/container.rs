//! The containers of a PyTorch file: where its pickle and its storages are.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use ggmill_core::{ByteSize, Endian, RawStr};
use ggmill_io::RandomAccess;

use crate::formats::torch::object::{Node, Storage, Value};
use crate::formats::torch::pickle::Pickle;
use crate::{Error, ErrorKind, Result, zeroed};

/// The magic number in the first pickle of a stream, 0x1950a86a20f9469cfc6c in little-endian order.
const MAGIC: &[u8] = b"l\xfc\x9cF\xf9 j\xa8P\x19";
/// The first opcode of a pickle (PROTO), followed by the protocol.
const PICKLE: u8 = 0x80;
/// The only version of streams.
const VERSION: i64 = 1001;

/// Returns `true` if a file begins like a PyTorch file.
pub(super) fn begins(file: &RandomAccess) -> bool {
    let mut beginning = [0; 32];
    file.read_at(0, &mut beginning).is_ok()
        && (Archive::begins(&beginning)
            || beginning[0] == PICKLE && beginning.windows(MAGIC.len()).any(|part| part == MAGIC))
}

/// An opened PyTorch file.
pub(super) struct Container<'a> {
    file: &'a RandomAccess,
    /// The description of the tensors.
    pub(super) pickle: Pickle,
    /// The byte order of the storages.
    pub(super) endian: Endian,
    form: Form<'a>,
}

enum Form<'a> {
    Archive {
        archive: Archive<'a>,
        /// The prefix of the names of all entries.
        prefix: Vec<u8>,
    },
    /// The range of each storage.
    Stream(BTreeMap<Vec<u8>, Range<u64>>),
}

impl<'a> Container<'a> {
    pub(super) fn open(file: &'a RandomAccess) -> Result<Self> {
        let mut beginning = [0; 4];
        if file.len() >= 4 {
            file.read_at(0, &mut beginning)?;
        }
        if Archive::begins(&beginning) {
            return Self::archive(file);
        }
        if beginning[0] != PICKLE {
            let message = "it does not begin like a PyTorch file, expected an archive (\"PK\") or \
                           a pickle (0x80)";
            return Err(Error::new(ErrorKind::Checkpoint, message).file(file.path()));
        }
        Self::stream(file)
    }

    fn archive(file: &'a RandomAccess) -> Result<Self> {
        const DATA: &[u8] = b"data.pkl";
        let fault = |message: String| Error::new(ErrorKind::Checkpoint, message).file(file.path());
        let archive = Archive::open(file)?;
        let prefix = |name: &[u8]| {
            let prefix = name.strip_suffix(DATA)?;
            (prefix.is_empty() || prefix.ends_with(b"/")).then(|| prefix.to_vec())
        };
        let mut prefixes = archive.names().filter_map(prefix);
        let (first, second) = (prefixes.next(), prefixes.next());
        drop(prefixes);
        let (Some(prefix), None) = (first, second.as_ref()) else {
            let found = if second.is_some() { "several entries" } else { "no entry" };
            return Err(fault(format!("the archive contains {found} data.pkl, expected one")));
        };
        let named = |name: &[u8]| archive.range(&[&prefix, name].concat());
        if named(b"constants.pkl")?.is_some() {
            let message = "found a program (TorchScript), expected a state dictionary";
            return Err(Error::new(ErrorKind::Unsupported, message).file(file.path()));
        }
        let range = named(DATA)?.unwrap_or_default();
        let end = range.end;
        let pickle = Pickle::read(file, range)?;
        if pickle.end != end {
            let message = format!(
                "offset {:#x}: the pickle ends, but its entry ends at {end:#x}",
                pickle.end
            );
            return Err(fault(message));
        }
        let endian = match named(b"byteorder")? {
            None => Endian::Little,
            Some(range) => {
                let mut order = [0; 8];
                let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                let known = order.get_mut(..len);
                match known {
                    Some(own) => file.read_at(range.start, own)?,
                    None => order = [b'?'; 8],
                }
                match order.get(..len) {
                    Some(b"little") => Endian::Little,
                    Some(b"big") => Endian::Big,
                    _ => {
                        let message = format!(
                            "offset {:#x}: entry byteorder is {:?}, expected little or big",
                            range.start,
                            RawStr::new(order.get(..len).unwrap_or(&order))
                        );
                        return Err(fault(message));
                    }
                }
            }
        };
        Ok(Self { file, pickle, endian, form: Form::Archive { archive, prefix } })
    }

    /// Opens a stream: pickles of a magic number, a version, system information, the state
    /// dictionary and the keys of its storages; then the storages in that order.
    fn stream(file: &'a RandomAccess) -> Result<Self> {
        let fault = |offset: u64, message: &str| {
            let message = format!("offset {offset:#x}: {message}");
            Error::new(ErrorKind::Checkpoint, message).file(file.path())
        };
        let read = |start: u64| Pickle::read(file, start..file.len());
        let magic = read(0)?;
        if !matches!(magic.root, Value::Long(number) if number.resolve(&magic.bytes) == MAGIC) {
            let found = magic.objects.describe(magic.root);
            let message = format!(
                "the first pickle is {found}, expected the number with which PyTorch files begin"
            );
            return Err(fault(0, &message));
        }
        let version = read(magic.end)?;
        if !matches!(version.root, Value::Int(VERSION)) {
            let found = version.objects.describe(version.root);
            return Err(fault(magic.end, &format!("version {found}, expected {VERSION}")));
        }
        let system = read(version.end)?;
        let pickle = read(system.end)?;
        let keys = read(pickle.end)?;
        let Some(Node::List(listed)) = keys.objects.node(keys.root) else {
            let found = keys.objects.describe(keys.root);
            return Err(fault(pickle.end, &format!("{found}, expected the list of storages")));
        };
        // The stream has the element count of each storage; the pickle has the element size.
        let mut storages = BTreeMap::new();
        for node in &pickle.objects.nodes {
            if let Node::Storage(storage) = node {
                storages.insert(storage.key.resolve(&pickle.bytes), *storage);
            }
        }
        let mut ranges = BTreeMap::new();
        let mut offset = keys.end;
        for &key in listed {
            let name = keys.text(key).unwrap_or_default();
            let Some(storage) = storages.get(name) else {
                let message = format!(
                    "storage {:?} is in the list of storages, but not used by any tensor",
                    RawStr::new(name)
                );
                return Err(fault(pickle.end, &message));
            };
            let mut count = [0; 8];
            file.read_at(offset, &mut count)?;
            let count = u64::from_le_bytes(count);
            let start = offset.saturating_add(8);
            let bytes = count.checked_mul(storage.unit());
            let end = bytes.and_then(|bytes| start.checked_add(bytes));
            let Some(end) = end.filter(|&end| end <= file.len()) else {
                let message = format!(
                    "storage {:?} has {count} elements of {} bytes, but {} bytes remain, perhaps \
                     because of an incomplete download",
                    RawStr::new(name),
                    storage.unit(),
                    file.len().saturating_sub(start)
                );
                return Err(fault(offset, &message));
            };
            if ranges.insert(name.to_vec(), start..end).is_some() {
                let message = format!("storage {:?} is a duplicate in the list", RawStr::new(name));
                return Err(fault(pickle.end, &message));
            }
            offset = end;
        }
        Ok(Self { file, pickle, endian: Endian::Little, form: Form::Stream(ranges) })
    }

    /// Returns the range of a storage in the file. Fails if the file has fewer bytes than the
    /// pickle states.
    pub(super) fn storage(&self, storage: &Storage) -> Result<Range<u64>> {
        let key = storage.key.resolve(&self.pickle.bytes);
        let fault = |message: String| {
            let message = format!("storage {:?}: {message}", RawStr::new(key));
            Error::new(ErrorKind::Checkpoint, message).file(self.file.path())
        };
        let found = match &self.form {
            Form::Archive { archive, prefix } => {
                archive.range(&[prefix, &b"data/"[..], key].concat())?
            }
            Form::Stream(ranges) => ranges.get(key).cloned(),
        };
        let range = found.ok_or_else(|| fault("is not in the file".to_owned()))?;
        let (len, needed) = (range.end - range.start, storage.whole.saturating_mul(storage.unit()));
        if len < needed {
            return Err(fault(format!(
                "offset {:#x}: {len} bytes, expected {needed}",
                range.start
            )));
        }
        let start = range.start.saturating_add(storage.offset.saturating_mul(storage.unit()));
        Ok(start..range.end)
    }
}

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

/// Limit for the central directory in bytes, equal to that of a safetensors header.
const MAX_DIRECTORY: u64 = 100_000_000;
/// The maximum length of the comment at the end.
const MAX_COMMENT: usize = 0xffff;

/// A zip archive as PyTorch writes it: entries are not compressed, so that their bytes are ranges
/// of the file. Only the central directory and the headers of requested entries are read.
#[derive(Debug)]
struct Archive<'a> {
    file: &'a RandomAccess,
    entries: BTreeMap<Vec<u8>, Entry>,
    /// The offset of the central directory, which follows all data.
    directory: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    method: u16,
    is_encrypted: bool,
    packed: u64,
    size: u64,
    /// The offset of its local header.
    header: u64,
}

impl<'a> Archive<'a> {
    /// Returns `true` if a file begins like an archive.
    fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(LOCAL)
    }

    /// Reads the central directory.
    fn open(file: &'a RandomAccess) -> Result<Self> {
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
            let (name, entry, after) = Entry::parse(rest).map_err(|what| fault(offset, &what))?;
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

    /// Returns the names of the entries, sorted.
    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.keys().map(Vec::as_slice)
    }

    /// Returns the range of an entry's bytes; `None` if there is no such entry.
    fn range(&self, name: &[u8]) -> Result<Option<Range<u64>>> {
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

/// The end record of an archive, which locates the central directory.
struct End {
    /// The offset of the end record.
    offset: u64,
    count: u64,
    start: u64,
    size: u64,
}

impl End {
    fn find(file: &RandomAccess) -> Result<Self> {
        let max_len = (MAX_COMMENT + END_LEN + LOCATOR_LEN) as u64;
        let len = file.len().min(max_len);
        let base = file.len() - len;
        let mut tail = zeroed(usize::try_from(len).unwrap_or(usize::MAX))?;
        file.read_at(base, &mut tail)?;
        // The comment follows the end record and ends the file.
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
            this = Self::zip64(file, u64_at(locator, 8))?;
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

    /// Reads the zip64 end record.
    fn zip64(file: &RandomAccess, offset: u64) -> Result<Self> {
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
    /// Parses the entry at the beginning of `bytes`. Returns its name, the entry, and the remaining
    /// bytes.
    fn parse(bytes: &[u8]) -> Result<(&[u8], Self, &[u8]), &'static str> {
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
        // The zip64 field (ID 1) has the 64-bit values of fields that are 0xffffffff, in this
        // order.
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
