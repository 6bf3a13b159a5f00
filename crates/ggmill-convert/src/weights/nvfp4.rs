//! NVFP4 of Model Optimizer and compressed-tensors: the weights keep their blocks, and the factors
//! of whole tensors are tensors of their own.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::configured;
use ggmill_core::RawStr;
use ggmill_pipeline::{Error, ErrorKind, Expression, Nvfp4, Pretrained, Result};
use serde_json::Value;

use super::quantization::Quantization;
use super::unpacking::{Content, Factors, Unpacking};

/// The algorithm whose weights are multiplied with activations of 16 bits.
const WIDE_ACTIVATIONS: &str = "W4A16_NVFP4";

/// Which weights of a checkpoint are NVFP4, and how they are multiplied.
pub(crate) struct Nvfp4Layers {
    is_compressed_tensors: bool,
    /// The algorithm of layers that are not listed.
    algorithm: Option<String>,
    /// Algorithms by layer.
    layers: BTreeMap<String, Option<String>>,
    /// Whether the configuration says how many experts there are: then those of a layer are written
    /// where the last of them was, otherwise after all other weights.
    pub(crate) counts_experts: bool,
}

impl Nvfp4Layers {
    /// `None` where no weights are.
    pub(super) fn of(
        quantization: &Quantization,
        checkpoint: &dyn Pretrained,
    ) -> Result<Option<Self>> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let algorithm = text(quantization.of_optimizer("quant_algo"));
        let empty = serde_json::Map::new();
        let object = |name: &str| {
            quantization.of_optimizer(name).and_then(Value::as_object).unwrap_or(&empty)
        };
        let listed = object("quantized_layers");
        let is_compressed_tensors = quantization.method == "compressed-tensors" && {
            let format = |value: &Value| text(value.get("format"));
            let packed = Some("nvfp4-pack-quantized".to_owned());
            let groups = object("config_groups");
            match text(quantization.of_optimizer("format")).as_deref() {
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

    /// Has the weights that are NVFP4 as blocks, in their places.
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
                    // They divide there.
                    for factor in &mut found {
                        *factor = 1.0 / *factor;
                    }
                }
                list.leave_out(part);
                Ok::<_, Error>(found)
            };
            let factors = Factors { weights: factor(endings[1])?, inputs: factor(endings[2])? };
            list.replace(number, name, Content::Blocks(blocks, factors));
            list.leave_out(scales);
        }
        list.leave_out_ending(&[".k_scale", ".v_scale"]);
        Ok(())
    }

    /// Whether a weight of this name must not be multiplied with activations of four bits.
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
