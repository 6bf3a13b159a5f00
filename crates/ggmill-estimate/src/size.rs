//! Sizes in bytes.

use ggmill_core::GgmlType;

use crate::error::{Error, ErrorKind, Result};

/// What the offset of every tensor in a buffer of the host is a multiple of.
const ALIGNMENT: u64 = 32;

/// The next multiple.
pub(crate) fn padded(number: u64, multiple: u64) -> Result<u64> {
    number.checked_next_multiple_of(multiple).ok_or_else(too_large)
}

/// Bytes that a tensor takes in a buffer.
pub(crate) fn in_buffer(bytes: u64) -> Result<u64> {
    padded(bytes, ALIGNMENT)
}

pub(crate) fn sum(left: u64, right: u64) -> Result<u64> {
    left.checked_add(right).ok_or_else(too_large)
}

pub(crate) fn product(factors: &[u64]) -> Result<u64> {
    let product = factors.iter().try_fold(1u64, |product, &factor| product.checked_mul(factor));
    product.ok_or_else(too_large)
}

/// Bytes of a row of a cache.
pub(crate) fn row(elements: u64, cache_type: GgmlType) -> Result<u64> {
    let layout = cache_type.layout().ok_or(ErrorKind::NoCacheType(cache_type))?;
    let block = u64::from(layout.elements);
    if elements.checked_rem(block) != Some(0) {
        return Err(ErrorKind::CacheType { found: cache_type, elements, block }.into());
    }
    layout.bytes_for(elements).ok_or_else(too_large)
}

#[cold]
pub(crate) fn too_large() -> Error {
    ErrorKind::TooLarge.into()
}
