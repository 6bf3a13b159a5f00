//! Memory for results of operations, used again and again.

use std::sync::Arc;

use crate::error::{Result, room};

/// Buffers that hold no result at the moment, within a number of numbers for these and those that
/// do. Fresh memory from the system costs as much time as some operations do.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    free: Vec<Vec<f32>>,
    /// The lengths of all buffers, free or not.
    held: u64,
    most: u64,
}

impl Arena {
    /// Free buffers are dropped rather than that more numbers than this are held.
    pub(crate) fn of(most: u64) -> Self {
        Self { free: Vec::new(), held: 0, most }
    }

    /// A buffer of this length, with any numbers in it.
    pub(crate) fn take(&mut self, len: usize) -> Result<Vec<f32>> {
        if let Some(place) = self.free.iter().position(|free| free.len() == len) {
            return Ok(self.free.swap_remove(place));
        }
        while self.held.saturating_add(len as u64) > self.most {
            let Some(free) = self.free.pop() else { break };
            self.held = self.held.saturating_sub(free.len() as u64);
        }
        self.held = self.held.saturating_add(len as u64);
        room(len)
    }

    /// Takes a result back, where nothing else has it.
    pub(crate) fn put(&mut self, values: Arc<Vec<f32>>) {
        if let Ok(values) = Arc::try_unwrap(values) {
            self.free.push(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_return_and_the_limit_holds() {
        let mut arena = Arena::of(100);
        let (a, b) = (arena.take(40).unwrap(), arena.take(60).unwrap());
        let (at, kept) = (a.as_ptr(), Arc::new(b));
        arena.put(Arc::new(a));
        arena.put(Arc::clone(&kept));
        assert_eq!((arena.free.len(), arena.held), (1, 100));
        let again = arena.take(40).unwrap();
        assert_eq!((again.as_ptr(), arena.held), (at, 100));
        arena.put(Arc::new(again));
        // There is no room for both.
        assert_eq!((arena.take(30).unwrap().len(), arena.free.len(), arena.held), (30, 0, 90));
    }
}
