//! Which device computes what, and what is copied to it, as ggml decides it
//! (`ggml_backend_sched_split_graph` in `ggml-backend.cpp`).

use std::collections::BTreeMap;

use ggmill_arch::{ComputeKind, ComputeLayer, ComputeNode};

use crate::allocator::Step;
use crate::error::Result;
use crate::size::{in_buffer, product};
use crate::weights::EMBEDDING;

/// Bytes of an F32 number.
const F32: u64 = 4;
/// How many micro-batches several devices have under way at once (`GGML_SCHED_MAX_COPIES`).
const COPIES: u64 = 4;
/// The device that is the host.
const HOST: usize = 0;

/// Where the layers of a model are, as far as it decides where something is computed.
pub(crate) struct Places<'a> {
    /// The device of a block.
    pub(crate) block: &'a dyn Fn(u64) -> usize,
    /// The device of the output.
    pub(crate) output: usize,
    /// That of the weights that give the scores.
    pub(crate) scores: usize,
    /// Whether several devices compute at once, each another micro-batch: where they have all
    /// layers (`llama_context`).
    pub(crate) pipelined: bool,
    /// Where the tensors that results are computed with are, where they are placed by their names.
    pub(crate) tensor: &'a dyn Fn(&str) -> Option<usize>,
    /// The bytes of such a tensor.
    pub(crate) bytes: &'a dyn Fn(&str) -> u64,
}

/// The results, each with its device, and before the first one of a device those that it needs of
/// others.
pub(crate) fn scheduled(nodes: &[ComputeNode], places: &Places<'_>) -> Result<Vec<Step>> {
    let devices = devices(nodes, places);
    let mut schedule = Schedule {
        steps: Vec::new(),
        of: Vec::new(),
        copies: BTreeMap::new(),
        weights: BTreeMap::new(),
    };
    let mut start = 0;
    while let Some(&device) = devices.get(start) {
        let run = devices.iter().skip(start).take_while(|&&other| other == device).count();
        let end = start.saturating_add(run.max(1));
        // Weights of another device are copied on their own.
        let apart = (start.saturating_add(1)..end).find(|&place| {
            nodes.get(place).is_some_and(|node| distant(node, device, places).is_some())
                && nodes
                    .get(start..place)
                    .is_some_and(|before| schedule.copies_any(device, start, before, places))
        });
        let end = apart.unwrap_or(end);
        let nodes = nodes.get(start..end).unwrap_or_default();
        schedule.copy_to(device, start, nodes, places)?;
        for node in nodes {
            schedule.add(node, device, places)?;
        }
        start = end;
    }
    Ok(schedule.steps)
}

/// The weights that a node is computed with elsewhere than where they are.
fn distant<'n>(node: &'n ComputeNode, device: usize, places: &Places<'_>) -> Option<&'n str> {
    let tensor = node.tensor.as_deref().filter(|_| !node.weighted && is_computed(node));
    tensor.filter(|tensor| (places.tensor)(tensor).is_some_and(|place| place != device))
}

/// Whether something that is computed with the cache of a block is elsewhere than the block.
pub(crate) fn is_moved(nodes: &[ComputeNode], places: &Places<'_>) -> bool {
    let is_input =
        |&source: &usize| nodes.get(source).is_some_and(|node| node.kind == ComputeKind::Input);
    // What is stored in a cache is stored at the places that an input says.
    let of_cache = |&source: &usize| {
        let view = nodes.get(source).filter(|node| node.kind == ComputeKind::View);
        let origin = view.and_then(|view| view.sources.first()).and_then(|&at| nodes.get(at));
        origin.is_some_and(|node| {
            node.weighted && node.elements == 0 && node.sources.iter().any(is_input)
        })
    };
    let mut computed = nodes.iter().zip(devices(nodes, places));
    computed.any(|(node, device)| match node.layer {
        ComputeLayer::Block(block) if !node.weighted && is_computed(node) => {
            device != (places.block)(block) && node.sources.iter().any(of_cache)
        }
        _ => false,
    })
}

/// What is computed so far.
struct Schedule {
    steps: Vec<Step>,
    /// The step of each node.
    of: Vec<usize>,
    /// Those that are copies, by the node and the device.
    copies: BTreeMap<(usize, usize), usize>,
    /// Those that are copies of weights.
    weights: BTreeMap<(Box<str>, usize), usize>,
}

/// Something that is copied to a device.
#[derive(Clone, Copy)]
struct Copied {
    /// The step that it is of.
    step: usize,
    /// Where that is.
    from: usize,
    size: u64,
    is_view: bool,
}

