//! Checkpoints whose tensor names all have one component more than the description expects.

use ggmill_io::RandomAccess;
use ggmill_pipeline::{Checkpoint, FileRange, Pretrained, Result, SideFiles, SourceTensor};
use serde_json::Value;

/// The first component of all names of a model that is an attribute of a trainer.
const ATTRIBUTE: &[u8] = b"model.";

/// A checkpoint without the first component of its tensor names.
#[derive(Debug)]
pub(crate) struct WithoutPrefix<'a> {
    checkpoint: &'a dyn Pretrained,
    tensors: Vec<SourceTensor>,
    notes: Vec<String>,
}

impl<'a> WithoutPrefix<'a> {
    /// Removes `model.` from all names; `None` if some name lacks it.
    pub(crate) fn of(checkpoint: &'a dyn Pretrained) -> Option<Self> {
        let mut tensors = checkpoint.tensors().to_vec();
        for tensor in &mut tensors {
            tensor.name = tensor.name.strip_prefix(ATTRIBUTE)?.to_vec();
        }
        let mut notes = checkpoint.notes().to_vec();
        notes.push("removed from the names of tensors: \"model.\", which all of them have".into());
        (!tensors.is_empty()).then_some(Self { checkpoint, tensors, notes })
    }
}

impl Checkpoint for WithoutPrefix<'_> {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        self.checkpoint.read(number, offset, out)
    }

    fn stored_name(&self, number: usize) -> Option<&[u8]> {
        self.checkpoint.stored_name(number)
    }

    fn prefetch(&self, numbers: &[usize]) {
        self.checkpoint.prefetch(numbers);
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.checkpoint.range(number)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.checkpoint.sources()
    }

    fn verify(&self) -> Result<()> {
        self.checkpoint.verify()
    }
}

impl Pretrained for WithoutPrefix<'_> {
    fn config(&self) -> &Value {
        self.checkpoint.config()
    }

    fn name(&self) -> Option<&str> {
        self.checkpoint.name()
    }

    fn side_files(&self) -> &dyn SideFiles {
        self.checkpoint.side_files()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}
