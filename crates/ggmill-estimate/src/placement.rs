//! Placement of layers and tensors on devices.

use core::str::FromStr;
use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::{ComputeLayer, ComputeNode, MemorySpec, Role};
use ggmill_core::Model;
use regex_lite::Regex;

use crate::error::{Error, ErrorKind, Result};
use crate::options::{MAX_DEVICES, device_number};
use crate::weights::{EMBEDDING, block_of, default_device};

/// The devices besides the host and the distribution of a model among them: the last blocks and then
/// the output are on the devices, in order.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Placement {
    /// The number of blocks on devices, counted from the last one, plus one for the output. Clamped to
    /// the number that the model has.
    pub layers: u64,
    /// The share of the layers on each device, relative to the sum. Empty without devices.
    pub shares: Vec<f32>,
    /// The number of devices that patterns name, if no shares were specified.
    pub(crate) default_devices: usize,
    /// Devices of tensors that patterns place, by name: 0 is the host.
    pub overrides: BTreeMap<String, usize>,
    /// The patterns, including those that match nothing: with any pattern, llama.cpp does not
    /// pipeline micro-batches over several devices.
    pub patterns: Vec<PlacedPattern>,
    /// `true` if caches and states stay on the host.
    pub context_on_host: bool,
}

/// A pattern for names of tensors, applied to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlacedPattern {
    /// The regular expression.
    pub pattern: String,
    /// The device on which it places tensors: 0 is the host.
    pub device: usize,
    /// `true` if it matches the name of a tensor, even one that an earlier pattern places.
    pub matches: bool,
}

impl Placement {
    /// Returns `true` if no shares were specified.
    pub(crate) fn has_default_shares(&self) -> bool {
        self.shares == vec![1.0; self.default_devices]
    }
}

/// The maximum number of blocks that are enumerated.
const MAX_BLOCKS: u64 = 1 << 16;

/// The devices of the layers of a model.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    first: u64,
    count: u64,
    /// The cumulative shares up to and including each device, normalized to 1.
    ends: Vec<f32>,
    /// The number of blocks, which is the number of the output.
    blocks: u64,
}

impl Layers {
    pub(crate) fn new(placement: &Placement, blocks: u64) -> Result<Self> {
        let devices = placement.shares.len();
        if devices > MAX_DEVICES {
            let (found, limit) = (devices as u64, MAX_DEVICES as u64);
            return Err(ErrorKind::OutOfRange { what: "devices", found, limit }.into());
        }
        let is_share = |share: &f32| share.is_finite() && *share >= 0.0;
        let mut sum = 0.0f32;
        let mut ends = Vec::with_capacity(devices);
        for share in &placement.shares {
            sum += share;
            ends.push(sum);
        }
        if !placement.shares.iter().all(is_share)
            || (devices > 0 && !(sum > 0.0 && sum.is_finite()))
        {
            return Err(ErrorKind::Shares.into());
        }
        for end in &mut ends {
            *end /= sum;
        }
        let of_patterns =
            placement.patterns.iter().map(|pattern| (&pattern.pattern, pattern.device));
        let of_tensors = placement.overrides.iter().map(|(name, &device)| (name, device));
        let mut placed = of_patterns.chain(of_tensors);
        if let Some((what, found)) = placed.find(|&(_, device)| device > devices) {
            return Err(ErrorKind::NoDevice { what: what.as_str().into(), found, devices }.into());
        }
        let all = blocks.saturating_add(1);
        let count = if devices == 0 { 0 } else { placement.layers.min(all) };
        Ok(Self { first: all.saturating_sub(count), count, ends, blocks })
    }

    /// Returns the device of a block, or of the output, which is the layer after the last block. 0 is
    /// the host.
    pub(crate) fn of(&self, layer: u64) -> usize {
        let Some(place) = layer.checked_sub(self.first).filter(|&place| place < self.count) else {
            return 0;
        };
        #[expect(clippy::cast_precision_loss, reason = "the reference divides in single precision")]
        let part = place as f32 / self.count as f32;
        let device = self.ends.iter().take_while(|&&end| end <= part).count();
        device.saturating_add(1).min(self.ends.len())
    }

    /// Returns the devices that have a block for which `wanted` is true, ascending without
    /// duplicates.
    pub(crate) fn with_blocks(&self, wanted: impl Fn(u64) -> bool) -> Vec<usize> {
        let blocks = (0..self.blocks.min(MAX_BLOCKS)).filter(|&block| wanted(block));
        let mut devices: Vec<usize> = blocks.map(|block| self.of(block)).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// Returns the number of layers on devices besides the host.
    pub(crate) fn on_devices(&self) -> u64 {
        self.count
    }

    /// Returns the number of layers: blocks and the output.
    pub(crate) fn all(&self) -> u64 {
        self.blocks.saturating_add(1)
    }

    pub(crate) fn of_output(&self) -> usize {
        self.of(self.blocks)
    }
}

/// A rule that places tensors on a device by name, parsed from `PATTERN=DEVICE`, where PATTERN is a
/// regular expression that matches anywhere in a name.
///
/// ```
/// use ggmill_estimate::TensorOverride;
/// let experts: TensorOverride = r"ffn_.*_exps\.weight=CPU".parse()?;
/// assert!("=GPU0)(=".parse::<TensorOverride>().is_err());
/// # Ok::<(), ggmill_estimate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorOverride {
    pattern: Regex,
    device: usize,
}

impl FromStr for TensorOverride {
    type Err = Error;

