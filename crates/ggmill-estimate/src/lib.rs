#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

mod beside;
mod cells;
mod compute;
mod context;
mod device;
mod error;
mod estimate;
mod fit;
pub mod json;
mod options;
mod placement;
mod size;
mod unknown;
mod weights;

pub use beside::Beside;
pub use cells::Cells;
pub use device::{TensorOverride, device_name, device_number};
pub use error::{Error, ErrorKind};
pub use estimate::{Device, Estimate, estimate};
pub use fit::{Fit, fit};
pub use options::{CACHE_TYPES, FlashAttention, Options};
pub use placement::Placement;
pub use unknown::Unknown;
