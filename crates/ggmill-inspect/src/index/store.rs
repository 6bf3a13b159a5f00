//! What each format can do.

use crate::index::error::Result;
use crate::index::rows::FileRows;

/// One format.
pub(crate) trait Store {
    /// Writes the rows of a file.
    fn write(&mut self, rows: FileRows) -> Result<()>;

    /// Writes the rows that the earlier index has of its file of this number. Numbers ascend.
    /// Returns how many tensors and metadata entries these are.
    fn keep(&mut self, number: usize) -> Result<(u64, u64)>;

    /// Writes what is left.
    fn finish(self: Box<Self>) -> Result<()>;
}
