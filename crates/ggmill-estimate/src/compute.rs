//! Compute buffers: which device computes which node and what is copied between devices, as ggml
//! decides it (`ggml_backend_sched_split_graph` in `ggml-backend.cpp`).

use std::collections::BTreeMap;

use ggmill_arch::{
    ComputeKind, ComputeLayer, ComputeNode, ComputeNumbers, ComputeSpec, MemorySpec,
};
use ggmill_core::{GgmlType, RawStr};

use crate::allocator::{self, Step};
use crate::caches::Cells;
use crate::error::Result;
use crate::options::{FlashAttention, Options};
use crate::placement::{Layers, PlacedTensors};
use crate::weights::{EMBEDDING, in_buffer, padded, product, row};

/// A model and its options, as far as compute buffers depend on them.
pub(crate) struct Run<'a> {
    pub(crate) memory: &'a MemorySpec,
    pub(crate) cells: Cells,
    pub(crate) options: &'a Options,
    /// `true` if flash attention is used, unless the placement prevents it.
    pub(crate) flash: bool,
    /// `true` if the model has a fused QKV weight.
    pub(crate) fused: bool,
    /// `true` if the model has output weights separate from its embedding.
    pub(crate) has_output: bool,
    pub(crate) layers: &'a Layers,
    pub(crate) placed: &'a PlacedTensors,
    /// The number of blocks with weights; looped models compute them several times.
    pub(crate) blocks: u64,
}

/// The compute buffers of a run.
pub(crate) struct Computed {
    /// Bytes on each device, the host first.
    pub(crate) lengths: Vec<u64>,
    /// `true` if flash attention is used.
    pub(crate) flash: bool,
}

/// Returns the compute buffers on each of `devices` devices, or why they are not known.
pub(crate) fn by_device(
    run: &Run<'_>,
    compute: &ComputeSpec,
    devices: usize,
) -> Result<core::result::Result<Computed, String>> {
    if let Some(why) = unknown(run, compute) {
        return Ok(Err(why.to_owned()));
    }
    let output = run.layers.of_output();
    let places = LayerDevices {
        block: &|block| run.layers.of(block),
        output,
        // Without output weights the embedding computes the logits, and a device may have no copy.
        logits: if run.has_output || run.memory.copies_output { output } else { 0 },
        pipelined: devices > 2
            && run.layers.on_devices() == run.layers.all()
            && run.options.placement.patterns.is_empty(),
        tensor: &|name| run.placed.device(name),
        bytes: &|name| run.placed.bytes(name),
    };
    let mut numbers = numbers(run)?;
    // With a quantized V cache libllama keeps flash attention (recorded).
    let may_disable_flash = run.options.flash_attention == FlashAttention::Auto
        && !run.options.value_type.is_quantized();
    let nodes_of = |numbers| {
        if run.placed.is_empty() {
            compute.nodes(numbers)
        } else {
            compute.placed_nodes(numbers, &|name| run.placed.device(name).is_some())
        }
    };
    let mut nodes = nodes_of(numbers);
    // In automatic mode, llama.cpp disables flash attention if a layer's attention is computed on
    // another device than its cache.
    if numbers.flash
        && may_disable_flash
        && nodes.as_ref().is_ok_and(|nodes| cache_is_remote(nodes, &places))
    {
        numbers.flash = false;
        nodes = nodes_of(numbers);
    }
    let without_node = nodes.as_ref().ok().and_then(|nodes| run.placed.without_node(nodes));
    if let Some(tensor) = without_node {
        return Ok(Err(format!(
            "unknown with tensor {:?} where tensors are placed by their names",
            RawStr::from(tensor)
        )));
    }
    // An overflow here makes the compute buffers unknown, not the estimate.
    Ok(match nodes {
        Ok(nodes) => scheduled(&nodes, &places)
            .and_then(|nodes| allocator::lengths(&nodes, devices))
            .map(|lengths| Computed { lengths, flash: numbers.flash })
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    })
}

