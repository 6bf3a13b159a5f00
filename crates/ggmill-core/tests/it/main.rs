//! The format through its public door: the corpus, real files, and the laws that hold for every
//! file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

mod corpus;
mod decoder;
mod errors;
mod expected;
mod hostile;
mod metadata;
mod model;
mod roundtrip;
mod support;
