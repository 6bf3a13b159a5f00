//! The estimate.

use std::collections::BTreeMap;

use ggmill_arch::{Architecture, ComputeSpec, MemorySpec, ModelView, Role};
use ggmill_core::{GgmlType, Model, RawStr};

use crate::caches::{self, Cells};
use crate::compute;
use crate::error::Result;
use crate::notes::{Note, Unknown, notes};
use crate::options::Options;
use crate::placement::{Layers, PlacedTensors};
use crate::weights::{self, in_buffer, product, sum};

/// The memory that a model takes to run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Estimate {
    /// The cells of the caches; `None` if the caches are unknown and neither the model nor the options
    /// have a context length.
    pub cells: Option<Cells>,
    /// The context length in tokens that the model was trained with, if the file has it.
    pub trained_context: Option<u64>,
    /// `true` if flash attention is used; `None` if the architecture is not known.
    pub flash_attention: Option<bool>,
    /// The host, and the devices in order.
    pub devices: Vec<Device>,
    /// Parts that are not included in the totals.
    pub unknown: Vec<Unknown>,
    /// Notes about the options, for the model without companions.
    pub notes: Vec<Note>,
    /// `true` if the compute buffers are lowered from the computation graph, `false` if the description
    /// lists what is computed; `None` if they are unknown.
    pub lowered: Option<bool>,
    /// The devices of the layers.
    layers: Layers,
}

/// Memory use on one device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// Weights.
    pub weights: u64,
    /// Cached keys.
    pub keys: u64,
    /// Cached values.
    pub values: u64,
    /// Recurrent states.
    pub states: u64,
    /// The output buffer: logits for one token of each sequence.
    pub output: u64,
    /// Compute buffers; 0 if they are not known, which is then in [`Estimate::unknown`].
    pub compute: u64,
}

impl Device {
    /// Returns the size of keys, values and recurrent states, in bytes.
    pub fn context(&self) -> u64 {
        self.keys.saturating_add(self.values).saturating_add(self.states)
    }

    /// Returns the sum, in bytes.
    pub fn total(&self) -> u64 {
        let transient = self.output.saturating_add(self.compute);
        self.weights.saturating_add(self.context()).saturating_add(transient)
    }
}

impl Estimate {
    /// Adds the weights of an adapter, each on the device of the layer that it changes.
    pub fn add_adapter(&mut self, adapter: &Model) -> Result<()> {
        let layers = self.layers.clone();
        let device = |name: &str| {
            weights::block_of(name).map_or_else(|| layers.of_output(), |block| layers.of(block))
        };
        self.add_weights(adapter, device)
    }

    /// Adds the weights of a projector for images or sound, on the first device, or on the host if there
    /// is none.
    pub fn add_projector(&mut self, projector: &Model) -> Result<()> {
        let first = usize::from(self.devices.len() > 1);
        self.add_weights(projector, |_| first)
    }

    fn add_weights(&mut self, file: &Model, device: impl Fn(&str) -> usize) -> Result<()> {
        for tensor in file.tensors() {
            let Some(size) = tensor.size() else {
                self.unknown.push(Unknown::of_weights(&tensor));
                continue;
            };
            if let Some(device) = self.devices.get_mut(device(&tensor.name().to_string())) {
                device.weights = sum(device.weights, in_buffer(size)?)?;
            }
        }
        Ok(())
    }

    /// Adds the estimate of a second model, which may use more devices.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        if self.devices.len() < other.devices.len() {
            self.devices.resize(other.devices.len(), Device::default());
        }
        for (device, other) in self.devices.iter_mut().zip(&other.devices) {
            device.weights = sum(device.weights, other.weights)?;
            device.keys = sum(device.keys, other.keys)?;
            device.values = sum(device.values, other.values)?;
            device.states = sum(device.states, other.states)?;
            device.output = sum(device.output, other.output)?;
            device.compute = sum(device.compute, other.compute)?;
        }
        self.unknown.extend(other.unknown.iter().cloned());
        Ok(())
    }

    /// Returns the context length in tokens, for all sequences together, rounded up as in llama.cpp;
    /// `None` if [`Estimate::cells`] is.
    pub fn context_length(&self) -> Option<u64> {
        self.cells.map(Cells::tokens)
    }

    /// Returns the number of layers on devices besides the host.
    pub fn layers_on_devices(&self) -> u64 {
        self.layers.on_devices()
    }

    /// Returns the number of layers that devices can have: blocks and the output.
    pub fn layer_count(&self) -> u64 {
        self.layers.all()
    }

    /// Returns the sum over all devices, in bytes.
    pub fn total(&self) -> u64 {
        self.devices.iter().fold(0, |total, device| total.saturating_add(device.total()))
    }
}

