//! Importance matrices: for each tensor how much each of its columns matters, as measured by
//! running a model over a text.
//!
//! Two forms are read: current GGUF files (tensors `NAME.in_sum2` and `NAME.counts`), and the
//! binary `.dat` files from before.

mod combine;
mod gguf;
mod legacy;
mod memory;
mod run;
mod sums;
mod write;

use std::collections::BTreeMap;
use std::path::Path;

use ggmill_core::RawStr;
use ggmill_io::RandomAccess;

use self::memory::collected;
pub use self::run::{ImatrixRun, ResumeError};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// Bytes of the longest file that is read. The largest models there are have matrices of one and a
/// half gigabytes.
const MAX_LEN: u64 = 4 << 30;

/// Values of the largest entry: a stack of 384 experts with 7168 columns has a twentieth of these.
const MAX_VALUES: usize = 1 << 26;

/// Entries of the largest matrix; no model has as many tensors.
const MAX_ENTRIES: usize = 1 << 16;

/// The content of an importance matrix file.
///
/// ```
/// use ggmill_quantize::Imatrix;
/// // One entry of two columns, measured in four calls; then the number of chunks, and no name of a data set.
/// let mut file = Vec::new();
/// file.extend(1i32.to_le_bytes());
/// file.extend(3i32.to_le_bytes());
/// file.extend(b"one");
/// file.extend([4i32, 2].into_iter().flat_map(i32::to_le_bytes));
/// file.extend([8.0f32, 2.0].into_iter().flat_map(f32::to_le_bytes));
/// file.extend(4i32.to_le_bytes());
/// let imatrix = Imatrix::parse(&file)?;
/// assert_eq!(imatrix.get(b"one").ok_or("an entry")?.weights(), [2.0, 0.5]);
/// assert_eq!(imatrix.chunk_count(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Imatrix {
    form: ImatrixForm,
    entries: BTreeMap<Vec<u8>, ImatrixEntry>,
    datasets: Vec<Vec<u8>>,
    chunk_count: u32,
    chunk_size: u32,
}

/// How a file stores its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImatrixForm {
    /// A GGUF file: sums of squared activations, and for each matrix of a stack how many went into
    /// them.
    Gguf,
    /// The binary form before that: sums scaled to the number of calls.
    Legacy,
}

/// The measurements for one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ImatrixEntry {
    form: ImatrixForm,
    sums: Vec<f32>,
    counts: Vec<i64>,
}

impl Imatrix {
    /// Reads a file of either form. Fails as [`parse`](Self::parse) does, and for a file of more
    /// than 4 GiB before any of it is read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = RandomAccess::open(path)?.read_whole(MAX_LEN)?;
        Self::parse(&bytes).map_err(|error| error.file(path))
    }

    /// Reads the bytes of a file of either form. Fails when a count exceeds the remaining bytes,
    /// when sums and counts do not belong together, when two entries have one name, when a number
    /// is not finite, and when memory is short.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let imatrix =
            if bytes.starts_with(b"GGUF") { gguf::parse(bytes)? } else { legacy::parse(bytes)? };
        for (name, entry) in &imatrix.entries {
            if let Some(place) = entry.means().position(|weight| !weight.is_finite()) {
                return Err(invalid(format!(
                    "entry {:?}: weight {place} is not finite",
                    RawStr::new(name)
                )));
            }
        }
        Ok(imatrix)
    }

    /// How the file stores its entries.
    pub fn form(&self) -> ImatrixForm {
        self.form
    }

    /// The entries with the names of their tensors, sorted by name.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (RawStr<'_>, &ImatrixEntry)> {
        self.entries.iter().map(|(name, entry)| (RawStr::new(name), entry))
    }

    /// The entry for a tensor.
    pub fn get(&self, name: &[u8]) -> Option<&ImatrixEntry> {
        self.entries.get(name)
    }

    /// The texts it was measured on, as far as the file says.
    pub fn datasets(&self) -> impl ExactSizeIterator<Item = RawStr<'_>> {
        self.datasets.iter().map(|name| RawStr::new(name))
    }

    /// How many chunks of text it was measured on; 0 when the file does not say.
    pub fn chunk_count(&self) -> u32 {
        self.chunk_count
    }

    /// Tokens in a chunk; 0 when the file does not say.
    pub fn chunk_size(&self) -> u32 {
        self.chunk_size
    }
}

impl ImatrixEntry {
    /// The importance of each column, one row for each matrix of a stack: mean squared activations.
    /// A matrix that was never used has 1 everywhere.
    pub fn weights(&self) -> Vec<f32> {
        self.means().collect()
    }

    /// The weights, one after the other.
    fn means(&self) -> impl Iterator<Item = f32> {
        let mean = move |sum: f32, count: i64| match self.form {
            _ if count > 0 => sum / as_f32(count),
            // The single count of a legacy entry is left alone where it is none.
            ImatrixForm::Legacy => sum,
            ImatrixForm::Gguf => 1.0,
        };
        let rows = self.sums.chunks(self.width().max(1)).zip(&self.counts);
        rows.flat_map(move |(sums, &count)| sums.iter().map(move |&sum| mean(sum, count)))
    }

    /// How many values the entry has, over all matrices of a stack.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Columns of one matrix.
    pub fn width(&self) -> usize {
        self.sums.len().checked_div(self.counts.len()).unwrap_or(0)
    }

    /// For each matrix of a stack how many activations were counted; calls in the legacy form.
    pub fn counts(&self) -> &[i64] {
        &self.counts
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the reference divides by the count as a float, too"
)]
fn as_f32(count: i64) -> f32 {
    count as f32
}

/// The values of an entry, of which there may be so many.
fn values(bytes: &[u8]) -> Result<Vec<f32>> {
    let (values, _) = bytes.as_chunks::<4>();
    if values.len() > MAX_VALUES {
        return Err(invalid(format!("{} values, the limit is {MAX_VALUES}", values.len())));
    }
    collected(values.iter().map(|&bytes| f32::from_le_bytes(bytes)))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Importance, message)
}
