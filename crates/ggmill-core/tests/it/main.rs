//! Tests of the public interface: the corpus, real files, and properties of every file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

mod corpus;
mod decoder;
mod errors;
mod expected;
mod header_edit;
mod hostile;
mod metadata;
mod model;
mod names;
mod roundtrip;
mod support;
mod writing;
