//! What a result has for each token.

use core::fmt;

use ggmill_core::Model;

/// The dimensions of a tensor of a file, by its name.
pub type Dimensions<'a> = dyn Fn(&str) -> Option<Vec<u64>> + 'a;

/// The [`Dimensions`] of the tensors of a model.
pub fn dimensions_of(model: &Model) -> impl Fn(&str) -> Option<Vec<u64>> {
    |name| Some(model.tensor(name).ok()?.shape().dimensions().to_vec())
}

/// The numbers of a result for each token: parts of one length, or one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extent {
    /// How many parts there are, such as heads; `None` for a single run.
    pub parts: Option<u64>,
    /// The numbers of a part.
    pub length: u64,
}

impl Extent {
    /// The most numbers of a result for each token.
    pub const MAX: u64 = 1 << 32;

    /// One run.
    pub(crate) fn run(length: u64) -> Self {
        Self { parts: None, length }
    }

    /// All numbers of a token.
    pub fn elements(self) -> u64 {
        self.parts.unwrap_or(1).saturating_mul(self.length)
    }

    /// The same parts of another length.
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
