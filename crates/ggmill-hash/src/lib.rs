#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod compare;
mod hash;
mod kind;
mod manifest;
mod verify;

pub use compare::{Comparison, NumericError, ToCompare, compare};
pub use hash::{Hashes, hash};
pub use kind::{Digest, HashKind, UnknownHash};
pub use manifest::{Claims, Manifest};
pub use verify::{Conclusion, HashLine, HashSubject, Verdict};
