#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod architectures;
pub mod diff;
pub mod explain;
mod human;
pub mod json;
pub mod loss;
mod lossless;
pub mod markdown;
mod notice;
mod raw;
mod sniff;
mod summary;
pub mod text;
mod view;

pub use notice::{Notice, notices};
pub use raw::{RawValueError, raw_value};
pub use sniff::{FileKind, sniff};
pub use summary::{PerBlock, Summary, TypeUse};
pub use view::Selection;
