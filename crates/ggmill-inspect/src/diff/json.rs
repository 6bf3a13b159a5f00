//! The differences as JSON: the schema `ggmill.diff/1`, described in `docs/formats/diff.md`.

use std::io::{self, Write};

use ggmill_core::Value;
use serde::Serialize;
use serde::ser::{SerializeMap as _, SerializeSeq as _, Serializer};

use super::{DataDiff, Diff, Form, KeyDiff, NumericDiff, Placed, TensorPair};
use crate::json::Arrays;
use crate::values::LosslessValue;
use ggmill_text::LosslessStr;

/// The name of the schema. Its number changes with incompatible changes.
pub const SCHEMA: &str = "ggmill.diff/1";

/// Writes the differences between models with these names as one JSON object, with each differing key
/// and tensor on its own line. Fails if `out` fails or a file changed since it was opened.
pub fn write(
    out: &mut dyn Write,
    diff: &Diff<'_>,
    names: [&str; 2],
    arrays: Arrays,
) -> io::Result<()> {
    let document = Document { diff, names, arrays };
    document.serialize(&mut serde_json::Serializer::with_formatter(
        &mut *out,
        crate::json::Lines::new(),
    ))?;
    out.write_all(b"\n")
}

struct Document<'a> {
    diff: &'a Diff<'a>,
    names: [&'a str; 2],
    arrays: Arrays,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { diff, names, arrays } = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("schema", SCHEMA)?;
        object.serialize_entry("same", &diff.is_same())?;
        object.serialize_entry("a", &FormObject(names[0], diff.forms()[0]))?;
        object.serialize_entry("b", &FormObject(names[1], diff.forms()[1]))?;
        if let Some(keys) = diff.metadata() {
            object.serialize_entry("same_keys", &diff.same_keys())?;
            object.serialize_entry("moved_key", &diff.moved_key().map(LosslessStr))?;
            object.serialize_entry(
                "metadata",
                &List(keys.iter().map(|key| KeyObject(key, *arrays))),
            )?;
        }
        if let Some(tensors) = diff.tensors() {
            object.serialize_entry(
                "same_tensors",
                &tensors.iter().filter(|pair| pair.is_same()).count(),
            )?;
            object.serialize_entry("moved_tensor", &diff.moved_tensor().map(LosslessStr))?;
            object.serialize_entry(
                "tensors",
                &List(tensors.iter().filter(|pair| !pair.is_same()).map(TensorObject)),
            )?;
        }
        object.end()
    }
}

/// Serializes the items of an iterator.
struct List<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        self.0.clone().try_for_each(|element| sequence.serialize_element(&element))?;
        sequence.end()
    }
}

struct FormObject<'a>(&'a str, Form);

impl Serialize for FormObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(name, form) = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("file", name)?;
        object.serialize_entry("version", &form.version)?;
        object.serialize_entry("endian", &format_args!("{}", form.endian))?;
        object.serialize_entry("alignment", &form.alignment)?;
        object.serialize_entry("shards", &form.shards)?;
        object.end()
    }
}

/// Returns the kind of change.
fn change(in_a: bool, in_b: bool) -> &'static str {
    match (in_a, in_b) {
        (false, _) => "added",
        (_, false) => "removed",
        _ => "changed",
    }
}

struct KeyObject<'a>(&'a KeyDiff<'a>, Arrays);

impl Serialize for KeyObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(key, arrays) = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("key", &LosslessStr(key.key()))?;
        object.serialize_entry("change", change(key.a().is_some(), key.b().is_some()))?;
        for (side, value) in [("a", key.a()), ("b", key.b())] {
            if let Some(value) = value {
                object.serialize_entry(side, &TypedValue(*value, *arrays))?;
            }
        }
        if let Some(first) = key.first_difference() {
            object.serialize_entry("first_difference", &first)?;
        }
        object.end()
    }
}

/// A value and its type.
struct TypedValue<'a>(Value<'a>, Arrays);

impl Serialize for TypedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = LosslessValue(self.0, self.1.limit());
        if self.0.as_array().is_some() {
            return value.serialize(serializer);
        }
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("type", self.0.value_type().name().unwrap_or("unknown"))?;
        object.serialize_entry("value", &value)?;
        object.end()
    }
}

struct TensorObject<'a>(&'a TensorPair<'a>);

impl Serialize for TensorObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pair = self.0;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("name", &LosslessStr(pair.name()))?;
        object.serialize_entry("change", change(pair.a().is_some(), pair.b().is_some()))?;
        for (side, placed) in [("a", pair.a()), ("b", pair.b())] {
            if let Some(placed) = placed {
                object.serialize_entry(side, &PlacedObject(placed))?;
            }
        }
        if let Some(data) = pair.data() {
            object.serialize_entry("data", &DataObject(data))?;
        }
        object.end()
    }
}

struct PlacedObject<'a>(&'a Placed<'a>);

impl Serialize for PlacedObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tensor = &self.0.tensor;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("number", &self.0.number)?;
        object.serialize_entry("type", &format_args!("{}", tensor.ggml_type()))?;
        object.serialize_entry("shape", tensor.shape().dimensions())?;
        object.serialize_entry("size", &tensor.size())?;
        object.end()
    }
}

struct DataObject<'a>(&'a DataDiff);

impl Serialize for DataObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let DataDiff { first_byte, different_bytes, numeric } = self.0;
        let mut object = serializer.serialize_map(None)?;
        if first_byte.is_some() {
            object.serialize_entry("first_byte", first_byte)?;
            object.serialize_entry("different_bytes", different_bytes)?;
        }
        if let Some(NumericDiff { max_abs, max_at, rmse, relative, cosine, non_finite }) = numeric {
            object.serialize_entry("max_abs", max_abs)?;
            object.serialize_entry("max_at", max_at)?;
            object.serialize_entry("rmse", rmse)?;
            object.serialize_entry("relative", relative)?;
            object.serialize_entry("cosine", cosine)?;
            object.serialize_entry("non_finite", non_finite)?;
        }
        object.end()
    }
}
