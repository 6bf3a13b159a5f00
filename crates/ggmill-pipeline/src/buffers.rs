//! Memory that is used again: getting megabytes from the system and giving them back for every
//! chunk costs as much as byte-swapping them.

use std::sync::{Mutex, PoisonError};

use ggmill_core::ByteSize;

use crate::error::{Error, ErrorKind, Result};

/// So many zeros. Fails with [`ErrorKind::Memory`] where memory is short of them: a file may say
/// that a single row has billions of elements.
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

/// Gives a buffer a length. Fails as [`zeroed`] does.
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
    pub(crate) fn take(&self, len: usize) -> Result<Vec<u8>> {
        let mut buffer =
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        resize(&mut buffer, len)?;
        Ok(buffer)
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
        let (first, second) = (buffers.take(100).unwrap(), buffers.take(100).unwrap());
        let places = (place(&first), place(&second));
        buffers.give(first);
        // One too many.
        buffers.give(second);
        let again = buffers.take(50).unwrap();
        assert_eq!((place(&again), again.len()), (places.0, 50));
        assert!(buffers.take(100).unwrap().iter().all(|&byte| byte == 0));
        assert_eq!(buffers.take(usize::MAX).unwrap_err().kind(), ErrorKind::Memory);
    }
}
