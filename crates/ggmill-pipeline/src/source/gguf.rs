use std::path::Path;

use ggmill_core::{Endian, GgmlType, Metadata, Tensor};
use ggmill_io::{GgufFile, Model, RandomAccess};

use crate::error::{Error, ErrorKind, Result};
use crate::source::{Checkpoint, FileRange, SourceTensor};

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

    /// A model that is open already. Fails for a tensor whose type has no known size.
    pub fn new(model: Model) -> Result<Self> {
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
        let &(shard, start, size) = self.places.get(number).ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor").tensor(&self.tensors[number].name));
        }
        let file = &self.model.shards()[shard];
        match file.index().endian() {
            Endian::Little => Ok(file.read_at(start.saturating_add(offset), out)?),
            Endian::Big => read_swapped(file, self.tensors[number].ggml_type, start, offset, out).map_err(|error| error.tensor(&self.tensors[number].name)),
        }
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        self.model.shards().iter().map(GgufFile::file).collect()
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        let &(shard, start, _) = self.places.get(number)?;
        let file = self.model.shards().get(shard)?;
        Some(FileRange::new(file.file(), start, file.index().endian()))
    }
}

/// Reads from big-endian data what little-endian data would have at the same place: the blocks around it, turned.
fn read_swapped(file: &GgufFile, ggml_type: GgmlType, start: u64, offset: u64, out: &mut [u8]) -> Result<()> {
    let unsupported = |error| Error::caused(ErrorKind::Unsupported, error);
    let block = ggml_type.layout().map_or(1, |layout| u64::from(layout.bytes));
    let before = offset % block;
    if before == 0 && (out.len() as u64).is_multiple_of(block) {
        file.read_at(start.saturating_add(offset), out)?;
        return ggmill_quant::swap_bytes(ggml_type, out).map_err(unsupported);
    }
    let too_large = |_| Error::new(ErrorKind::Unsupported, "a block does not fit into memory");
    let len = usize::try_from(before.saturating_add(out.len() as u64).next_multiple_of(block)).map_err(too_large)?;
    let mut blocks = vec![0; len];
    file.read_at(start.saturating_add(offset - before), &mut blocks)?;
    ggmill_quant::swap_bytes(ggml_type, &mut blocks).map_err(unsupported)?;
    let before = usize::try_from(before).map_err(too_large)?;
    out.copy_from_slice(&blocks[before..before + out.len()]);
    Ok(())
}
