//! Which device has what.

use std::collections::BTreeMap;

use crate::device::MAX_DEVICES;
use crate::error::{ErrorKind, Result};

/// The devices beside the host, and how a model is divided among them: the last blocks are on
/// devices, in the order of the devices, and after them the output.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Placement {
    /// Blocks on devices, the last ones; the output counts as one more. More than there are is all.
    pub layers: u64,
    /// How much of them each device has, as shares of their sum. None without devices.
    pub shares: Vec<f32>,
    /// How many devices there are because patterns name them, where no shares were given.
    pub(crate) default_devices: usize,
    /// Tensors that are elsewhere, by name: on the host, 0, or a device from 1.
    pub overrides: BTreeMap<String, usize>,
    /// The patterns for tensors, with those that match none: with any, llama.cpp computes one
    /// micro-batch at a time on several devices.
    pub patterns: Vec<PlacedPattern>,
    /// Whether caches and states stay on the host.
    pub context_on_host: bool,
}

/// A pattern for the names of tensors, as it applies to one model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlacedPattern {
    /// The regular expression.
    pub pattern: String,
    /// Where it places tensors: on the host, 0, or a device from 1.
    pub device: usize,
    /// Whether it matches the name of a tensor, even if an earlier pattern places that one.
    pub matches: bool,
}

impl Placement {
    /// Whether the shares are those that it began with, and none were given.
    pub(crate) fn has_default_shares(&self) -> bool {
        self.shares == vec![1.0; self.default_devices]
    }
}

/// The most blocks of a model.
const MAX_BLOCKS: u64 = 1 << 16;

/// Where the layers of one model are.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    first: u64,
    count: u64,
    /// The sums of the shares up to each device, as parts of all.
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

    /// The device of a block, or of the output, which is the layer behind the last block: 0 is the
    /// host.
    pub(crate) fn of(&self, layer: u64) -> usize {
        let Some(place) = layer.checked_sub(self.first).filter(|&place| place < self.count) else {
            return 0;
        };
        #[expect(clippy::cast_precision_loss, reason = "the reference divides in single precision")]
        let part = place as f32 / self.count as f32;
        let device = self.ends.iter().take_while(|&&end| end <= part).count();
        device.saturating_add(1).min(self.ends.len())
    }

    /// The devices that have such blocks, each once, in order.
    pub(crate) fn with_blocks(&self, wanted: impl Fn(u64) -> bool) -> Vec<usize> {
        let blocks = (0..self.blocks.min(MAX_BLOCKS)).filter(|&block| wanted(block));
        let mut devices: Vec<usize> = blocks.map(|block| self.of(block)).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    pub(crate) fn on_devices(&self) -> u64 {
        self.count
    }

    /// Blocks and the output.
    pub(crate) fn all(&self) -> u64 {
        self.blocks.saturating_add(1)
    }

    pub(crate) fn of_output(&self) -> usize {
        self.of(self.blocks)
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
    fn the_last_layers_are_on_devices_by_their_shares() {
        assert_eq!(devices(0, &[1.0], 3), [0, 0, 0, 0]);
        assert_eq!(devices(99, &[1.0], 3), [1, 1, 1, 1]);
        assert_eq!(devices(2, &[1.0], 3), [0, 0, 1, 1]);
        assert_eq!(devices(99, &[1.0, 1.0], 3), [1, 1, 2, 2]);
        assert_eq!(devices(4, &[1.0, 3.0], 7), [0, 0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(devices(4, &[0.0, 3.0], 3), [2, 2, 2, 2]);
        assert_eq!(devices(4, &[], 3), [0, 0, 0, 0]);
    }

    #[test]
    fn shares_that_divide_nothing_are_refused() {
        for shares in [&[0.0f32, 0.0][..], &[-1.0, 2.0], &[f32::NAN], &[f32::INFINITY]] {
            let placement =
                Placement { layers: 1, shares: shares.to_vec(), ..Placement::default() };
            assert!(Layers::new(&placement, 3).is_err(), "{shares:?}");
        }
    }
}
