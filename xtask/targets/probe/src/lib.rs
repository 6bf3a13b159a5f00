//! Nothing, for a target without a standard library.
#![no_std]
