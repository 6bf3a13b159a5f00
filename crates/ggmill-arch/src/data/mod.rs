//! The files of the directory `data` as Rust types, and the form in which they are compiled in. The
//! build script compiles `coded`, `schema` and `tables` too, and nothing else of this crate.

pub(crate) mod coded;
pub(crate) mod compiled;
pub(crate) mod schema;
pub(crate) mod tables;
