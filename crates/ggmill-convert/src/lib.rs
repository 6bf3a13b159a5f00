#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod convert;
mod general;
mod legacy;
mod operations;
mod vocabulary;

pub use convert::{ConvertOptions, convert};
pub use legacy::{LegacyOptions, convert_legacy};
pub use vocabulary::has_tokenizer;
