//! The file name that metadata give a file, by the naming convention.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::{FileName, FileType, Metadata, RawStr, Split, keys};

/// Why metadata give a file no name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamingError {
    /// There is neither a base name nor a name nor an architecture.
    NoBaseName,
    /// There is no size label, and there are no tensors to count parameters of.
    NoSizeLabel,
    /// The parts make a name that does not follow the convention.
    Unconventional(String),
}

impl fmt::Display for NamingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBaseName => f.write_str(
                "general.basename, general.name and general.architecture are all missing",
            ),
            Self::NoSizeLabel => {
                f.write_str("general.size_label is missing, and there are no tensors to count")
            }
            Self::Unconventional(name) => write!(
                f,
                "the metadata results in {:?}, which does not follow the convention",
                RawStr::from(name.as_str())
            ),
        }
    }
}

impl core::error::Error for NamingError {}

/// The file name that metadata give a file: base name, size label, fine tune, version (`v1.0` when
/// missing), encoding, type, shard.
///
/// `counted` is the size label made of the parameters ([`size_label`](crate::size_label)), which
/// replaces a missing key; without tensors there is none, and the file is a vocabulary. Text from
/// the metadata is reduced to letters, digits, dots, underscores and hyphens, so that no name leads
/// to another directory.
///
/// ```
/// use ggmill_core::{Builder, Gguf, MetadataBuf, suggested_file_name};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// metadata.set("general.name", "Tiny Stories");
/// metadata.set("general.file_type", 7u32);
/// let file = Gguf::parse(Builder::new().metadata(metadata).plan()?.header().to_vec())?;
/// assert_eq!(suggested_file_name(&file.metadata(), Some("8B".into()), None)?, "Tiny-Stories-8B-v1.0-Q8_0.gguf");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn suggested_file_name(
    metadata: &Metadata<'_>,
    counted: Option<String>,
    split: Option<Split>,
) -> Result<String, NamingError> {
    let is_vocabulary = counted.is_none();
    let text = |key: &str| metadata.str(key).ok().map(str::trim).filter(|text| !text.is_empty());
    let plain = |text: &str| {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' })
            .collect::<String>()
    };
    let words = |text: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join("-")
    };
    let base = [keys::GENERAL_BASENAME, keys::GENERAL_NAME, keys::GENERAL_ARCHITECTURE]
        .into_iter()
        .find_map(text);
    let mut name = String::new();
    let kind = text(keys::GENERAL_TYPE);
    if kind == Some("mmproj") {
        name.push_str("mmproj-");
    }
    let base = base.map(words).filter(|base| !base.is_empty());
    name.push_str(&base.ok_or(NamingError::NoBaseName)?);
    let size = text(keys::GENERAL_SIZE_LABEL).map(plain).or(counted);
    let size = size.ok_or(NamingError::NoSizeLabel)?;
    let mut push = |part: &str| {
        name.push('-');
        name.push_str(part);
    };
    push(&size);
    if let Some(fine_tune) = text(keys::GENERAL_FINETUNE) {
        push(&words(fine_tune));
    }
    let version = text(keys::GENERAL_VERSION).map_or_else(|| "v1.0".to_owned(), plain);
    push(&if version.starts_with('v') { version } else { format!("v{version}") });
    if let Some(encoding) = metadata
        .u32(keys::GENERAL_FILE_TYPE)
        .ok()
        .and_then(|number| FileType(number).name())
        .filter(|_| !is_vocabulary)
    {
        push(encoding);
    }
    match kind {
        Some("adapter") => push("LoRA"),
        _ if is_vocabulary => push("vocab"),
        _ => {}
    }
    if let Some(split) = split {
        push(&format!("{:05}-of-{:05}", split.number.saturating_add(1), split.count));
    }
    name.push_str(".gguf");
    if FileName::parse(&name).is_some() { Ok(name) } else { Err(NamingError::Unconventional(name)) }
}
