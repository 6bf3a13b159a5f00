//! Where a PyTorch file has its pickle and its storages.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::{Error, ErrorKind, Result};
use ggmill_core::{Endian, RawStr};
use ggmill_io::RandomAccess;

use super::object::{Node, Storage, Value};
use super::pickle::Pickle;
use super::zip::Archive;

/// What the first pickle of the form from before PyTorch 1.6 has near its beginning:
/// 0x1950a86a20f9469cfc6c.
const MAGIC: &[u8] = b"l\xfc\x9cF\xf9 j\xa8P\x19";
/// The opcode that a pickle begins with: its protocol follows.
const PICKLE: u8 = 0x80;
/// The version of that form; there is no other.
const VERSION: i64 = 1001;

/// Whether a file begins as one of PyTorch does.
pub(super) fn begins(file: &RandomAccess) -> bool {
    let mut beginning = [0; 32];
    file.read_at(0, &mut beginning).is_ok()
        && (Archive::begins(&beginning)
            || beginning[0] == PICKLE && beginning.windows(MAGIC.len()).any(|part| part == MAGIC))
}

/// A PyTorch file taken apart.
pub(super) struct Container<'a> {
    file: &'a RandomAccess,
    /// What it says about the tensors.
    pub(super) pickle: Pickle,
    /// The byte order of the storages.
    pub(super) endian: Endian,
    form: Form<'a>,
}

enum Form<'a> {
    Archive {
        archive: Archive<'a>,
        /// What the names of all entries begin with.
        prefix: Vec<u8>,
    },
    /// The bytes of each storage.
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

    /// Pickles one after the other: a magic number, a version, what the machine was, the object,
    /// the keys of its storages; then the storages in that order.
    fn stream(file: &'a RandomAccess) -> Result<Self> {
        let fault = |offset: u64, message: &str| {
            let message = format!("offset {offset:#x}: {message}");
            Error::new(ErrorKind::Checkpoint, message).file(file.path())
        };
        let read = |start: u64| Pickle::read(file, start..file.len());
        let magic = read(0)?;
        if !matches!(magic.root, Value::Long(number) if number.of(&magic.bytes) == MAGIC) {
            let found = magic.objects.shown(magic.root);
            let message = format!(
                "the first pickle is {found}, expected the number with which PyTorch files begin"
            );
            return Err(fault(0, &message));
        }
        let version = read(magic.end)?;
        if !matches!(version.root, Value::Int(VERSION)) {
            let found = version.objects.shown(version.root);
            return Err(fault(magic.end, &format!("version {found}, expected {VERSION}")));
        }
        let system = read(version.end)?;
        let pickle = read(system.end)?;
        let keys = read(pickle.end)?;
        let Some(Node::List(listed)) = keys.objects.node(keys.root) else {
            let found = keys.objects.shown(keys.root);
            return Err(fault(pickle.end, &format!("{found}, expected the list of storages")));
        };
        // Elements are counted, and only what describes them says how large they are.
        let mut storages = BTreeMap::new();
        for node in &pickle.objects.nodes {
            if let Node::Storage(storage) = node {
                storages.insert(storage.key.of(&pickle.bytes), *storage);
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

    /// The bytes in the file of a storage. Fails where the file has fewer than it says.
    pub(super) fn storage(&self, storage: &Storage) -> Result<Range<u64>> {
        let key = storage.key.of(&self.pickle.bytes);
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
