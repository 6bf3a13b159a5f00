//! The sizes of results per token.

use core::fmt;

use ggmill_core::Model;

/// Returns the dimensions of a tensor of a file by name.
pub type Dimensions<'a> = dyn Fn(&str) -> Option<Vec<u64>> + 'a;

/// Returns the [`Dimensions`] function of a model.
pub fn dimensions_of(model: &Model) -> impl Fn(&str) -> Option<Vec<u64>> {
    |name| Some(model.tensor(name).ok()?.shape().dimensions().to_vec())
}

/// The size of a result per token: parts of equal length, or a single vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extent {
    /// The number of parts, such as heads; `None` for a single vector.
    pub parts: Option<u64>,
    /// The number of elements per part.
    pub length: u64,
}

impl Extent {
    /// The maximum number of elements per token.
    pub const MAX: u64 = 1 << 32;

    /// Returns the extent of a single vector.
    pub(crate) fn run(length: u64) -> Self {
        Self { parts: None, length }
    }

    /// Returns the total number of elements per token.
    pub fn elements(self) -> u64 {
        self.parts.unwrap_or(1).saturating_mul(self.length)
    }

    /// Returns the extent with parts of another length.
    pub(crate) fn with_length(self, length: u64) -> Self {
        Self { length, ..self }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts {
            Some(parts) => write!(f, "{parts} × {}", self.length),
            None => write!(f, "{}", self.length),
        }
    }
}
