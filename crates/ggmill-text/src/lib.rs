#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod glob;
pub mod html;
pub mod http;
pub mod json;
mod lossless;

pub use glob::{Glob, GlobError};
pub use lossless::LosslessStr;
