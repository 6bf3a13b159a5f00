//! The header parser, which can be resumed when more bytes are available.

use alloc::vec::Vec;

use crate::bytes::{Cursor, Encoding, Stop};
use crate::error::{Detail, Error, ErrorKind, Result};
use crate::header::{Index, MetadataEntry, Span, TensorEntry};
use crate::limits::{try_push, try_reserve};
use crate::read::layout::{self, OnFault};
use crate::value::{ArraySkip, array_head};
use crate::{Endian, GgmlType, Limits, Shape, ValueType};

/// The state of parsing a header. Each call receives all bytes from the start of the file and resumes where the
/// last one stopped, even within an array.
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
    /// Offsets are relative to the data until [`Parser::finish`] computes the data offset.
    tensors: Vec<TensorEntry>,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    Magic,
    Entries,
    /// Within an array: the key of its entry, the offset of the value, and the progress in it.
    Array {
        key: Span,
        value: u64,
        skip: ArraySkip,
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

    /// Parses until the end of the header or of `bytes`, which begins at the start of the file.
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
                    self.entry(&mut cursor).map_err(|stop| with_offset(stop, key_at))?;
                    self.position = cursor.position();
                }
                Stage::Array { key, value, skip } => {
                    let result = skip.advance(
                        &mut cursor,
                        self.limits.string_bytes,
                        self.limits.array_elements,
                        self.limits.array_depth,
                    );
                    self.position = cursor.position();
                    let key = *key;
                    result.map_err(|stop| with_key(stop, key.of(bytes)))?;
                    let value = Span::new(*value..self.position);
                    try_push(
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
                    try_push(&mut self.tensors, tensor)?;
                    self.position = cursor.position();
                }
                Stage::Done => return Ok(()),
            }
        }
    }

    /// Parses magic, version and counts.
    fn magic(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let magic = cursor.take(4, "magic")?;
        self.swapped_magic = magic == b"FUGG";
        if magic != b"GGUF" && !self.swapped_magic {
            let found = magic.try_into().unwrap_or_default();
            return Err(Error::new(ErrorKind::NotGguf, Detail::Magic { found }).at(0).into());
        }
        // No version has reached 65,536, so the half of the field that is zero tells the byte
        // order. If the counts were not available on the first call, the byte order found then must
        // not be applied to this field.
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
        // The minimum size of a tensor info (an empty name, no dimensions, type, offset) and of an
        // entry (an empty key, type, one byte).
        check_count(
            "tensors",
            self.tensor_count,
            length.saturating_add(16),
            self.limits.tensors,
            &counts,
        )
        .map_err(|error| error.at(at))?;
        check_count(
            "metadata entries",
            self.entry_count,
            length.saturating_add(5),
            self.limits.entries,
            &counts,
        )
        .map_err(|error| error.at(at.saturating_add(length)))?;
        *cursor = counts;
        Ok(())
    }

    /// Parses an entry, or the beginning of one whose value is an array.
    fn entry(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        let key = cursor.string(self.limits.string_bytes, "key")?;
        let key_span =
            Span::new(cursor.position().saturating_sub(key.len() as u64)..cursor.position());
        let with_subject = |stop| with_key(stop, key.as_bytes());
        let value_type = cursor.value_type().map_err(with_subject)?;
        let value = cursor.position();
        if value_type == ValueType::ARRAY {
            let (element, elements) =
                array_head(cursor, self.limits.array_elements).map_err(with_subject)?;
            if self.limits.array_depth == 0 {
                return Err(limit("array depth", 1, 0).at(value).key(key.as_bytes()).into());
            }
            let mut skip = ArraySkip::default();
            skip.enter(element, elements);
            self.stage = Stage::Array { key: key_span, value, skip };
            return Ok(());
        }
        match value_type.fixed_size() {
            Some(size) => cursor.take(size, "value").map(|_| ()),
            None => cursor.string(self.limits.string_bytes, "string").map(|_| ()),
        }
        .map_err(with_subject)?;
        try_push(
            &mut self.entries,
            MetadataEntry { key: key_span, value_type, value: Span::new(value..cursor.position()) },
        )?;
        Ok(())
    }

    /// Parses a tensor info.
    fn tensor(&self, cursor: &mut Cursor<'_>) -> Result<TensorEntry, Stop> {
        let info = cursor.position();
        let name = cursor.string(self.limits.string_bytes, "tensor name")?;
        let name_span =
            Span::new(cursor.position().saturating_sub(name.len() as u64)..cursor.position());
        let with_subject = |stop| match stop {
            Stop::Fail(error) => Stop::Fail(error.tensor(name.as_bytes())),
            need @ Stop::Need(_) => need,
        };
        let mut fields = || {
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
        fields().map_err(with_subject)
    }

    /// Returns the length of the header after [`Parser::advance`] has returned `Ok`.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Sets the length of the file. A header that needs more is truncated.
    pub(crate) fn set_file_len(&mut self, len: u64) {
        self.file_len = Some(len);
    }

    /// Returns the number of bytes at the start of the file that can be part of the header.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.limits.header_bytes.min(self.file_len.unwrap_or(u64::MAX))
    }

    /// Returns `true` if the file begins with the magic and version of a GGUF file.
    pub(crate) fn has_version(&self) -> bool {
        self.version != 0
    }

    /// Computes the layout. `bytes` begins at the start of the file and contains the header. `fault`
    /// is called for each fault.
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

/// Returns the indices of `entries`, sorted by name and then by index.
fn sorted<T>(entries: &[T], bytes: &[u8], name_of: impl Fn(&T) -> Span) -> Result<Vec<u32>> {
    let mut indices = Vec::new();
    try_reserve(&mut indices, entries.len())?;
    indices.extend((0..entries.len()).filter_map(|index| u32::try_from(index).ok()));
    let key = |index: &u32| {
        entries.get(*index as usize).map_or(&[][..], |entry| name_of(entry).of(bytes))
    };
    indices.sort_unstable_by(|a, b| key(a).cmp(key(b)).then(a.cmp(b)));
    Ok(indices)
}

fn check_count(
    what: &'static str,
    count: u64,
    least: u64,
    limit_of: u64,
    cursor: &Cursor<'_>,
) -> Result<()> {
    cursor.check_room(what, count, least)?;
    if count > limit_of {
        return Err(limit(what, count, limit_of));
    }
    Ok(())
}

fn limit(what: &'static str, found: u64, limit: u64) -> Error {
    Error::new(ErrorKind::Limit, Detail::Limit { what, found, limit })
}

fn with_offset(stop: Stop, offset: u64) -> Stop {
    match stop {
        Stop::Fail(error) => Stop::Fail(error.at(offset)),
        need @ Stop::Need(_) => need,
    }
}

fn with_key(stop: Stop, key: &[u8]) -> Stop {
    match stop {
        Stop::Fail(error) => Stop::Fail(error.key(key)),
        need @ Stop::Need(_) => need,
    }
}