/// Returns why the compute buffers of this placement are not known, if that is so.
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
    // Only nodes that name their weights can be placed in a looped model.
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
    // The batch of a model without caches and states is not limited by its context.
    let has_caches = memory.caches.iter().any(|cache| !cache.blocks.is_empty());
    let batch = if has_caches || !memory.states.is_empty() {
        cells.micro_batch
    } else {
        options.micro_batch.min(options.batch).min(product(&[cells.context, cells.streams])?)
    };
    let longest = memory.caches.iter().map(|cache| cache.longest_values);
    let mut numbers = ComputeNumbers::default();
    // Every sequence has the same number of tokens.
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

/// Bytes of an F32 element.
const F32: u64 = 4;
/// The number of micro-batches in a pipeline of several devices (`GGML_SCHED_MAX_COPIES`).
const COPIES: u64 = 4;
/// The device number of the host.
const HOST: usize = 0;

/// The devices of layers and tensors, from which the device of each node follows.
struct LayerDevices<'a> {
    /// The device of a block.
    block: &'a dyn Fn(u64) -> usize,
    /// The device of the output.
    output: usize,
    /// The device of the weights that compute the logits.
    logits: usize,
    /// `true` if several devices compute different micro-batches in parallel, which requires that they
    /// have all layers (`llama_context`).
    pipelined: bool,
    /// The device of a tensor that is placed by name.
    tensor: &'a dyn Fn(&str) -> Option<usize>,
    /// The size of a tensor that is placed by name, in bytes.
    bytes: &'a dyn Fn(&str) -> u64,
}

/// Returns the steps of a graph with their devices. Consecutive nodes of one device form a split; copies
/// of its inputs from other devices precede it.
fn scheduled(nodes: &[ComputeNode], places: &LayerDevices<'_>) -> Result<Vec<Step>> {
    let devices = devices(nodes, places);
    let mut schedule = Schedule {
        steps: Vec::new(),
        step_of: Vec::new(),
        copies: BTreeMap::new(),
        weights: BTreeMap::new(),
    };
    let mut start = 0;
    while let Some(&device) = devices.get(start) {
        let run = devices.iter().skip(start).take_while(|&&other| other == device).count();
        let end = start.saturating_add(run.max(1));
        // A node with weights on another device starts a new split if the split already has copies.
        let cut = (start.saturating_add(1)..end).find(|&place| {
            nodes.get(place).is_some_and(|node| remote_weights(node, device, places).is_some())
                && nodes
                    .get(start..place)
                    .is_some_and(|before| schedule.needs_copies(device, start, before, places))
        });
        let end = cut.unwrap_or(end);
        let nodes = nodes.get(start..end).unwrap_or_default();
        schedule.add_copies(device, start, nodes, places)?;
        for node in nodes {
            schedule.add(node, device, places)?;
        }
        start = end;
    }
    Ok(schedule.steps)
}

/// Returns the weights of a node if they are on another device than the node.
fn remote_weights<'n>(
    node: &'n ComputeNode,
    device: usize,
    places: &LayerDevices<'_>,
) -> Option<&'n str> {
    let tensor = node.tensor.as_deref().filter(|_| !node.weighted && is_computed(node));
    tensor.filter(|tensor| (places.tensor)(tensor).is_some_and(|place| place != device))
}

/// Returns `true` if a node that reads the cache of a block is on another device than the block.
fn cache_is_remote(nodes: &[ComputeNode], places: &LayerDevices<'_>) -> bool {
    let is_input =
        |&source: &usize| nodes.get(source).is_some_and(|node| node.kind == ComputeKind::Input);
    // Writes to a cache take the indices of the cells from an input.
    let is_cache_view = |&source: &usize| {
        let view = nodes.get(source).filter(|node| node.kind == ComputeKind::View);
        let origin = view.and_then(|view| view.sources.first()).and_then(|&at| nodes.get(at));
        origin.is_some_and(|node| {
            node.weighted && node.elements == 0 && node.sources.iter().any(is_input)
        })
    };
    let mut computed = nodes.iter().zip(devices(nodes, places));
    computed.any(|(node, device)| match node.layer {
        ComputeLayer::Block(block) if !node.weighted && is_computed(node) => {
            device != (places.block)(block) && node.sources.iter().any(is_cache_view)
        }
        _ => false,
    })
}

