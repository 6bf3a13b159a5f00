//! Tables of the headers of many GGUF files: a row for each file, tensor and metadata entry, with a
//! fixed schema, as NDJSON or Parquet (feature `parquet`).
//!
//! The caller opens files, several at once; their rows are written in order, in bounded memory. A file
//! that cannot be read becomes a row with its error. An update copies the rows of files whose size and
//! modification time are unchanged from the earlier index.
//!
//! ```
//! use std::ops::ControlFlow;
//! use ggmill_core::{Builder, MetadataBuf, Model};
//! use ggmill_inspect::index::{Candidate, IndexOptions, Tables, index};
//!
//! let mut metadata = MetadataBuf::new();
//! metadata.set("general.architecture", "llama");
//! let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
//! let files = [Candidate::new("tiny.gguf")];
//! let open = |_| Model::open_damaged(file.clone()).map_err(|error| error.to_string());
//! let mut lines = Vec::new();
//! let tables = Tables::ndjson(&mut lines, None)?;
//! let outcome =
//!     index(&files, &open, tables, &IndexOptions::default(), &mut |_, _| ControlFlow::Continue(()))?;
//! assert_eq!((outcome.files, outcome.entries), (1, 1));
//! assert!(String::from_utf8(lines)?.starts_with(r#"{"record":"file","path":"tiny.gguf","#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod in_order;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
mod rows;
mod table;

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ggmill_core::{Model, ReadAt};

use in_order::in_order;
use ndjson::{Lines, Previous};
use rows::FileRows;
pub use rows::{MAX_ELEMENTS, MAX_TEXT};
pub use table::{Column, ColumnKind, TABLES, Table};

/// Bytes of rows that wait to be written, at most, in addition to the rows of one file per thread.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// A file to be indexed, before it is opened.
///
/// ```
/// use ggmill_inspect::index::Candidate;
/// let file = Candidate::new("models/tiny.gguf").with_state(Some(1024), Some(1_700_000_000_000_000));
/// assert_eq!((&*file.path, file.size), ("models/tiny.gguf", Some(1024)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The path or address, as it appears in the tables.
    pub path: String,
    /// The size in bytes, if it is known without opening the file.
    pub size: Option<u64>,
    /// The modification time in microseconds since 1970 (UTC), if it is known without opening the
    /// file.
    pub modified: Option<i64>,
}

impl Candidate {
    /// Creates a candidate of unknown size and modification time, which is read in every run.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), size: None, modified: None }
    }

    /// Sets the size in bytes and the modification time in microseconds since 1970 (UTC). Rows are
    /// copied from an earlier index only if both are known.
    #[must_use]
    pub fn with_state(mut self, size: Option<u64>, modified: Option<i64>) -> Self {
        self.size = size;
        self.modified = modified;
        self
    }
}

/// Options of [`index`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexOptions {
    /// The number of files that are read in parallel.
    pub threads: NonZeroUsize,
}

impl Default for IndexOptions {
    /// Reads one file at a time.
    fn default() -> Self {
        Self { threads: NonZeroUsize::MIN }
    }
}

impl IndexOptions {
    /// Sets the number of files that are read in parallel.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }
}

/// Counts of the rows that were written so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexOutcome {
    /// Rows of the table of files.
    pub files: u64,
    /// Files whose rows were copied from the earlier index.
    pub kept: u64,
    /// Files whose row has an error.
    pub broken: u64,
    /// Rows of the table of tensors.
    pub tensors: u64,
    /// Rows of the table of metadata.
    pub entries: u64,
    /// Files that are not in the index because `progress` stopped the run before they were read.
    pub skipped: u64,
    /// The errors of the first files that were read in this run and have one, at most [`Fault::MOST`].
    pub faults: Vec<Fault>,
}

/// The error of a file that could not be read in full. Its row has the error and what could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The position of the file among the candidates, from 0.
    pub file: usize,
    /// The error in the row of the file.
    pub reason: String,
}

impl Fault {
    /// The maximum number of faults that an outcome lists.
    pub const MOST: usize = 3;
}

