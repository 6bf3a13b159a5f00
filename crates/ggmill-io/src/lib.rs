#![doc = include_str!("../README.md")]
//!
//! | to | use | gives |
//! |---|---|---|
//! | open a file or any shard of a set | [`open_model`] | [`Model`] |
//! | open one file by reading its header | [`open`] | [`GgufFile`] |
//! | see what is left of a broken file, and what is wrong with it | [`salvage`] | [`GgufFile`] and its faults |
//! | open one file by mapping it: fastest, `unsafe` | [`map`] | [`Gguf`](ggmill_core::Gguf) over a [`Mapping`] |
//! | read a file of another format | [`RandomAccess`], [`map_file`] | bytes |
//! | open the files of a checkpoint by name | [`Folder`] | [`RandomAccess`] |
//! | change the header of a file where it lies, safe against crashes | [`InPlace`] | an edited file |
//! | write a file whole or not at all | [`FileSink`] | a [`Sink`](ggmill_core::Sink) |
//! | give a file another name, never that of another | [`rename_no_replace`] | |
//! | move bytes from file to file without reading them | [`RangeSink`] | |
//!
//! Every [`Error`] names the file. A path that leads to a folder, a pipe or a device is refused, not waited for.

mod atomic;
mod commit;
mod error;
mod file;
mod folder;
mod in_place;
mod journal;
#[expect(unsafe_code, reason = "a mapped file can change under its readers; the contract is in the documentation of `map`")]
mod map;
mod random_access;
mod ranges;
mod rename;
mod same_file;
mod shard_names;
mod shards;
mod temporary;

pub use self::same_file::same_file;
pub use atomic::{FileSink, Overwrite, commit_all};
pub use error::{Error, ErrorKind, Result};
pub use file::{GgufFile, open, open_with, salvage};
pub use folder::Folder;
pub use in_place::{Applied, HeaderChange, InPlace, Recovery, pending_journal};
pub use journal::journal_path;
pub use map::{Mapping, map, map_file, map_with};
pub use random_access::RandomAccess;
pub use ranges::RangeSink;
pub use rename::rename_no_replace;
pub use shard_names::{shard_paths, stale_shard};
pub use shards::{MOST_OPEN, Model, open_model, open_model_with, open_shards, shard_name};
