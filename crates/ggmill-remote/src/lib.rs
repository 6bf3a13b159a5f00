#![doc = include_str!("../README.md")]
//!
//! | to | use |
//! |---|---|
//! | understand what a user named | [`Location::parse`] |
//! | open a model, with all its shards | [`Client::open`] |
//! | open one file by itself, or a broken one | [`Client::open_alone`], [`Client::salvage`] |
//! | read any file by position | [`Client::open_file`], [`RemoteFile`] |
//! | see what is in a repository of the Hub | [`Client::list`], [`Repository::models`] |
//! | know the other shards of a set | [`Location::siblings`] |
//! | know what it cost | [`Client::traffic`] |
//! | read the settings of Amazon's programs | [`Profile::find`], [`S3Credentials::from_process`] |
//! | know what to do about an error | [`Error::kind`], [`Error::advice`] |
//! | open several files of a repository, such as a checkpoint | [`Client::directory`] |
#![forbid(unsafe_code)]

mod agent;
mod answer;
mod cache;
mod client;
mod directory;
mod error;
mod file;
mod header;
mod hub;
mod list;
mod location;
mod models;
mod open;
mod options;
mod s3;
mod secret;
mod target;
mod url;
mod windows;

pub use client::{Client, Traffic};
pub use directory::RemoteDirectory;
pub use error::{Advice, Error, ErrorKind, Result};
pub use file::RemoteFile;
pub use list::{Repository, RepositoryFile};
pub use location::Location;
pub use models::RepositoryModel;
pub use options::{CacheOptions, Options, Proxies, Retries};
pub use s3::{Profile, S3Credentials, S3Options};
pub use secret::Secret;
