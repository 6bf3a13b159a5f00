//! Safetensors: single files, the checkpoint directories that hold them, and files written from the
//! tensors of any source.

mod checkpoint;
mod file;
mod header;
mod write;

pub use checkpoint::Safetensors;
pub(crate) use checkpoint::{MAX_CONFIG, is_description, read_json};
pub use file::SafetensorsFile;
pub use write::{extract_safetensors, safetensors_len};
