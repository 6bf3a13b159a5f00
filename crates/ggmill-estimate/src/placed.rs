//! Where the tensors of a model are, where some are placed by their names.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::{ComputeLayer, ComputeNode, MemorySpec, Role};
use ggmill_core::Model;

use crate::placement::{Layers, Placement};
use crate::weights::{EMBEDDING, block, usual};

/// The tensors that are loaded, by their names. None where no pattern matches any.
#[derive(Debug, Default)]
pub(crate) struct Placed(BTreeMap<String, Place>);

#[derive(Debug)]
struct Place {
    device: usize,
    /// Where it would be without patterns.
    usual: usize,
    bytes: u64,
    /// Whether it has two or more dimensions.
    is_matrix: bool,
}

impl Placed {
    pub(crate) fn new(
        model: &Model,
        memory: Option<&MemorySpec>,
        placement: &Placement,
        layers: &Layers,
        role: impl Fn(&str) -> Role,
    ) -> Self {
        let mut tensors = BTreeMap::new();
        if placement.overrides.is_empty() {
            return Self(tensors);
        }
        for tensor in model.tensors().iter() {
            let name = tensor.name().to_string();
            if memory.is_some_and(|memory| !memory.loads(&name)) {
                continue;
            }
            let Some(usual) = usual(&name, memory, layers, role(&name)) else { continue };
            let device = placement.overrides.get(&name).copied().unwrap_or(usual);
            let is_matrix =
                tensor.shape().dimensions().iter().filter(|&&length| length > 1).count() > 1;
            let bytes = tensor.size().unwrap_or(0);
            tensors.insert(name, Place { device, usual, bytes, is_matrix });
        }
        Self(tensors)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn device(&self, tensor: &str) -> Option<usize> {
        self.0.get(tensor).map(|place| place.device)
    }

    pub(crate) fn bytes(&self, tensor: &str) -> u64 {
        self.0.get(tensor).map_or(0, |place| place.bytes)
    }

    /// Whether patterns leave something on the host that would be on a device.
    pub(crate) fn leaves_on_host(&self) -> bool {
        self.0.values().any(|place| place.device == 0 && place.usual > 0)
    }

    /// A tensor of which it is not known what is computed with it, so that it may be computed
    /// elsewhere than these results say.
    pub(crate) fn unplaced(&self, nodes: &[ComputeNode]) -> Option<&str> {
        let named: BTreeSet<&str> =
            nodes.iter().filter_map(|node| node.tensor.as_deref()).collect();
        let block_of = |node: &ComputeNode| match node.layer {
            ComputeLayer::Block(block) => Some(block),
            _ => None,
        };
        let blocks: BTreeSet<u64> = nodes.iter().filter_map(block_of).collect();
        let is_unplaced = |(name, place): &(&String, &Place)| {
            // The embedding gives the scores of a model without an output of its own.
            if *name == EMBEDDING && !self.0.contains_key("output.weight") {
                return place.device != place.usual;
            }
            // Nothing is computed with those of blocks that predict further tokens.
            let is_computed = block(name).is_none_or(|block| blocks.contains(&block));
            if named.contains(name.as_str()) || !is_computed {
                return false;
            }
            let device = self.with_weight(name).map_or(place.usual, |weight| weight.device);
            place.is_matrix && self.with_weight(name).is_none() || place.device != device
        };
        self.0.iter().find(is_unplaced).map(|(name, _)| name.as_str())
    }

    /// The weight that a bias is added to what is computed with.
    fn with_weight(&self, name: &str) -> Option<&Place> {
        self.0.get(&format!("{}.weight", name.strip_suffix(".bias")?))
    }
}
