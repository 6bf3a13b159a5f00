//! Options of an estimate, and the names of devices.

use core::str::FromStr;

use ggmill_core::GgmlType;

use crate::error::{Error, ErrorKind};
use crate::placement::Placement;

/// How attention is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlashAttention {
    /// In tiles if the architecture supports it.
    #[default]
    Auto,
    /// In tiles.
    On,
    /// With the whole matrix of scores.
    Off,
}

impl FromStr for FlashAttention {
    type Err = Error;

    /// Parses `auto`, `on` or `off`.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(ErrorKind::FlashAttention(text.into()).into()),
        }
    }
}

/// Options that a model is run with. The defaults are those of llama.cpp without GPUs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Context length in tokens, for all sequences together; `None` for the length with which the
    /// model was trained.
    pub context: Option<u64>,
    /// Tokens of a logical batch.
    pub batch: u64,
    /// Tokens of a micro-batch, which are computed together.
    pub micro_batch: u64,
    /// Sequences that are computed in parallel.
    pub sequences: u64,
    /// `true` if all sequences share the cells of one cache, instead of one part for each.
    pub unified: bool,
    /// The type of cached keys.
    pub key_type: GgmlType,
    /// The type of cached values.
    pub value_type: GgmlType,
    /// How attention is computed.
    pub flash_attention: FlashAttention,
    /// `true` if blocks with an attention window cache the whole context.
    pub full_windows: bool,
    /// Snapshots of the recurrent state kept for each sequence.
    pub state_snapshots: u64,
    /// The devices and the distribution of the model.
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

/// The types of keys and values that llama.cpp offers for caches.
pub const CACHE_TYPES: &[GgmlType] = &[
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::Q8_0,
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::IQ4_NL,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
];

/// Returns the name of a device of an estimate: `CPU` for 0, the host; `GPU0` for 1.
pub fn device_name(device: usize) -> String {
    device.checked_sub(1).map_or_else(|| "CPU".to_owned(), |number| format!("GPU{number}"))
}

/// The maximum number of devices besides the host, as in llama.cpp.
pub const MAX_DEVICES: usize = 16;

/// The prefixes of names of GPUs: `GPU`, and the backends of llama.cpp that number their devices.
const GPUS: [&str; 8] = ["GPU", "CUDA", "ROCm", "MUSA", "SYCL", "Vulkan", "CANN", "RPC"];

/// Parses the name of a device, ignoring case: `CPU`, or `GPU` or a backend of llama.cpp followed by a
/// number from 0. Returns `None` for other text and for more than [`MAX_DEVICES`].
///
/// ```
/// use ggmill_estimate::device_number;
/// assert_eq!(device_number("cpu"), Some(0));
/// assert_eq!(device_number("CUDA1"), Some(2));
/// assert_eq!(device_number("1"), None);
/// assert_eq!(device_number("CPU0"), None);
/// assert_eq!(device_number("GPU16"), None);
/// ```
pub fn device_number(name: &str) -> Option<usize> {
    if name.eq_ignore_ascii_case("cpu") {
        return Some(0);
    }
    let digits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = name.strip_suffix(digits)?;
    if !GPUS.iter().any(|known| known.eq_ignore_ascii_case(letters)) {
        return None;
    }
    digits.parse::<usize>().ok()?.checked_add(1).filter(|&device| device <= MAX_DEVICES)
}
