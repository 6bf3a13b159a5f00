#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod candidate;
mod error;
mod in_order;
mod index;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
mod previous;
mod rows;
mod source;
mod store;
mod table;
mod tables;
mod text;
mod time;
mod value_cells;

pub use candidate::Candidate;
pub use error::{Error, Result};
pub use index::{Fault, IndexOptions, IndexOutcome, Unfinished, index};
pub use table::{Column, ColumnKind, TABLES, Table};
pub use tables::Tables;
pub use text::MAX_TEXT;
pub use value_cells::MAX_ELEMENTS;
