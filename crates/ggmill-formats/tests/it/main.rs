//! Tests of the public interface.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod hostile_torch;
mod support;
mod torch;
