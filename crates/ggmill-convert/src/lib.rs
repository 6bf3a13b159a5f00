#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod back;
mod convert;
mod facts;
mod general;
mod legacy;
mod operations;
mod vocabulary;
mod weights;

pub use back::{RestoreOptions, RestoredCheckpoint, restore_checkpoint};
pub use convert::{ConvertOptions, auto_type, convert, own_type};
pub use general::MetadataOverride;
pub use legacy::{LegacyOptions, convert_legacy};
pub use vocabulary::has_tokenizer;
