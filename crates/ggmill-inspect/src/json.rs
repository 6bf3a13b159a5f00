//! The report as JSON: the schema `ggmill.inspect/1`, described in `docs/formats/inspect.md`.

use std::collections::HashSet;
use std::io::{self, Write};

use ggmill_core::{Entry, Model, Tensor};
use ggmill_text::LosslessStr;
use serde::Serialize;
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _, Serializer};

use crate::values::{ElementLimit, LosslessValue, serialize_array_entries};
use crate::{Selection, Summary, file_name};

/// The name of the schema. Its number changes with incompatible changes.
pub const SCHEMA: &str = "ggmill.inspect/1";

/// The number of elements that are written of each array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the beginning or all")]
pub enum Arrays {
    /// The first eight elements.
    Shortened,
    /// Every element.
    Full,
}

impl Arrays {
    pub(crate) fn limit(self) -> ElementLimit {
        ElementLimit(match self {
            Self::Shortened => 8,
            Self::Full => u64::MAX,
        })
    }
}

/// Writes the report: one JSON object with each metadata entry and each tensor on its own line, and
/// a line break at the end.
///
/// Memory is constant: arrays of any length are decoded while they are written. Fails if `out` fails or
/// the file changed since it was opened.
pub fn write(
    out: &mut dyn Write,
    model: &Model,
    selection: &Selection,
    arrays: Arrays,
) -> io::Result<()> {
    let document = Document { model, selection, limit: arrays.limit() };
    document.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, Lines::new()))?;
    out.write_all(b"\n")
}

struct Document<'a> {
    model: &'a Model,
    selection: &'a Selection,
    limit: ElementLimit,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let header = self.model.header();
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("schema", SCHEMA)?;
        object.serialize_entry("version", &header.version())?;
        object.serialize_entry("endian", &format_args!("{}", header.endian()))?;
        object.serialize_entry("alignment", &header.alignment().get())?;
        object.serialize_entry("data_offset", &header.data_offset())?;
        object.serialize_entry("file_size", &self.model.file_len())?;
        object.serialize_entry("summary", &Summary::of(self.model))?;
        if self.selection.metadata {
            object.serialize_entry("metadata", &Entries(self))?;
            object.serialize_entry("metadata_by_key", &ByKey(self))?;
        }
        if self.selection.tensors {
            object.serialize_entry("tensors", &Directory(self))?;
        }
        object.serialize_entry("shards", &Shards(self.model))?;
        object.end()
    }
}

struct Entries<'a>(&'a Document<'a>);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document { model, selection, limit } = self.0;
        let mut sequence = serializer.serialize_seq(None)?;
        for entry in model.metadata().iter().filter(|entry| selection.has_key(entry.key())) {
            sequence.serialize_element(&EntryObject(entry, *limit))?;
        }
        sequence.end()
    }
}

/// The object of values by key.
struct ByKey<'a>(&'a Document<'a>);

impl Serialize for ByKey<'_> {
    /// A duplicate key has its first value, as in a lookup. Keys that are not UTF-8 are only in
    /// `metadata`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document { model, selection, limit } = self.0;
        let mut object = serializer.serialize_map(None)?;
        let mut seen = HashSet::new();
        for entry in model.metadata().iter().filter(|entry| selection.has_key(entry.key())) {
            let Ok(key) = entry.key().to_str() else { continue };
            if seen.insert(key) {
                let value = entry.value().map_err(S::Error::custom)?;
                object.serialize_entry(key, &LosslessValue(value, *limit))?;
            }
        }
        object.end()
    }
}

struct EntryObject<'a>(Entry<'a>, ElementLimit);

impl Serialize for EntryObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(entry, limit) = self;
        let value = entry.value().map_err(S::Error::custom)?;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("key", &LosslessStr(entry.key()))?;
        if let Some(array) = value.as_array() {
            serialize_array_entries::<S>(&mut object, array, *limit)?;
        } else {
            object.serialize_entry("type", entry.value_type().name().unwrap_or("unknown"))?;
            object.serialize_entry("value", &LosslessValue(value, *limit))?;
        }
        object.end()
    }
}

struct Directory<'a>(&'a Document<'a>);

impl Serialize for Directory<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document { model, selection, .. } = self.0;
        let mut sequence = serializer.serialize_seq(None)?;
        for tensor in model.tensors().iter().filter(|tensor| selection.has_name(tensor.name())) {
            sequence.serialize_element(&TensorObject(tensor))?;
        }
        sequence.end()
    }
}

struct TensorObject<'a>(Tensor<'a>);

impl Serialize for TensorObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(tensor) = self;
        let ggml_type = tensor.ggml_type();
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("name", &LosslessStr(tensor.name()))?;
        object.serialize_entry("type", &format_args!("{ggml_type}"))?;
        if ggml_type.name().is_none() {
            object.serialize_entry("type_id", &ggml_type.0)?;
        }
        object.serialize_entry("shape", tensor.shape().dimensions())?;
        object.serialize_entry("offset", &tensor.offset())?;
        object.serialize_entry("size", &tensor.size())?;
        object.serialize_entry("shard", &tensor.part())?;
        object.end()
    }
}

struct Shards<'a>(&'a Model);

impl Serialize for Shards<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        for part in self.0.parts() {
            sequence.serialize_element(&Shard {
                file: file_name(part).as_deref(),
                file_size: part.file_len(),
                data_offset: part.data_offset(),
                tensors: part.tensors().len(),
            })?;
        }
        sequence.end()
    }
}

#[derive(Serialize)]
struct Shard<'a> {
    file: Option<&'a str>,
    file_size: Option<u64>,
    data_offset: u64,
    tensors: usize,
}

/// A formatter of compact JSON with line breaks between entries, for `grep` and `diff`, and with escapes
/// in strings that are safe to print.
pub(crate) struct Lines {
    depth: usize,
    /// `true` if the innermost object or array is empty so far.
    empty: bool,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self { depth: 0, empty: true }
    }

    fn open<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        out.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        breaks_at: usize,
        bracket: &[u8],
    ) -> io::Result<()> {
        if self.depth == breaks_at && !self.empty {
            out.write_all(b"\n")?;
        }
        self.depth = self.depth.saturating_sub(1);
        self.empty = false;
        out.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        breaks_at: usize,
        first: bool,
    ) -> io::Result<()> {
        self.empty = false;
        if !first {
            out.write_all(b",")?;
        }
        if self.depth == breaks_at { out.write_all(b"\n") } else { Ok(()) }
    }
}

impl serde_json::ser::Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, 2, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, 2, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, 1, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, 1, first)
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        ggmill_text::json::write_string_fragment(out, fragment)
    }
}
