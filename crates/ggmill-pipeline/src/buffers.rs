//! Reused buffers: allocating and freeing megabytes for every chunk costs as much as byte-swapping
//! them.

use std::sync::{Mutex, PoisonError};

use ggmill_core::ByteSize;

use crate::error::{Error, ErrorKind, Result};

/// Allocates `len` zeros. Fails with [`ErrorKind::Memory`] if there is not enough memory, because a
/// file may claim a row of billions of elements.
///
/// ```
/// assert_eq!(ggmill_pipeline::zeroed::<f32>(2)?, [0.0, 0.0]);
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub fn zeroed<T: Clone + Default>(len: usize) -> Result<Vec<T>> {
    let mut buffer = Vec::new();
    resize(&mut buffer, len)?;
    Ok(buffer)
}

/// Resizes a buffer. Fails like [`zeroed`].
pub(crate) fn resize<T: Clone + Default>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    buffer.try_reserve_exact(len.saturating_sub(buffer.len())).map_err(|_| {
        let bytes = len.saturating_mul(size_of::<T>());
        Error::new(
            ErrorKind::Memory,
            format!("not enough memory for the {} that are needed", ByteSize::from(bytes)),
        )
    })?;
    buffer.resize(len, T::default());
    Ok(())
}

/// A pool of unused buffers.
#[derive(Debug)]
pub(crate) struct BufferPool {
    buffers: Mutex<Vec<Vec<u8>>>,
    capacity: usize,
}

impl BufferPool {
    /// Creates a pool that keeps at most `capacity` buffers.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { buffers: Mutex::new(Vec::with_capacity(capacity)), capacity }
    }

    /// Returns a buffer of this length with unspecified content.
    pub(crate) fn take(&self, len: usize) -> Result<Vec<u8>> {
        let mut buffer =
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        resize(&mut buffer, len)?;
        Ok(buffer)
    }

    /// Returns a buffer to the pool.
    pub(crate) fn put_back(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < self.capacity {
            buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused() {
        let buffers = BufferPool::new(1);
        let (first, second) = (buffers.take(100).unwrap(), buffers.take(100).unwrap());
        let pointer = first.as_ptr();
        buffers.put_back(first);
        // Beyond the capacity.
        buffers.put_back(second);
        let again = buffers.take(50).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (pointer, 50));
        assert!(buffers.take(100).unwrap().iter().all(|&byte| byte == 0));
        assert_eq!(buffers.take(usize::MAX).unwrap_err().kind(), ErrorKind::Memory);
    }
}
