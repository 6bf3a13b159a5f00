#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

mod allocator;
mod beside;
mod cache_types;
mod cells;
mod compute;
mod context;
mod device;
mod error;
mod estimate;
mod fit;
pub mod json;
mod note;
mod options;
mod placed;
mod placement;
mod schedule;
mod size;
mod tensor_override;
mod unknown;
mod weights;

pub use beside::Beside;
pub use cache_types::CACHE_TYPES;
pub use cells::Cells;
pub use device::{MAX_DEVICES, device_name, device_number};
pub use error::{Error, ErrorKind};
pub use estimate::{Device, Estimate, estimate};
pub use fit::{Fit, fit};
pub use note::Note;
pub use options::{FlashAttention, Options};
pub use placement::{PlacedPattern, Placement};
pub use tensor_override::TensorOverride;
pub use unknown::Unknown;
