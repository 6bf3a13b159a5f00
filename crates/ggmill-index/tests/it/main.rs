//! Tables of files that are built, broken and real.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

mod golden;
mod resume;
mod support;
mod tables;
mod values;
