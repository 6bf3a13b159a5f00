use std::path::Path;

use ggmill_core::{Endian, Metadata, Tensor};
use ggmill_io::Model;

use crate::checkpoint::{Checkpoint, SourceTensor};
use crate::error::{Error, ErrorKind, Result};

/// A GGUF file, or all shards of a set, as a source of tensors: for whatever reshapes a model that is one already.
#[derive(Debug)]
pub struct GgufCheckpoint {
    model: Model,
    tensors: Vec<SourceTensor>,
    /// For each tensor its shard, where in that shard's file its data begin, and their length.
    places: Vec<(usize, u64, u64)>,
}

impl GgufCheckpoint {
    /// Opens a file, or a set by any of its shards.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(ggmill_io::open_model(path)?)
    }

    /// A model that is open already. Fails for a big-endian file, and for a tensor whose type has no known size.
    pub fn new(model: Model) -> Result<Self> {
        if let Some(file) = model.shards().iter().find(|file| file.index().endian() != Endian::Little) {
            return Err(Error::new(ErrorKind::Unsupported, "big-endian files are read, and not rewritten yet").file(file.path()));
        }
        let place = |(shard, tensor): (usize, Tensor<'_>)| {
            let size = tensor.size().ok_or_else(|| {
                let message = format!("{} is not known, so neither is the size of its data", tensor.ggml_type());
                Error::new(ErrorKind::Unsupported, message).tensor(tensor.name().as_bytes())
            })?;
            Ok((shard, tensor.offset(), size))
        };
        let places = model.tensors().map(place).collect::<Result<_>>()?;
        let source = |tensor: Tensor<'_>| SourceTensor::new(tensor.name().as_bytes(), tensor.ggml_type(), *tensor.shape());
        let tensors = model.tensors().map(|(_, tensor)| source(tensor)).collect();
        Ok(Self { model, tensors, places })
    }

    /// The open files.
    pub fn model(&self) -> &Model {
        &self.model
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
        let &(shard, start, size) = self.places.get(number).ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor").tensor(&self.tensors[number].name));
        }
        Ok(self.model.shards()[shard].read_at(start.saturating_add(offset), out)?)
    }
}
