//! Tests of the public interface.

#![allow(clippy::panic, reason = "a test stops where something is missing")]

mod bombs;
mod equality;
mod segments;
