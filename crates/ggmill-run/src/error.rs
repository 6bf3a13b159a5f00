//! Errors: what a model cannot be run with, and what it is about.

use std::fmt;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a model was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The description of the architecture has no computation graph.
    NoGraph,
    /// The numbers of the model contradict each other, or the description excludes it.
    Graph,
    /// A tensor is missing, of another shape than the description says, or of a type without codec.
    Tensor,
    /// A weight is infinite or not a number.
    NotFinite,
    /// A token that the model does not have, or more of them than it has positions for.
    Tokens,
    /// The model takes a second text, the source, and there is none; or there is one that it does not
    /// take.
    Source,
    /// A text is to be divided into a source and a text, but the source of the model is vectors.
    SourceVectors,
    /// A text is to be divided into a source and a text, but the metadata does not say which token the
    /// second begins with.
    DecoderStart,
    /// The model outputs embeddings, which are measured against those of a base only.
    Embeddings,
    /// The text has too few tokens.
    TooShort,
    /// A length of chunks with which nothing can be measured.
    Chunks,
    /// Two models cannot be compared: they have different vocabularies.
    Vocabulary,
    /// A document of scores is malformed, or some do not belong together.
    Scores,
    /// The results of the operations take more memory than is allowed or there is.
    Memory,
    /// The model could not be read.
    Read,
    /// The threads could not be started.
    Threads,
}

impl ErrorKind {
    /// The name of the kind, in lower case with `_`, which does not change: `no_graph`.
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

/// An error with its kind. The size of a pointer.
pub struct Error(Box<(ErrorKind, String, Option<usize>)>);

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self(Box::new((kind, message.to_string(), None)))
    }

    #[cold]
    pub(crate) fn memory(elements: usize) -> Self {
        Self::new(ErrorKind::Memory, format_args!("{elements} numbers do not fit into memory"))
    }

    /// The same about one of several programs.
    #[cold]
    pub(crate) fn of_program(mut self, number: usize) -> Self {
        self.0.2 = Some(number);
        self
    }

    /// Which of several programs it is about, by its number; the base has the one after the last.
    pub fn program(&self) -> Option<usize> {
        self.0.2
    }

    /// Which sort of error this is.
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

/// Room for so many numbers, all 0.
pub(crate) fn room<T: Clone + Default>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::memory(len))?;
    values.resize(len, T::default());
    Ok(values)
}
