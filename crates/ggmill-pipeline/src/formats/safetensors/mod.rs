//! Safetensors: single files, read and written from the tensors of any source.

mod file;
mod header;
mod write;

pub use file::SafetensorsFile;
pub use write::{extract_safetensors, safetensors_len};
