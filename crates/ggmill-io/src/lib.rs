#![doc = include_str!("../README.md")]
//!
//! | to | use | gives |
//! |---|---|---|
//! | open a file or any shard of a set | [`open`] | a [`Model`](ggmill_core::Model) |
//! | open one shard by itself | [`open_alone`] | a model |
//! | see what is left of a broken file, and what is wrong with it | [`salvage`] | a model with faults |
//! | find the shards of a set, and what is wrong with it | [`shards_beside`], [`not_whole`], [`set_fault`] | paths, a sentence |
//! | open by mapping: fastest, `unsafe` | [`map`] | a model over a [`Mapping`] |
//! | read the header from a pipe | [`open_stream`] | a model without data |
//! | know the files of a model | [`files`], [`file_of`] | [`RandomAccess`] |
//! | read a file of another format | [`RandomAccess`], [`map_file`] | a [`ReadAt`](ggmill_core::ReadAt) |
//! | open the files of a checkpoint by name | [`Directory`] | [`RandomAccess`] |
//! | change the header of a file in place, safe against crashes | [`InPlace`] | an edited file |
//! | write a file whole or not at all, never over an input | [`FileSink`] | a [`Sink`](ggmill_core::Sink) |
//! | write a directory whole or not at all | [`NewDirectory`] | files in it |
//! | give a file another name, never that of another | [`rename_no_replace`], [`rename_all`] | |
//! | move bytes from file to file without reading them | [`RangeSink`] | |
//!
//! Every [`Error`] names the file. A path that leads to a directory, a pipe or a device is refused,
//! not waited for.

mod atomic;
mod commit;
mod directory;
mod error;
mod in_place;
mod journal;
#[expect(
    unsafe_code,
    reason = "a mapped file can change under its readers; the contract is in the documentation of \
              `map`"
)]
mod map;
mod new_directory;
mod open;
mod positioned;
mod random_access;
mod ranges;
mod rename;
mod same_file;
mod set_fault;
mod shard_names;
mod stream;
mod temporary;

pub use self::same_file::{refuse_inputs, same_file};
pub use atomic::{FileSink, Overwrite, commit_all};
pub use directory::Directory;
pub use error::{Error, ErrorKind, Result};
pub use in_place::{Applied, HeaderChange, InPlace, Recovery};
pub use journal::{journal_path, pending_journal};
pub use map::{Mapping, map, map_alone_with, map_file, map_with};
pub use new_directory::NewDirectory;
pub use open::{
    MAX_OPEN_FILES, close_idle, file_of, files, open, open_alone, open_alone_with, open_shards,
    open_with, salvage, shard_name,
};
pub use random_access::RandomAccess;
pub use ranges::RangeSink;
pub use rename::{rename_all, rename_no_replace};
pub use set_fault::{NotWhole, not_whole, set_fault};
pub use shard_names::{shard_paths, shards_beside, stale_shard};
pub use stream::{Streamed, open_stream, salvage_stream};