/// Files that are loaded together with a model; none by default.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Companions<'a> {
    /// A projector for images or sound.
    pub projector: Option<&'a Model>,
    /// Adapters.
    pub adapters: Vec<&'a Model>,
    /// A draft model, and the description of its architecture.
    pub draft: Option<(&'a Model, Option<&'a Architecture>)>,
}

impl Companions<'_> {
    /// Estimates a model together with these files. The draft model has the same options without
    /// overrides, and the context of the model if the options have none.
    ///
    /// Fails like [`estimate`], for any of the files.
    pub fn estimate(
        &self,
        model: &Model,
        description: Option<&Architecture>,
        options: &Options,
    ) -> Result<Estimate> {
        let mut all = estimate(model, description, options)?;
        if let Some(projector) = self.projector {
            all.add_projector(projector)?;
        }
        for adapter in &self.adapters {
            all.add_adapter(adapter)?;
        }
        if let Some((draft, description)) = self.draft {
            let mut options = options.clone();
            options.context = options.context.or(all.context_length());
            options.placement.overrides = BTreeMap::new();
            options.placement.patterns = Vec::new();
            all.add(&estimate(draft, description, &options)?)?;
        }
        Ok(all)
    }
}

/// Estimates the memory that a model takes to run, from its header and the description of its
/// architecture.
///
/// Weights, caches and states are those that llama.cpp allocates (llama-cpp-python 0.3.36) when it reads
/// the weights into memory; when it maps the file, it also counts the gaps between tensors. Blocks for
/// multi-token prediction are not loaded.
///
/// Compute buffers are those of devices that compute only their own layers, as llama.cpp reserves them.
/// A GPU that also computes matrix products for the host (CUDA with layers on the host, without
/// `--no-op-offload`) needs additional memory for copies of the weights.
///
/// Fails for options that llama.cpp refuses. Unknown parts are left out and listed in
/// [`Estimate::unknown`].
pub fn estimate(
    model: &Model,
    description: Option<&Architecture>,
    options: &Options,
) -> Result<Estimate> {
    let names = model.tensors().iter().map(|tensor| tensor.name().to_string());
    let view =
        ModelView::of_metadata(model.metadata()).described_by(description).with_tensors(names);
    let mut unknown = Vec::new();
    let memory = memory(&view, &mut unknown);
    let trained = view.integer("context_length");
    let cells = match (&memory, options.context.or(trained)) {
        (None, None) => None,
        _ => Some(Cells::new(options, trained)?),
    };
    let cached = memory.iter().flat_map(|memory| &memory.caches).flat_map(|cache| &cache.blocks);
    let blocks = cached.map(|block| block.block.saturating_add(1)).max().unwrap_or(0);
    let blocks = blocks.max(view.block_count().unwrap_or(0));
    let placement = &options.placement;
    let layers = Layers::new(placement, blocks)?;
    let role = |name: &str| view.role(name);
    let weights =
        weights::by_device(model, memory.as_ref(), placement, &layers, role, &mut unknown)?;
    let mut devices: Vec<Device> =
        weights.into_iter().map(|weights| Device { weights, ..Device::default() }).collect();
    let placed = PlacedTensors::new(model, memory.as_ref(), placement, &layers, role);
    let mut flash_attention = None;
    if let (Some(memory), Some(cells)) = (&memory, cells) {
        flash_attention = Some(caches::flash_attention(memory, options)?);
        let place = |block| if placement.context_on_host { 0 } else { layers.of(block) };
        let kept = caches::by_device(memory, cells, options, devices.len(), place)?;
        for (device, kept) in devices.iter_mut().zip(kept) {
            (device.keys, device.values, device.states) = (kept.keys, kept.values, kept.states);
        }
    }
    if let (Some(host), Some(tokens)) = (devices.first_mut(), vocabulary(model, &view)) {
        const LOGIT_BYTES: u64 = 4;
        host.output = product(&[tokens, options.sequences, LOGIT_BYTES])?;
    }
    let computed = match (&memory, cells, flash_attention) {
        (Some(memory), Some(cells), Some(flash)) => match &memory.compute {
            Ok(needed) => {
                let run = compute::Run {
                    memory,
                    cells,
                    options,
                    flash,
                    fused: has(model, &view, Role::ATTENTION_QKV),
                    has_output: has(model, &view, Role::OUTPUT),
                    layers: &layers,
                    placed: &placed,
                    blocks: view.block_count().unwrap_or(blocks),
                };
                compute::by_device(&run, needed, devices.len())?
            }
            Err(why) => Err(format!(
                "the operations of architecture {:?} are not known: {why}",
                RawStr::from(view.architecture())
            )),
        },
        _ => Err("they depend on the caches, which are unknown".to_owned()),
    };
    let mut lowered = None;
    match computed {
        Ok(computed) => {
            let source = memory.as_ref().and_then(|memory| memory.compute.as_ref().ok());
            lowered = source.map(ComputeSpec::is_lowered);
            for (device, length) in devices.iter_mut().zip(computed.lengths) {
                device.compute = length;
            }
            flash_attention = Some(computed.flash);
            unknown.extend(backend_buffers(&layers, &placed, options, flash_attention));
        }
        Err(why) => unknown.push(Unknown::Compute(why)),
    }
    let notes = notes(options, cells.map(Cells::tokens), trained);
    Ok(Estimate {
        cells,
        trained_context: trained,
        flash_attention,
        devices,
        unknown,
        notes,
        lowered,
        layers,
    })
}

