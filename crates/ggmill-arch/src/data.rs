//! Tables of facts that are compiled in. The build script reads each with the same code, so that
//! one that is wrong fails the build.

use serde::de::DeserializeOwned;

use crate::error::{Error, Result, quoted};

/// A table: what is read of it, and the schema it names.
pub(crate) trait Table: DeserializeOwned {
    /// The text of the file.
    const TEXT: &'static str;
    /// The schema it has to name.
    const SCHEMA: &'static str;

    /// The schema it names.
    fn schema(&self) -> &str;

    /// Reads it.
    fn read() -> Result<Self> {
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
