use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};

use crate::error::{Error, ErrorKind, Result};
use crate::source::{Checkpoint, SourceTensor};

/// Tensors in memory, as a source: for weights that a program has made, and for tests.
///
/// ```
/// use ggmill_core::{GgmlType, Shape};
/// use ggmill_pipeline::{Expression, MemorySource};
/// let mut source = MemorySource::new();
/// source.add("a", GgmlType::I8, Shape::new(&[3])?, vec![1, 2, 3])?;
/// assert_eq!(Expression::named(&source, "a")?.evaluate(&source, 1..3)?, [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    tensors: Vec<SourceTensor>,
    data: Vec<Arc<[u8]>>,
}

impl MemorySource {
    /// Without tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor whose bytes are in stored order, little-endian, and says which number it has.
    /// Fails when they are not as many as the shape takes.
    pub fn add(
        &mut self,
        name: impl Into<Vec<u8>>,
        ggml_type: GgmlType,
        shape: Shape,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<usize> {
        let (name, bytes) = (name.into(), bytes.into());
        let expected = ggml_type.layout().and_then(|layout| layout.bytes_for(shape.elements()));
        if expected != Some(bytes.len() as u64) {
            let message =
                format!("{} bytes, which is not the size of {shape} of {ggml_type}", bytes.len());
            return Err(Error::new(ErrorKind::Misuse, message).tensor(&name));
        }
        self.tensors.push(SourceTensor::new(name, ggml_type, shape));
        self.data.push(bytes);
        Ok(self.data.len() - 1)
    }
}

impl Checkpoint for MemorySource {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let data = self
            .data
            .get(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| data.get(start..start.checked_add(out.len())?));
        out.copy_from_slice(bytes.ok_or_else(|| {
            Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor")
                .tensor(&self.tensors[number].name)
        })?);
        Ok(())
    }
}
