//! Tables as Parquet files.

mod earlier;
mod pages;
mod schema;
mod table_file;
mod values;
mod write;

pub(crate) use earlier::earlier;
pub(crate) use write::Files;

use parquet::errors::ParquetError;

/// The key of a file's metadata whose value is the same in the tables of one run.
const RUN: &str = "ggmill.index.run";

/// The error of an input or output within an error of the format.
fn io_error(error: ParquetError) -> Result<std::io::Error, String> {
    match error {
        ParquetError::External(cause) => match cause.downcast() {
            Ok(error) => Ok(*error),
            Err(cause) => Err(cause.to_string()),
        },
        // Its text is ours, or says enough; the others name what kind they are.
        ParquetError::General(text) => Err(text),
        error => Err(error.to_string()),
    }
}
