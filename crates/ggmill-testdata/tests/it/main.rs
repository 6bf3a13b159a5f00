//! The test data's own tests: nothing here may lie.
#![allow(clippy::unwrap_used, reason = "a test stops where something is missing")]

mod corpus;
mod real;
