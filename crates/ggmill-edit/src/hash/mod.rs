//! Hashes of a model's weights: of each tensor and of all tensors, independent of the metadata.
//!
//! The hashed bytes are the tensor data of a little-endian file, in the order of the file and without
//! the padding. So a model has the same hashes in one file and in shards, after any edit of its
//! metadata, and in either byte order.

mod compare;
mod file_sums;
mod manifest;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use ggmill_pipeline::{Checkpoint, Error, ErrorKind, Progress, Report, Result, RunOptions};
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh64::Xxh64;

pub use compare::{Comparison, NumericError, ToCompare, compare};
pub use file_sums::{FileSums, file_sha256};
pub use manifest::{Claims, Conclusion, HashLine, HashSubject, Manifest, Verdict};

/// The maximum number of bytes read per call.
const PIECE: usize = 1 << 20;
/// Bytes hashed at a time, while the next window is read.
const WINDOW: usize = 16 << 20;
/// The maximum number of pieces in a window: a file can have a million tensors without data.
const MAX_PIECES: usize = 4096;

/// The hashes of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hashes {
    /// The hashes of each tensor, in the order of the checkpoint: a digest for each kind that tensors
    /// have. Empty if they were not requested.
    pub tensors: Vec<Vec<Digest>>,
    /// The hashes of all tensor data: a digest for each kind.
    pub model: Vec<Digest>,
}

/// Hashes the data of all tensors together and, if `tensors` is true, of each tensor.
///
/// Every byte is read once for all hashes. The hashes of different tensors and of different kinds are
/// computed in parallel, on the number of threads in `options`, and memory is bounded regardless of
/// the size of the model. `progress` receives the number of bytes read and
/// can stop the operation with [`ControlFlow::Break`](std::ops::ControlFlow::Break). Kinds are
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
/// // The model has no tensors: XXH64 of no bytes.
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
    options.install(|| hash_in_pool(checkpoint, kinds, tensors, progress))?
}

/// Hashes on the threads of the current pool.
fn hash_in_pool(
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

    let mut hasher = Hasher {
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
            rayon::join(|| next.fill(checkpoint, &mut pieces), || hasher.hash(&window, &sizes));
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
        tensors: if tensors { hasher.finished } else { Vec::new() },
        model: hasher.model.into_iter().map(State::finish).collect(),
    })
}

/// Returns the size of the data of each tensor, in bytes.
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

/// A range of a tensor's data.
#[derive(Clone, Copy, Debug)]
struct Piece {
    tensor: usize,
    /// The offset in the tensor's data.
    offset: u64,
    len: usize,
    /// The offset in the window.
    start: usize,
}

impl Piece {
    fn of<'a>(&self, window: &'a [u8]) -> &'a [u8] {
        window.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// Cuts all tensor data into pieces. A tensor without data is an empty piece.
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

/// Consecutive pieces and their bytes. The buffer is reused.
#[derive(Default)]
struct Window {
    pieces: Vec<Piece>,
    bytes: Vec<u8>,
}

impl Window {
    /// Reads the next pieces. The window is empty at the end.
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

/// The states of all hash functions.
struct Hasher {
    of_tensors: Vec<HashKind>,
    model: Vec<State>,
    /// The number and states of a tensor that continues in the next window.
    open: Option<(usize, Vec<State>)>,
    finished: Vec<Vec<Digest>>,
}

impl Hasher {
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
        // The longest tasks first: the hashes of the model cover the whole window.
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

/// `ef001206-dadc-5f6d-a15f-3359e577d4e5`, the namespace of llama.cpp's identifiers: a UUID of
/// version 5 for `en.wikipedia.org/wiki/Llama.cpp`.
const NAMESPACE: uuid::Uuid = uuid::Uuid::from_u128(0xef00_1206_dadc_5f6d_a15f_3359_e577_d4e5);

/// A hash function, by the name it has in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HashKind {
    /// XXH64 with seed 0: fast; detects accidental corruption.
    Xxh64,
    /// SHA-1.
    Sha1,
    /// SHA-256: detects deliberate tampering.
    Sha256,
    /// BLAKE3, 256 bits: detects deliberate tampering; faster than SHA-256. Not known to
    /// llama-gguf-hash.
    Blake3,
    /// A UUID of version 5 over all tensor data in the namespace of llama.cpp: an identifier of a
    /// whole model, never of a tensor.
    Uuid,
}

impl HashKind {
    /// All kinds, in the order of a manifest.
    pub const ALL: [Self; 5] = [Self::Xxh64, Self::Sha1, Self::Sha256, Self::Blake3, Self::Uuid];

