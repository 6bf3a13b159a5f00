//! Tables as they are compiled in. The build script has a module of this name that reads their
//! texts.

use std::sync::LazyLock;

use crate::coded::{Input, Texts};
use crate::data::Table;
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

/// The table. It cannot fail as its text can, which the build script reads.
#[expect(clippy::unnecessary_wraps, reason = "reading a text can fail")]
pub(crate) fn read<T: Table>() -> Result<T> {
    Ok(T::decode(&mut input(T::CODED)))
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn same<T: Table + Debug>() {
        assert_eq!(format!("{:?}", T::read().unwrap()), format!("{:?}", T::parse().unwrap()));
    }

    #[test]
    fn tables_are_as_their_texts_say() {
        same::<crate::kinds::Kinds>();
        same::<crate::names::File>();
        same::<crate::quantization::Quantization>();
        same::<crate::standard_role::File>();
        same::<crate::tensor_type::File>();
        if crate::coded::CHECKPOINTS {
            same::<crate::refused::Refused>();
        }
    }
}
