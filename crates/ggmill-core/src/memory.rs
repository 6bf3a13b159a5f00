//! Growing what a file decides the size of: an error where memory is short, never an abort.

use alloc::vec::Vec;

use crate::error::{Detail, Error, ErrorKind, Result};

/// Room for so many more elements, with the growth that makes pushing one by one cheap.
pub(crate) fn reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    vec.try_reserve(more).map_err(|_| {
        let bytes = vec.len().saturating_add(more).saturating_mul(size_of::<T>());
        Error::new(ErrorKind::Limit, Detail::Memory { bytes: bytes as u64 })
    })
}

/// [`Vec::push`] that can fail.
#[inline]
pub(crate) fn push<T>(vec: &mut Vec<T>, element: T) -> Result<()> {
    if vec.len() == vec.capacity() {
        reserve(vec, 1)?;
    }
    vec.push(element);
    Ok(())
}
