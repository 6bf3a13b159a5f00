use std::path::Path;

use ggmill_core::{Decoder, Gguf, Index, Limits, Metadata, Progress, Tensor, Tensors};

use crate::error::{Detail, Error, Missing, Result};
use crate::random_access::RandomAccess;

/// The first piece of a header that is read. Most headers without a vocabulary fit.
const FIRST_CHUNK: u64 = 64 << 10;

/// The largest piece of a header that is read at once: it stays in the processor's cache on its way to the decoder, and touches few pages.
const LARGEST_CHUNK: u64 = 256 << 10;

/// A GGUF file opened by [`open`]: its header in memory, its tensor data read by position when asked for. Several threads may share it.
///
/// ```
/// # use ggmill_core::{Builder, GgmlType, Shape};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.gguf");
/// # let plan = Builder::new().tensor("output_norm.weight", GgmlType::F32, Shape::new(&[2])?).plan()?;
/// # std::fs::write(&path, [plan.header(), &[0; 32]].concat())?;
/// let model = ggmill_io::open(&path)?;
/// for tensor in model.tensors() {
///     println!("{:<40} {:<8} {}", tensor.name(), tensor.ggml_type(), tensor.shape());
/// }
/// let norm = model.read_tensor(&model.tensor("output_norm.weight")?)?;
/// assert_eq!(norm.len(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GgufFile {
    file: RandomAccess,
    header: Gguf<Vec<u8>>,
}

/// Opens a GGUF file by reading its header: the safe twin of [`map`](crate::map).
///
/// Nothing that happens to the file afterwards can do more than make a later read fail. Fails when the file cannot be opened or is no regular file, and when
/// its content is refused; of a file that ends too early the error says how much of it is there.
pub fn open(path: impl AsRef<Path>) -> Result<GgufFile> {
    open_with(path, &Limits::default())
}

/// [`open`] with limits of one's own.
pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<GgufFile> {
    let file = RandomAccess::open(path)?;
    let header = read_header(&file, Decoder::new(Some(file.len()), limits)).map_err(|failure| failure.explain(&file, limits))?;
    Ok(GgufFile { file, header })
}

/// Opens what can be known of a file that may be broken, with everything that [`open`] would refuse it for:
/// [`Decoder::salvage`](ggmill_core::Decoder::salvage) on a file.
///
/// Fails when the file cannot be read, and when it is not GGUF at all. With faults, tensors can lie outside the file or in each other.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cut.gguf");
/// # let header = ggmill_core::Builder::new().tensor("w", ggmill_core::GgmlType::F32, ggmill_core::Shape::new(&[64])?).plan()?.header().to_vec();
/// # std::fs::write(&path, &header)?;
/// let (model, faults) = ggmill_io::salvage(&path)?;
/// assert_eq!((model.tensors().len(), faults.len()), (1, 1));
/// assert!(ggmill_io::open(&path).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn salvage(path: impl AsRef<Path>) -> Result<(GgufFile, Vec<ggmill_core::Error>)> {
    let file = RandomAccess::open(path)?;
    let mut decoder = Decoder::new(Some(file.len()), &Limits::default());
    match feed(&file, &mut decoder) {
        // What is wrong with the header the decoder says again.
        Ok(()) | Err(Failure::Refused(_)) => {}
        Err(Failure::Read(error)) => return Err(error),
    }
    let (header, faults) = decoder.salvage().map_err(|error| Error::format(file.path(), error))?;
    Ok((GgufFile { file, header }, faults))
}

impl GgufFile {
    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Its length in bytes when it was opened.
    #[expect(clippy::len_without_is_empty, reason = "a GGUF file has a header")]
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// The header with its bytes. Its tensors have no data at hand; [`GgufFile::read_tensor`] has.
    pub fn header(&self) -> &Gguf<Vec<u8>> {
        &self.header
    }

    /// The parsed header.
    pub fn index(&self) -> &Index {
        self.header.index()
    }

    /// The metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        self.header.metadata()
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> Tensors<'_> {
        self.header.tensors()
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        self.header.tensor(name).map_err(|error| Error::format(self.path(), error))
    }

    /// The data of a tensor of this file. Fails for a type nobody has published, and when the file has lost its end meanwhile.
    pub fn read_tensor(&self, tensor: &Tensor<'_>) -> Result<Vec<u8>> {
        match (tensor.size(), tensor.data()) {
            // Nothing to read, wherever the offset points.
            (Some(0), _) => Ok(Vec::new()),
            (Some(size), _) => self.file.read_vec(tensor.offset(), size),
            // The view knows how to say why.
            (None, Err(error)) => Err(Error::format(self.path(), error)),
            (None, Ok(data)) => Ok(data.to_vec()),
        }
    }

    /// The file behind it, for those who hand ranges of it on.
    pub fn file(&self) -> &RandomAccess {
        &self.file
    }

    /// Closes the file, to be opened for each read; see [`RandomAccess::put_aside`].
    pub fn put_aside(&mut self) {
        self.file.put_aside();
    }

    /// Fills `out` with the bytes of the file from `offset` on. Fails when the file ends before they do.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, out)
    }
}

/// Why a header was not read.
enum Failure {
    Read(Error),
    Refused(ggmill_core::Error),
}

impl Failure {
    #[cold]
    fn explain(self, file: &RandomAccess, limits: &Limits) -> Error {
        match self {
            Self::Read(error) => error,
            Self::Refused(error) => with_missing(file, error, limits),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<ggmill_core::Error> for Failure {
    fn from(error: ggmill_core::Error) -> Self {
        Self::Refused(error)
    }
}

fn read_header(file: &RandomAccess, mut decoder: Decoder) -> Result<Gguf<Vec<u8>>, Failure> {
    feed(file, &mut decoder)?;
    Ok(decoder.finish()?)
}

/// Feeds a decoder from the file in growing pieces, never more than the file has. Memory grows as bytes arrive, not as lengths in them promise.
fn feed(file: &RandomAccess, decoder: &mut Decoder) -> Result<(), Failure> {
    let mut chunk = FIRST_CHUNK;
    let mut needs = 0;
    let mut piece = Vec::new();
    while decoder.position() < file.len() {
        let wanted = chunk.max(u64::saturating_sub(needs, decoder.position())).min(LARGEST_CHUNK).min(file.len() - decoder.position());
        piece.resize(usize::try_from(wanted).unwrap_or(usize::MAX), 0);
        file.read_at(decoder.position(), &mut piece)?;
        match decoder.feed(&piece)? {
            Progress::Needs(end) if end <= file.len() => needs = end,
            // Either it has all it needs, or what it needs is not there and `finish` says so.
            _ => break,
        }
        chunk = chunk.saturating_mul(2);
    }
    Ok(())
}

/// The error for a file whose content was refused. Of one that ends too early it says how long the file should be: the header, where it is whole, knows.
#[cold]
pub(crate) fn with_missing(file: &RandomAccess, source: ggmill_core::Error, limits: &Limits) -> Error {
    let whole = || {
        let header = read_header(file, Decoder::new(None, limits)).ok()?;
        header.tensors().iter().map(|tensor| tensor.offset().saturating_add(tensor.size().unwrap_or(1))).max()
    };
    let missing = (source.kind() == ggmill_core::ErrorKind::Truncated)
        .then(|| source.needed_length().max(whole()))
        .flatten()
        .filter(|&needed| needed > file.len())
        .map(|needed| Missing { len: file.len(), needed });
    Error::new(file.path(), Detail::Format { source, missing })
}
