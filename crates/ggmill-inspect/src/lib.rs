#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod adapter;
pub mod architectures;
pub mod diff;
pub mod explain;
mod human;
pub mod index;
pub mod json;
pub mod loss;
mod lossless;
pub mod markdown;
mod notice;
mod per_block;
mod raw;
mod sniff;
mod summary;
pub mod text;
mod view;

pub use adapter::AdapterSummary;
pub use notice::{Notice, notices};
pub use per_block::PerBlock;
pub use raw::{RawValueError, raw_value};
pub use sniff::{FileKind, SNIFFED, sniff};
pub use summary::{Summary, TypeUse};
pub use view::Selection;
