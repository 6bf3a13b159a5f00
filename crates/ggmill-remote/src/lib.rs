#![doc = include_str!("../README.md")]
//!
//! | to | use |
//! |---|---|
//! | parse an address | [`Location::parse`] |
//! | open a model, with all its shards | [`Client::open`] |
//! | open one file without its shards, or a damaged one | [`Client::open_alone`], [`Client::open_damaged`] |
//! | read any file by position | [`Client::open_file`], [`RemoteFile`] |
//! | list a repository of the Hub | [`Client::list`], [`Repository::models`] |
//! | get the locations of all shards of a set | [`Location::siblings`] |
//! | count requests and bytes | [`Client::traffic`] |
//! | read the configuration of the AWS command line | [`Profile::find`], [`S3Credentials::from_process`] |
//! | handle an error | [`Error::kind`], [`Error::advice`] |
//! | open several files of a repository, such as a checkpoint | [`Client::directory`] |
#![forbid(unsafe_code)]

mod cache;
mod client;
mod error;
mod file;
mod hub;
mod location;
mod open;
mod options;
mod prefetch;
mod repository;
mod response;
mod s3;
mod url;

pub use client::{Client, Traffic};
pub use error::{Advice, Error, ErrorKind, Result};
pub use file::RemoteFile;
pub use location::Location;
pub use options::{CacheOptions, Options, Proxies, Retries, Secret};
pub use repository::{RemoteDirectory, Repository, RepositoryFile, RepositoryModel};
pub use s3::{Profile, S3Credentials, S3Options};