/// Returns the buffers that some GPU backends need in addition. The recorded figures of the reference
/// are from devices without them.
fn backend_buffers(
    layers: &Layers,
    placed: &PlacedTensors,
    options: &Options,
    flash: Option<bool>,
) -> impl Iterator<Item = Unknown> {
    let on_devices = layers.on_devices();
    // `ggml_backend_offload_op`: all GPU backends implement it.
    let on_host = on_devices > 0 && (on_devices < layers.all() || placed.moves_to_host());
    let copies_weights = on_host.then_some(
        "copies on GPUs of the weights on the host, for batches of 32 tokens or more, unless op offload \
         is disabled",
    );
    // `ggml_backend_cuda_buffer_type_get_alloc_size`.
    let is_half = [options.key_type, options.value_type] == [GgmlType::F16; 2];
    let copies_cache = (on_devices > 0 && flash == Some(true) && !is_half)
        .then_some("F16 copies of the keys and values of a layer, which CUDA and Metal need");
    copies_weights.into_iter().chain(copies_cache).map(Unknown::Backend)
}

/// Returns `true` if the model has a tensor with this role.
fn has(model: &Model, view: &ModelView<'_>, role: Role) -> bool {
    model.tensors().iter().any(|tensor| view.role(&tensor.name().to_string()) == role)
}

/// Returns the caches and states of the model, or adds why they are unknown.
fn memory(view: &ModelView<'_>, unknown: &mut Vec<Unknown>) -> Option<MemorySpec> {
    let architecture = || view.architecture().to_owned();
    let missing = match view.memory() {
        Some(Ok(memory)) => return Some(memory),
        Some(Err(error)) => Unknown::Metadata(error.to_string()),
        None if view.description().is_some() => Unknown::Memory(architecture()),
        None => Unknown::Architecture(architecture()),
    };
    unknown.push(missing);
    None
}

/// Returns the number of tokens of the vocabulary.
fn vocabulary(model: &Model, view: &ModelView<'_>) -> Option<u64> {
    let tokens =
        model.metadata().get("tokenizer.ggml.tokens").and_then(|tokens| tokens.value().ok());
    let tokens = tokens.and_then(|tokens| tokens.as_array().map(|array| array.len()));
    tokens.or_else(|| view.integer("vocab_size"))
}
