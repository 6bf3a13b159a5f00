//! Importance matrices: the importance of each column of each tensor, measured by running a model
//! over a text.
//!
//! Two file formats are supported: GGUF files (tensors `NAME.in_sum2` and `NAME.counts`), and
//! legacy `.dat` files.

mod format;
mod run;

use std::collections::BTreeMap;
use std::path::Path;

use ggmill_core::{ByteSize, RawStr};
use ggmill_io::RandomAccess;

pub use self::run::{ImatrixRun, ResumeError};
use ggmill_pipeline::{Error, ErrorKind, Result};

/// The maximum size of a file in bytes. The largest known models have matrices of 1.5 GB.
const MAX_LEN: u64 = 4 << 30;

/// The maximum number of values of an entry, 24 times that of 384 experts with 7168 columns.
const MAX_VALUES: usize = 1 << 26;

/// The maximum number of entries, more than any model has tensors.
const MAX_ENTRIES: usize = 1 << 16;

/// The default number of tokens in a chunk, as in `llama-imatrix`.
const DEFAULT_CHUNK_SIZE: u32 = 512;

/// The content of an importance matrix file.
///
/// ```
/// use ggmill_quantize::Imatrix;
/// // One entry of two columns, measured in four calls; then the number of chunks, and no dataset name.
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

/// The format of an importance matrix file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImatrixForm {
    /// A GGUF file: sums of squared activations, and their number for each matrix of a stack.
    Gguf,
    /// The legacy binary format: sums scaled to the number of calls.
    Legacy,
}

/// The measurements of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ImatrixEntry {
    form: ImatrixForm,
    sums: Vec<f32>,
    counts: Vec<i64>,
}

impl Imatrix {
    /// Reads a file of either format.
    ///
    /// # Errors
    ///
    /// Those of [`parse`](Self::parse); also if the file cannot be read or is larger than 4 GiB.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = RandomAccess::open(path)?.read_whole(MAX_LEN)?;
        Self::parse(&bytes).map_err(|error| error.file(path))
    }

    /// Parses a file of either format.
    ///
    /// # Errors
    ///
    /// If a count exceeds the remaining bytes, the sums of an entry do not match its counts, two
    /// entries have the same name, a number is not finite, or memory cannot be allocated.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let imatrix = if bytes.starts_with(b"GGUF") {
            format::parse_gguf(bytes)?
        } else {
            format::parse_legacy(bytes)?
        };
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

    /// Creates an importance matrix from sums: for each tensor its name, the sums of squared
    /// activations (one row for each matrix of the tensor), and the number of activations for each
    /// matrix. `chunks` is the number of chunks and of tokens in a chunk; `dataset` names the text.
    ///
    /// # Errors
    ///
    /// If there is no tensor, a tensor occurs twice, the sums do not match the counts, or a sum is
    /// not finite.
    ///
    /// ```
    /// use ggmill_quantize::Imatrix;
    /// let sums = [("blk.0.attn_q.weight", vec![8.0, 2.0], vec![4])];
    /// let imatrix = Imatrix::from_sums(sums, Some("wiki.txt"), (1, 4))?;
    /// assert_eq!(imatrix.get(b"blk.0.attn_q.weight").ok_or("an entry")?.weights(), [2.0, 0.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_sums<N: AsRef<[u8]>>(
        tensors: impl IntoIterator<Item = (N, Vec<f32>, Vec<i64>)>,
        dataset: Option<&str>,
        chunks: (u32, u32),
    ) -> Result<Self> {
        let mut entries = BTreeMap::new();
        for (name, sums, counts) in tensors {
            let name = name.as_ref();
            let about = |what: &str| invalid(format!("entry {:?}: {what}", RawStr::new(name)));
            if counts.is_empty() || sums.is_empty() || !sums.len().is_multiple_of(counts.len()) {
                return Err(about("the sums cannot be divided evenly among the counts"));
            }
            if !sums.iter().all(|sum| sum.is_finite()) {
                return Err(about("a sum is not finite"));
            }
            let entry = ImatrixEntry { form: ImatrixForm::Gguf, sums, counts };
            if entries.insert(name.to_vec(), entry).is_some() {
                return Err(about("occurs twice"));
            }
        }
        if entries.is_empty() {
            return Err(invalid("no tensor has been measured"));
        }
        let datasets = dataset.map(|name| name.as_bytes().to_vec()).into_iter().collect();
        let (chunk_count, chunk_size) = chunks;
        Ok(Self { form: ImatrixForm::Gguf, entries, datasets, chunk_count, chunk_size })
    }

    /// Merges the measurements, as `llama-imatrix --in-file` does: adds the sums and counts of each
    /// tensor and concatenates the dataset names. The result has the GGUF form, also for one
    /// matrix.
    ///
    /// `chunk_size` is the number of tokens in a chunk; 0 takes it from the first file that states
    /// it, else 512. It converts the calls of a legacy file to counts, and counts to the number of
    /// chunks.
    ///
    /// # Errors
    ///
    /// If files differ in the number of columns or matrices of a tensor, or a sum is not finite.
    pub fn merge(matrices: &[Self], chunk_size: u32) -> Result<Self> {
        let stated = || {
            matrices
                .iter()
                .map(|matrix| matrix.chunk_size)
                .find(|&size| size > 0)
                .unwrap_or(DEFAULT_CHUNK_SIZE)
        };
        let chunk_size = if chunk_size > 0 { chunk_size } else { stated() };
        let mut entries: BTreeMap<Vec<u8>, ImatrixEntry> = BTreeMap::new();
        for matrix in matrices {
            for (name, entry) in &matrix.entries {
                let about =
                    |message: String| invalid(format!("entry {:?}: {message}", RawStr::new(name)));
                let sum = match entries.get_mut(name) {
                    Some(sum) => sum,
                    None => entries.entry(name.clone()).or_insert(entry.empty()?),
                };
                sum.add(entry, chunk_size).map_err(about)?;
                if let Some(column) = sum.sums.iter().position(|sum| !sum.is_finite()) {
                    return Err(about(format!("the sum of column {column} is not finite")));
                }
            }
        }
        let datasets = matrices.iter().flat_map(|matrix| matrix.datasets.iter().cloned()).collect();
        let most = entries.values().flat_map(|entry| &entry.counts).max().copied().unwrap_or(0);
        let chunk_count = u32::try_from(most / i64::from(chunk_size)).unwrap_or(0);
        Ok(Self { form: ImatrixForm::Gguf, entries, datasets, chunk_count, chunk_size })
    }

    /// Returns the format of the file.
    pub fn form(&self) -> ImatrixForm {
        self.form
    }

    /// Returns the entries with the names of their tensors, sorted by name.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (RawStr<'_>, &ImatrixEntry)> {
        self.entries.iter().map(|(name, entry)| (RawStr::new(name), entry))
    }

    /// Returns the entry of a tensor.
    pub fn get(&self, name: &[u8]) -> Option<&ImatrixEntry> {
        self.entries.get(name)
    }

    /// Returns the names of the texts that the matrix was measured on, if the file states them.
    pub fn datasets(&self) -> impl ExactSizeIterator<Item = RawStr<'_>> {
        self.datasets.iter().map(|name| RawStr::new(name))
    }

    /// Returns the number of chunks of text, or 0 if the file does not state it.
    pub fn chunk_count(&self) -> u32 {
        self.chunk_count
    }

    /// Returns the number of tokens in a chunk, or 0 if the file does not state it.
    pub fn chunk_size(&self) -> u32 {
        self.chunk_size
    }
}

