use std::path::Path;

use ggmill_core::{Endian, GgmlType, ReadAt as _, Shape};
use ggmill_io::RandomAccess;
use safetensors::tensor::{Dtype, TensorInfo};

use super::header::header;
use super::write::{RAW_KEY, raw_tensors};
use crate::{Checkpoint, FileRange, SourceTensor};
use crate::{Error, ErrorKind, Result};

/// One `.safetensors` file by itself: its tensors in the order of their names. Bytes of blocks that
/// [`extract_safetensors`](crate::formats::extract_safetensors) wrote are what they were.
#[derive(Debug)]
pub struct SafetensorsFile {
    file: RandomAccess,
    tensors: Vec<SourceTensor>,
    /// For each tensor where in the file its data begin, and their length.
    places: Vec<(u64, u64)>,
}

impl SafetensorsFile {
    /// Opens a file. Fails when it is none of safetensors or only the beginning of one. Tensors of
    /// types that GGUF does not have are listed with the type's name
    /// ([`SourceTensor::stored_type`]); those of types smaller than a byte are refused.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(RandomAccess::open(path)?)
    }

    /// The file.
    pub(crate) fn file(&self) -> &RandomAccess {
        &self.file
    }

    pub(crate) fn new(file: RandomAccess) -> Result<Self> {
        let (metadata, data_start) = header(&file)?;
        let noted = metadata.metadata().as_ref().and_then(|entries| entries.get(RAW_KEY));
        let raw = raw_tensors(noted.map(String::as_str));
        let mut names = metadata.offset_keys();
        names.sort_unstable();
        let (mut tensors, mut places) =
            (Vec::with_capacity(names.len()), Vec::with_capacity(names.len()));
        for name in names {
            let Some(info) = metadata.info(&name) else { continue };
            let (ggml_type, shape, stored_type) =
                element(info, raw.get(&name)).map_err(|error| error.tensor(&name))?;
            places.push((
                data_start + info.data_offsets.0 as u64,
                (info.data_offsets.1 - info.data_offsets.0) as u64,
            ));
            let tensor = SourceTensor::new(name, ggml_type, shape);
            tensors.push(match stored_type {
                Some(stored_type) => tensor.of_stored_type(stored_type),
                None => tensor,
            });
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

    fn prefetch(&self, numbers: &[usize]) {
        let range = |&(start, size): &(u64, u64)| start..start.saturating_add(size);
        let places = numbers.iter().filter_map(|&number| self.places.get(number));
        self.file.prefetch(&places.map(range).collect::<Vec<_>>());
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        vec![&self.file]
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        self.places.get(number).map(|&(start, _)| FileRange::new(&self.file, start, Endian::Little))
    }
}

/// The type of a tensor: of its own type, or, when its bytes are noted to be blocks and are as many
/// as these have, of that; with the name of a type that GGML does not have.
fn element(
    info: &TensorInfo,
    noted: Option<&(GgmlType, Shape)>,
) -> Result<(GgmlType, Shape, Option<&'static str>)> {
    if let Some((ggml_type, shape)) = noted.filter(|_| info.dtype == Dtype::U8) {
        let size = (info.data_offsets.1 - info.data_offsets.0) as u64;
        if ggml_type.layout().and_then(|layout| layout.bytes_for(shape.elements())) != Some(size) {
            return Err(Error::new(
                ErrorKind::Checkpoint,
                format!("{size} bytes, which is not the size of {shape} of {ggml_type}"),
            ));
        }
        return Ok((*ggml_type, *shape, None));
    }
    let (ggml_type, stored_type) = ggml_type(info.dtype).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            format!("elements of type {:?} are not supported", info.dtype),
        )
    })?;
    let dimensions: Vec<u64> = info.shape.iter().map(|&dimension| dimension as u64).collect();
    let shape = Shape::from_row_major(&dimensions)
        .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    Ok((ggml_type, shape, stored_type))
}

/// The type of the elements, or the integer type of the same size and the type's name; `None` for
/// elements smaller than a byte.
fn ggml_type(dtype: Dtype) -> Option<(GgmlType, Option<&'static str>)> {
    Some(match dtype {
        Dtype::F64 => (GgmlType::F64, None),
        Dtype::F32 => (GgmlType::F32, None),
        Dtype::F16 => (GgmlType::F16, None),
        Dtype::BF16 => (GgmlType::BF16, None),
        Dtype::I64 => (GgmlType::I64, None),
        Dtype::I32 => (GgmlType::I32, None),
        Dtype::I16 => (GgmlType::I16, None),
        Dtype::I8 => (GgmlType::I8, None),
        Dtype::BOOL => (GgmlType::I8, Some("BOOL")),
        Dtype::U8 => (GgmlType::I8, Some("U8")),
        Dtype::F8_E4M3 => (GgmlType::I8, Some("F8_E4M3")),
        Dtype::F8_E5M2 => (GgmlType::I8, Some("F8_E5M2")),
        Dtype::F8_E8M0 => (GgmlType::I8, Some("F8_E8M0")),
        Dtype::F8_E4M3FNUZ => (GgmlType::I8, Some("F8_E4M3FNUZ")),
        Dtype::F8_E5M2FNUZ => (GgmlType::I8, Some("F8_E5M2FNUZ")),
        Dtype::U16 => (GgmlType::I16, Some("U16")),
        Dtype::U32 => (GgmlType::I32, Some("U32")),
        Dtype::U64 => (GgmlType::I64, Some("U64")),
        Dtype::C64 => (GgmlType::I64, Some("C64")),
        _ => return None,
    })
}