/// The steps of the nodes that have been scheduled.
struct Schedule {
    steps: Vec<Step>,
    /// The step of each node.
    step_of: Vec<usize>,
    /// The steps that are copies, by node and device.
    copies: BTreeMap<(usize, usize), usize>,
    /// The steps that are copies of weights, by name and device.
    weights: BTreeMap<(Box<str>, usize), usize>,
}

/// A cross-device copy.
#[derive(Clone, Copy)]
struct Copied {
    /// The step of the original.
    step: usize,
    /// The device of the original.
    from: usize,
    size: u64,
    is_view: bool,
}

impl Schedule {
    /// Returns the copy that the device needs of node `source`, unless it has one. `nodes` is the split
    /// and `start` the position of its first node.
    fn missing_copy(
        &self,
        device: usize,
        start: usize,
        nodes: &[ComputeNode],
        source: usize,
    ) -> Result<Option<Copied>> {
        // A view inside the split can have its origin on another device.
        let view = source.checked_sub(start).and_then(|place| nodes.get(place));
        let view = view.filter(|node| node.kind == ComputeKind::View);
        let origin = view.and_then(|view| view.sources.first()).unwrap_or(&source);
        let step = self.step_of.get(*origin).copied();
        let Some((step, original)) = step.and_then(|step| Some((step, self.steps.get(step)?)))
        else {
            return Ok(None);
        };
        let size = match view {
            Some(view) => in_buffer(product(&[view.elements, F32])?)?,
            None => original.size,
        };
        let is_view = view.is_some() || original.kind == ComputeKind::View;
        let is_there = original.device == device || self.copies.contains_key(&(source, device));
        Ok((!is_there && (size > 0 || is_view)).then_some(Copied {
            step,
            from: original.device,
            size,
            is_view,
        }))
    }

    /// Returns `true` if the split needs a copy that the device does not have.
    fn needs_copies(
        &self,
        device: usize,
        start: usize,
        nodes: &[ComputeNode],
        places: &LayerDevices<'_>,
    ) -> bool {
        nodes.iter().filter(|node| is_computed(node)).any(|node| {
            let mut sources = node.sources.iter();
            sources.any(|&source| {
                matches!(self.missing_copy(device, start, nodes, source), Ok(Some(_)))
            }) || remote_weights(node, device, places)
                .is_some_and(|tensor| !self.weights.contains_key(&(tensor.into(), device)))
        })
    }

    /// Adds the copies that the split needs and the device does not have.
    fn add_copies(
        &mut self,
        device: usize,
        start: usize,
        nodes: &[ComputeNode],
        places: &LayerDevices<'_>,
    ) -> Result<()> {
        let stays = places.pipelined;
        for node in nodes.iter().filter(|node| is_computed(node)) {
            for &source in &node.sources {
                let Some(copied) = self.missing_copy(device, start, nodes, source)? else {
                    continue;
                };
                let is_input = self
                    .steps
                    .get(copied.step)
                    .is_some_and(|step| step.kind == ComputeKind::Input && !copied.is_view);
                // `add` has already multiplied the size of inputs.
                let size =
                    if stays && !is_input { product(&[copied.size, COPIES])? } else { copied.size };
                let is_empty = size == 0;
                // An empty step that uses the original, so that it lives until the copy.
                let kind = ComputeKind::Own;
                let sources = vec![copied.step];
                self.steps.push(Step { size: 0, kind, device: copied.from, stays: false, sources });
                self.copies.insert((source, device), self.steps.len());
                let kind = if is_empty { ComputeKind::Empty } else { kind };
                self.steps.push(Step { size, kind, device, stays, sources: Vec::new() });
            }
            let Some(tensor) = remote_weights(node, device, places) else { continue };
            if self.weights.contains_key(&(tensor.into(), device)) {
                continue;
            }
            let size = in_buffer((places.bytes)(tensor))?;
            self.weights.insert((tensor.into(), device), self.steps.len());
            let kind = ComputeKind::Own;
            self.steps.push(Step { size, kind, device, stays, sources: Vec::new() });
        }
        Ok(())
    }

