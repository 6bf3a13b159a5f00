//! Tests through the public interface.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

mod expected;
mod hostile;
mod index;
mod json;
mod narrow;
mod notice;
mod support;
mod text;
