//! Numbers of things.

use std::fmt;

/// A number with the thing it counts, which gets an s unless it is one: `1 tensor`, `2 tensors`.
pub(crate) fn counted(number: usize, thing: impl fmt::Display) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
