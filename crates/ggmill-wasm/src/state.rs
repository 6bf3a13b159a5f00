//! The state between calls.

use std::cell::RefCell;

use crate::files::Files;
use crate::record::Record;

/// The maximum capacity of the input buffer that is kept for the next call, in bytes.
const KEPT: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct State {
    input: Vec<u8>,
    output: Record,
    pub(crate) files: Files,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Runs `work` on the state. There is one thread, and calls are not nested, so the borrow cannot fail.
pub(crate) fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(work)
}

impl State {
    /// Allocates the input, and returns its address; null if there is not enough memory.
    pub(crate) fn allocate_input(&mut self, len: usize) -> *mut u8 {
        self.input.clear();
        if self.input.try_reserve_exact(len).is_err() {
            return std::ptr::null_mut();
        }
        self.input.resize(len, 0);
        self.input.as_mut_ptr()
    }

    /// Takes the input. A large buffer is freed after the call, a small one is kept.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.input);
        if input.capacity() <= KEPT {
            let taken = input.clone();
            input.clear();
            self.input = input;
            return taken;
        }
        input
    }

    pub(crate) fn set_output(&mut self, output: Record) {
        self.output = output;
    }

    pub(crate) fn output(&mut self) -> *const u8 {
        self.output.bytes().as_ptr()
    }

    pub(crate) fn output_len(&mut self) -> usize {
        self.output.bytes().len()
    }
}
