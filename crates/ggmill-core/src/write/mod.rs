//! From metadata and tensor declarations to bytes: `Builder → Plan → Writer → Sink`.
//!
//! A [`Builder`] collects metadata and tensor declarations. Its [`Plan`] has every offset and the file
//! length before a byte is written. A [`Writer`] streams the tensor data into a [`Sink`] in that order,
//! and fails if data is missing, too short or too long.

mod builder;
mod header_edit;
mod metadata;
mod writer;

pub use builder::{Builder, Plan, PlannedTensor};
pub use header_edit::{FilledHeader, HeaderEdit};
pub use metadata::{MetadataBuf, ToValue};
pub use writer::{Sink, WriteError, Writer};
