//! The instances of [`Lanes`](crate::lanes::Lanes): the only place in this crate that is not safe by itself.

#![allow(clippy::inline_always, reason = "vector operations are worth something only inside a function compiled for their instruction set")]

mod pair;
mod portable;

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not every machine has")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions that not every machine has")]
pub(crate) mod avx512;

pub(crate) use pair::Pair;
pub(crate) use portable::Portable;
