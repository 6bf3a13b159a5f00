//! Memory that calls leave to later ones, bounded.

use std::collections::BinaryHeap;

/// The most bytes of one list that are kept. A text of 8 KB takes a fraction of that.
const MOST: usize = 1 << 20;

/// Gives back the memory of a list that one long text made large.
pub(crate) fn bound<T>(list: &mut Vec<T>) {
    if list.capacity().saturating_mul(size_of::<T>()) > MOST {
        *list = Vec::new();
    }
}

/// The same for a queue.
pub(crate) fn bound_heap<T: Ord>(queue: &mut BinaryHeap<T>) {
    if queue.capacity().saturating_mul(size_of::<T>()) > MOST {
        *queue = BinaryHeap::new();
    }
}
