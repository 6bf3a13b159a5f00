use std::path::Path;

use ggmill_core::{Endian, GgmlType, Shape};
use ggmill_io::RandomAccess;

use crate::{Checkpoint, FileRange, SourceTensor};
use crate::{Error, ErrorKind, Result};

/// The longest header that is read: a description of one array.
const MAX_HEADER_LEN: u32 = 1 << 16;

/// A file of NumPy (`.npy`) with one array, as a checkpoint of one tensor.
#[derive(Debug)]
pub struct Numpy {
    file: RandomAccess,
    tensor: [SourceTensor; 1],
    start: u64,
    size: u64,
}

impl Numpy {
    /// Opens a file; its array gets this name. An array of `uint8` holds the bytes of a tensor's
    /// blocks, of which `blocks_of` tells type and shape.
    ///
    /// Fails for arrays in Fortran order or big-endian, of types that GGUF does not have, and for
    /// bytes of unknown types or that are not as many as they should be.
    pub fn open(
        path: impl AsRef<Path>,
        name: impl Into<Vec<u8>>,
        blocks_of: impl FnOnce(&[u8]) -> Option<(GgmlType, Shape)>,
    ) -> Result<Self> {
        let file = RandomAccess::open(path)?;
        let (text, start) = header(&file)?;
        let bad = |message: &str| Error::new(ErrorKind::Checkpoint, message).file(file.path());
        let array =
            Array::parse(&text).ok_or_else(|| bad("its header is not a valid NumPy header"))?;
        if array.fortran_order && array.dimensions.len() > 1 {
            return Err(bad("is in Fortran order; convert it with numpy.ascontiguousarray"));
        }
        let name = name.into();
        let (ggml_type, shape) = match array.descr.as_str() {
            "|u1" => blocks_of(&name).ok_or_else(|| {
                bad(
                    "contains bytes of unknown type: there is no tensor with this name to take the \
                     type and shape from",
                )
            })?,
            descr => {
                let unsupported = || {
                    Error::new(
                        ErrorKind::Unsupported,
                        format!("elements of type {descr:?} are not supported"),
                    )
                    .file(file.path())
                };
                let ggml_type = ggml_type(descr).ok_or_else(unsupported)?;
                (
                    ggml_type,
                    Shape::from_row_major(&array.dimensions).map_err(|error| {
                        Error::caused(ErrorKind::Checkpoint, error).file(file.path())
                    })?,
                )
            }
        };
        let size = ggml_type
            .layout()
            .and_then(|layout| layout.bytes_for(shape.elements()))
            .ok_or_else(|| bad("does not consist of complete blocks"))?;
        if file.len() - start != size {
            return Err(bad(&format!(
                "{} bytes of data, expected {size} for {shape} of {ggml_type}",
                file.len() - start
            )));
        }
        Ok(Self { tensor: [SourceTensor::new(name, ggml_type, shape)], start, size, file })
    }
}

impl Checkpoint for Numpy {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensor
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        if number != 0 || offset.checked_add(out.len() as u64).is_none_or(|end| end > self.size) {
            return Err(Error::new(ErrorKind::Misuse, "reads beyond the data of the array")
                .file(self.file.path()));
        }
        Ok(self.file.read_at(self.start.saturating_add(offset), out)?)
    }

    fn sources(&self) -> Vec<&RandomAccess> {
        vec![&self.file]
    }

    fn range(&self, number: usize) -> Option<FileRange<'_>> {
        (number == 0).then(|| FileRange::new(&self.file, self.start, Endian::Little))
    }
}

/// The text of the header, and where the data begins.
fn header(file: &RandomAccess) -> Result<(String, u64)> {
    let bad = || Error::new(ErrorKind::Checkpoint, "is not a NumPy file").file(file.path());
    let mut start = [0; 8];
    if file.len() < 12 {
        return Err(bad());
    }
    file.read_at(0, &mut start)?;
    let (before, len) = match start {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _] => {
            let mut len = [0; 2];
            file.read_at(8, &mut len)?;
            (10, u32::from(u16::from_le_bytes(len)))
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _] => {
            let mut len = [0; 4];
            file.read_at(8, &mut len)?;
            (12, u32::from_le_bytes(len))
        }
        _ => return Err(bad()),
    };
    if len > MAX_HEADER_LEN || before + u64::from(len) > file.len() {
        return Err(bad());
    }
    let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_at(before, &mut text)?;
    Ok((String::from_utf8(text).map_err(|_| bad())?, before + u64::from(len)))
}

/// A header: a Python dictionary of three entries.
#[derive(Debug, PartialEq, Eq)]
struct Array {
    descr: String,
    fortran_order: bool,
    dimensions: Vec<u64>,
}

impl Array {
    fn parse(text: &str) -> Option<Self> {
        let after = |key: &str| {
            let (_, rest) = text
                .split_once(&format!("'{key}':"))
                .or_else(|| text.split_once(&format!("\"{key}\":")))?;
            Some(rest.trim_start())
        };
        let descr = after("descr")?.strip_prefix(['\'', '"'])?;
        let (descr, _) = descr.split_once(['\'', '"'])?;
        let order = after("fortran_order")?;
        let fortran_order = order.starts_with("True");
        if !fortran_order && !order.starts_with("False") {
            return None;
        }
        let (dimensions, _) = after("shape")?.strip_prefix('(')?.split_once(')')?;
        let parts = dimensions.split(',').map(str::trim).filter(|part| !part.is_empty());
        // Python 2 wrote long integers with an L.
        let dimensions =
            parts.map(|part| part.trim_end_matches('L').parse().ok()).collect::<Option<_>>()?;
        Some(Self { descr: descr.to_owned(), fortran_order, dimensions })
    }
}

fn ggml_type(descr: &str) -> Option<GgmlType> {
    Some(match descr {
        "<f8" => GgmlType::F64,
        "<f4" => GgmlType::F32,
        "<f2" => GgmlType::F16,
        "<i8" => GgmlType::I64,
        "<i4" => GgmlType::I32,
        "<i2" => GgmlType::I16,
        "|i1" => GgmlType::I8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Array;

    #[test]
    fn headers_as_they_occur() {
        let array = |descr: &str, fortran_order, dimensions: &[u64]| {
            Some(Array { descr: descr.into(), fortran_order, dimensions: dimensions.to_vec() })
        };
        assert_eq!(
            Array::parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n"),
            array("<f4", false, &[3, 4])
        );
        assert_eq!(
            Array::parse("{'shape': (3L,), 'fortran_order': True, 'descr': '|u1'}"),
            array("|u1", true, &[3])
        );
        assert_eq!(
            Array::parse("{\"descr\":\"<f2\",\"fortran_order\":False,\"shape\":()}"),
            array("<f2", false, &[])
        );
        for text in [
            "",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': No, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        ] {
            assert_eq!(Array::parse(text), None, "{text}");
        }
    }
}
