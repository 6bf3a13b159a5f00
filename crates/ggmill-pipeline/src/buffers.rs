//! Memory that is used again: getting megabytes from the system and giving them back for every
//! chunk costs as much as byte-swapping them.

use std::sync::{Mutex, PoisonError};

/// Buffers that are not in use.
#[derive(Debug)]
pub(crate) struct BufferPool {
    buffers: Mutex<Vec<Vec<u8>>>,
    most: usize,
}

impl BufferPool {
    /// Keeps up to so many.
    pub(crate) fn new(most: usize) -> Self {
        Self { buffers: Mutex::new(Vec::with_capacity(most)), most }
    }

    /// A buffer of this length with anything in it.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let mut buffer =
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// Takes one back.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < self.most {
            buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_taken_again() {
        let buffers = BufferPool::new(1);
        let place = |buffer: &Vec<u8>| buffer.as_ptr();
        let (first, second) = (buffers.take(100), buffers.take(100));
        let places = (place(&first), place(&second));
        buffers.give(first);
        // One too many.
        buffers.give(second);
        let again = buffers.take(50);
        assert_eq!((place(&again), again.len()), (places.0, 50));
        assert!(buffers.take(100).iter().all(|&byte| byte == 0));
    }
}
