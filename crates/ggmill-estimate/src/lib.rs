#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

mod allocator;
mod caches;
mod compute;
mod error;
mod estimate;
mod fit;
pub mod json;
mod notes;
mod options;
mod placement;
mod weights;

pub use caches::Cells;
pub use error::{Error, ErrorKind};
pub use estimate::{Companions, Device, Estimate, estimate};
pub use fit::{Fit, fit};
pub use notes::{Note, Unknown};
pub use options::{CACHE_TYPES, FlashAttention, MAX_DEVICES, Options, device_name, device_number};
pub use placement::{PlacedPattern, Placement, TensorOverride};
