//! Buffers that are kept between calls.

use std::collections::BinaryHeap;

/// The most bytes of a buffer that is kept for later calls. A text of 8 KB needs a fraction of
/// that.
const MAX_KEPT: usize = 1 << 20;

/// Frees a buffer that a long text enlarged.
pub(crate) fn bound<T>(list: &mut Vec<T>) {
    if list.capacity().saturating_mul(size_of::<T>()) > MAX_KEPT {
        *list = Vec::new();
    }
}

/// Frees a queue that a long text enlarged.
pub(crate) fn bound_heap<T: Ord>(queue: &mut BinaryHeap<T>) {
    if queue.capacity().saturating_mul(size_of::<T>()) > MAX_KEPT {
        *queue = BinaryHeap::new();
    }
}
