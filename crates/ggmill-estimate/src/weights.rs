//! Weights by device, and sizes in bytes.

use ggmill_arch::{MemorySpec, Role, TensorPlace};
use ggmill_core::{GgmlType, Model, NoTensors};

use crate::error::{Error, ErrorKind, Result};
use crate::notes::Unknown;
use crate::placement::{Layers, Placement};

/// The tensor that computes the logits of a model without output weights. Other tensors with the role
/// of a token embedding, such as per-layer embeddings, do not.
pub(crate) const EMBEDDING: &str = "token_embd.weight";

/// Returns the bytes of weights on the host and on each device.
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
    for tensor in model.tensors() {
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
        match placement
            .overrides
            .get(&name)
            .copied()
            .or_else(|| default_device(&name, memory, layers, role))
        {
            Some(device) => add(device, size)?,
            None => {
                for &device in &with_blocks {
                    add(device, size)?;
                }
            }
        }
    }
    // A model without output weights uses its embedding, of which the device has a copy.
    let output = layers.of_output();
    let is_copied = output > 0 && memory.is_none_or(|memory| memory.copies_output)
        || memory.is_some_and(|memory| memory.copies_embedding);
    if let (Some(size), false, true) = (embedding, has_output, is_copied) {
        add(output, size)?;
    }
    Ok(devices)
}

/// Returns the device of a tensor that no override places; `None` if every device with blocks has a
/// copy.
pub(crate) fn default_device(
    name: &str,
    memory: Option<&MemorySpec>,
    layers: &Layers,
    role: Role,
) -> Option<usize> {
    let place = memory.map_or(TensorPlace::ByRole, |memory| memory.place(name));
    match (block_of(name), place) {
        (Some(block), _) => Some(layers.of(block)),
        (None, TensorPlace::FirstBlock) => Some(layers.of(0)),
        (None, TensorPlace::EveryBlock) => None,
        (None, _) if is_input(role) => Some(0),
        (None, _) => Some(layers.of_output()),
    }
}

/// Returns the number of the block of a tensor.
pub(crate) fn block_of(name: &str) -> Option<u64> {
    let mut parts = name.split('.').skip_while(|part| *part != "blk");
    parts.nth(1)?.parse().ok()
}

/// Returns `true` for embeddings of inputs, which the host looks up.
fn is_input(role: Role) -> bool {
    matches!(role, Role::TOKEN_EMBEDDING | Role::POSITION_EMBEDDING | Role::TOKEN_TYPE_EMBEDDING)
}

/// The alignment of tensors in buffers, in bytes.
const ALIGNMENT: u64 = 32;

/// Rounds up to a multiple.
pub(crate) fn padded(number: u64, multiple: u64) -> Result<u64> {
    number.checked_next_multiple_of(multiple).ok_or_else(too_large)
}

/// Rounds the size of a tensor up to the alignment of a buffer.
pub(crate) fn in_buffer(bytes: u64) -> Result<u64> {
    padded(bytes, ALIGNMENT)
}

pub(crate) fn sum(left: u64, right: u64) -> Result<u64> {
    left.checked_add(right).ok_or_else(too_large)
}

pub(crate) fn product(factors: &[u64]) -> Result<u64> {
    let product = factors.iter().try_fold(1u64, |product, &factor| product.checked_mul(factor));
    product.ok_or_else(too_large)
}

/// Returns the bytes of a row of a cache.
pub(crate) fn row(elements: u64, cache_type: GgmlType) -> Result<u64> {
    let layout = cache_type.layout().ok_or(ErrorKind::NoCacheType(cache_type))?;
    let block = u64::from(layout.elements);
    if elements.checked_rem(block) != Some(0) {
        return Err(ErrorKind::CacheType { found: cache_type, elements, block }.into());
    }
    layout.bytes_for(elements).ok_or_else(too_large)
}

#[cold]
pub(crate) fn too_large() -> Error {
    ErrorKind::TooLarge.into()
}
