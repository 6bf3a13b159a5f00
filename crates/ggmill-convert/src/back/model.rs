//! A restored checkpoint as one that can be converted.

use std::collections::BTreeMap;

use ggmill_pipeline::{Checkpoint, Derived, Pretrained, Result, SideFiles, SourceTensor};
use serde_json::Value as Json;

use super::RestoredCheckpoint;

/// A restored checkpoint whose tensors are computed as they are read.
#[derive(Debug)]
pub struct RestoredModel<'a> {
    class: String,
    tensors: Derived<'a>,
    config: Json,
    files: BTreeMap<String, Vec<u8>>,
}

impl RestoredCheckpoint {
    /// The checkpoint over the file that it came of. Fails for another file.
    pub fn over(self, file: &dyn Checkpoint) -> Result<RestoredModel<'_>> {
        let tensors = Derived::new(file, self.tensors)?;
        Ok(RestoredModel { class: self.class, tensors, config: self.config, files: self.files })
    }
}

impl Checkpoint for RestoredModel<'_> {
    fn tensors(&self) -> &[SourceTensor] {
        self.tensors.tensors()
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.tensors.read(number, offset, out)
    }
}

impl Pretrained for RestoredModel<'_> {
    fn config(&self) -> &Json {
        &self.config
    }

    /// The class: there is no directory.
    fn name(&self) -> Option<&str> {
        Some(&self.class)
    }

    fn side_files(&self) -> &dyn SideFiles {
        &self.files
    }
}
