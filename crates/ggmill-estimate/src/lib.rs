#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

mod cells;
mod compute;
mod context;
mod error;
mod estimate;
mod fit;
mod options;
mod placement;
mod size;
mod unknown;
mod weights;

pub use cells::Cells;
pub use error::{Error, ErrorKind};
pub use estimate::{Device, Estimate, estimate};
pub use fit::{Fit, fit};
pub use options::{FlashAttention, Options};
pub use placement::Placement;
pub use unknown::Unknown;
