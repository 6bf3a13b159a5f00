//! Numbers that a model has once, or once per block.

use ggmill_arch::ModelView;
use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};

/// A hyperparameter that some models have once and others once per block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "one value or several")]
pub enum PerBlock {
    /// The same everywhere. JSON has the number.
    Same(u64),
    /// Different from block to block. JSON has `{"min":…,"max":…}`.
    Varying {
        /// The least of them.
        min: u64,
        /// The greatest of them.
        max: u64,
    },
}

impl PerBlock {
    pub(crate) fn of(model: &ModelView<'_>, name: &str) -> Option<Self> {
        let numbers = model.integers(name)?;
        Some(Self::spanning(*numbers.iter().min()?, *numbers.iter().max()?))
    }

    /// The least and the greatest number.
    pub(crate) fn spanning(min: u64, max: u64) -> Self {
        if min == max { Self::Same(min) } else { Self::Varying { min, max } }
    }
}

impl Serialize for PerBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Same(number) => serializer.serialize_u64(number),
            Self::Varying { min, max } => {
                let mut object = serializer.serialize_struct("PerBlock", 2)?;
                object.serialize_field("min", &min)?;
                object.serialize_field("max", &max)?;
                object.end()
            }
        }
    }
}

impl std::fmt::Display for PerBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Same(number) => write!(f, "{}", crate::human::grouped(*number)),
            Self::Varying { min, max } => {
                write!(f, "{} to {}", crate::human::grouped(*min), crate::human::grouped(*max))
            }
        }
    }
}
