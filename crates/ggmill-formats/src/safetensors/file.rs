use std::path::Path;

use ggmill_core::{Endian, GgmlType, Shape};
use ggmill_io::RandomAccess;
use safetensors::tensor::{Dtype, TensorInfo};

use super::header::header;
use super::write::{RAW_KEY, raw_tensors};
use ggmill_pipeline::{Checkpoint, FileRange, SourceTensor};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// One `.safetensors` file by itself: its tensors in the order of their names. Bytes of blocks that
/// [`extract_safetensors`](crate::extract_safetensors) wrote are what they were.
#[derive(Debug)]
pub struct SafetensorsFile {
    pub(super) file: RandomAccess,
    pub(super) tensors: Vec<SourceTensor>,
    /// For each tensor where in the file its data begin, and their length.
    pub(super) places: Vec<(u64, u64)>,
}

impl SafetensorsFile {
    /// Opens a file. Fails when it is none of safetensors or only the beginning of one, and for
    /// elements that GGUF does not have.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(RandomAccess::open(path)?)
    }

    pub(super) fn new(file: RandomAccess) -> Result<Self> {
        let (metadata, data_start) = header(&file)?;
        let noted = metadata.metadata().as_ref().and_then(|entries| entries.get(RAW_KEY));
        let raw = raw_tensors(noted.map(String::as_str));
        let mut names = metadata.offset_keys();
        names.sort_unstable();
        let (mut tensors, mut places) =
            (Vec::with_capacity(names.len()), Vec::with_capacity(names.len()));
        for name in names {
            let Some(info) = metadata.info(&name) else { continue };
            let (ggml_type, shape) =
                element(info, raw.get(&name)).map_err(|error| error.tensor(&name))?;
            places.push((
                data_start + info.data_offsets.0 as u64,
                (info.data_offsets.1 - info.data_offsets.0) as u64,
            ));
            tensors.push(SourceTensor::new(name, ggml_type, shape));
        }
        Ok(Self { file, tensors, places })
    }
}

impl Checkpoint for SafetensorsFile {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let &(start, size) = self
            .places
            .get(number)
            .ok_or_else(|| Error::new(ErrorKind::Misuse, "no tensor has this number"))?;
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the tensor")
                .file(self.file.path()));
        }
        Ok(self.file.read_at(start.saturating_add(offset), out)?)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        vec![&self.file]
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.places.get(number).map(|&(start, _)| FileRange::new(&self.file, start, Endian::Little))
    }
}

/// The type of a tensor: of its own type, or, when its bytes are noted to be blocks and are as many
/// as these have, of that.
fn element(info: &TensorInfo, noted: Option<&(GgmlType, Shape)>) -> Result<(GgmlType, Shape)> {
    if let Some((ggml_type, shape)) = noted.filter(|_| info.dtype == Dtype::U8) {
        let size = (info.data_offsets.1 - info.data_offsets.0) as u64;
        if ggml_type.layout().and_then(|layout| layout.bytes_for(shape.elements())) != Some(size) {
            return Err(Error::new(
                ErrorKind::Checkpoint,
                format!("{size} bytes, which are not {shape} of {ggml_type}"),
            ));
        }
        return Ok((*ggml_type, *shape));
    }
    let ggml_type = ggml_type(info.dtype).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            format!("elements of type {:?} are not converted", info.dtype),
        )
    })?;
    let dimensions: Vec<u64> = info.shape.iter().map(|&dimension| dimension as u64).collect();
    let shape = Shape::from_row_major(&dimensions)
        .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    Ok((ggml_type, shape))
}

fn ggml_type(dtype: Dtype) -> Option<GgmlType> {
    Some(match dtype {
        Dtype::F64 => GgmlType::F64,
        Dtype::F32 => GgmlType::F32,
        Dtype::F16 => GgmlType::F16,
        Dtype::BF16 => GgmlType::BF16,
        Dtype::I64 => GgmlType::I64,
        Dtype::I32 => GgmlType::I32,
        Dtype::I16 => GgmlType::I16,
        Dtype::I8 => GgmlType::I8,
        _ => return None,
    })
}
