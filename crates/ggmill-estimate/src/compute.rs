//! Memory that is needed for computation.

use ggmill_arch::{ComputeSpec, MemorySpec, StepNumbers};
use ggmill_core::GgmlType;

use crate::cells::Cells;
use crate::context::cells_of;
use crate::error::Result;
use crate::options::Options;
use crate::size::{product, sum, too_large};

/// Bytes of an F32 number.
const F32: u64 = 4;
/// Numbers for each token beside those of the model: its ID, its position, its places in the caches
/// and in the output.
const INPUTS: u64 = 7;

/// Bytes of the compute buffer on the host.
pub(crate) fn on_host(
    memory: &MemorySpec,
    compute: &ComputeSpec,
    cells: Cells,
    options: &Options,
    flash: bool,
) -> Result<u64> {
    let mut of_block = Vec::new();
    let mut masks: Vec<(Option<u64>, u64)> = Vec::new();
    let mut converted = 0;
    for cache in &memory.caches {
        for block in &cache.blocks {
            let (count, streams) = cells_of(cache, block, cells, options)?;
            // Tiles are computed with F16 where they would be with F32.
            let mut elements = 0;
            for (of_token, cache_type) in
                [(block.keys, options.key_type), (block.values, options.value_type)]
            {
                if cache_type == GgmlType::F32 {
                    elements = sum(elements, product(&[of_token, count, streams])?)?;
                }
            }
            converted = elements.div_ceil(2).max(converted);
            of_block.push((block.block, count));
            // Each kind of cache has one, windows and the rest.
            if masks.iter().all(|(window, _)| *window != block.window) {
                masks.push((block.window, count));
            }
        }
    }
    // In F16 for flash attention, otherwise in F32.
    let mut of_masks = 0;
    for (_, count) in masks {
        of_masks = sum(of_masks, if flash { count / 2 } else { count })?;
    }
    of_block.sort_unstable();
    let cells_of_block = |block: u64| {
        let place = of_block.binary_search_by_key(&block, |(block, _)| *block);
        place.ok().and_then(|place| of_block.get(place)).map_or(0, |(_, count)| *count)
    };
    let converted = converted.div_ceil(cells.micro_batch.max(1));
    let numbers = StepNumbers { masks: of_masks, converted, flash };
    let elements = compute.elements(&cells_of_block, numbers).map_err(|_| too_large())?;
    product(&[sum(elements, INPUTS)?, cells.micro_batch, F32])
}
