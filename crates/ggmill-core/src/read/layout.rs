//! Where each tensor's data lie: the second half of reading, once the whole header is known.

use alloc::vec::Vec;

use crate::error::{Detail, Error, ErrorKind, Result, shortened_name};
use crate::index::{Index, TensorEntry};
use crate::{Alignment, GgmlType, Limits, Shape, keys, memory};

/// The handler of a fault: the strict reader fails with it, the salvaging one records it and
/// continues.
pub(crate) type OnFault<'a> = dyn FnMut(Error) -> Result<()> + 'a;

/// Fills in alignment, data offset and tensors, and hands whatever cannot be read safely to
/// `fault`. `bytes` hold the header.
///
/// The tensors come as the parser leaves them: their offsets as the file has them, their sizes
/// open.
pub(crate) fn lay_out(
    index: &mut Index,
    bytes: &[u8],
    limits: &Limits,
    fault: &mut OnFault<'_>,
) -> Result<()> {
    let mut aligned = true;
    match alignment(index, bytes, limits.alignment) {
        Ok(alignment) => index.alignment = alignment,
        Err(error) => {
            fault(error)?;
            aligned = false;
        }
    }
    index.data_offset = index
        .alignment
        .align(index.header_len)
        .ok_or_else(|| Error::new(ErrorKind::Malformed, Detail::OffsetOverflow { offset: 0 }))?;
    let (data_offset, file_len) = (index.data_offset, index.file_len);
    for tensor in &mut index.tensors {
        let error = place(tensor, data_offset, file_len);
        // Without an alignment the start of the data is unknown, so nothing can be said about their
        // end.
        if let Some(error) = error.filter(|_| aligned) {
            fault(error.at(tensor.info).tensor(tensor.name.of(bytes)))?;
        }
    }
    if aligned { overlaps(index, bytes, fault) } else { Ok(()) }
}

/// `general.alignment`, of any integer type; 32 when absent. Two entries that disagree would be two
/// readings of one file.
fn alignment(index: &Index, bytes: &[u8], limit: u32) -> Result<Alignment> {
    let mut found: Option<Alignment> = None;
    for entry in index.metadata(bytes).all(keys::GENERAL_ALIGNMENT.as_bytes()) {
        let fail =
            |error: Error| error.at(entry.value_offset()).key(keys::GENERAL_ALIGNMENT.as_bytes());
        let value = entry.value()?;
        let number = match value.as_i128() {
            Some(number) => u64::try_from(number).map_err(|_| {
                fail(Error::new(ErrorKind::Malformed, Detail::Alignment { found: number }))
            })?,
            None => {
                return Err(fail(Error::new(
                    ErrorKind::WrongType,
                    Detail::AlignmentType { found: entry.value_type() },
                )));
            }
        };
        let this = Alignment::new(number).map_err(fail)?;
        if this.get() > limit {
            let detail = Detail::Limit { what: "alignment", found: number, limit: limit.into() };
            return Err(fail(Error::new(ErrorKind::Limit, detail)));
        }
        match found {
            Some(first) if first != this => {
                let detail = Detail::AlignmentsDiffer { first: first.get(), second: this.get() };
                return Err(fail(Error::new(ErrorKind::Malformed, detail)));
            }
            _ => found = Some(this),
        }
    }
    Ok(found.unwrap_or_default())
}

/// Computes the position of one tensor's data, checks it against the end of the file if that is
/// known, and says what is wrong with it.
fn place(tensor: &mut TensorEntry, data_offset: u64, file_len: Option<u64>) -> Option<Error> {
    let offset = tensor.start;
    let (size, mut fault) = match size(tensor.shape, tensor.ggml_type) {
        Ok(size) => (size, None),
        Err(error) => (None, Some(error)),
    };
    let start = data_offset.checked_add(offset);
    // Of an unknown type it is certain only that it takes at least a byte.
    let end = start.and_then(|start| start.checked_add(size.unwrap_or(1)));
    let malformed = |detail| Error::new(ErrorKind::Malformed, detail);
    if let (Some(start), Some(end)) = (start, end) {
        // An empty tensor has no data that could be missing, so its offset is not held against the
        // end.
        let has_data = size != Some(0);
        if let Some(file) = file_len.filter(|&file| has_data && end > file) {
            fault = fault.or_else(|| {
                Some(Error::new(ErrorKind::Truncated, Detail::DataOutside { start, end, file }))
            });
        }
    } else {
        fault = fault.or_else(|| Some(malformed(Detail::OffsetOverflow { offset })));
    }
    tensor.start = start.unwrap_or(u64::MAX);
    tensor.size = size;
    fault
}

/// Bytes of a tensor's data, or `None` for an unknown type.
fn size(shape: Shape, ggml_type: GgmlType) -> Result<Option<u64>> {
    let Some(layout) = ggml_type.layout() else {
        // No elements take no bytes, whatever their type.
        return Ok((shape.elements() == 0).then_some(0));
    };
    let row = shape.row_len();
    if shape.elements() > 0 && !row.is_multiple_of(u64::from(layout.elements)) {
        return Err(Error::new(
            ErrorKind::Malformed,
            Detail::RowNotBlocks { row, ggml_type, block: layout.elements },
        ));
    }
    let size = layout.bytes_for(shape.elements());
    size.map(Some).ok_or_else(|| Error::new(ErrorKind::Malformed, Detail::Bytes { ggml_type }))
}

/// No two tensors may share a byte: overlapping ranges let a small file stand for a huge model.
fn overlaps(index: &Index, bytes: &[u8], fault: &mut OnFault<'_>) -> Result<()> {
    let with_data = || index.tensors.iter().filter(|tensor| tensor.size != Some(0));
    let mut by_start: Vec<&TensorEntry> = Vec::new();
    memory::reserve(&mut by_start, with_data().count())?;
    by_start.extend(with_data());
    by_start.sort_unstable_by_key(|tensor| (tensor.start, tensor.info));
    let mut before: Option<(&TensorEntry, u64)> = None;
    for tensor in by_start {
        let end = tensor.start.saturating_add(tensor.size.unwrap_or(1));
        if let Some((other, other_end)) = before
            && tensor.start < other_end
        {
            let detail = Detail::Overlap {
                start: tensor.start,
                other: shortened_name(other.name.of(bytes)),
                other_end,
            };
            fault(
                Error::new(ErrorKind::Malformed, detail)
                    .at(tensor.info)
                    .tensor(tensor.name.of(bytes)),
            )?;
        }
        // Only a fault that was let pass leaves an earlier tensor that reaches further.
        if before.is_none_or(|(_, other_end)| end > other_end) {
            before = Some((tensor, end));
        }
    }
    Ok(())
}
