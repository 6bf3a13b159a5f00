#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod convert;
mod general;
mod legacy;
mod operations;

pub use convert::{ConvertOptions, convert};
pub use legacy::{LegacyOptions, convert_legacy};
