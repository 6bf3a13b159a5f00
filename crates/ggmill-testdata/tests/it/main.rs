//! The test data's own tests: nothing here may lie.
mod corpus;
mod real;
