use std::fmt::Write as _;

use ggmill_core::Sink;

use crate::Report;
use crate::Result;
use crate::formats::column::{Column, Element, append, stream};
use crate::{Checkpoint, RunOptions};

/// Streams one tensor into a file of NumPy (`.npy`, version 1.0), in C order, and gives the sink
/// back.
///
/// Floats and integers are stored as they are, BF16 (which NumPy does not have) and quantized types
/// as f32. When `raw`, those are stored as their bytes instead, `uint8`, one row of bytes for each
/// row of the tensor. `options` say how many threads are used.
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

/// Bytes of the file that [`extract_npy`] makes of a tensor. Fails where it would fail before it
/// writes.
pub fn npy_len(checkpoint: &dyn Checkpoint, number: usize, raw: bool) -> Result<u64> {
    let column = column(checkpoint, number, raw)?;
    Ok(column.size.saturating_add(header(column.element, &column.shape).len() as u64))
}

fn column(checkpoint: &dyn Checkpoint, number: usize, raw: bool) -> Result<Column<'_>> {
    Column::new(checkpoint, number, raw, |element| element != Element::BF16)
}

/// The header of a file of NumPy with f32 in C order: the last dimension is the one whose elements
/// are adjacent. The numbers follow it.
///
/// ```
/// let header = ggmill_pipeline::formats::npy_header(&[512, 32000]);
/// assert!(header.starts_with(b"\x93NUMPY") && header.len() % 64 == 0);
/// ```
pub fn npy_header(shape: &[u64]) -> Vec<u8> {
    header(Element::F32, shape)
}

fn header(element: Element, shape: &[u64]) -> Vec<u8> {
    /// Data begin at a multiple of this.
    const ALIGNMENT: usize = 64;
    /// The magic number, the version and the length of what follows.
    const BEFORE: usize = 10;
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
    // A tuple of one keeps its comma.
    let dimensions =
        if shape.len() == 1 { dimensions.trim_end() } else { dimensions.trim_end_matches(", ") };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dimensions}), }}");
    while !(BEFORE + text.len() + 1).is_multiple_of(ALIGNMENT) {
        text.push(' ');
    }
    text.push('\n');
    // Four dimensions of twenty digits fit into a tenth of this.
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    [&b"\x93NUMPY\x01\x00"[..], &len.to_le_bytes(), text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::{Element, header};

    #[test]
    fn headers_are_those_of_numpy() {
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
