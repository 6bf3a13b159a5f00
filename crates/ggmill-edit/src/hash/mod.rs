//! Hashes of a model's weights: of each tensor and of all of them, regardless of the metadata.
//!
//! The hashed bytes are the tensor data of a little-endian file, in the order of
//! the file and without the padding between them. So a model has the same hashes in one file and in
//! shards, after any edit of its metadata, and in either byte order.

mod compare;
mod file_sums;
mod kind;
mod manifest;
mod verify;

use std::ops::Range;

use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};

use ggmill_pipeline::{Checkpoint, RunOptions};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Progress, Report};

pub use compare::{Comparison, NumericError, ToCompare, compare};
pub use file_sums::{FileSums, file_sha256};
use kind::State;
pub use kind::{Digest, HashKind, UnknownHash};
pub use manifest::{Claims, Manifest};
pub use verify::{Conclusion, HashLine, HashSubject, Verdict};

/// Bytes read at once, at most.
const PIECE: usize = 1 << 20;
/// Bytes hashed at once. While they are, as many are being read.
const WINDOW: usize = 16 << 20;
/// Pieces in a window, at most: a file can have a million tensors without data.
const MAX_PIECES: usize = 4096;

/// The hashes of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hashes {
    /// Of each tensor, in the order of the checkpoint: a digest for each kind that tensors have.
    /// Empty when they were not asked for.
    pub tensors: Vec<Vec<Digest>>,
    /// Of all tensor data: a digest for each kind.
    pub model: Vec<Digest>,
}

/// Hashes the data of all tensors together and, unless `tensors` is false, of each by itself.
///
/// Every byte is read once, however many hashes there are. The hashes of different tensors and of
/// different kinds are computed in parallel, on as many threads as `options` say, and memory is
/// bounded regardless of the size of the model. `progress` receives the number of bytes read and
/// can stop the operation with [`ControlFlow::Break`](std::ops::ControlFlow::Break). Kinds come out
/// in the order of [`HashKind::ALL`].
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("model.gguf");
/// # std::fs::write(&path, ggmill_core::Builder::new().plan()?.header())?;
/// use std::ops::ControlFlow;
/// use ggmill_edit::hash::{HashKind, hash};
/// use ggmill_pipeline::{GgufCheckpoint, RunOptions};
/// let model = GgufCheckpoint::open(&path)?;
/// let options = RunOptions::default();
/// let hashes = hash(&model, &[HashKind::Xxh64], true, &options, &mut |_| ControlFlow::Continue(()))?;
/// // Of a model without tensors, XXH64 of nothing.
/// assert_eq!(hashes.model[0].to_string(), "ef46db3751d8e999");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn hash(
    checkpoint: &dyn Checkpoint,
    kinds: &[HashKind],
    tensors: bool,
    options: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<Hashes> {
    options.install(|| hash_here(checkpoint, kinds, tensors, progress))?
}

/// The same on the threads of the caller's pool.
fn hash_here(
    checkpoint: &dyn Checkpoint,
    kinds: &[HashKind],
    tensors: bool,
    progress: &mut Report<'_>,
) -> Result<Hashes> {
    let kinds: Vec<HashKind> =
        HashKind::ALL.into_iter().filter(|kind| kinds.contains(kind)).collect();
    let of_tensors: Vec<HashKind> =
        kinds.iter().copied().filter(|kind| tensors && kind.is_of_tensors()).collect();
    let sizes = sizes(checkpoint)?;
    checkpoint.prefetch(&(0..sizes.len()).collect::<Vec<_>>());
    let total = sizes.iter().copied().fold(0, u64::saturating_add);

    let mut bench = Bench {
        of_tensors,
        model: kinds.into_iter().map(HashKind::start).collect(),
        open: None,
        finished: Vec::new(),
    };
    let mut pieces = Pieces { sizes: &sizes, tensor: 0, offset: 0 };
    let (mut window, mut next) = (Window::default(), Window::default());
    window.fill(checkpoint, &mut pieces)?;
    let mut written = 0;
    checkpoint.verify()?;
    while let Some(last) = window.pieces.last() {
        let (filled, ()) =
            rayon::join(|| next.fill(checkpoint, &mut pieces), || bench.hash(&window, &sizes));
        written += window.bytes.len() as u64;
        let name = checkpoint
            .tensors()
            .get(last.tensor)
            .map(|tensor| tensor.name().to_string_lossy())
            .unwrap_or_default();
        if progress(Progress::new(&name, written, total)).is_break() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        filled?;
        std::mem::swap(&mut window, &mut next);
    }
    checkpoint.verify()?;
    Ok(Hashes {
        tensors: if tensors { bench.finished } else { Vec::new() },
        model: bench.model.into_iter().map(State::finish).collect(),
    })
}

