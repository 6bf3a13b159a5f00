//! Memory that is needed for computation.

use ggmill_arch::{ComputeNumbers, ComputeSpec, MemorySpec};
use ggmill_core::GgmlType;

use crate::allocator;
use crate::cells::Cells;
use crate::error::Result;
use crate::options::Options;
use crate::size::{padded, product};

/// Bytes of the compute buffer on the host, by what is computed there; or why the numbers of the
/// model go with nothing that could be computed.
pub(crate) fn on_host(
    memory: &MemorySpec,
    compute: &ComputeSpec,
    cells: Cells,
    options: &Options,
    flash: bool,
    fused: bool,
) -> Result<core::result::Result<u64, String>> {
    let mut windows = memory.caches.iter().flat_map(|cache| &cache.blocks);
    let window = windows.find_map(|block| block.window);
    let window_cells = match window {
        Some(window) if !options.full_windows => cells.of_window(window, cells.streams)?,
        _ => cells.context,
    };
    // The batch of a model that keeps nothing is not limited to its context.
    let keeps = memory.caches.iter().any(|cache| !cache.blocks.is_empty());
    let batch = if keeps || !memory.states.is_empty() {
        cells.micro_batch
    } else {
        options.micro_batch.min(options.batch).min(product(&[cells.context, cells.streams])?)
    };
    let longest = memory.caches.iter().map(|cache| cache.longest_values);
    let numbers = ComputeNumbers {
        // Each sequence has as many.
        tokens: padded(batch, cells.sequences)?,
        outputs: batch,
        sequences: cells.sequences,
        streams: cells.streams,
        cells: cells.context,
        window_cells,
        flash,
        wide_keys: options.key_type == GgmlType::F32,
        wide_values: options.value_type == GgmlType::F32,
        quantized_keys: options.key_type.is_quantized(),
        quantized_values: options.value_type.is_quantized(),
        longest_values: longest.max().unwrap_or(0),
        fused,
    };
    match compute.nodes(numbers) {
        Ok(nodes) => allocator::length(&nodes).map(Ok),
        Err(error) => Ok(Err(error.to_string())),
    }
}