    /// All kinds, strongest first: the order of preference for verification.
    pub const STRONGEST_FIRST: [Self; 5] =
        [Self::Sha256, Self::Blake3, Self::Sha1, Self::Xxh64, Self::Uuid];

    /// Returns the name in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xxh64 => "xxh64",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Blake3 => "blake3",
            Self::Uuid => "uuid",
        }
    }

    /// Returns `true` if tensors have a hash of this kind, not only models.
    pub fn is_of_tensors(self) -> bool {
        self != Self::Uuid
    }

    fn start(self) -> State {
        match self {
            Self::Xxh64 => State::Xxh64(Xxh64::new(0)),
            Self::Sha1 => State::Sha1(Sha1::new()),
            Self::Sha256 => State::Sha256(Sha256::new()),
            Self::Blake3 => State::Blake3(Box::new(blake3::Hasher::new())),
            Self::Uuid => State::Uuid(Sha1::new().chain_update(NAMESPACE.as_bytes())),
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HashKind {
    type Err = UnknownHash;

    fn from_str(name: &str) -> Result<Self, UnknownHash> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownHash(()))
    }
}

/// The error of parsing a [`HashKind`]: no hash has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownHash(());

impl fmt::Display for UnknownHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected xxh64, sha1, sha256, blake3 or uuid")
    }
}

impl std::error::Error for UnknownHash {}

/// The result of a hash function. [`Display`](fmt::Display) writes lower-case hexadecimal, and hyphens
/// in a UUID, as in a manifest.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Digest {
    kind: HashKind,
    bytes: Vec<u8>,
}

impl Digest {
    /// Returns the hash function.
    pub fn kind(&self) -> HashKind {
        self.kind
    }

    /// Returns the digest, most significant byte first.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, byte) in self.bytes.iter().enumerate() {
            if self.kind == HashKind::Uuid && matches!(number, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", self.kind)
    }
}

/// The state of a hash function.
#[derive(Clone)]
enum State {
    Xxh64(Xxh64),
    Sha1(Sha1),
    Sha256(Sha256),
    Blake3(Box<blake3::Hasher>),
    Uuid(Sha1),
}

impl State {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Xxh64(state) => state.update(bytes),
            Self::Sha1(state) | Self::Uuid(state) => state.update(bytes),
            Self::Sha256(state) => state.update(bytes),
            Self::Blake3(state) => {
                state.update(bytes);
            }
        }
    }

    fn finish(self) -> Digest {
        let (kind, bytes) = match self {
            Self::Xxh64(state) => (HashKind::Xxh64, state.digest().to_be_bytes().to_vec()),
            Self::Sha1(state) => (HashKind::Sha1, state.finalize().to_vec()),
            Self::Sha256(state) => (HashKind::Sha256, state.finalize().to_vec()),
            Self::Blake3(state) => (HashKind::Blake3, state.finalize().as_bytes().to_vec()),
            Self::Uuid(state) => {
                let mut bytes = [0; 16];
                bytes.iter_mut().zip(state.finalize()).for_each(|(byte, found)| *byte = found);
                (
                    HashKind::Uuid,
                    uuid::Builder::from_sha1_bytes(bytes).into_uuid().into_bytes().to_vec(),
                )
            }
        };
        Digest { kind, bytes }
    }
}