/// A result with the error of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an index could not be written. A file that cannot be read is a row, not an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An output could not be written.
    Write(io::Error),
    /// The earlier index is not one or is damaged. The message says where.
    Previous(String),
    /// The rows could not be encoded.
    Encode(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => write!(f, "cannot write the index: {error}"),
            Self::Previous(why) => write!(f, "not an index that can be updated: {why}"),
            Self::Encode(why) => write!(f, "cannot encode the index: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// The error of an index that could not be written, with the outcome so far.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// The cause.
    pub error: Error,
    /// The outcome up to the error.
    pub outcome: IndexOutcome,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unfinished {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<Unfinished> for Error {
    fn from(unfinished: Unfinished) -> Self {
        unfinished.error
    }
}

/// A format that rows are written in.
trait Store {
    /// Writes the rows of a file.
    fn write(&mut self, rows: FileRows) -> Result<()>;

    /// Copies the rows of `file`, which is file `number` of the earlier index. Numbers must ascend.
    /// Returns the numbers of tensors and metadata entries.
    fn keep(&mut self, number: usize, file: &Candidate) -> Result<(u64, u64)>;

    /// Completes and flushes the outputs.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// The outputs of an index, in one of the formats, and the earlier index to update.
pub struct Tables<'a> {
    store: Box<dyn Store + 'a>,
    previous: Previous,
}

impl<'a> Tables<'a> {
    /// Writes all tables as one NDJSON text: the line of a file is followed by the lines of its
    /// metadata entries and of its tensors. `previous` is an earlier text, from which the rows of
    /// unchanged files are copied; the lines of a file that is cut off at its end are ignored.
    ///
    /// Fails when the earlier text is not an index.
    pub fn ndjson(out: impl Write + 'a, previous: Option<Arc<dyn ReadAt>>) -> Result<Self> {
        let (earlier, previous) = previous.map(ndjson::open).transpose()?.unzip();
        let store = Box::new(Lines::new(out, earlier));
        Ok(Self { store, previous: previous.unwrap_or_default() })
    }

    /// Writes a Parquet file for each of [`TABLES`], and to `state` all rows as NDJSON that is
    /// compressed in Snappy's frame format. `previous` is an earlier state, from which the rows of
    /// unchanged files are copied; earlier tables are not read.
    ///
    /// Fails when an output cannot be written and when the earlier state is damaged.
    #[cfg(feature = "parquet")]
    pub fn parquet<W: Write + Send + 'a>(
        outputs: [W; 3],
        state: W,
        previous: Option<Arc<dyn ReadAt>>,
    ) -> Result<Self> {
        let (earlier, previous) = previous.map(parquet::open_state).transpose()?.unzip();
        let store = Box::new(parquet::Files::new(outputs, state, earlier)?);
        Ok(Self { store, previous: previous.unwrap_or_default() })
    }
}

impl fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("previous", &self.previous).finish_non_exhaustive()
    }
}

/// The rows of a candidate, or where they are.
enum Item {
    /// File of this number in the earlier index.
    Kept(usize),
    Read(FileRows),
    Skipped,
}

/// Reads `files` on several threads and writes their rows in order.
///
/// `open` returns the model of the file with this number, or why it cannot be opened. It should open
/// broken files as far as possible, and only the named shard of a set, as [`Model::open_damaged`] does.
/// A file is not opened if an earlier index has it without an error and with the same size and
/// modification time, provided that its position there follows those of the other unchanged files.
///
/// `progress` is called after each file and can stop the run: then no further file is opened, but
/// unchanged files are still copied. Fails when an output cannot be written.
pub fn index(
    files: &[Candidate],
    open: &(dyn Fn(usize) -> std::result::Result<Model, String> + Sync),
    tables: Tables<'_>,
    options: &IndexOptions,
    progress: &mut dyn FnMut(&Candidate, &IndexOutcome) -> ControlFlow<()>,
) -> Result<IndexOutcome, Unfinished> {
    let Tables { mut store, previous } = tables;
    let unchanged = previous.unchanged(files);
    drop(previous);
    let stopped = AtomicBool::new(false);
    let work = |number: usize| match (unchanged.get(number).copied().flatten(), files.get(number)) {
        (Some(number), _) => Item::Kept(number),
        (None, Some(file)) if !stopped.load(Ordering::Relaxed) => match open(number) {
            Ok(model) => Item::Read(FileRows::of(file, &model)),
            Err(reason) => Item::Read(FileRows::broken(file, &reason)),
        },
        _ => Item::Skipped,
    };
    let weigh = |item: &Item| match item {
        Item::Read(rows) => rows.weight(),
        _ => 0,
    };
    let mut outcome = IndexOutcome::default();
    let mut candidates = files.iter().enumerate();
    let mut take = |item: Item| {
        let Some((position, file)) = candidates.next() else { return Ok(()) };
        let (tensors, entries) = match item {
            Item::Kept(number) => {
                outcome.kept += 1;
                store.keep(number, file)?
            }
            Item::Read(rows) => {
                if let Some(reason) = rows.error() {
                    outcome.broken += 1;
                    if outcome.faults.len() < Fault::MOST {
                        outcome.faults.push(Fault { file: position, reason: reason.to_owned() });
                    }
                }
                let counts = (rows.tensors.len() as u64, rows.entries.len() as u64);
                store.write(rows)?;
                counts
            }
            Item::Skipped => {
                outcome.skipped += 1;
                return Ok(());
            }
        };
        outcome.files += 1;
        outcome.tensors = outcome.tensors.saturating_add(tensors);
        outcome.entries = outcome.entries.saturating_add(entries);
        if progress(file, &outcome).is_break() {
            stopped.store(true, Ordering::Relaxed);
        }
        Ok(())
    };
    let failed = in_order(
        files.len(),
        options.threads.get(),
        MAX_WAITING_BYTES,
        &work,
        weigh,
        &mut |item| match take(item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        },
    );
    match failed.map_or_else(|| store.finish(), Err) {
        Ok(()) => Ok(outcome),
        Err(error) => Err(Unfinished { error, outcome }),
    }
}
