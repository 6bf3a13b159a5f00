#![doc = include_str!("../README.md")]
//!
//! | to | use | returns |
//! |---|---|---|
//! | open a file or any shard of a set | [`open`] | a [`Model`](ggmill_core::Model) |
//! | open a single shard without its set | [`open_alone`] | a model |
//! | open a damaged file and list its faults | [`open_damaged`] | a model with faults |
//! | find the shards of a set and check them | [`sibling_shards`], [`open_failure`], [`set_fault`] | paths, a message |
//! | open by mapping: fastest, `unsafe` | [`map`] | a model over a [`Mapping`] |
//! | read the header from a pipe | [`open_stream`] | a model without data |
//! | get the files of a model | [`files`], [`file_of`] | [`RandomAccess`] |
//! | read a file of another format | [`RandomAccess`], [`map_file`] | a [`ReadAt`](ggmill_core::ReadAt) |
//! | open the files of a checkpoint by name | [`Directory`] | [`RandomAccess`] |
//! | change the header of a file in place, safe against crashes | [`InPlace`] | an edited file |
//! | write a file atomically, never over an input | [`FileSink`] | a [`Sink`](ggmill_core::Sink) |
//! | write a directory atomically | [`NewDirectory`] | files in it |
//! | rename a file without replacing another | [`rename_no_replace`], [`rename_all`] | |
//! | copy a range between files inside the kernel | [`RangeSink`] | |
//!
//! Every [`Error`] names the file. A path to a directory, a pipe or a device is refused
//! immediately; opening it never blocks.

mod commit;
mod directory;
mod error;
mod file_sink;
mod in_place;
#[expect(
    unsafe_code,
    reason = "a mapped file can change under its readers; the contract is in the documentation of \
              `map`"
)]
mod map;
mod open;
mod paths;
mod random_access;
mod shards;
mod temporary;

pub use directory::Directory;
pub use error::{Error, ErrorKind, Result};
pub use file_sink::{FileSink, Overwrite, RangeSink, commit_all};
pub use in_place::{Applied, HeaderChange, InPlace, Recovery, journal_path, pending_journal};
pub use map::{Mapping, map, map_alone_with, map_file, map_with};
pub use open::{
    MAX_OPEN_FILES, Streamed, close_idle, file_of, files, open, open_alone, open_alone_with,
    open_damaged, open_damaged_stream, open_shards, open_stream, open_with, shard_name,
};
pub use paths::{refuse_inputs, rename_all, rename_no_replace, same_file};
pub use random_access::RandomAccess;
pub use shards::{OpenFailure, open_failure, set_fault, shard_paths, sibling_shards, stale_shard};
pub use temporary::NewDirectory;
