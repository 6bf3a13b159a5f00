#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod back;
mod blocks;
mod convert;
mod descriptions;
mod elements;
mod facts;
mod general;
mod legacy;
mod lora;
mod operations;
mod projector;
mod target;
mod vocabulary;
mod weights;

pub use back::{RestoreOptions, RestoredCheckpoint, restorable, restore_checkpoint};
pub use convert::{AutoType, ConvertOptions, convert, own_type};
pub use descriptions::read_descriptions;
pub use general::MetadataOverride;
pub use legacy::{LegacyOptions, convert_legacy};
pub use lora::convert_lora;
pub use projector::has_projector;
pub use target::WithTarget;
pub use vocabulary::{TokenizerFiles, convert_tokenizer, has_tokenizer};
