use alloc::vec::Vec;

use crate::bytes::{Cursor, Encoding, Stop};
use crate::endian::Endian;
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::index::{Index, MetadataEntry, Span, TensorEntry};
use crate::memory;
use crate::read::layout::{self, OnFault};
use crate::value::{ArrayWalk, array_head};
use crate::{GgmlType, Limits, Shape, ValueType};

/// The header parser. It is handed all bytes from the start of the file each time and keeps its
/// place, down to the element of an array it stopped at.
#[derive(Clone, Debug)]
pub(crate) struct Parser {
    limits: Limits,
    file_len: Option<u64>,
    position: u64,
    encoding: Encoding,
    version: u32,
    swapped_magic: bool,
    entry_count: u64,
    tensor_count: u64,
    entries: Vec<MetadataEntry>,
    /// With their offsets as the file has them, until [`Parser::finish`] knows where the data
    /// begins.
    tensors: Vec<TensorEntry>,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Magic,
    Entries,
    /// Within the array that is the value of a entry: its key, where the value starts, and the place
    /// in it.
    Array {
        key: Span,
        value: u64,
        walk: ArrayWalk,
    },
    Tensors,
    Done,
}

impl Parser {
    pub(crate) fn new(limits: &Limits, file_len: Option<u64>) -> Self {
        Self {
            limits: limits.clone(),
            file_len,
            position: 0,
            encoding: Encoding::CANONICAL,
            version: 0,
            swapped_magic: false,
            entry_count: 0,
            tensor_count: 0,
            entries: Vec::new(),
            tensors: Vec::new(),
            stage: Stage::Magic,
        }
    }

