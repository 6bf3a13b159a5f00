use std::collections::BTreeMap;

use crate::Result;
use ggmill_io::RandomAccess;

use super::read_json;
use crate::formats::json::unique;

/// Bytes of an index: the most that a header of safetensors may have.
const MAX_INDEX: u64 = 100_000_000;

/// The list of which tensor is in which file. Other entries are skipped without taking memory.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Index {
    /// Names of tensors with the names of their files.
    #[serde(rename = "weight_map", deserialize_with = "unique")]
    pub(super) files: BTreeMap<String, String>,
}

impl Index {
    pub(super) fn read(file: &RandomAccess) -> Result<Self> {
        read_json(file, MAX_INDEX)
    }

    /// The files, in the order of their names.
    pub(super) fn file_names(&self) -> Vec<String> {
        let mut files: Vec<String> = self.files.values().cloned().collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}
