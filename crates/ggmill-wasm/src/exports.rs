//! The functions that JavaScript calls, and the memory that they share with it.
//!
//! A call writes its input to the address that [`input`] returns, names an operation, and reads the
//! output. No pointer from JavaScript is ever dereferenced here.
#![expect(unsafe_code, reason = "exported names must be unique in the linked module")]

use crate::operation;
use crate::state::{State, with};

/// Allocates memory for the input of the next call, and returns its address; null if there is not
/// enough memory.
#[unsafe(no_mangle)]
extern "C" fn input(len: usize) -> *mut u8 {
    with(|state| state.allocate_input(len))
}

/// Runs an operation on the input. Returns 0 for success; otherwise 1, and the output is the error.
#[unsafe(no_mangle)]
extern "C" fn call(operation: u32, file: u32, argument: u64) -> u32 {
    with(|state| operation::run(state, operation, file, argument))
}

/// Returns the address of the output of the last call, which is valid until the next call.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    with(State::output)
}

/// Returns the length of the output in bytes.
#[unsafe(no_mangle)]
extern "C" fn output_len() -> usize {
    with(State::output_len)
}