/// Bytes of the data of each tensor.
pub(crate) fn sizes(checkpoint: &dyn Checkpoint) -> Result<Vec<u64>> {
    let size = |tensor: &ggmill_pipeline::SourceTensor| {
        let size =
            tensor.ggml_type.layout().and_then(|layout| layout.bytes_for(tensor.shape.elements()));
        size.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("the size of {} of {} is unknown", tensor.shape, tensor.ggml_type),
            )
            .tensor(&tensor.name)
        })
    };
    checkpoint.tensors().iter().map(size).collect()
}

/// A stretch of a tensor's data.
#[derive(Clone, Copy, Debug)]
struct Piece {
    tensor: usize,
    /// Where in the tensor's data it is.
    offset: u64,
    len: usize,
    /// Where in the window it is.
    start: usize,
}

impl Piece {
    fn of<'a>(&self, window: &'a [u8]) -> &'a [u8] {
        window.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// Cuts all tensor data into pieces; a tensor without data is a piece too.
struct Pieces<'a> {
    sizes: &'a [u64],
    tensor: usize,
    offset: u64,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let size = *self.sizes.get(self.tensor)?;
        let (tensor, offset) = (self.tensor, self.offset);
        let len = (size - offset).min(PIECE as u64);
        self.offset += len;
        if self.offset == size {
            (self.tensor, self.offset) = (self.tensor + 1, 0);
        }
        // No larger than PIECE.
        Some(Piece { tensor, offset, len: usize::try_from(len).unwrap_or(PIECE), start: 0 })
    }
}

/// Pieces that follow each other, and what they hold. Its memory serves the next ones.
#[derive(Default)]
struct Window {
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
}

impl Window {
    /// Reads the next pieces; none at the end.
    fn fill(&mut self, checkpoint: &dyn Checkpoint, pieces: &mut Pieces<'_>) -> Result<()> {
        self.pieces.clear();
        let mut len = 0;
        while len < WINDOW
            && self.pieces.len() < MAX_PIECES
            && let Some(piece) = pieces.next()
        {
            self.pieces.push(Piece { start: len, ..piece });
            len += piece.len;
        }
        self.bytes.resize(len, 0);
        let mut rest = &mut *self.bytes;
        let mut reads = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let (these, behind) = rest.split_at_mut(piece.len);
            reads.push((piece, these));
            rest = behind;
        }
        reads
            .into_par_iter()
            .try_for_each(|(piece, bytes)| checkpoint.read(piece.tensor, piece.offset, bytes))
    }
}

/// The hash functions at work.
struct Bench {
    of_tensors: Vec<HashKind>,
    model: Vec<State>,
    /// Those of a tensor of which only the beginning has been seen.
    open: Option<(usize, Vec<State>)>,
    finished: Vec<Vec<Digest>>,
}

impl Bench {
    fn hash(&mut self, window: &Window, sizes: &[u64]) {
        let Window { pieces: window, bytes } = window;
        let mut tensors: Vec<(Range<usize>, Vec<State>)> = Vec::new();
        let mut start = 0;
        for same in window.chunk_by(|a, b| a.tensor == b.tensor) {
            let states = match self.open.take() {
                Some((tensor, states))
                    if same.first().is_some_and(|piece| piece.tensor == tensor) =>
                {
                    states
                }
                _ => self.of_tensors.iter().map(|kind| kind.start()).collect(),
            };
            tensors.push((start..start + same.len(), states));
            start += same.len();
        }
        // The longest work first: all of the window for each hash of the model.
        let mut work: Vec<(&mut State, &[Piece])> =
            self.model.iter_mut().map(|state| (state, &**window)).collect();
        for (pieces, states) in &mut tensors {
            let pieces = window.get(pieces.clone()).unwrap_or_default();
            work.extend(states.iter_mut().map(|state| (state, pieces)));
        }
        work.into_par_iter().with_max_len(1).for_each(|(state, pieces)| {
            for piece in pieces {
                state.update(piece.of(bytes));
            }
        });

        for (pieces, states) in tensors {
            let Some(last) = window.get(pieces.end - 1) else { continue };
            if sizes.get(last.tensor) == Some(&(last.offset + last.len as u64)) {
                self.finished.push(states.into_iter().map(State::finish).collect());
            } else {
                self.open = Some((last.tensor, states));
            }
        }
    }
}
