//! Computes the offset and size of each tensor's data from the parsed header, and checks them.

use alloc::vec::Vec;

use crate::error::{Detail, Error, ErrorKind, Result, truncated_name};
use crate::header::{Index, TensorEntry};
use crate::limits::try_reserve;
use crate::{Alignment, GgmlType, Limits, Metadata, Shape, keys};

/// A handler of a fault in the layout. It returns the error to fail, or `Ok` to continue, as when a
/// damaged file is opened.
pub(crate) type OnFault<'a> = dyn FnMut(Error) -> Result<()> + 'a;

/// Computes the alignment, the data offset, and the offset and size of each tensor's data. Calls
/// `fault` for data that cannot be read safely. `bytes` contains the header.
///
/// The tensors are as the parser leaves them: offsets are relative to the data, sizes are unset.
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
        // Without an alignment the data offset is unknown, so the end of the data cannot be checked.
        if let Some(error) = error.filter(|_| aligned) {
            fault(error.at(tensor.info).tensor(tensor.name.of(bytes)))?;
        }
    }
    if aligned { overlaps(index, bytes, fault) } else { Ok(()) }
}

/// Returns `general.alignment`, of any integer type, or 32 if it is missing. Fails if duplicate entries
/// have different values: readers would disagree about the file.
fn alignment(index: &Index, bytes: &[u8], limit: u32) -> Result<Alignment> {
    let mut found: Option<Alignment> = None;
    for entry in Metadata::new(index, bytes).all(keys::GENERAL_ALIGNMENT.as_bytes()) {
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

/// Computes the offset and size of one tensor's data. Returns the fault if the shape is invalid or the
/// data extends past the end of the file.
fn place(tensor: &mut TensorEntry, data_offset: u64, file_len: Option<u64>) -> Option<Error> {
    let offset = tensor.start;
    let (size, mut fault) = match size(tensor.shape, tensor.ggml_type) {
        Ok(size) => (size, None),
        Err(error) => (None, Some(error)),
    };
    let start = data_offset.checked_add(offset);
    // Data of an unknown type has at least one byte.
    let end = start.and_then(|start| start.checked_add(size.unwrap_or(1)));
    let malformed = |detail| Error::new(ErrorKind::Malformed, detail);
    if let (Some(start), Some(end)) = (start, end) {
        // An empty tensor has no data that could be missing, so its offset may be anywhere.
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

/// Returns the size of a tensor's data in bytes, or `None` for an unknown type.
fn size(shape: Shape, ggml_type: GgmlType) -> Result<Option<u64>> {
    let Some(layout) = ggml_type.layout() else {
        // Without elements, the size is 0 for every type.
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

/// Reports tensors whose data overlaps. Otherwise a small file could describe a huge model.
fn overlaps(index: &Index, bytes: &[u8], fault: &mut OnFault<'_>) -> Result<()> {
    let with_data = || index.tensors.iter().filter(|tensor| tensor.size != Some(0));
    let mut by_start: Vec<&TensorEntry> = Vec::new();
    try_reserve(&mut by_start, with_data().count())?;
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
                other: truncated_name(other.name.of(bytes)),
                other_end,
            };
            fault(
                Error::new(ErrorKind::Malformed, detail)
                    .at(tensor.info)
                    .tensor(tensor.name.of(bytes)),
            )?;
        }
        // After a fault that was not fatal, the data of an earlier tensor can end later.
        if before.is_none_or(|(_, other_end)| end > other_end) {
            before = Some((tensor, end));
        }
    }
    Ok(())
}
