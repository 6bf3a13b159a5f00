#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod checkpoint;
mod column;
mod json;
mod legacy;
mod llama2c;
mod npy;
mod peft;
mod safetensors;
mod torch;

pub use checkpoint::CheckpointDirectory;
pub use json::{Unambiguous, json_from_slice};
pub use legacy::{Legacy, LegacyContainer, LegacyFamily};
pub use npy::{Numpy, extract_npy, npy_header, npy_len};
pub use peft::PeftAdapter;
pub use safetensors::{SafetensorsFile, extract_safetensors, safetensors_len};
pub use torch::TorchFile;
