//! A checkpoint of zeros, in memory.

use std::collections::BTreeMap;

use ggmill_pipeline::{Checkpoint, Pretrained, Result, SideFiles, SourceTensor};
use serde_json::Value;

/// Tensors of zeros, and side files.
#[derive(Debug)]
pub(crate) struct Zeros {
    pub(crate) config: Value,
    pub(crate) tensors: Vec<SourceTensor>,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Checkpoint for Zeros {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, _: usize, _: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        Ok(())
    }
}

impl Pretrained for Zeros {
    fn config(&self) -> &Value {
        &self.config
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn side_files(&self) -> &dyn SideFiles {
        &self.files
    }
}
