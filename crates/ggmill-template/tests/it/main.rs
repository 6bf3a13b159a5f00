//! Tests of the public interface.

#![allow(clippy::panic, reason = "a test stops where something is missing")]

mod behavior;
mod bombs;
mod conversations;
mod equality;
mod examined;
mod files;
mod segments;
