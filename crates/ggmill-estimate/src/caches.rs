//! Key and value caches, and recurrent states.

use ggmill_arch::{CacheSpec, CachedBlock, MemorySpec};
use ggmill_core::GgmlType;

use crate::error::{ErrorKind, Result};
use crate::options::{CACHE_TYPES, FlashAttention, Options};
use crate::weights::{in_buffer, padded, product, row, sum};

/// The number of cells of a cache is a multiple of this.
const CELLS: u64 = 256;
/// The maximum number of tokens of a context, a batch and a micro-batch.
const MAX_TOKENS: u64 = 1 << 31;
/// The maximum number of sequences and of state snapshots.
const MAX_SEQUENCES: u64 = 1 << 16;

/// The cells of the caches, one for each token, and their division into streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cells {
    /// Cells of a stream: tokens of one sequence, or of all sequences in a unified cache.
    pub context: u64,
    /// The number of streams: 1 for a unified cache, else one for each sequence.
    pub streams: u64,
    /// The number of sequences.
    pub sequences: u64,
    /// Tokens of a micro-batch.
    pub micro_batch: u64,
}

impl Cells {
    /// Returns the cells for a model that was trained with a context of `trained` tokens.
    pub(crate) fn new(options: &Options, trained: Option<u64>) -> Result<Self> {
        let context = options.context.or(trained).ok_or(ErrorKind::NoContext)?;
        let sequences = options.sequences;
        for (what, found, limit) in [
            ("tokens of context", context, MAX_TOKENS),
            ("tokens of a batch", options.batch, MAX_TOKENS),
            ("tokens of a micro-batch", options.micro_batch, MAX_TOKENS),
            ("sequences", sequences, MAX_SEQUENCES),
        ] {
            if !(1..=limit).contains(&found) {
                return Err(ErrorKind::OutOfRange { what, found, limit }.into());
            }
        }
        let snapshots = options.state_snapshots;
        if snapshots > MAX_SEQUENCES {
            let what = "saved recurrent states";
            return Err(
                ErrorKind::OutOfRange { what, found: snapshots, limit: MAX_SEQUENCES }.into()
            );
        }
        let micro_batch = options.micro_batch.min(options.batch).min(context);
        let whole = padded(context, CELLS)?;
        let part = whole.checked_div(sequences).unwrap_or(whole);
        let (context, streams) =
            if options.unified { (whole, 1) } else { (padded(part, CELLS)?, sequences) };
        Ok(Self { context, streams, sequences, micro_batch })
    }

    /// Returns the number of tokens of all sequences together.
    pub(crate) fn tokens(self) -> u64 {
        self.context.saturating_mul(self.streams)
    }

    /// Returns the cells of each stream of a cache for an attention window.
    pub(crate) fn of_window(self, window: u64, streams: u64) -> Result<u64> {
        let sharing = if streams == 1 { self.sequences } else { 1 };
        let wanted = sum(product(&[window, sharing])?, self.micro_batch)?;
        padded(wanted.min(self.context), CELLS)
    }

    /// Returns the cells of each stream of a cache in which `tokens` tokens share a cell.
    pub(crate) fn of_compressed(self, tokens: u64) -> Result<u64> {
        padded(self.context.div_ceil(tokens.max(1)).max(1), CELLS)
    }
}

/// Bytes of caches and states on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) states: u64,
}

/// Bytes of an F32 element.
const F32: u64 = 4;

/// Returns whether flash attention is used. Fails if the cache types do not permit that.
pub(crate) fn flash_attention(memory: &MemorySpec, options: &Options) -> Result<bool> {
    let flash = memory.flash_attention && options.flash_attention != FlashAttention::Off;
    let (keys, values) = (options.key_type, options.value_type);
    for cache_type in [keys, values] {
        if !CACHE_TYPES.contains(&cache_type) {
            return Err(ErrorKind::NoCacheType(cache_type).into());
        }
    }
    if memory.one_type && keys != values {
        return Err(ErrorKind::DifferentTypes { keys, values }.into());
    }
    if values.is_quantized() && !flash {
        return Err(ErrorKind::NeedsFlashAttention(values).into());
    }
    Ok(flash)
}

/// Returns the bytes on each of `devices` devices, including the host; `place` returns the device of a
/// block.
pub(crate) fn by_device(
    memory: &MemorySpec,
    cells: Cells,
    options: &Options,
    devices: usize,
    place: impl Fn(u64) -> usize,
) -> Result<Vec<Kept>> {
    let flash = flash_attention(memory, options)?;
    let mut kept = vec![Kept::default(); devices];
    for cache in &memory.caches {
        for block in &cache.blocks {
            let Some(kept) = kept.get_mut(place(block.block)) else { continue };
            let (count, streams) = cells_of(cache, block, cells, options)?;
            let bytes = |elements: u64, cache_type: GgmlType| -> Result<u64> {
                in_buffer(product(&[row(elements, cache_type)?, count, streams])?)
            };
            kept.keys = sum(kept.keys, bytes(block.keys, options.key_type)?)?;
            let values = stored_values(cache, block.values, flash);
            kept.values = sum(kept.values, bytes(values, options.value_type)?)?;
        }
    }
    let copies = product(&[cells.sequences, sum(1, options.state_snapshots)?, F32])?;
    for state in &memory.states {
        for block in &state.blocks {
            let Some(kept) = kept.get_mut(place(block.block)) else { continue };
            kept.states = sum(kept.states, in_buffer(product(&[block.elements, copies])?)?)?;
        }
    }
    Ok(kept)
}

/// Returns the cells of a block in each stream, and the number of streams.
pub(crate) fn cells_of(
    cache: &CacheSpec,
    block: &CachedBlock,
    cells: Cells,
    options: &Options,
) -> Result<(u64, u64)> {
    let streams = if cache.separate { cells.sequences } else { cells.streams };
    let count = match block.window {
        Some(window) if !options.full_windows => cells.of_window(window, streams)?,
        _ if cache.tokens_per_cell > 1 => cells.of_compressed(cache.tokens_per_cell)?,
        _ => cells.context,
    };
    Ok((count, streams))
}

/// Returns the stored elements of the values of a token. Without flash attention the values are stored
/// transposed, with the same length for all blocks.
fn stored_values(cache: &CacheSpec, values: u64, flash: bool) -> u64 {
    if flash { values } else { cache.longest_values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_padded_to_multiples() {
        let cells = |context, sequences, unified| {
            let options =
                Options { context: Some(context), sequences, unified, ..Options::default() };
            Cells::new(&options, None)
                .map(|cells| (cells.context, cells.streams, cells.micro_batch))
        };
        assert_eq!(cells(1, 1, false).unwrap(), (256, 1, 1));
        assert_eq!(cells(5000, 1, false).unwrap(), (5120, 1, 512));
        assert_eq!(cells(5000, 3, false).unwrap(), (1792, 3, 512));
        assert_eq!(cells(5000, 3, true).unwrap(), (5120, 1, 512));
        assert!(cells(0, 1, false).is_err() && cells(1, 0, false).is_err());
    }

    #[test]
    fn a_window_has_cells_for_the_micro_batch() {
        let options = Options { context: Some(8192), sequences: 2, ..Options::default() };
        let cells = Cells::new(&options, None).unwrap();
        assert_eq!(cells.of_window(1024, 2).unwrap(), 1536);
        let shared = Cells::new(&Options { unified: true, ..options }, None).unwrap();
        assert_eq!(shared.of_window(1024, 1).unwrap(), 2560);
        assert_eq!(shared.of_window(100_000, 1).unwrap(), 8192);
    }
}
