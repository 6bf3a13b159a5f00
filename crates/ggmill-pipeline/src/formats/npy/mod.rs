//! Files of NumPy: one array each, read as a source of one tensor, and written from any tensor.

mod read;
mod write;

pub use read::Numpy;
pub use write::{extract_npy, npy_header, npy_len};
