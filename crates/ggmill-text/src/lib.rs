#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod glob;
pub mod html;
pub mod http;
pub mod json;

pub use glob::{Glob, GlobError};
pub use json::LosslessStr;
