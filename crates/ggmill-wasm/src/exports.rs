//! What JavaScript calls: four functions, and the memory that they share with it.
//!
//! A call writes its input to where [`input`] says, names an operation, and reads the output. No
//! pointer that JavaScript gives is ever followed here.
#![expect(unsafe_code, reason = "names that are exported must be unique among all that is linked")]

use crate::operation;
use crate::state::{State, with};

/// Makes room for the input of the next call and says where it is; null when memory is short.
#[unsafe(no_mangle)]
extern "C" fn input(len: usize) -> *mut u8 {
    with(|state| state.room_for_input(len))
}

/// Carries out an operation on the input: 0 when it succeeded, else 1, and the output is the error.
#[unsafe(no_mangle)]
extern "C" fn call(operation: u32, file: u32, argument: u64) -> u32 {
    with(|state| operation::run(state, operation, file, argument))
}

/// Where the output of the last call is, until the next one.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    with(State::output)
}

/// Bytes of it.
#[unsafe(no_mangle)]
extern "C" fn output_len() -> usize {
    with(State::output_len)
}
