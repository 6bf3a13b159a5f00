#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(dead_code, reason = "tables and helpers that the models to come use")]

mod attributes;
mod error;
mod flags;
mod load;
mod models;
mod options;
mod pre;
mod read;
mod roles;
mod sink;
mod special;
mod special_ids;
mod token_map;
mod tokenizer;
mod unicode;
mod vocabulary;

pub use attributes::Attributes;
pub use error::{Error, ErrorKind};
pub use flags::Flags;
pub use options::{EncodeOptions, LoadOptions};
pub use pre::names as pre_tokenizer_names;
pub use sink::Piece;
pub use special_ids::SpecialIds;
pub use tokenizer::Tokenizer;
pub use vocabulary::{Kind, Vocabulary};