    /// Goes as far as `bytes`, which begin at the start of the file, allow.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        loop {
            let mut cursor =
                Cursor::new(bytes, self.position, self.file_len.unwrap_or(u64::MAX), self.encoding)
                    .within(self.limits.header_bytes);
            match &mut self.stage {
                Stage::Magic => {
                    self.magic(&mut cursor)?;
                    self.position = cursor.position();
                    self.stage = Stage::Entries;
                }
                Stage::Entries if self.entries.len() as u64 == self.entry_count => {
                    self.stage = Stage::Tensors;
                }
                Stage::Entries => {
                    let key_at = cursor.position();
                    self.entry(&mut cursor).map_err(|stop| placed(stop, key_at))?;
                    self.position = cursor.position();
                }
                Stage::Array { key, value, walk } => {
                    let result = walk.advance(
                        &mut cursor,
                        self.limits.string_bytes,
                        self.limits.array_elements,
                        self.limits.array_depth,
                    );
                    self.position = cursor.position();
                    let key = *key;
                    result.map_err(|stop| about_key(stop, key.of(bytes)))?;
                    let value = Span::new(*value..self.position);
                    memory::push(
                        &mut self.entries,
                        MetadataEntry { key, value_type: ValueType::ARRAY, value },
                    )?;
                    self.stage = Stage::Entries;
                }
                Stage::Tensors if self.tensors.len() as u64 == self.tensor_count => {
                    self.stage = Stage::Done;
                }
                Stage::Tensors => {
                    let tensor = self.tensor(&mut cursor)?;
                    memory::push(&mut self.tensors, tensor)?;
                    self.position = cursor.position();
                }
                Stage::Done => return Ok(()),
            }
        }
    }

    /// Magic, version, counts.
    fn magic(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let magic = cursor.take(4, "magic")?;
        self.swapped_magic = magic == b"FUGG";
        if magic != b"GGUF" && !self.swapped_magic {
            let found = magic.try_into().unwrap_or_default();
            return Err(Error::new(ErrorKind::NotGguf, Detail::Magic { found }).at(0).into());
        }
        // No version has reached 65,536, so the half of the field that is zero tells the byte
        // order. When the counts were not at hand the first time, the order found then must
        // not be applied to this field again.
        cursor.set_encoding(Encoding::CANONICAL);
        let little = cursor.u32("version")?;
        let (version, endian) = if little.trailing_zeros() >= 16 {
            (little.swap_bytes(), Endian::Big)
        } else {
            (little, Endian::Little)
        };
        if !(1..=3).contains(&version) {
            return Err(Error::new(ErrorKind::Version, Detail::Version { found: version })
                .at(4)
                .into());
        }
        self.version = version;
        self.encoding = Encoding { endian, wide: version > 1 };

        let mut counts = *cursor;
        counts.set_encoding(self.encoding);
        let at = counts.position();
        self.tensor_count = counts.length("tensor count")?;
        self.entry_count = counts.length("metadata count")?;
        let length = self.encoding.length_size();
        // The least that one of them takes: an empty key, its type and a byte; an empty name, no
        // dimensions, type and offset.
        count(
            "tensors",
            self.tensor_count,
            length.saturating_add(16),
            self.limits.tensors,
            counts.remain(),
        )
        .map_err(|error| error.at(at))?;
        count(
            "metadata entries",
            self.entry_count,
            length.saturating_add(5),
            self.limits.entries,
            counts.remain(),
        )
        .map_err(|error| error.at(at.saturating_add(length)))?;
        *cursor = counts;
        Ok(())
    }

    /// One entry, or its key and the head of its array.
    fn entry(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let key = cursor.string(self.limits.string_bytes, "key")?;
        let key_span =
            Span::new(cursor.position().saturating_sub(key.len() as u64)..cursor.position());
        let about = |stop| about_key(stop, key.as_bytes());
        let value_type = cursor.value_type().map_err(about)?;
        let value = cursor.position();
        if value_type == ValueType::ARRAY {
            let (element, elements) =
                array_head(cursor, self.limits.array_elements).map_err(about)?;
            if self.limits.array_depth == 0 {
                return Err(limit("array depth", 1, 0).at(value).key(key.as_bytes()).into());
            }
            let mut walk = ArrayWalk::default();
            walk.enter(element, elements);
            self.stage = Stage::Array { key: key_span, value, walk };
            return Ok(());
        }
        match value_type.fixed_size() {
            Some(size) => cursor.take(size, "value").map(|_| ()),
            None => cursor.string(self.limits.string_bytes, "string").map(|_| ()),
        }
        .map_err(about)?;
        memory::push(
            &mut self.entries,
            MetadataEntry { key: key_span, value_type, value: Span::new(value..cursor.position()) },
        )?;
        Ok(())
    }

    /// One tensor info.
    fn tensor(&self, cursor: &mut Cursor<'_>) -> Result<TensorEntry, Stop> {
        let info = cursor.position();
        let name = cursor.string(self.limits.string_bytes, "tensor name")?;
        let name_span =
            Span::new(cursor.position().saturating_sub(name.len() as u64)..cursor.position());
        let about = |stop| match stop {
            Stop::Fail(error) => Stop::Fail(error.tensor(name.as_bytes())),
            need @ Stop::Need(_) => need,
        };
        let mut rest = || {
            let at = cursor.position();
            let len = cursor.u32("number of dimensions")?;
            let most = self.limits.dimensions;
            let mut dimensions = [0; Shape::MAX_DIMENSIONS];
            let Some(used) = usize::try_from(len)
                .ok()
                .filter(|_| len <= most)
                .and_then(|len| dimensions.get_mut(..len))
            else {
                let most = u64::from(most).min(Shape::MAX_DIMENSIONS as u64);
                return Err(limit("dimensions", u64::from(len), most).at(at).into());
            };
            for dimension in &mut *used {
                *dimension = cursor.length("dimension")?;
            }
            let shape = Shape::new(used).map_err(|error| error.at(at))?;
            let ggml_type = GgmlType(cursor.u32("tensor type")?);
            let start = cursor.u64("tensor offset")?;
            Ok(TensorEntry { name: name_span, shape, ggml_type, info, start, size: None })
        };
        rest().map_err(about)
    }

    /// Where the header ended, when [`Parser::advance`] has returned `Ok`.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The file is known to have this length, so what needs more is cut off.
    pub(crate) fn ends_at(&mut self, len: u64) {
        self.file_len = Some(len);
    }

    /// More bytes than these are never examined.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.limits.header_bytes.min(self.file_len.unwrap_or(u64::MAX))
    }

    /// Whether the magic and the version have been read and are those of a GGUF file.
    pub(crate) fn knows_version(&self) -> bool {
        self.version != 0
    }

    /// Works out the layout. `bytes` begin at the start of the file and hold the header. What
    /// becomes of faults is for `fault` to say.
    pub(crate) fn finish(self, bytes: &[u8], fault: &mut OnFault<'_>) -> Result<Index> {
        let mut index = Index {
            version: self.version,
            encoding: self.encoding,
            swapped_magic: self.swapped_magic,
            alignment: crate::Alignment::DEFAULT,
            entries_by_key: sorted(&self.entries, bytes, |entry| entry.key)?,
            entries: self.entries,
            tensors_by_name: sorted(&self.tensors, bytes, |tensor| tensor.name)?,
            tensors: self.tensors,
            header_len: self.position,
            data_offset: self.position,
            file_len: self.file_len,
        };
        layout::lay_out(&mut index, bytes, &self.limits, fault)?;
        Ok(index)
    }
}

/// The numbers of `entries`, ordered by name, then by place.
fn sorted<T>(entries: &[T], bytes: &[u8], name_of: impl Fn(&T) -> Span) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    memory::reserve(&mut numbers, entries.len())?;
    numbers.extend((0..entries.len()).filter_map(|number| u32::try_from(number).ok()));
    let key = |number: &u32| {
        entries.get(*number as usize).map_or(&[][..], |entry| name_of(entry).of(bytes))
    };
    numbers.sort_unstable_by(|a, b| key(a).cmp(key(b)).then(a.cmp(b)));
    Ok(numbers)
}

fn count(what: &'static str, count: u64, least: u64, limit_of: u64, remain: u64) -> Result<()> {
    if count.checked_mul(least).is_none_or(|bytes| bytes > remain) {
        return Err(Error::new(ErrorKind::Truncated, Detail::Count { what, count, least, remain }));
    }
    if count > limit_of {
        return Err(limit(what, count, limit_of));
    }
    Ok(())
}

fn limit(what: &'static str, found: u64, limit: u64) -> Error {
    Error::new(ErrorKind::Limit, Detail::Limit { what, found, limit })
}

fn placed(stop: Stop, offset: u64) -> Stop {
    match stop {
        Stop::Fail(error) => Stop::Fail(error.at(offset)),
        need @ Stop::Need(_) => need,
    }
}

fn about_key(stop: Stop, key: &[u8]) -> Stop {
    match stop {
        Stop::Fail(error) => Stop::Fail(error.key(key)),
        need @ Stop::Need(_) => need,
    }
}
