//! The weights that are loaded, and where.

use ggmill_arch::{MemorySpec, Role, TensorPlace};
use ggmill_core::{Model, NoTensors};

use crate::error::Result;
use crate::placement::{Layers, Placement};
use crate::size::{in_buffer, sum};
use crate::unknown::Unknown;

/// What gives the scores of a model without an output of its own. Other tensors with the role of a
/// token embedding, such as those for the inputs of every block, do not.
pub(crate) const EMBEDDING: &str = "token_embd.weight";

/// Bytes of weights on the host and on each device.
pub(crate) fn by_device(
    model: &Model,
    memory: Option<&MemorySpec>,
    placement: &Placement,
    layers: &Layers,
    role: impl Fn(&str) -> Role,
    unknown: &mut Vec<Unknown>,
) -> Result<Vec<u64>> {
    let mut devices = vec![0; placement.shares.len().saturating_add(1)];
    let mut add = |device: usize, size: u64| -> Result<()> {
        if let Some(bytes) = devices.get_mut(device) {
            *bytes = sum(*bytes, in_buffer(size)?)?;
        }
        Ok(())
    };
    unknown.extend(NoTensors::of(model).map(Unknown::NoTensors));
    let (mut embedding, mut has_output) = (None, false);
    let with_blocks = layers.with_blocks(|block| {
        memory.is_none_or(|memory| memory.without_copies.binary_search(&block).is_err())
    });
    for tensor in model.tensors().iter() {
        let name = tensor.name().to_string();
        if memory.is_some_and(|memory| !memory.loads(&name)) {
            continue;
        }
        let Some(size) = tensor.size() else {
            unknown.push(Unknown::of_weights(&tensor));
            continue;
        };
        let role = role(&name);
        has_output |= role == Role::OUTPUT;
        if name == EMBEDDING {
            embedding = Some(size);
        }
        match placement.overrides.get(&name).copied().or_else(|| usual(&name, memory, layers, role))
        {
            Some(device) => add(device, size)?,
            None => {
                for &device in &with_blocks {
                    add(device, size)?;
                }
            }
        }
    }
    // Without an output of its own, the model takes its embedding for it, and a device has a copy.
    let output = layers.of_output();
    let is_copied = output > 0 && memory.is_none_or(|memory| memory.copies_output)
        || memory.is_some_and(|memory| memory.copies_embedding);
    if let (Some(size), false, true) = (embedding, has_output, is_copied) {
        add(output, size)?;
    }
    Ok(devices)
}

/// The device of a tensor that no pattern places; `None` where every device with blocks has it.
pub(crate) fn usual(
    name: &str,
    memory: Option<&MemorySpec>,
    layers: &Layers,
    role: Role,
) -> Option<usize> {
    let place = memory.map_or(TensorPlace::ByRole, |memory| memory.place(name));
    match (block(name), place) {
        (Some(block), _) => Some(layers.of(block)),
        (None, TensorPlace::FirstBlock) => Some(layers.of(0)),
        (None, TensorPlace::EveryBlock) => None,
        (None, _) if is_input(role) => Some(0),
        (None, _) => Some(layers.of_output()),
    }
}

/// The number of the block that a tensor is of.
pub(crate) fn block(name: &str) -> Option<u64> {
    let mut parts = name.split('.').skip_while(|part| *part != "blk");
    parts.nth(1)?.parse().ok()
}

/// Whether a tensor is for what goes in, which the host looks up.
fn is_input(role: Role) -> bool {
    matches!(role, Role::TOKEN_EMBEDDING | Role::POSITION_EMBEDDING | Role::TOKEN_TYPE_EMBEDDING)
}
