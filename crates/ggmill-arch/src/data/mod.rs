//! The files of the directory `data` as Rust types, and the form in which they are compiled in. The
//! build script compiles `coded`, `schema` and `tables` too, and nothing else of this crate.

pub(crate) mod coded;
pub(crate) mod schema;
pub(crate) mod tables;

use std::sync::LazyLock;

use self::coded::{CHECKPOINTS, Coded, Input, Texts};

// `KEEP_F32`, `KINDS`, `NAMES`, `QUANTIZATION`, `REFUSED`, `ROLES`, and `TEXTS`.
include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// The texts of everything that is compiled in, by index.
static LIST: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| TEXTS.split_terminator(Texts::END).collect());

/// Returns a reader of compiled bytes.
pub(crate) fn input(bytes: &'static [u8]) -> Input<'static> {
    Input::new(bytes, &LIST)
}

/// Decodes a table.
pub(crate) fn table<T: Coded>(coded: &'static [u8]) -> T {
    T::decode(&mut input(coded))
}

/// Returns the list, or an empty one in a build without checkpoints.
pub(crate) fn of_checkpoints<T>(list: &[T]) -> &[T] {
    if CHECKPOINTS { list } else { &[] }
}

/// Converts each entry of a list about checkpoints. In a build without checkpoints, returns an empty
/// list, so that the compiler drops the code.
pub(crate) fn parse_of_checkpoints<T, U, E>(
    list: &[T],
    parse: impl FnMut(&T) -> Result<U, E>,
) -> Result<Vec<U>, E> {
    if CHECKPOINTS { list.iter().map(parse).collect() } else { Ok(Vec::new()) }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::path::Path;

    use serde::de::DeserializeOwned;

    use super::*;
    use crate::data::tables::{KeepF32, Kinds, Names, Quantization, Refused, Roles, Table};

    fn check<T: Table + Debug + DeserializeOwned>(coded: &'static [u8], file: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(file);
        let expected: T = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(expected.schema(), T::SCHEMA);
        assert_eq!(format!("{:?}", table::<T>(coded)), format!("{expected:?}"));
    }

    #[test]
    fn decoded_tables_equal_their_files() {
        check::<KeepF32>(KEEP_F32, "keep-f32.toml");
        check::<Kinds>(KINDS, "kinds.toml");
        check::<Names>(NAMES, "names.toml");
        check::<Quantization>(QUANTIZATION, "quantization.toml");
        check::<Roles>(ROLES, "roles.toml");
        if crate::data::coded::CHECKPOINTS {
            check::<Refused>(REFUSED, "refused.toml");
        }
    }
}
