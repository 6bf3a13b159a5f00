//! Types of tensors that are independent of the file type.

use std::sync::LazyLock;

use ggmill_core::GgmlType;

use crate::data::{self, table, tables};
use crate::error::{Error, Result, quoted};
use crate::language::pattern::Template;

/// The type of a tensor that the file type does not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorType {
    /// This type.
    Fixed(GgmlType),
    /// The type of its first source in the checkpoint.
    OfSource,
    /// The file type, although tensors with this name are F32 by default.
    OfFile,
    /// F16 in files of type F16, otherwise F32.
    HalfOrSingle,
}

/// The names of tensors that are F32 in all architectures.
#[derive(Debug)]
struct KeepF32 {
    endings: Vec<String>,
    quantized_endings: Vec<String>,
    names: Vec<Template>,
}

impl KeepF32 {
    /// Decodes the table. A test checks that its patterns parse.
    fn read() -> Self {
        let tables::KeepF32 { endings, quantized_endings, names, .. } = table(data::KEEP_F32);
        let pattern = |name: &String| Template::parse(name).expect("a test parses every pattern");
        Self { endings, quantized_endings, names: names.iter().map(pattern).collect() }
    }

    /// Returns `true` if a tensor with this name is F32.
    fn has(&self, name: &str) -> bool {
        self.endings.iter().any(|ending| name.ends_with(ending.as_str()))
            || !self.quantized_endings.iter().any(|ending| name.ends_with(ending.as_str()))
            || self.names.iter().any(|known| known.fits(name))
    }
}

static KEEP_F32: LazyLock<KeepF32> = LazyLock::new(KeepF32::read);

impl TensorType {
    /// The types by name in descriptions.
    const TYPES: [(&'static str, Self); 10] = [
        ("f32", Self::Fixed(GgmlType::F32)),
        ("f16", Self::Fixed(GgmlType::F16)),
        ("bf16", Self::Fixed(GgmlType::BF16)),
        ("q8_0", Self::Fixed(GgmlType::Q8_0)),
        ("mxfp4", Self::Fixed(GgmlType::MXFP4)),
        ("i32", Self::Fixed(GgmlType::I32)),
        ("i64", Self::Fixed(GgmlType::I64)),
        ("source", Self::OfSource),
        ("file", Self::OfFile),
        ("f16-or-f32", Self::HalfOrSingle),
    ];

    /// Returns the type with this name in descriptions.
    pub(crate) fn of_word(text: &str) -> Result<Self> {
        let known = Self::TYPES.iter().find(|(known, _)| *known == text);
        known.map(|(_, found)| *found).ok_or_else(|| {
            let names: Vec<_> = Self::TYPES.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            Error::description(format!("type {}: expected one of {names}", quoted(text)))
        })
    }

    /// Returns the default type of a tensor: F32 for vectors and for certain names, otherwise `None`
    /// (the file type).
    pub(crate) fn by_name(name: &str, dimensions: usize) -> Option<Self> {
        (dimensions <= 1 || KEEP_F32.has(name)).then_some(Self::Fixed(GgmlType::F32))
    }
}
