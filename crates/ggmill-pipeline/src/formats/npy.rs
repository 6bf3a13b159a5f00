//! NumPy files (`.npy`), read and written.

use std::fmt::Write as _;
use std::path::Path;

use ggmill_core::{Endian, GgmlType, Shape, Sink};
use ggmill_io::RandomAccess;

use crate::formats::column::{Column, Element, append, stream};
use crate::{Checkpoint, Error, ErrorKind, FileRange, Report, Result, RunOptions, SourceTensor};

/// Limit for the header, which describes a single array.
const MAX_HEADER_LEN: u32 = 1 << 16;

/// A NumPy file (`.npy`) with its array as a source of one tensor.
#[derive(Debug)]
pub struct Numpy {
    file: RandomAccess,
    tensor: [SourceTensor; 1],
    start: u64,
    size: u64,
}

impl Numpy {
    /// Opens a file; its array gets the name `name`. An array of `uint8` contains the raw blocks of
    /// a tensor, whose type and shape `blocks_of` returns.
    ///
    /// Fails for arrays in Fortran order, in big-endian order or of types that GGUF does not have,
    /// and for blocks of an unknown type or a wrong size.
    pub fn open(
        path: impl AsRef<Path>,
        name: impl Into<Vec<u8>>,
        blocks_of: impl FnOnce(&[u8]) -> Option<(GgmlType, Shape)>,
    ) -> Result<Self> {
        let file = RandomAccess::open(path)?;
        let (text, start) = read_header(&file)?;
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

/// Returns the text of the header and the offset of the data.
fn read_header(file: &RandomAccess) -> Result<(String, u64)> {
    let bad = || Error::new(ErrorKind::Checkpoint, "is not a NumPy file").file(file.path());
    let mut start = [0; 8];
    if file.len() < 12 {
        return Err(bad());
    }
    file.read_at(0, &mut start)?;
    let (header_start, len) = match start {
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
    if len > MAX_HEADER_LEN || header_start + u64::from(len) > file.len() {
        return Err(bad());
    }
    let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_at(header_start, &mut text)?;
    Ok((String::from_utf8(text).map_err(|_| bad())?, header_start + u64::from(len)))
}

/// The header, a Python dictionary of three entries.
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
        // Python 2 writes long integers with the suffix `L`.
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

/// Writes one tensor as a NumPy file (`.npy`, version 1.0, C order), and returns the sink.
///
/// Floats and integers keep their type. BF16, which NumPy does not have, and quantized types become
/// F32 or, if `raw`, are stored as their bytes: `uint8`, one row of bytes for each row of the
/// tensor.
pub fn extract_npy<S>(
    checkpoint: &dyn Checkpoint,
    number: usize,
    raw: bool,
    mut sink: S,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<S>
where
    S: Sink,
    S::Error: std::error::Error + Send + Sync + 'static,
{
    let column = column(checkpoint, number, raw)?;
    append(&mut sink, &header(column.element, &column.shape))?;
    stream(checkpoint, &[column], &mut sink, options, progress)?;
    Ok(sink)
}

/// Returns the size of the file that [`extract_npy`] writes, in bytes. Fails if that would fail
/// before writing.
pub fn npy_len(checkpoint: &dyn Checkpoint, number: usize, raw: bool) -> Result<u64> {
    let column = column(checkpoint, number, raw)?;
    Ok(column.size.saturating_add(header(column.element, &column.shape).len() as u64))
}

fn column(checkpoint: &dyn Checkpoint, number: usize, raw: bool) -> Result<Column<'_>> {
    Column::new(checkpoint, number, raw, |element| element != Element::BF16)
}

/// Returns the header of a NumPy file of `f32` in C order: the last dimension is contiguous. The
/// data follows it.
///
/// ```
/// let header = ggmill_pipeline::formats::npy_header(&[512, 32000]);
/// assert!(header.starts_with(b"\x93NUMPY") && header.len() % 64 == 0);
/// ```
pub fn npy_header(shape: &[u64]) -> Vec<u8> {
    header(Element::F32, shape)
}

fn header(element: Element, shape: &[u64]) -> Vec<u8> {
    /// Alignment of the data.
    const ALIGNMENT: usize = 64;
    /// Bytes of magic, version and header length.
    const PREFIX: usize = 10;
    let descr = match element {
        Element::F64 => "<f8",
        Element::F32 => "<f4",
        Element::F16 => "<f2",
        Element::BF16 => "<u2",
        Element::I64 => "<i8",
        Element::I32 => "<i4",
        Element::I16 => "<i2",
        Element::I8 => "|i1",
        Element::U8 => "|u1",
    };
    let mut dimensions = String::new();
    for dimension in shape {
        // Writing to a String cannot fail.
        let _ = write!(dimensions, "{dimension}, ");
    }
    // In Python, a tuple of one element has a trailing comma.
    let dimensions =
        if shape.len() == 1 { dimensions.trim_end() } else { dimensions.trim_end_matches(", ") };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dimensions}), }}");
    while !(PREFIX + text.len() + 1).is_multiple_of(ALIGNMENT) {
        text.push(' ');
    }
    text.push('\n');
    // Four dimensions of twenty digits need a small part of 64 KiB.
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    [&b"\x93NUMPY\x01\x00"[..], &len.to_le_bytes(), text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed() {
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

    #[test]
    fn headers_equal_those_of_numpy() {
        let shown = |shape: &[u64]| {
            let bytes = header(Element::F16, shape);
            assert!(bytes.len().is_multiple_of(64) && bytes.ends_with(b"\n"));
            assert_eq!(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])), bytes.len() - 10);
            String::from_utf8(bytes[10..].to_vec()).unwrap().trim_end().to_owned()
        };
        assert_eq!(shown(&[]), "{'descr': '<f2', 'fortran_order': False, 'shape': (), }");
        assert_eq!(shown(&[3]), "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }");
        assert_eq!(shown(&[3, 4]), "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }");
    }
}
