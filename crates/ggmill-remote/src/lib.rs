#![doc = include_str!("../README.md")]
//!
//! | to | use |
//! |---|---|
//! | understand what a user named | [`Location::parse`] |
//! | open a model, with all its shards | [`Client::open`] |
//! | open one file by itself, or a broken one | [`Client::open_alone`], [`Client::salvage`] |
//! | read any file by position | [`Client::open_file`], [`RemoteFile`] |
//! | know what it cost | [`Client::traffic`] |
//! | know what to do about an error | [`Error::kind`], [`Error::advice`] |
#![forbid(unsafe_code)]

mod agent;
mod answer;
mod cache;
mod client;
mod error;
mod file;
mod header;
mod hub;
mod location;
mod open;
mod options;
mod target;
mod url;
mod windows;

pub use client::{Client, Traffic};
pub use error::{Advice, Error, ErrorKind, Result};
pub use file::RemoteFile;
pub use location::Location;
pub use options::{CacheOptions, Options, Proxies, Retries, Secret};