    fn add(&mut self, node: &ComputeNode, device: usize, places: &LayerDevices<'_>) -> Result<()> {
        let mut size = in_buffer(product(&[node.elements, F32])?)?;
        // Constants exist once, other inputs once for each micro-batch.
        let is_input = node.kind == ComputeKind::Input && !node.weighted;
        if places.pipelined && is_input {
            size = product(&[size, COPIES])?;
        }
        let mut sources = Vec::with_capacity(node.sources.len());
        for &source in &node.sources {
            let copy = self.copies.get(&(source, device)).filter(|_| is_computed(node));
            sources.extend(copy.or_else(|| self.step_of.get(source)).copied());
        }
        let weights = remote_weights(node, device, places);
        sources.extend(weights.and_then(|name| self.weights.get(&(name.into(), device))).copied());
        self.step_of.push(self.steps.len());
        let (kind, stays) = (node.kind, is_input && places.pipelined);
        let device = match (node.kind, sources.first().and_then(|&source| self.steps.get(source))) {
            (ComputeKind::Input, _) if node.weighted => match node.layer {
                ComputeLayer::Block(block) => (places.block)(block),
                ComputeLayer::Output => places.output,
                _ => (places.block)(0),
            },
            (ComputeKind::Input, _) => HOST,
            (ComputeKind::View, Some(source)) => source.device,
            _ => device,
        };
        self.steps.push(Step { size, kind, device, stays, sources });
        Ok(())
    }
}

/// Returns `true` if a device executes an operation for the node.
fn is_computed(node: &ComputeNode) -> bool {
    !matches!(node.kind, ComputeKind::Input | ComputeKind::Given | ComputeKind::View)
}

/// Returns the device of each node. Nodes with weights are on the device of the weights; the others
/// adopt the device of a neighbor, first of neighbors on GPUs, then of any.
fn devices(nodes: &[ComputeNode], places: &LayerDevices<'_>) -> Vec<usize> {
    let last = nodes.iter().rposition(|node| {
        node.kind == ComputeKind::Own
            && node.weighted
            && node.elements > 0
            && node.layer == ComputeLayer::Output
    });
    let fixed = |(place, node): (usize, &ComputeNode)| {
        // The device of the output can have a copy of the embedding.
        let is_copied = last == Some(place) && node.tensor.as_deref() == Some(EMBEDDING);
        let named = node.tensor.as_deref().filter(|_| !is_copied).and_then(places.tensor);
        let device = match node.layer {
            _ if named.is_some() => named.unwrap_or(HOST),
            ComputeLayer::Block(block) => (places.block)(block),
            ComputeLayer::Output if last == Some(place) => places.logits,
            ComputeLayer::Output => places.output,
            _ => HOST,
        };
        (node.weighted && is_computed(node)).then_some(device)
    };
    let computed: Vec<usize> =
        (0..nodes.len()).filter(|&place| nodes.get(place).is_some_and(is_computed)).collect();
    let mut devices: Vec<Option<usize>> = nodes.iter().enumerate().map(fixed).collect();
    for skip_host in [true, false] {
        expand(&mut devices, computed.iter().copied(), skip_host);
        expand(&mut devices, computed.iter().rev().copied(), skip_host);
    }
    // Nodes without an operation do not start a split: they get the device of the node before.
    let mut all = Vec::with_capacity(nodes.len());
    // The inputs at the start are on the host.
    let mut device = HOST;
    for (found, node) in devices.iter().zip(nodes) {
        if is_computed(node) {
            device = found.unwrap_or(HOST);
        }
        all.push(device);
    }
    all
}

/// Assigns to nodes without a device that of the preceding node in `order`, unless it is the host and
/// `skip_host` is set.
fn expand(devices: &mut [Option<usize>], order: impl Iterator<Item = usize>, skip_host: bool) {
    let mut last = None;
    for place in order {
        match devices.get_mut(place) {
            Some(Some(device)) => {
                last = Some(*device).filter(|&device| !(skip_host && device == HOST));
            }
            Some(device) => *device = last,
            None => {}
        }
    }
}
