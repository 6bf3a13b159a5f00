//! How a model is to be run.

use core::str::FromStr;

use ggmill_core::GgmlType;

use crate::error::{Error, ErrorKind};
use crate::placement::Placement;

/// How attention is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlashAttention {
    /// In tiles wherever the architecture can.
    #[default]
    Auto,
    /// In tiles.
    On,
    /// With the whole matrix of scores.
    Off,
}

impl FromStr for FlashAttention {
    type Err = Error;

    /// Fails for all but `auto`, `on` and `off`.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(ErrorKind::FlashAttention(text.into()).into()),
        }
    }
}

/// How a model is to be run. The default is that of llama.cpp, on the host alone.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Context length in tokens, for all sequences together; `None` for the length with which the
    /// model was trained.
    pub context: Option<u64>,
    /// Tokens that are submitted together.
    pub batch: u64,
    /// Tokens that are computed together.
    pub micro_batch: u64,
    /// Sequences that are computed side by side.
    pub sequences: u64,
    /// Whether the sequences share the cells of one cache, instead of each having its part.
    pub unified: bool,
    /// The type of cached keys.
    pub key_type: GgmlType,
    /// The type of cached values.
    pub value_type: GgmlType,
    /// How attention is computed.
    pub flash_attention: FlashAttention,
    /// Whether blocks with a window have caches for the whole context too.
    pub full_windows: bool,
    /// Earlier states of each sequence that are kept to go back to.
    pub state_snapshots: u64,
    /// Which devices there are, and what is on them.
    pub placement: Placement,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            context: None,
            batch: 2048,
            micro_batch: 512,
            sequences: 1,
            unified: false,
            key_type: GgmlType::F16,
            value_type: GgmlType::F16,
            flash_attention: FlashAttention::Auto,
            full_windows: false,
            state_snapshots: 0,
            placement: Placement::default(),
        }
    }
}
