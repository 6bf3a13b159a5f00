//! State that is kept between tokens: caches and recurrent states.

use ggmill_arch::{CacheSpec, CachedBlock, MemorySpec};
use ggmill_core::GgmlType;

use crate::cache_types::CACHE_TYPES;
use crate::cells::Cells;
use crate::error::{ErrorKind, Result};
use crate::options::{FlashAttention, Options};
use crate::size::{in_buffer, product, row, sum};

/// Bytes of what one device keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) states: u64,
}

/// Bytes of an F32 number.
const F32: u64 = 4;

/// Whether attention is computed in tiles. Fails for options that go with no such choice.
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

/// Bytes by device, of which there are so many with the host; `place` says which one a block is on.
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

/// How many cells a block has in each of how many streams.
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

/// Elements of the values of a token, as a block stores them. Without flash attention they are
/// transposed, which takes one length for all blocks.
fn stored_values(cache: &CacheSpec, values: u64, flash: bool) -> u64 {
    if flash { values } else { cache.longest_values }
}
