//! Memory that is needed for computation.

use ggmill_arch::{ComputeNumbers, ComputeSpec, MemorySpec};
use ggmill_core::{GgmlType, RawStr};

use crate::allocator;
use crate::cells::Cells;
use crate::error::Result;
use crate::options::{FlashAttention, Options};
use crate::placed::Placed;
use crate::placement::Layers;
use crate::schedule::{Places, is_moved, scheduled};
use crate::size::{padded, product, row};

/// A model and how it is run, as far as it decides what is computed where.
pub(crate) struct Run<'a> {
    pub(crate) memory: &'a MemorySpec,
    pub(crate) cells: Cells,
    pub(crate) options: &'a Options,
    /// Whether flash attention is used, as far as no placement keeps it from that.
    pub(crate) flash: bool,
    /// Whether the weights of queries, keys and values are one tensor.
    pub(crate) fused: bool,
    /// Whether the model has weights for its scores alone.
    pub(crate) has_output: bool,
    pub(crate) layers: &'a Layers,
    /// Where its tensors are, where they are placed by their names.
    pub(crate) placed: &'a Placed,
    /// Blocks that have weights of their own.
    pub(crate) blocks: u64,
}

/// The compute buffers of a run.
pub(crate) struct Computed {
    /// Bytes on each device, the host first.
    pub(crate) lengths: Vec<u64>,
    /// Whether flash attention is used, after all.
    pub(crate) flash: bool,
}

/// The compute buffers on so many devices; or why they are not known.
pub(crate) fn by_device(
    run: &Run<'_>,
    compute: &ComputeSpec,
    devices: usize,
) -> Result<core::result::Result<Computed, String>> {
    if let Some(why) = unknown(run, compute) {
        return Ok(Err(why.to_owned()));
    }
    let output = run.layers.of_output();
    let places = Places {
        block: &|block| run.layers.of(block),
        output,
        // By the embedding, of which a device may have no copy.
        scores: if run.has_output || run.memory.copies_output { output } else { 0 },
        pipelined: devices > 2
            && run.layers.on_devices() == run.layers.all()
            && run.options.placement.patterns.is_empty(),
        tensor: &|name| run.placed.device(name),
        bytes: &|name| run.placed.bytes(name),
    };
    let mut numbers = numbers(run)?;
    // With a quantized V cache it does not: recorded with libllama.
    let is_free = run.options.flash_attention == FlashAttention::Auto
        && !run.options.value_type.is_quantized();
    let nodes_of = |numbers| {
        if run.placed.is_empty() {
            compute.nodes(numbers)
        } else {
            compute.placed_nodes(numbers, &|name| run.placed.device(name).is_some())
        }
    };
    let mut nodes = nodes_of(numbers);
    // Left to itself, llama.cpp does without flash attention where a device has that of a layer
    // of another one.
    if numbers.flash && is_free && nodes.as_ref().is_ok_and(|nodes| is_moved(nodes, &places)) {
        numbers.flash = false;
        nodes = nodes_of(numbers);
    }
    let unplaced = nodes.as_ref().ok().and_then(|nodes| run.placed.unplaced(nodes));
    if let Some(tensor) = unplaced {
        return Ok(Err(format!(
            "unknown with tensor {:?} where tensors are placed by their names",
            RawStr::from(tensor)
        )));
    }
    // Numbers that are too large for that leave the rest of the estimate as it is.
    Ok(match nodes {
        Ok(nodes) => scheduled(&nodes, &places)
            .and_then(|nodes| allocator::lengths(&nodes, devices))
            .map(|lengths| Computed { lengths, flash: numbers.flash })
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    })
}

/// Why it is not known what is computed where.
fn unknown(run: &Run<'_>, compute: &ComputeSpec) -> Option<&'static str> {
    let (placement, layers) = (&run.options.placement, run.layers);
    if placement.shares.is_empty() {
        return None;
    }
    if layers.on_devices() == 0 {
        return None;
    }
    if run.memory.host_only {
        return Some("unknown on GPUs for this model");
    }
    if placement.context_on_host {
        return Some("unknown where the caches of layers on GPUs are on the host");
    }
    // Steps name the tensors of layers.
    let is_looped = layers.all() > run.blocks.saturating_add(1) && !compute.knows_weights();
    if is_looped && layers.with_blocks(|_| true).len() > 1 {
        return Some("unknown on several devices for a model with more layers than blocks");
    }
    if is_looped && !run.placed.is_empty() {
        return Some(
            "unknown where patterns place tensors of a model with more layers than blocks",
        );
    }
    None
}

fn numbers(run: &Run<'_>) -> Result<ComputeNumbers> {
    let &Run { memory, cells, options, flash, fused, .. } = run;
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
    let mut numbers = ComputeNumbers::default();
    // Each sequence has as many.
    numbers.tokens = padded(batch, cells.sequences)?;
    numbers.outputs = batch;
    numbers.sequences = cells.sequences;
    numbers.streams = cells.streams;
    numbers.cells = cells.context;
    numbers.window_cells = window_cells;
    numbers.flash = flash;
    numbers.transposed = !flash;
    numbers.wide_keys = options.key_type == GgmlType::F32;
    numbers.wide_values = options.value_type == GgmlType::F32;
    numbers.quantized_keys = options.key_type.is_quantized();
    numbers.quantized_values = options.value_type.is_quantized();
    numbers.key_bytes = row(256, options.key_type)?;
    numbers.value_bytes = row(256, options.value_type)?;
    numbers.longest_values = longest.max().unwrap_or(0);
    numbers.fused = fused;
    Ok(numbers)
}
