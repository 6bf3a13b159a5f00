//! Errors of running models, and their kinds.

use std::fmt;

use ggmill_core::printable;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The reason why a model could not be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The description of the architecture has no computation graph.
    NoGraph,
    /// The hyperparameters of the model contradict each other, or the description excludes it.
    Graph,
    /// A tensor is missing, has an unexpected shape, or a type without a codec.
    Tensor,
    /// A weight or an output is infinite or NaN.
    NotFinite,
    /// A token ID is outside the vocabulary, or a text has more tokens than the model has positions.
    Tokens,
    /// The source (the input of an encoder) is missing, unexpected or of the wrong kind.
    Source,
    /// A text cannot be divided into a source and a text, because the model takes vectors as source.
    SourceVectors,
    /// A text cannot be divided into a source and a text, because the start token of the decoder is not
    /// in the metadata.
    DecoderStart,
    /// The model outputs embeddings, which can only be compared with the embeddings of a base.
    Embeddings,
    /// The text has too few tokens.
    TooShort,
    /// The chunks are too short.
    Chunks,
    /// Two models cannot be compared, because they have different vocabularies.
    Vocabulary,
    /// A scores document is malformed, or documents cannot be merged.
    Scores,
    /// The results of operations need more memory than is allowed or available.
    Memory,
    /// The model could not be read.
    Read,
    /// The threads could not be started.
    Threads,
}

impl ErrorKind {
    /// Returns the stable name of the kind, in lower case with `_`, such as `no_graph`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoGraph => "no_graph",
            Self::Graph => "graph",
            Self::Tensor => "tensor",
            Self::NotFinite => "not_finite",
            Self::Tokens => "tokens",
            Self::Source => "source",
            Self::SourceVectors => "source_vectors",
            Self::DecoderStart => "decoder_start",
            Self::Embeddings => "embeddings",
            Self::TooShort => "too_short",
            Self::Chunks => "chunks",
            Self::Vocabulary => "vocabulary",
            Self::Scores => "scores",
            Self::Memory => "memory",
            Self::Read => "read",
            Self::Threads => "threads",
        }
    }
}

/// An error with its kind; pointer-sized.
pub struct Error(Box<(ErrorKind, String, Option<usize>)>);

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self(Box::new((kind, printable(&message.to_string()).into_owned(), None)))
    }

    #[cold]
    pub(crate) fn memory(elements: usize) -> Self {
        Self::new(ErrorKind::Memory, format_args!("{elements} numbers do not fit into memory"))
    }

    /// Sets the index of the program that failed.
    #[cold]
    pub(crate) fn with_program(mut self, number: usize) -> Self {
        self.0.2 = Some(number);
        self
    }

    /// Returns the index of the program that failed, if several were run. The index of the base is the
    /// number of programs.
    pub fn program(&self) -> Option<usize> {
        self.0.2
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.1)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl core::error::Error for Error {}

impl From<ggmill_quant::Error> for Error {
    #[cold]
    fn from(error: ggmill_quant::Error) -> Self {
        let kind = match error.kind() {
            ggmill_quant::ErrorKind::Unsupported => ErrorKind::Tensor,
            ggmill_quant::ErrorKind::Read(ggmill_core::ErrorKind::Limit) => ErrorKind::Memory,
            _ => ErrorKind::Read,
        };
        Self::new(kind, error)
    }
}

impl From<ggmill_core::Error> for Error {
    #[cold]
    fn from(error: ggmill_core::Error) -> Self {
        Self::new(ErrorKind::Read, error)
    }
}

/// Allocates `len` zeros. Fails if there is not enough memory, instead of aborting.
pub(crate) fn try_zeros<T: Clone + Default>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::memory(len))?;
    values.resize(len, T::default());
    Ok(values)
}
