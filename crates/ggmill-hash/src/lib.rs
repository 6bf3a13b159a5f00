#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod compare;
mod file_sums;
mod hash;
mod kind;
mod manifest;
mod verify;

pub use compare::{Comparison, NumericError, ToCompare, compare};
pub use file_sums::{FileSums, file_sha256};
pub use hash::{Hashes, hash};
pub use kind::{Digest, HashKind, UnknownHash};
pub use manifest::{Claims, Manifest};
pub use verify::{Conclusion, HashLine, HashSubject, Verdict};
