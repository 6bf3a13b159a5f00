use std::path::Path;
use std::sync::Arc;

use ggmill_core::{Metadata, Model, ReadAt as _, Tensor};
use ggmill_io::RandomAccess;

use crate::error::{Error, ErrorKind, Result};
use crate::source::{Checkpoint, FileRange, SourceTensor};

/// A GGUF file, or all shards of a set, as a source of tensors: for whatever reshapes a model that
/// is one already.
#[derive(Debug)]
pub struct GgufCheckpoint {
    model: Arc<Model>,
    tensors: Vec<SourceTensor>,
    /// For each tensor its shard, where in that shard's file its data begin, and their length.
    places: Vec<(usize, u64, u64)>,
}

impl GgufCheckpoint {
    /// Opens a file, or a set by any of its shards.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(ggmill_io::open(path)?)
    }

    /// A model that is open already. Fails for a tensor whose type has no known size.
    pub fn new(model: impl Into<Arc<Model>>) -> Result<Self> {
        let model = model.into();
        let place = |tensor: Tensor<'_>| {
            let size = tensor.size().ok_or_else(|| {
                let message = format!(
                    "{} is unknown, so the size of its data is unknown too",
                    tensor.ggml_type()
                );
                Error::new(ErrorKind::Unsupported, message).tensor(tensor.name().as_bytes())
            })?;
            Ok((tensor.part(), tensor.offset(), size))
        };
        let places = model.tensors().iter().map(place).collect::<Result<_>>()?;
        let source = |tensor: Tensor<'_>| {
            SourceTensor::new(tensor.name().as_bytes(), tensor.ggml_type(), *tensor.shape())
        };
        let tensors = model.tensors().iter().map(source).collect();
        Ok(Self { model, tensors, places })
    }

    /// The open files.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Bytes of the data of tensor `number`.
    pub fn size(&self, number: usize) -> Option<u64> {
        self.places.get(number).map(|place| place.2)
    }

    /// In which shard tensor `number` is, and where in its file its data begin.
    pub fn place(&self, number: usize) -> Option<(usize, u64)> {
        self.places.get(number).map(|&(shard, offset, _)| (shard, offset))
    }

    /// The metadata of the model: those of the first shard.
    pub fn metadata(&self) -> Metadata<'_> {
        self.model.metadata()
    }
}

impl Checkpoint for GgufCheckpoint {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let tensor = self
            .model
            .tensors()
            .nth(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        self.model
            .read(&tensor, offset, out)
            .map_err(|error| Error::from(error).tensor(tensor.name().as_bytes()))
    }

    fn prefetch(&self, numbers: &[usize]) {
        let mut ranges = vec![Vec::new(); self.model.parts().len()];
        for &(part, start, size) in numbers.iter().filter_map(|&number| self.places.get(number)) {
            if let Some(ranges) = ranges.get_mut(part) {
                ranges.push(start..start.saturating_add(size));
            }
        }
        for (part, ranges) in self.model.parts().iter().zip(&ranges) {
            if let Some(source) = part.source() {
                source.prefetch(ranges);
            }
        }
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        ggmill_io::files(&self.model).collect()
    }

    fn verify(&self) -> Result<()> {
        Ok(self.model.verify()?)
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let &(part, start, _) = self.places.get(number)?;
        let part = self.model.parts().get(part)?;
        Some(FileRange::new(ggmill_io::file_of(part)?, start, part.endian()))
    }
}
