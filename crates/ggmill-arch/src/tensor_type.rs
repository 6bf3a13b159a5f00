//! The types of tensors that do not follow the type of the file.

use std::sync::LazyLock;

use ggmill_core::GgmlType;
use serde::Deserialize;

use crate::data::Table;
use crate::error::{Error, Result, quoted};
use crate::pattern::Template;

/// The type of a tensor, where the type of the file does not decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorType {
    /// This one.
    Fixed(GgmlType),
    /// That of its first source in the checkpoint.
    OfSource,
    /// That of the file: the name alone would make it F32.
    OfFile,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepF32 {
    schema: String,
    endings: Vec<String>,
    quantized_endings: Vec<String>,
    names: Vec<String>,
}

impl Table for KeepF32 {
    const TEXT: &'static str = include_str!("../data/keep-f32.toml");
    const SCHEMA: &'static str = "ggmill.keep-f32/1";

    fn schema(&self) -> &str {
        &self.schema
    }
}

impl KeepF32 {
    /// Whether a tensor with this name, or names of this pattern, stays F32.
    pub(crate) fn has(&self, name: &str) -> bool {
        let known = |known: &String| {
            known == name || Template::parse(known).is_ok_and(|known| known.fits(name))
        };
        self.endings.iter().any(|ending| name.ends_with(ending.as_str()))
            || !self.quantized_endings.iter().any(|ending| name.ends_with(ending.as_str()))
            || self.names.iter().any(known)
    }
}

// The build script has read the same text with the same code.
static KEEP_F32: LazyLock<KeepF32> =
    LazyLock::new(|| KeepF32::read().expect("read when it was built"));

impl TensorType {
    /// The types a description may name.
    const TYPES: [(&'static str, Self); 9] = [
        ("f32", Self::Fixed(GgmlType::F32)),
        ("f16", Self::Fixed(GgmlType::F16)),
        ("bf16", Self::Fixed(GgmlType::BF16)),
        ("q8_0", Self::Fixed(GgmlType::Q8_0)),
        ("mxfp4", Self::Fixed(GgmlType::MXFP4)),
        ("i32", Self::Fixed(GgmlType::I32)),
        ("i64", Self::Fixed(GgmlType::I64)),
        ("source", Self::OfSource),
        ("file", Self::OfFile),
    ];

    /// What a description says of the type of a tensor with this name.
    pub(crate) fn of_words(text: Option<&str>, name: &str) -> Result<Option<Self>> {
        if let Some(text) = text {
            let known = Self::TYPES.iter().find(|(known, _)| *known == text);
            let (_, found) = known.ok_or_else(|| {
                let names: Vec<_> = Self::TYPES.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                Error::description(format!("type {}: expected one of {names}", quoted(text)))
            })?;
            return Ok(Some(*found));
        }
        Ok(KEEP_F32.has(name).then_some(Self::Fixed(GgmlType::F32)))
    }
}
