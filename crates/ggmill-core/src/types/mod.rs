//! The numbers a GGUF file uses for types, as open newtypes.
//!
//! The outside world extends these lists faster than anyone releases readers, so an unknown number
//! survives reading and writing: it lists, copies and compares like any other, and only an attempt
//! to *interpret* it is refused.

use core::fmt;

mod byte_order;
mod file_type;
mod ggml_type;
mod value_type;

pub use byte_order::swap_bytes;
pub use file_type::FileType;
pub use ggml_type::{BlockLayout, GgmlType};
pub use value_type::ValueType;

/// The text is not the name of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName(());

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the name of a type")
    }
}

impl core::error::Error for UnknownName {}
