//! Tests of the test data.
#![allow(clippy::unwrap_used, reason = "a test stops where something is missing")]

mod corpus;
mod real;