impl Schedule {
    /// What a device needs of another one, by the place of a node, where it has no copy yet. These
    /// nodes, the first of which is `start`, are computed on it.
    fn lacking(
        &self,
        device: usize,
        start: usize,
        nodes: &[ComputeNode],
        source: usize,
    ) -> Result<Option<Copied>> {
        // A view among these nodes may be of a result of another device.
        let view = source.checked_sub(start).and_then(|place| nodes.get(place));
        let view = view.filter(|node| node.kind == ComputeKind::View);
        let origin = view.and_then(|view| view.sources.first()).unwrap_or(&source);
        let step = self.of.get(*origin).copied();
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

    /// Whether these nodes need anything of other devices that this one has no copy of.
    fn copies_any(
        &self,
        device: usize,
        start: usize,
        nodes: &[ComputeNode],
        places: &Places<'_>,
    ) -> bool {
        nodes.iter().filter(|node| is_computed(node)).any(|node| {
            let mut sources = node.sources.iter();
            sources.any(|&source| matches!(self.lacking(device, start, nodes, source), Ok(Some(_))))
                || distant(node, device, places)
                    .is_some_and(|tensor| !self.weights.contains_key(&(tensor.into(), device)))
        })
    }

    /// Adds copies of what these nodes need of other devices, where this one has none yet.
    fn copy_to(
        &mut self,
        device: usize,
        start: usize,
        nodes: &[ComputeNode],
        places: &Places<'_>,
    ) -> Result<()> {
        let stays = places.pipelined;
        for node in nodes.iter().filter(|node| is_computed(node)) {
            for &source in &node.sources {
                let Some(copied) = self.lacking(device, start, nodes, source)? else { continue };
                let is_input = self
                    .steps
                    .get(copied.step)
                    .is_some_and(|step| step.kind == ComputeKind::Input && !copied.is_view);
                // Inputs are there as often already.
                let size =
                    if stays && !is_input { product(&[copied.size, COPIES])? } else { copied.size };
                let is_empty = size == 0;
                // The original is kept until it is copied.
                let kind = ComputeKind::Own;
                let sources = vec![copied.step];
                self.steps.push(Step { size: 0, kind, device: copied.from, stays: false, sources });
                self.copies.insert((source, device), self.steps.len());
                let kind = if is_empty { ComputeKind::Empty } else { kind };
                self.steps.push(Step { size, kind, device, stays, sources: Vec::new() });
            }
            let Some(tensor) = distant(node, device, places) else { continue };
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

    fn add(&mut self, node: &ComputeNode, device: usize, places: &Places<'_>) -> Result<()> {
        let mut size = in_buffer(product(&[node.elements, F32])?)?;
        // What is constant is there once.
        let is_input = node.kind == ComputeKind::Input && !node.weighted;
        if places.pipelined && is_input {
            size = product(&[size, COPIES])?;
        }
        let mut sources = Vec::with_capacity(node.sources.len());
        for &source in &node.sources {
            let copy = self.copies.get(&(source, device)).filter(|_| is_computed(node));
            sources.extend(copy.or_else(|| self.of.get(source)).copied());
        }
        let weights = distant(node, device, places);
        sources.extend(weights.and_then(|name| self.weights.get(&(name.into(), device))).copied());
        self.of.push(self.steps.len());
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

/// Whether a device has work with it.
fn is_computed(node: &ComputeNode) -> bool {
    !matches!(node.kind, ComputeKind::Input | ComputeKind::Given | ComputeKind::View)
}

/// The device of each node. What is computed with weights is where they are; the rest is beside it,
/// first where devices are, and where the host is if there is none.
fn devices(nodes: &[ComputeNode], places: &Places<'_>) -> Vec<usize> {
    let last = nodes.iter().rposition(|node| {
        node.kind == ComputeKind::Own
            && node.weighted
            && node.elements > 0
            && node.layer == ComputeLayer::Output
    });
    let fixed = |(place, node): (usize, &ComputeNode)| {
        // A model without an output of its own may have a copy of the embedding there.
        let is_copied = last == Some(place) && node.tensor.as_deref() == Some(EMBEDDING);
        let named = node.tensor.as_deref().filter(|_| !is_copied).and_then(places.tensor);
        let device = match node.layer {
            _ if named.is_some() => named.unwrap_or(HOST),
            ComputeLayer::Block(block) => (places.block)(block),
            ComputeLayer::Output if last == Some(place) => places.scores,
            ComputeLayer::Output => places.output,
            _ => HOST,
        };
        (node.weighted && is_computed(node)).then_some(device)
    };
    let computed: Vec<usize> =
        (0..nodes.len()).filter(|&place| nodes.get(place).is_some_and(is_computed)).collect();
    let mut devices: Vec<Option<usize>> = nodes.iter().enumerate().map(fixed).collect();
    for but_host in [true, false] {
        expand(&mut devices, computed.iter().copied(), but_host);
        expand(&mut devices, computed.iter().rev().copied(), but_host);
    }
    // What is not computed goes with what is around it, so that it divides nothing.
    let mut all = Vec::with_capacity(nodes.len());
    // Before anything is computed there are inputs, which are on the host.
    let mut device = HOST;
    for (found, node) in devices.iter().zip(nodes) {
        if is_computed(node) {
            device = found.unwrap_or(HOST);
        }
        all.push(device);
    }
    all
}

/// Gives those without a device that of the one before; the host's only on demand.
fn expand(devices: &mut [Option<usize>], order: impl Iterator<Item = usize>, but_host: bool) {
    let mut last = None;
    for place in order {
        match devices.get_mut(place) {
            Some(Some(device)) => {
                last = Some(*device).filter(|&device| !(but_host && device == HOST));
            }
            Some(device) => *device = last,
            None => {}
        }
    }
}
