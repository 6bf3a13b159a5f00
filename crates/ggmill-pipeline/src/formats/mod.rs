//! Tensor files other than GGUF, as sources of the pipeline: safetensors and PyTorch files (without
//! executing their code), checkpoint and PEFT adapter directories, NumPy arrays, and the legacy
//! formats before GGUF (GGML, GGMF, GGJT). Safetensors and NumPy files can also be written.
//!
//! ```no_run
//! use ggmill_pipeline::Checkpoint as _;
//! use ggmill_pipeline::formats::CheckpointDirectory;
//!
//! let checkpoint = CheckpointDirectory::open(std::path::Path::new("TinyLlama-1.1B"))?;
//! for tensor in checkpoint.tensors() {
//!     println!("{} {} {}", tensor.name(), tensor.ggml_type, tensor.shape);
//! }
//! # Ok::<(), ggmill_pipeline::Error>(())
//! ```

mod checkpoint;
mod column;
mod json;
mod legacy;
mod llama2c;
mod npy;
mod peft;
mod safetensors;
mod torch;
mod wrappers;

pub use checkpoint::CheckpointDirectory;
pub use json::{Unambiguous, json_from_slice};
pub use legacy::{Legacy, LegacyContainer, LegacyFamily};
pub use npy::{Numpy, extract_npy, npy_header, npy_len};
pub use peft::PeftAdapter;
pub use safetensors::{SafetensorsFile, extract_safetensors, safetensors_len};
pub use torch::TorchFile;
