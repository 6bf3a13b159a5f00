#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod glob;
pub mod html;
pub mod http;
pub mod json;
mod value;

pub use glob::{Glob, GlobError};
pub use json::LosslessStr;
pub use value::{JsonValue, read_json, read_json_as, two_values};
