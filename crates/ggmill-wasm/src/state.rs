//! What is kept between calls.

use std::cell::RefCell;

use crate::files::Files;
use crate::record::Record;

/// An input of more bytes than this is not kept for the next call.
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

/// Gives the state to a call. There is one thread, and no call is made within another.
pub(crate) fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(work)
}

impl State {
    pub(crate) fn room_for_input(&mut self, len: usize) -> *mut u8 {
        self.input.clear();
        if self.input.try_reserve_exact(len).is_err() {
            return std::ptr::null_mut();
        }
        self.input.resize(len, 0);
        self.input.as_mut_ptr()
    }

    /// The input, which is taken: a large one goes after the call.
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
