#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod back;
mod convert;
mod descriptions;
mod facts;
mod general;
mod legacy;
mod lora;
mod operations;
mod prefix;
mod target;
mod vocabulary;
mod weights;

pub use back::{RestoreOptions, RestoredCheckpoint, check_restorable, restore_checkpoint};
pub use convert::{
    ASSUMED_SETTINGS_KEY, AutoType, ConvertOptions, convert, has_projector, own_type,
};
pub use descriptions::read_descriptions;
pub use general::MetadataOverride;
pub use legacy::{LegacyOptions, convert_legacy};
pub use lora::convert_lora;
pub use target::WithTarget;
pub use vocabulary::{LibraryTokenizer, TokenizerFiles, convert_tokenizer, has_tokenizer};
