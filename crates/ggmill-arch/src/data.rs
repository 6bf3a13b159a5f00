//! Tables of facts that are compiled in. The build script reads each, so that one that is wrong
//! fails the build.

use serde::de::DeserializeOwned;

use crate::coded::Coded;
use crate::error::{Error, Result, quoted};

/// A table: what is read of it, and the schema it names.
pub(crate) trait Table: Coded + DeserializeOwned {
    /// The text of the file.
    #[allow(dead_code, reason = "the build script reads it")]
    const TEXT: &'static str;
    /// The schema it has to name.
    #[allow(dead_code, reason = "the build script reads it")]
    const SCHEMA: &'static str;
    /// What is compiled in of it.
    const CODED: &'static [u8];

    /// The schema it names.
    #[allow(dead_code, reason = "the build script reads it")]
    fn schema(&self) -> &str;

    /// The table: what is compiled in, and in the build script what the text says.
    fn read() -> Result<Self> {
        crate::tables::read(Self::CODED, Self::parse)
    }

    /// Reads the text.
    #[allow(dead_code, reason = "the build script reads it")]
    fn parse() -> Result<Self> {
        let table: Self =
            toml::from_str(Self::TEXT).map_err(|error| Error::description(error.message()))?;
        if table.schema() == Self::SCHEMA {
            Ok(table)
        } else {
            Err(Error::description(format!(
                "schema is {}, expected {:?}",
                quoted(table.schema()),
                Self::SCHEMA
            )))
        }
    }
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
