//! Editing of metadata: a new header, and the number of bytes of the file that it replaces.

use ggmill_core::{FilledHeader, Header, HeaderEdit, MetadataBuf, keys};

use crate::failure::Failure;
use crate::record::{Fields, Record};

/// Returns a record with the number of bytes of the file to replace, and the new header. The input has
/// the keys to remove, pairs of keys to rename, and a complete GGUF header with the entries to set. If
/// `in_place` is true, the new header has the length of the old one.
pub(crate) fn edit(part: &Header<'_>, input: &[u8], in_place: bool) -> Result<Record, Failure> {
    let header = HeaderEdit::of(part);
    if let Some(fault) = part.faults().first() {
        return Err(Failure::new("misuse", format_args!("the file has faults: {fault}")));
    }
    let metadata = edited(part, input)?;
    if let Some(why) = header.obstacle(&metadata)? {
        return Err(Failure::new(
            "unsupported",
            format_args!(
                "{why}, which requires a new file with every tensor at a different offset"
            ),
        ));
    }
    let bytes = if in_place {
        let len = header.compose(&metadata)?.len() as u64;
        let filled = header.filled(&metadata, len, header.replaced_len())?;
        let Some(FilledHeader { bytes, .. }) = filled else {
            let space = header.replaced_len();
            return Err(Failure::new(
                "unsupported",
                format_args!(
                    "the edited header has {len} bytes, but the file has space for {space}"
                ),
            ));
        };
        bytes
    } else {
        header.padded(&metadata)?
    };
    let rest = part.file_len().map(|len| len.saturating_sub(header.replaced_len()));
    let new_len = rest.map_or(u64::MAX, |rest| rest.saturating_add(bytes.len() as u64));
    if !header.preserves_tensor_offsets(&bytes, new_len)? {
        return Err(Failure::new(
            "malformed",
            "the edited header does not lead to the same tensors",
        ));
    }
    let mut record = Record::default();
    record.u64(header.replaced_len());
    record.rest(&bytes);
    Ok(record)
}

/// Returns the metadata of a file with the edits in the input.
fn edited(part: &Header<'_>, input: &[u8]) -> Result<MetadataBuf, Failure> {
    let broken = || Failure::misuse("the edits are truncated");
    let missing = |key: &[u8]| {
        let key = ggmill_core::RawStr::new(key);
        Failure::new("missing", format_args!("key {key:?}: no such key"))
    };
    let mut metadata = MetadataBuf::copy_of(&part.metadata())?;
    metadata.remove(keys::GGMILL_PADDING);
    let mut fields = Fields(input);
    for _ in 0..fields.u32().ok_or_else(broken)? {
        let key = fields.text().ok_or_else(broken)?;
        if !metadata.remove(key) {
            return Err(missing(key));
        }
    }
    for _ in 0..fields.u32().ok_or_else(broken)? {
        let (from, to) = fields.text().zip(fields.text()).ok_or_else(broken)?;
        if metadata.get(to).is_some() {
            let key = ggmill_core::RawStr::new(to);
            return Err(Failure::new("misuse", format_args!("key {key:?} already exists")));
        }
        if !metadata.rename(from, to) {
            return Err(missing(from));
        }
    }
    let set = Header::parse(fields.0)?;
    for entry in set.metadata() {
        metadata.set(entry.key().as_bytes(), entry.value()?);
    }
    Ok(metadata)
}
