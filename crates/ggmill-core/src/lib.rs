#![doc = include_str!("../README.md")]
//!
//! # Reading
//!
//! ```
//! # use ggmill_core::{Builder, MetadataBuf, Model};
//! # let mut metadata = MetadataBuf::new();
//! # metadata.set("general.architecture", "llama");
//! # metadata.set("tokenizer.ggml.tokens", ["<s>", "</s>"].as_slice());
//! # let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
//! let model = Model::open(file)?;
//! println!("{}", model.metadata().str("general.architecture")?);
//! for token in model.metadata().array("tokenizer.ggml.tokens")?.strings().into_iter().flatten() {
//!     println!("{}", token?);
//! }
//! # Ok::<(), ggmill_core::Error>(())
//! ```
//!
//! [`Model::open`] reads from any source of bytes, a [`ReadAt`]; [`Header::parse`] parses a file that
//! is in memory; a [`Decoder`] parses a header that arrives in pieces. All three check every count
//! and length against [`Limits`] and the length of the file, and an [`Error`] has the cause, the
//! offset, and the key or tensor.
//!
//! # Writing
//!
//! Declare with a [`Builder`], lay out with [`Builder::plan`], stream with a [`Writer`].
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::string_slice)]

extern crate alloc;

mod byte_order;
mod bytes;
mod error;
mod file_name;
mod header;
pub mod keys;
mod limits;
mod metadata;
mod model;
mod read;
mod read_at;
mod shards;
mod tensor;
mod text;
mod types;
mod value;
mod write;

pub use byte_order::swap_bytes;
pub use bytes::Endian;
pub use error::{Error, ErrorKind, Optional, Result, Subject};
pub use file_name::{FileName, NamingError, size_label, suggested_file_name};
pub use header::Header;
pub use limits::Limits;
pub use metadata::{Entries, Entry, Metadata};
pub use model::{Model, NoTensors};
pub use read::{Decoder, Progress};
pub use read_at::ReadAt;
pub use shards::{ShardName, Split, shard_file_name};
pub use tensor::{Alignment, Shape, Tensor, TensorIter, Tensors};
pub use text::{ByteSize, RawStr, is_digits, printable};
pub use types::{BlockLayout, FileType, GgmlType, UnknownName, ValueType};
pub use value::{Array, Elements, Strings, Value};
pub use write::{
    Builder, FilledHeader, HeaderEdit, MetadataBuf, Plan, PlannedTensor, Sink, ToValue, WriteError,
    Writer,
};
