//! Where rows go.

use std::io::Write;
use std::sync::Arc;

use ggmill_core::ReadAt;

use crate::index::error::Result;
use crate::index::ndjson;
use crate::index::previous::Previous;
use crate::index::store::Store;

/// The tables of an index while they are written, in one of the formats.
pub struct Tables<'a> {
    pub(crate) store: Box<dyn Store + 'a>,
    pub(crate) previous: Previous,
}

impl<'a> Tables<'a> {
    /// Tables as NDJSON, all in one text: after the line of a file come those of its metadata entries
    /// and those of its tensors. With an earlier index of this format, rows of files that have not
    /// changed are taken from there; what follows a line that is cut is read again.
    ///
    /// Fails when the earlier index is not one.
    pub fn ndjson(out: impl Write + 'a, previous: Option<Arc<dyn ReadAt>>) -> Result<Self> {
        let (earlier, previous) = match previous {
            Some(source) => ndjson::earlier(source)?,
            None => Default::default(),
        };
        Ok(Self { store: Box::new(ndjson::Lines::new(out, earlier)), previous })
    }

    /// Tables as Parquet files, in the order of [`TABLES`](crate::index::TABLES). With an earlier index of
    /// this format, rows of files that have not changed are taken from there.
    ///
    /// Fails when an output cannot be written, and when the earlier index is not one or its tables
    /// are not of the same run.
    #[cfg(feature = "parquet")]
    pub fn parquet<W: Write + Send + 'a>(
        outputs: [W; 3],
        previous: Option<[Arc<dyn ReadAt>; 3]>,
    ) -> Result<Self> {
        let (earlier, previous) = match previous {
            Some(sources) => {
                let (earlier, previous) = crate::index::parquet::earlier(sources)?;
                (Some(earlier), previous)
            }
            None => (None, Previous::default()),
        };
        Ok(Self { store: Box::new(crate::index::parquet::Files::new(outputs, earlier)?), previous })
    }
}

impl std::fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("previous", &self.previous).finish_non_exhaustive()
    }
}
