//! NVFP4 of Model Optimizer and compressed-tensors, and MXFP4 of compressed-tensors. The weights
//! keep their blocks; scales of whole tensors become separate tensors.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::configured;
use ggmill_core::{RawStr, Shape};
use ggmill_pipeline::{Error, ErrorKind, Expression, Mxfp4, Nvfp4, Pretrained, Result};
use serde_json::Value;

use super::Quantization;
use super::unpacking::{Content, TensorScales, Unpacking};

/// The algorithm whose weights are multiplied with 16-bit activations.
const WIDE_ACTIVATIONS: &str = "W4A16_NVFP4";

/// The layers with NVFP4 weights, and the precision of their activations.
pub(crate) struct Nvfp4Layers {
    is_compressed_tensors: bool,
    /// The algorithm of layers that are not listed.
    algorithm: Option<String>,
    /// Algorithms by layer.
    layers: BTreeMap<String, Option<String>>,
    /// `true` if the configuration has the number of experts. Then the experts of a layer are
    /// written at the position of the last of them, otherwise after all other weights.
    pub(crate) counts_experts: bool,
}

impl Nvfp4Layers {
    /// Reads the layers from the settings; `None` if no weights are NVFP4.
    pub(super) fn of(
        quantization: &Quantization,
        checkpoint: &dyn Pretrained,
    ) -> Result<Option<Self>> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let algorithm = text(quantization.optimizer_setting("quant_algo"));
        let empty = serde_json::Map::new();
        let object = |name: &str| {
            quantization.optimizer_setting(name).and_then(Value::as_object).unwrap_or(&empty)
        };
        let listed = object("quantized_layers");
        let is_compressed_tensors = quantization.method == "compressed-tensors" && {
            let format = |value: &Value| text(value.get("format"));
            let packed = Some("nvfp4-pack-quantized".to_owned());
            let groups = object("config_groups");
            match text(quantization.optimizer_setting("format")).as_deref() {
                Some("nvfp4-pack-quantized") => true,
                Some("mixed-precision") => {
                    !groups.is_empty() && groups.values().all(|group| format(group) == packed)
                }
                _ => false,
            }
        };
        let own = |entry: &Value| text(entry.get("quant_algo"));
        let is_nvfp4 = is_compressed_tensors
            || matches!(algorithm.as_deref(), Some("NVFP4" | WIDE_ACTIVATIONS))
            || listed.values().any(|entry| own(entry).is_some_and(|own| own.ends_with("NVFP4")));
        if !is_nvfp4 {
            return Ok(None);
        }
        let without = |name: &str| name.replace("language_model.", "");
        let layers: BTreeMap<_, _> = listed
            .iter()
            .filter(|(_, entry)| entry.is_object())
            .map(|(name, entry)| (without(name), own(entry)))
            .collect();
        let mut modules = BTreeSet::new();
        for tensor in checkpoint.tensors() {
            let mut name = without(&String::from_utf8_lossy(&tensor.name));
            while let Some((module, _)) = name.rsplit_once('.') {
                name = module.to_owned();
                modules.insert(name.clone());
            }
        }
        if let Some(unknown) = layers.keys().find(|layer| !modules.contains(*layer)) {
            let message = format!(
                "quantization_config: quantized_layers has {:?}, for which the checkpoint has no \
                 tensors",
                RawStr::from(&**unknown)
            );
            return Err(Error::new(ErrorKind::Checkpoint, message));
        }
        let counts_experts = ["num_local_experts", "num_experts"]
            .iter()
            .find_map(|name| configured(checkpoint.config(), name))
            .and_then(Value::as_u64)
            .is_some_and(|count| count > 0);
        Ok(Some(Self { is_compressed_tensors, algorithm, layers, counts_experts }))
    }

    /// Replaces NVFP4 weights by blocks, in place.
    pub(super) fn repack(&self, list: &mut Unpacking<'_>) -> Result<()> {
        let endings = if self.is_compressed_tensors {
            [".weight_packed", ".weight_global_scale", ".input_global_scale"]
        } else {
            [".weight", ".weight_scale_2", ".input_scale"]
        };
        for (number, base) in list.ending(endings[0]) {
            let scales = if self.is_compressed_tensors {
                list.need(base, ".weight_scale", number)?
            } else {
                match list.find(base, ".weight_scale") {
                    Some(scales) if list.tensor(scales).shape.dimensions().len() >= 2 => scales,
                    _ => continue,
                }
            };
            let name = [base, b".weight"].concat();
            let inputs = [list.stored(number)?, list.stored(scales)?];
            let blocks = Expression::decode(Nvfp4::new(), &inputs)
                .map_err(|error| error.tensor(&list.tensor(number).name))?;
            let mut factor = |ending: &str| {
                let Some(part) = list.find(base, ending) else { return Ok(Vec::new()) };
                let mut found = list.floats(part, 1 << 16)?;
                if self.is_compressed_tensors {
                    // compressed-tensors divides by these scales.
                    for factor in &mut found {
                        *factor = 1.0 / *factor;
                    }
                }
                list.leave_out(part);
                Ok::<_, Error>(found)
            };
            let factors =
                TensorScales { weights: factor(endings[1])?, inputs: factor(endings[2])? };
            list.replace(number, name, Content::Blocks(blocks, factors));
            list.leave_out(scales);
        }
        list.leave_out_ending(&[".k_scale", ".v_scale"]);
        Ok(())
    }

    /// Returns `true` if a weight must not be multiplied with 4-bit activations.
    pub(crate) fn is_wide(&self, name: &str) -> bool {
        let mut module = name.strip_suffix(".weight").unwrap_or(name);
        let algorithm = loop {
            if let Some(own) = self.layers.get(module) {
                break own.as_deref();
            }
            match module.rsplit_once('.') {
                Some((outer, _)) => module = outer,
                None => break self.algorithm.as_deref(),
            }
        };
        algorithm == Some(WIDE_ACTIVATIONS)
    }
}

/// Replaces MXFP4 weights of compressed-tensors (two in a byte, an exponent per 32) by blocks in
/// the order of GGUF, and removes the scales.
pub(super) fn repack_mxfp4(
    list: &mut Unpacking<'_>,
    number: usize,
    scales: usize,
    name: Vec<u8>,
) -> Result<()> {
    let blocks = mxfp4_blocks(list, number, scales).map_err(|error| error.tensor(&name))?;
    list.replace(number, name, Content::Blocks(blocks, TensorScales::default()));
    list.leave_out(scales);
    Ok(())
}

fn mxfp4_blocks(list: &Unpacking<'_>, number: usize, scales: usize) -> Result<Expression> {
    let shape = list.tensor(number).shape;
    let row_len = shape.row_len().saturating_mul(2);
    if !row_len.is_multiple_of(32) || shape.dimensions().is_empty() {
        let message =
            format!("the row length {row_len} is not a multiple of the block size of MXFP4, 32");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let dimensions = [&[16, row_len / 32], &shape.dimensions()[1..]].concat();
    let dimensions =
        Shape::new(&dimensions).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let weights = list.stored(number)?.reshape(dimensions)?;
    Expression::decode(Mxfp4::new(), &[weights, list.stored(scales)?])
}
