//! Measurement of an importance matrix in chunks of a text, with checkpoints and resumption.

use std::fmt;

use ggmill_core::RawStr;
use ggmill_pipeline::Result;

use super::Imatrix;

/// The prefix of the tensors of blocks. Other tensors are measured only on request.
const BLOCKS: &[u8] = b"blk.";

/// The state of a run that measures an importance matrix. It computes no activations: it says where
/// to resume, and combines the matrix of an earlier run with new sums.
///
/// ```
/// use ggmill_quantize::ImatrixRun;
/// let run = ImatrixRun::new(512).with_dataset(Some("wiki.txt".to_owned()));
/// // Sums of two chunks, from a program that ran the model over them.
/// let sums = [("blk.0.attn_q.weight", &[8.0, 2.0][..], &[1024][..])];
/// let half = run.imatrix(sums, 2)?;
/// let run = run.resume(half)?;
/// assert_eq!(run.done(), 2);
/// assert_eq!(run.imatrix(sums, 2)?.chunk_count(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImatrixRun {
    chunk_size: usize,
    dataset: Option<String>,
    with_output: bool,
    save_every: usize,
    /// The number of chunks of this run in the last checkpoint.
    saved: usize,
    earlier: Option<Imatrix>,
}

/// Why a run cannot resume from a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeError {
    /// The chunks have another number of tokens.
    ChunkSize {
        /// The number of tokens in a chunk of the matrix.
        found: usize,
        /// The number of tokens in a chunk of the run.
        expected: usize,
    },
    /// The matrix does not state its number of chunks.
    NoChunkCount,
    /// The matrix was measured on another text.
    Dataset {
        /// The name of the text of the matrix, escaped.
        found: String,
        /// The name of the text of the run.
        expected: Option<String>,
    },
    /// The matrix has tensors outside the blocks, such as `output.weight`, and the run does not, or
    /// vice versa.
    Output {
        /// `true` if the matrix has them.
        is_measured: bool,
    },
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChunkSize { found, expected } => {
                write!(f, "chunks of {found} tokens, expected {expected}")
            }
            Self::NoChunkCount => {
                f.write_str("does not say how many chunks it has, so it cannot be continued")
            }
            Self::Dataset { found, expected } => {
                let expected = expected.as_deref().unwrap_or("no other text");
                write!(f, "measured on {found}, expected {expected}")
            }
            Self::Output { is_measured } => {
                let with = if *is_measured { "with" } else { "without" };
                write!(f, "measured {with} matrices outside the blocks, such as output.weight")
            }
        }
    }
}

impl std::error::Error for ResumeError {}

impl ImatrixRun {
    /// Returns a run from the first chunk, with chunks of `chunk_size` tokens.
    pub fn new(chunk_size: usize) -> Self {
        Self {
            chunk_size,
            dataset: None,
            with_output: false,
            save_every: usize::MAX,
            saved: 0,
            earlier: None,
        }
    }

    /// Sets the name of the text.
    #[must_use]
    pub fn with_dataset(self, dataset: Option<String>) -> Self {
        Self { dataset, ..self }
    }

    /// Sets whether tensors outside the blocks, such as `output.weight`, are measured.
    #[must_use]
    pub fn with_output(self, with_output: bool) -> Self {
        Self { with_output, ..self }
    }

    /// Sets the number of chunks between checkpoints, at least 1.
    #[must_use]
    pub fn with_save_every(self, chunks: usize) -> Self {
        Self { save_every: chunks.max(1), ..self }
    }

    /// Resumes after the chunks of an earlier matrix.
    ///
    /// # Errors
    ///
    /// If the matrix is of another text, of another chunk size, or with other tensors, or does not
    /// state its number of chunks.
    pub fn resume(self, earlier: Imatrix) -> Result<Self, ResumeError> {
        let found = earlier.chunk_size as usize;
        if found != 0 && found != self.chunk_size {
            return Err(ResumeError::ChunkSize { found, expected: self.chunk_size });
        }
        if earlier.chunk_count == 0 {
            return Err(ResumeError::NoChunkCount);
        }
        let is_other =
            |found: &RawStr<'_>| self.dataset.as_ref().is_none_or(|name| *found != name.as_str());
        if let Some(found) = earlier.datasets().find(is_other) {
            let found = found.to_string();
            return Err(ResumeError::Dataset { found, expected: self.dataset });
        }
        let is_measured = earlier.entries().any(|(name, _)| !name.as_bytes().starts_with(BLOCKS));
        if is_measured != self.with_output {
            return Err(ResumeError::Output { is_measured });
        }
        Ok(Self { earlier: Some(earlier), ..self })
    }

    /// Returns the matrix that the run resumes from.
    pub fn earlier(&self) -> Option<&Imatrix> {
        self.earlier.as_ref()
    }

    /// Returns the number of chunks of the earlier matrix.
    pub fn done(&self) -> usize {
        self.earlier().map_or(0, |earlier| earlier.chunk_count as usize)
    }

    /// Returns `true` if a checkpoint is due after `chunks` chunks of this run. The caller also
    /// saves after the last chunk.
    pub fn is_due(&mut self, chunks: usize) -> bool {
        let is_due = chunks.saturating_sub(self.saved) >= self.save_every;
        if is_due {
            self.saved = chunks;
        }
        is_due
    }

    /// Returns the matrix of all chunks so far: those of the earlier matrix and `chunks` chunks of
    /// this run with their sums. `sums` has, for each tensor, its name, the sums of squared
    /// activations, and the number of rows for each of its matrices.
    ///
    /// # Errors
    ///
    /// Those of [`Imatrix::from_sums`] and [`Imatrix::merge`].
    pub fn imatrix<'s, N: AsRef<[u8]>>(
        &self,
        sums: impl IntoIterator<Item = (N, &'s [f64], &'s [u64])>,
        chunks: usize,
    ) -> Result<Imatrix> {
        let count = |chunks: usize| u32::try_from(chunks).unwrap_or(u32::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "the file has single precision")]
        let tensors = sums.into_iter().map(|(name, sums, counts)| {
            let counts = counts.iter().map(|&count| i64::try_from(count).unwrap_or(i64::MAX));
            (name, sums.iter().map(|&sum| sum as f32).collect(), counts.collect())
        });
        let chunk_size = count(self.chunk_size);
        // The earlier matrix already has the name, unless it has none.
        let is_named = self.earlier().is_some_and(|earlier| earlier.datasets().next().is_some());
        let name = self.dataset.as_deref().filter(|_| !is_named);
        let part = Imatrix::from_sums(tensors, name, (count(chunks), chunk_size))?;
        let Some(earlier) = &self.earlier else { return Ok(part) };
        let whole = Imatrix::merge(&[earlier.clone(), part], chunk_size)?;
        // The counts are numbers of rows, from which the number of chunks cannot be derived in all
        // models.
        Ok(Imatrix { chunk_count: count(self.done().saturating_add(chunks)), ..whole })
    }
}