    /// Fails if there is no `=`, the pattern is not a regular expression, or the device is unknown.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong =
            |why: String| Error::from(ErrorKind::Override { found: text.into(), why: why.into() });
        let (pattern, device) =
            text.rsplit_once('=').ok_or_else(|| wrong("expected PATTERN=DEVICE".to_owned()))?;
        let pattern = Regex::new(pattern).map_err(|error| wrong(error.to_string()))?;
        let device = device_number(device).ok_or_else(|| {
            wrong(
                "expected CPU, or GPU and a number from 0 to 15, such as GPU0, after =".to_owned(),
            )
        })?;
        Ok(Self { pattern, device })
    }
}

impl Placement {
    /// Places the last `layers` layers of a model on devices with these shares. The first override that
    /// matches the name of a tensor places it. Without shares, the devices are those that overrides
    /// name, at least one if `layers` is not 0, with equal shares.
    pub fn of(model: &Model, layers: u64, shares: &[f32], overrides: &[TensorOverride]) -> Self {
        let mut placement = Self { layers, shares: shares.to_vec(), ..Self::default() };
        let named = overrides.iter().map(|rule| rule.device).max().unwrap_or(0);
        if shares.is_empty() && (layers > 0 || named > 0) {
            placement.default_devices = named.max(1);
            placement.shares = vec![1.0; placement.default_devices];
        }
        let tensors: Vec<String> = if overrides.is_empty() {
            Vec::new()
        } else {
            model.tensors().iter().map(|tensor| tensor.name().to_string()).collect()
        };
        for rule in overrides {
            let mut matches = false;
            for name in tensors.iter().filter(|name| rule.pattern.is_match(name)) {
                matches = true;
                placement.overrides.entry(name.clone()).or_insert(rule.device);
            }
            let pattern = rule.pattern.as_str().to_owned();
            placement.patterns.push(PlacedPattern { pattern, device: rule.device, matches });
        }
        placement
    }
}

/// The devices of the loaded tensors by name; empty if there are no overrides.
#[derive(Debug, Default)]
pub(crate) struct PlacedTensors(BTreeMap<String, PlacedTensor>);

#[derive(Debug)]
struct PlacedTensor {
    device: usize,
    /// The device without overrides.
    default: usize,
    bytes: u64,
    /// `true` if two or more dimensions are longer than 1.
    is_matrix: bool,
}

impl PlacedTensors {
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
        for tensor in model.tensors() {
            let name = tensor.name().to_string();
            if memory.is_some_and(|memory| !memory.loads(&name)) {
                continue;
            }
            let Some(default) = default_device(&name, memory, layers, role(&name)) else {
                continue;
            };
            let device = placement.overrides.get(&name).copied().unwrap_or(default);
            let is_matrix =
                tensor.shape().dimensions().iter().filter(|&&length| length > 1).count() > 1;
            let bytes = tensor.size().unwrap_or(0);
            tensors.insert(name, PlacedTensor { device, default, bytes, is_matrix });
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

    /// Returns `true` if an override moves a tensor from a device to the host.
    pub(crate) fn moves_to_host(&self) -> bool {
        self.0.values().any(|place| place.device == 0 && place.default > 0)
    }

    /// Returns a placed tensor whose operation is not known, so that it may run on another device than
    /// `nodes` say.
    pub(crate) fn without_node(&self, nodes: &[ComputeNode]) -> Option<&str> {
        let named: BTreeSet<&str> =
            nodes.iter().filter_map(|node| node.tensor.as_deref()).collect();
        let layer_block = |node: &ComputeNode| match node.layer {
            ComputeLayer::Block(block) => Some(block),
            _ => None,
        };
        let blocks: BTreeSet<u64> = nodes.iter().filter_map(layer_block).collect();
        let is_unknown = |(name, place): &(&String, &PlacedTensor)| {
            // A model without output weights computes its logits with the embedding.
            if *name == EMBEDDING && !self.0.contains_key("output.weight") {
                return place.device != place.default;
            }
            // Blocks for multi-token prediction are not computed.
            let is_computed = block_of(name).is_none_or(|block| blocks.contains(&block));
            if named.contains(name.as_str()) || !is_computed {
                return false;
            }
            let device = self.weight_of_bias(name).map_or(place.default, |weight| weight.device);
            place.is_matrix && self.weight_of_bias(name).is_none() || place.device != device
        };
        self.0.iter().find(is_unknown).map(|(name, _)| name.as_str())
    }

    /// Returns the weight tensor that belongs to a bias.
    fn weight_of_bias(&self, name: &str) -> Option<&PlacedTensor> {
        self.0.get(&format!("{}.weight", name.strip_suffix(".bias")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(layers: u64, shares: &[f32], blocks: u64) -> Vec<usize> {
        let placement = Placement { layers, shares: shares.to_vec(), ..Placement::default() };
        let layers = Layers::new(&placement, blocks).unwrap();
        (0..=blocks).map(|layer| layers.of(layer)).collect()
    }

    #[test]
    fn the_last_layers_are_distributed_by_share() {
        assert_eq!(devices(0, &[1.0], 3), [0, 0, 0, 0]);
        assert_eq!(devices(99, &[1.0], 3), [1, 1, 1, 1]);
        assert_eq!(devices(2, &[1.0], 3), [0, 0, 1, 1]);
        assert_eq!(devices(99, &[1.0, 1.0], 3), [1, 1, 2, 2]);
        assert_eq!(devices(4, &[1.0, 3.0], 7), [0, 0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(devices(4, &[0.0, 3.0], 3), [2, 2, 2, 2]);
        assert_eq!(devices(4, &[], 3), [0, 0, 0, 0]);
    }

    #[test]
    fn invalid_shares_are_refused() {
        for shares in [&[0.0f32, 0.0][..], &[-1.0, 2.0], &[f32::NAN], &[f32::INFINITY]] {
            let placement =
                Placement { layers: 1, shares: shares.to_vec(), ..Placement::default() };
            assert!(Layers::new(&placement, 3).is_err(), "{shares:?}");
        }
    }
}
