//! Conversion through the public interface.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod checkpoints;
mod edit;
mod hash;
mod quantize;
mod reshape;
mod rewrite;
mod stories;
mod support;
