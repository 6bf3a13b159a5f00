//! Hashes of a model's weights: of each tensor and of all of them, whatever the metadata say.
//!
//! What is hashed is the data of the tensors as they lie in a little-endian file, in the order of the file and without the padding between them. So a model has
//! the same hashes in one file and in shards, after any edit of its metadata, and in either byte order.

mod kind;
mod manifest;

use std::ops::{ControlFlow, Range};

use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _};

use self::kind::State;
pub use self::kind::{Digest, HashKind, UnknownHash};
pub use self::manifest::{Claims, Manifest};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::run::Progress;

/// Bytes read at once, at most.
const PIECE: u64 = 1 << 20;
/// Bytes hashed at once. While they are, as many are being read.
const WINDOW: u64 = 16 << 20;
/// Pieces in a window, at most: a file can have a million tensors without data.
const MOST_PIECES: usize = 4096;

/// The hashes of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hashes {
    /// Of each tensor, in the order of the checkpoint: a digest for each kind that tensors have. Empty when they were not asked for.
    pub tensors: Vec<Vec<Digest>>,
    /// Of all tensor data: a digest for each kind.
    pub model: Vec<Digest>,
}

/// Hashes the data of all tensors together and, unless `tensors` is false, of each by itself.
///
/// Every byte is read once, however many hashes there are. The hashes of different tensors and of different kinds are computed in parallel, and memory is
/// bounded whatever the size of the model. `progress` is told of bytes read and can end it with [`ControlFlow::Break`]. Kinds come out in the order of
/// [`HashKind::ALL`].
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.gguf");
/// # std::fs::write(&path, ggmill_core::Builder::new().plan()?.header())?;
/// use std::ops::ControlFlow;
/// use ggmill_convert::{GgufCheckpoint, HashKind, hash};
/// let model = GgufCheckpoint::open(&path)?;
/// let hashes = hash(&model, &[HashKind::Xxh64], true, &mut |_| ControlFlow::Continue(()))?;
/// // Of a model without tensors, XXH64 of nothing.
/// assert_eq!(hashes.model[0].to_string(), "ef46db3751d8e999");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn hash(checkpoint: &dyn Checkpoint, kinds: &[HashKind], tensors: bool, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Hashes> {
    let kinds: Vec<HashKind> = HashKind::ALL.into_iter().filter(|kind| kinds.contains(kind)).collect();
    let of_tensors: Vec<HashKind> = kinds.iter().copied().filter(|kind| tensors && kind.is_of_tensors()).collect();
    let sizes = sizes(checkpoint)?;
    let total = sizes.iter().copied().fold(0, u64::saturating_add);

    let mut bench = Bench { of_tensors, model: kinds.into_iter().map(HashKind::start).collect(), open: None, finished: Vec::new() };
    let mut pieces = Pieces { sizes: &sizes, tensor: 0, offset: 0 };
    let mut window = read(checkpoint, pieces.window())?;
    let mut written = 0;
    while let Some(last) = window.last() {
        let next = pieces.window();
        let (next, ()) = rayon::join(|| read(checkpoint, next), || bench.hash(&window, &sizes));
        written += window.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
        let name = checkpoint.tensors().get(last.tensor).map(|tensor| tensor.name().to_string_lossy()).unwrap_or_default();
        if progress(Progress { tensor: &name, written, total }).is_break() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        window = next?;
    }
    checkpoint.sources().into_iter().try_for_each(ggmill_io::RandomAccess::refuse_changed)?;
    Ok(Hashes { tensors: if tensors { bench.finished } else { Vec::new() }, model: bench.model.into_iter().map(State::finish).collect() })
}

/// Bytes of the data of each tensor.
pub(crate) fn sizes(checkpoint: &dyn Checkpoint) -> Result<Vec<u64>> {
    let size = |tensor: &crate::SourceTensor| {
        let size = tensor.ggml_type.layout().and_then(|layout| layout.bytes_for(tensor.shape.elements()));
        size.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, format!("the size of {} of {} is not known", tensor.shape, tensor.ggml_type)).tensor(&tensor.name)
        })
    };
    checkpoint.tensors().iter().map(size).collect()
}

/// A stretch of a tensor's data, to be read.
#[derive(Clone, Copy, Debug)]
struct Piece {
    tensor: usize,
    offset: u64,
    len: u64,
}

/// The same, read.
struct Read {
    tensor: usize,
    /// Where in the tensor's data it ends.
    end: u64,
    bytes: Vec<u8>,
}

/// Cuts all tensor data into pieces; a tensor without data is a piece too.
struct Pieces<'a> {
    sizes: &'a [u64],
    tensor: usize,
    offset: u64,
}

impl Pieces<'_> {
    fn window(&mut self) -> Vec<Piece> {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while let Some(size) = self.sizes.get(self.tensor).filter(|_| bytes < WINDOW && pieces.len() < MOST_PIECES) {
            let len = (size - self.offset).min(PIECE);
            pieces.push(Piece { tensor: self.tensor, offset: self.offset, len });
            bytes += len;
            self.offset += len;
            if self.offset == *size {
                (self.tensor, self.offset) = (self.tensor + 1, 0);
            }
        }
        pieces
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the pieces end here")]
fn read(checkpoint: &dyn Checkpoint, pieces: Vec<Piece>) -> Result<Vec<Read>> {
    let read = |piece: &Piece| {
        let mut bytes = vec![0; usize::try_from(piece.len).unwrap_or(0)];
        checkpoint.read(piece.tensor, piece.offset, &mut bytes)?;
        Ok(Read { tensor: piece.tensor, end: piece.offset + piece.len, bytes })
    };
    pieces.par_iter().map(read).collect()
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
    fn hash(&mut self, window: &[Read], sizes: &[u64]) {
        let mut tensors: Vec<(Range<usize>, Vec<State>)> = Vec::new();
        let mut start = 0;
        for same in window.chunk_by(|a, b| a.tensor == b.tensor) {
            let states = match self.open.take() {
                Some((tensor, states)) if same.first().is_some_and(|piece| piece.tensor == tensor) => states,
                _ => self.of_tensors.iter().map(|kind| kind.start()).collect(),
            };
            tensors.push((start..start + same.len(), states));
            start += same.len();
        }
        // The longest work first: all of the window for each hash of the model.
        let mut work: Vec<(&mut State, &[Read])> = self.model.iter_mut().map(|state| (state, window)).collect();
        for (pieces, states) in &mut tensors {
            let pieces = window.get(pieces.clone()).unwrap_or_default();
            work.extend(states.iter_mut().map(|state| (state, pieces)));
        }
        work.into_par_iter().with_max_len(1).for_each(|(state, pieces)| pieces.iter().for_each(|piece| state.update(&piece.bytes)));

        for (pieces, states) in tensors {
            let Some(last) = window.get(pieces.end - 1) else { continue };
            if sizes.get(last.tensor) == Some(&last.end) {
                self.finished.push(states.into_iter().map(State::finish).collect());
            } else {
                self.open = Some((last.tensor, states));
            }
        }
    }
}
