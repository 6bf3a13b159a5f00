//! From metadata and tensor declarations to bytes: `Builder → Plan → Writer → Sink`.
//!
//! A [`Builder`] is told everything first; the [`Plan`] it becomes knows every offset and the final
//! size before a byte is written; a [`Writer`] streams the tensor data into a [`Sink`] in that
//! order and fails when anything is missing, short or too much. There is one writer.

mod builder;
mod encode;
mod header_edit;
mod metadata_buf;
mod plan;
mod writer;

pub use builder::Builder;
pub use encode::ToValue;
pub use header_edit::{FilledHeader, HeaderEdit};
pub use metadata_buf::MetadataBuf;
pub use plan::{Plan, PlannedTensor};
pub use writer::{Sink, WriteError, Writer};
