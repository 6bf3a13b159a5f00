//! The files of a tokenizer, read within limits.

use ggmill_core::RawStr;
use ggmill_pipeline::formats::{Unambiguous, json_from_slice};
use ggmill_pipeline::{Error, ErrorKind, Result, SideFiles};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Bytes of a configuration or a list of added tokens; real ones have up to a few megabytes.
const MAX_CONFIG: u64 = 16 << 20;
/// Bytes of a vocabulary; those of 262,144 tokens have about 33 million.
pub(crate) const MAX_VOCABULARY: u64 = 128 << 20;
/// Bytes of a chat template.
const MAX_TEMPLATE: u64 = 4 << 20;

/// What went wrong with a file, by its name.
pub(crate) fn fault(name: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Checkpoint, message).about(name)
}

/// A file of JSON; `None` where it is absent.
pub(crate) fn json(files: &dyn SideFiles, name: &str) -> Result<Option<Value>> {
    json_within(files, name, MAX_CONFIG)
}

/// A file of JSON as large as a vocabulary; `None` where it is absent.
pub(crate) fn document(files: &dyn SideFiles, name: &str) -> Result<Option<Value>> {
    json_within(files, name, MAX_VOCABULARY)
}

fn json_within(files: &dyn SideFiles, name: &str, limit: u64) -> Result<Option<Value>> {
    let Some(bytes) = files.read(name, limit)? else { return Ok(None) };
    let Unambiguous(value) = parse(name, &bytes)?;
    Ok(Some(value))
}

/// A vocabulary; `None` where it is absent.
pub(crate) fn vocabulary(files: &dyn SideFiles, name: &str) -> Result<Option<Vec<u8>>> {
    files.read(name, MAX_VOCABULARY)
}

/// A chat template; `None` where it is absent.
pub(crate) fn template(files: &dyn SideFiles, name: &str) -> Result<Option<String>> {
    let Some(bytes) = files.read(name, MAX_TEMPLATE)? else { return Ok(None) };
    match String::from_utf8(bytes) {
        // As Python reads text.
        Ok(text) => Ok(Some(text.replace("\r\n", "\n").replace('\r', "\n"))),
        Err(_) => Err(fault(name, "is not valid UTF-8")),
    }
}

/// The document that these bytes of a file are.
pub(crate) fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    json_from_slice(bytes).map_err(|error| {
        let what = if error.is_data() { "has unexpected content" } else { "is not valid JSON" };
        fault(name, format!("{what}: {}", RawStr::from(&*error.to_string())))
    })
}
