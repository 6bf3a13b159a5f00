//! Tests of the public interface.

mod bombs;
mod equality;
mod segments;
