//! Errors, and where they occurred.

use std::fmt;

use ggmill_core::GgmlType;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The type has no codec, or is an integer type, which cannot be encoded.
    Unsupported,
    /// The tensor could not be read, with the kind of the error of `ggmill-core`.
    Read(ggmill_core::ErrorKind),
    /// The lengths of the caller's slices do not match. Never caused by their content.
    Misuse,
    /// A value is infinite or NaN, which the type cannot represent.
    NonFinite {
        /// The row of the value, counted from the first row of the call.
        row: usize,
        /// The column of the value.
        column: usize,
    },
    /// A value is finite but outside the range of the type.
    OutOfRange {
        /// The row of the value, counted from the first row of the call.
        row: usize,
        /// The column of the value.
        column: usize,
    },
    /// The type requires importance weights, and none were passed.
    NeedsWeights,
    /// An importance weight is infinite or NaN.
    NonFiniteWeight {
        /// The column of the value.
        column: usize,
    },
}

impl ErrorKind {
    /// Returns the stable name of the kind in snake case, such as `needs_weights`. For
    /// [`Read`](Self::Read) it is the name of the kind in `ggmill-core`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
            Self::Read(kind) => kind.name(),
            Self::Misuse => "misuse",
            Self::NonFinite { .. } => "non_finite",
            Self::OutOfRange { .. } => "out_of_range",
            Self::NeedsWeights => "needs_weights",
            Self::NonFiniteWeight { .. } => "non_finite_weight",
        }
    }
}

/// An error of this crate. It has the size of a pointer.
///
/// ```
/// use ggmill_core::GgmlType;
/// let error = ggmill_quant::codec(GgmlType(4)).err().ok_or("an error")?;
/// assert_eq!(error.to_string(), "no codec for type Q4_2: it is retired");
/// # Ok::<(), &str>(())
/// ```
pub struct Error(Box<Detail>);

/// The data of an error, from which its message is made.
pub(crate) enum Detail {
    Retired { ggml_type: GgmlType },
    Unknown { ggml_type: GgmlType },
    ReadOnly { ggml_type: GgmlType },
    Read(ggmill_core::Error),
    Memory { elements: u64 },
    NotBlocks { ggml_type: GgmlType, what: &'static str, found: usize, unit: usize },
    Length { what: &'static str, found: usize, expected: usize },
    NotRows { found: usize, row_len: usize },
    NeedsWeights { ggml_type: GgmlType },
    NonFinite { row: usize, column: usize, value: f32 },
    OutOfRange { ggml_type: GgmlType, row: usize, column: usize, value: f32 },
    NonFiniteWeight { column: usize, value: f32 },
}

impl Error {
    #[cold]
    pub(crate) fn new(detail: Detail) -> Self {
        Self(Box::new(detail))
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match *self.0 {
            Detail::Retired { .. } | Detail::Unknown { .. } | Detail::ReadOnly { .. } => {
                ErrorKind::Unsupported
            }
            Detail::Read(ref error) => ErrorKind::Read(error.kind()),
            Detail::Memory { .. } => ErrorKind::Read(ggmill_core::ErrorKind::Limit),
            Detail::NotBlocks { .. } | Detail::Length { .. } | Detail::NotRows { .. } => {
                ErrorKind::Misuse
            }
            Detail::NeedsWeights { .. } => ErrorKind::NeedsWeights,
            Detail::NonFinite { row, column, .. } => ErrorKind::NonFinite { row, column },
            Detail::OutOfRange { row, column, .. } => ErrorKind::OutOfRange { row, column },
            Detail::NonFiniteWeight { column, .. } => ErrorKind::NonFiniteWeight { column },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            Detail::Retired { ggml_type } => {
                write!(f, "no codec for type {ggml_type}: it is retired")
            }
            Detail::Unknown { ggml_type } if ggml_type.name().is_some() => {
                write!(f, "no codec for type {ggml_type}")
            }
            Detail::Unknown { ggml_type } => write!(f, "no codec for {ggml_type}: it is unknown"),
            Detail::ReadOnly { ggml_type } => write!(
                f,
                "{ggml_type} is an integer type: values are read from it, never rounded to it"
            ),
            Detail::Read(ref error) => error.fmt(f),
            Detail::Memory { elements } => write!(f, "{elements} values do not fit into memory"),
            Detail::NotBlocks { ggml_type, what, found, unit } => {
                write!(
                    f,
                    "{found} {what}, expected a multiple of {unit} for the blocks of {ggml_type}"
                )
            }
            Detail::Length { what, found, expected } => {
                write!(f, "{found} {what}, expected {expected}")
            }
            Detail::NotRows { found, row_len } => {
                write!(f, "{found} values, expected whole rows of {row_len}")
            }
            Detail::NeedsWeights { ggml_type } => {
                write!(f, "{ggml_type} requires importance weights, but there are none")
            }
            Detail::NonFinite { row, column, value } => {
                write!(f, "row {row}, column {column}: {value}, expected a finite value")
            }
            Detail::OutOfRange { ggml_type, row, column, value } => {
                let size = if value.abs() < 1.0 { "small" } else { "large" };
                if ggml_type.layout().is_some_and(|layout| layout.elements > 1) {
                    write!(
                        f,
                        "row {row}, column {column} is {value:e}, in a block with numbers that are \
                         too {size} for {ggml_type}"
                    )
                } else {
                    write!(
                        f,
                        "row {row}, column {column} is {value:e}, which is too {size} for \
                         {ggml_type}"
                    )
                }
            }
            Detail::NonFiniteWeight { column, value } => {
                write!(f, "importance weight {column}: {value}, expected a finite value")
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl std::error::Error for Error {
    /// Returns the source of a wrapped read error. Its message is already this error's message, so
    /// it is not itself the source.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Detail::Read(error) => error.source(),
            _ => None,
        }
    }
}

impl From<ggmill_core::Error> for Error {
    fn from(error: ggmill_core::Error) -> Self {
        Self::new(Detail::Read(error))
    }
}