impl ImatrixEntry {
    /// Returns the importance of each column, one row for each matrix of a stack: the mean squared
    /// activations, or 1 for a matrix that was never used.
    pub fn weights(&self) -> Vec<f32> {
        self.means().collect()
    }

    /// Returns the weights in order.
    fn means(&self) -> impl Iterator<Item = f32> {
        let mean = move |sum: f32, count: i64| match self.form {
            _ if count > 0 => sum / as_f32(count),
            // As in the reference, a legacy entry without calls is not divided.
            ImatrixForm::Legacy => sum,
            ImatrixForm::Gguf => 1.0,
        };
        let rows = self.sums.chunks(self.width().max(1)).zip(&self.counts);
        rows.flat_map(move |(sums, &count)| sums.iter().map(move |&sum| mean(sum, count)))
    }

    /// Returns the number of values, over all matrices of a stack.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Returns `true` if there are no values.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Returns the number of columns of one matrix.
    pub fn width(&self) -> usize {
        self.sums.len().checked_div(self.counts.len()).unwrap_or(0)
    }

    /// Returns the number of activations for each matrix of a stack; in the legacy form, of calls.
    pub fn counts(&self) -> &[i64] {
        &self.counts
    }

    /// Returns `true` if any matrix of the stack was used.
    pub fn is_used(&self) -> bool {
        self.counts.iter().any(|&count| count > 0)
    }

    /// Returns an entry of this shape with all sums and counts 0.
    fn empty(&self) -> Result<Self> {
        let sums = collected(self.sums.iter().map(|_| 0.0))?;
        let counts = collected(self.counts.iter().map(|_| 0))?;
        Ok(Self { form: ImatrixForm::Gguf, sums, counts })
    }

    /// Adds another entry, with the operations of the reference in the same order and in single
    /// precision.
    fn add(&mut self, other: &Self, chunk_size: u32) -> Result<(), String> {
        if self.sums.len() != other.sums.len() {
            return Err(format!(
                "{} columns, but {} in a different input, counted over all matrices",
                self.sums.len(),
                other.sums.len()
            ));
        }
        match other.form {
            ImatrixForm::Legacy => {
                // A legacy file scales its sums to the number of calls, which is the same for all
                // matrices of a stack.
                for (sum, &more) in self.sums.iter_mut().zip(&other.sums) {
                    *sum += more * as_f32(i64::from(chunk_size));
                }
                let calls = other
                    .counts
                    .first()
                    .copied()
                    .unwrap_or(0)
                    .saturating_mul(i64::from(chunk_size));
                self.counts.iter_mut().for_each(|count| *count = count.saturating_add(calls));
            }
            ImatrixForm::Gguf => {
                if let (&[counted], more @ 2..) = (&*self.counts, other.counts.len()) {
                    self.counts = vec![counted; more];
                }
                if self.counts.len() != other.counts.len() {
                    return Err(format!(
                        "{} matrices, but {} in a different input",
                        self.counts.len(),
                        other.counts.len()
                    ));
                }
                self.sums.iter_mut().zip(&other.sums).for_each(|(sum, &more)| *sum += more);
                self.counts
                    .iter_mut()
                    .zip(&other.counts)
                    .for_each(|(count, &more)| *count = count.saturating_add(more));
            }
        }
        Ok(())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the reference divides by the count as a float, too"
)]
fn as_f32(count: i64) -> f32 {
    count as f32
}

/// Decodes the values of an entry, at most [`MAX_VALUES`].
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

/// Collects an iterator into a vector. Returns an error if memory cannot be allocated.
fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = with_capacity(items.len())?;
    all.extend(items);
    Ok(all)
}

/// Returns an empty vector with this capacity, or an error if memory cannot be allocated.
fn with_capacity<T>(len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| {
        let bytes = len.saturating_mul(size_of::<T>());
        invalid(format!("not enough memory for the {} that are needed", ByteSize::from(bytes)))
    })?;
    Ok(all)
}
