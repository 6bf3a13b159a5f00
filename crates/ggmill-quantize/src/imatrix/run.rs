//! Importance matrices that are measured in chunks of a text: saved on the way, and continued after
//! an interruption.

use std::fmt;

use ggmill_core::RawStr;
use ggmill_pipeline::Result;

use super::Imatrix;

/// What the names of the matrices of blocks begin with; others are measured only where that is
/// asked for.
const BLOCKS: &[u8] = b"blk.";

/// A run that measures an importance matrix. It computes nothing: it says what an earlier run has
/// left to do, and makes the matrix of its chunks and of the new sums.
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
    /// The chunks of this run that are in the matrix that was saved last.
    saved: usize,
    earlier: Option<Imatrix>,
}

/// Why a matrix cannot be continued by a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeError {
    /// Its chunks have another number of tokens.
    ChunkSize {
        /// The number of tokens in a chunk of the matrix.
        found: usize,
        /// That of the run.
        expected: usize,
    },
    /// It does not say how many chunks it has.
    NoChunkCount,
    /// It was measured on another text.
    Dataset {
        /// The name of its text, escaped.
        found: String,
        /// That of the run.
        expected: Option<String>,
    },
    /// Matrices outside the blocks, such as `output.weight`, were measured and are not to be, or the
    /// other way round.
    Output {
        /// Whether they were measured.
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
    /// A run over chunks of so many tokens, from their beginning.
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

    /// The same with this name of the text.
    #[must_use]
    pub fn with_dataset(self, dataset: Option<String>) -> Self {
        Self { dataset, ..self }
    }

    /// The same with matrices outside the blocks, such as `output.weight`, or without them.
    #[must_use]
    pub fn with_output(self, with_output: bool) -> Self {
        Self { with_output, ..self }
    }

    /// The same, to be saved after every so many chunks; at least one.
    #[must_use]
    pub fn with_save_every(self, chunks: usize) -> Self {
        Self { save_every: chunks.max(1), ..self }
    }

    /// The run that continues after the chunks of this matrix.
    ///
    /// Fails for a matrix of another text, of chunks of another size, or with other tensors, and for
    /// one that does not say how many chunks it has.
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

    /// The matrix that is continued.
    pub fn earlier(&self) -> Option<&Imatrix> {
        self.earlier.as_ref()
    }

    /// How many chunks it has.
    pub fn done(&self) -> usize {
        self.earlier().map_or(0, |earlier| earlier.chunk_count as usize)
    }

    /// Whether the matrix is to be saved now that this run has done so many of its chunks; the last
    /// time is with the last of them, which is not said here.
    pub fn is_due(&mut self, chunks: usize) -> bool {
        let is_due = chunks.saturating_sub(self.saved) >= self.save_every;
        if is_due {
            self.saved = chunks;
        }
        is_due
    }

    /// The matrix of all chunks so far: those of the matrix that is continued, and so many of this
    /// run, with their sums. Of each tensor there are its name, the sums of the squares of
    /// activations, and for each of its matrices how many rows went into them.
    ///
    /// Fails as [`Imatrix::from_sums`] and [`Imatrix::merge`] do.
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
        // A matrix that is continued has the name already, unless it has none at all.
        let is_named = self.earlier().is_some_and(|earlier| earlier.datasets().next().is_some());
        let name = self.dataset.as_deref().filter(|_| !is_named);
        let part = Imatrix::from_sums(tensors, name, (count(chunks), chunk_size))?;
        let Some(earlier) = &self.earlier else { return Ok(part) };
        let whole = Imatrix::merge(&[earlier.clone(), part], chunk_size)?;
        // The counts of tensors are those of rows, from which chunks do not follow in all models.
        Ok(Imatrix { chunk_count: count(self.done().saturating_add(chunks)), ..whole })
    }
}
