//! Vectors as long as a file says: an error where memory is short, never an abort.

use super::invalid;
use ggmill_core::ByteSize;
use ggmill_pipeline::Result;

/// The items of an iterator, in memory that is allocated fallibly.
pub(super) fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = room(items.len())?;
    all.extend(items);
    Ok(all)
}

/// An empty vector with room for so many elements.
pub(super) fn room<T>(len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| {
        let bytes = len.saturating_mul(size_of::<T>());
        invalid(format!("not enough memory for the {} that are needed", ByteSize::from(bytes)))
    })?;
    Ok(all)
}
