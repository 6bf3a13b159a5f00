//! Tables as they are compiled in. The build script has a module of this name that reads their
//! texts.

use std::sync::LazyLock;

use crate::coded::{Coded, Input, Texts};
use crate::error::Result;

// `KEEP_F32`, `KINDS`, `NAMES`, `QUANTIZATION`, `REFUSED`, `ROLES`, and `TEXTS`.
include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// The texts of everything that is compiled in, by number.
static LIST: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| TEXTS.split_terminator(Texts::END).collect());

/// What is compiled in, to be read.
pub(crate) fn input(bytes: &'static [u8]) -> Input<'static> {
    Input::new(bytes, &LIST)
}

/// The table of which this is compiled in. It cannot fail as its text can, which the build script
/// reads.
#[expect(clippy::unnecessary_wraps, reason = "reading a text can fail")]
pub(crate) fn read<T: Coded>(coded: &'static [u8], _text: fn() -> Result<T>) -> Result<T> {
    Ok(T::decode(&mut input(coded)))
}
