//! The built program, run as people run it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

mod convert;
mod edit;
mod failures;
mod inspect;
mod killed;
mod program;
mod reshape;
mod support;
