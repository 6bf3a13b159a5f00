//! The quantization of weights according to the configuration of a checkpoint.

use ggmill_arch::{Architecture, configured};
use ggmill_core::RawStr;
use ggmill_pipeline::{Error, ErrorKind, Pretrained, Result};
use serde_json::Value;

use crate::vocabulary::document;

/// The file in which NVIDIA's Model Optimizer says it.
const FILE: &str = "hf_quant_config.json";

/// Methods that are decoded or repacked.
const METHODS: [&str; 9] = [
    "awq",
    "bitnet",
    "bitsandbytes",
    "compressed-tensors",
    "fbgemm_fp8",
    "fp8",
    "gptq",
    "modelopt",
    "mxfp4",
];

/// How the weights of a checkpoint are quantized.
#[derive(Debug)]
pub(crate) struct Quantization {
    /// Where it says so.
    place: &'static str,
    /// `quant_method`; empty where there is none.
    pub(crate) method: String,
    /// The object in `config.json`; null where there is none.
    pub(crate) settings: Value,
    /// The object in [`FILE`], which is only asked for what the other does not have.
    file: Value,
}

impl Quantization {
    /// What the configuration of a checkpoint says; `None` where its weights are not quantized.
    pub(crate) fn of(checkpoint: &dyn Pretrained) -> Result<Option<Self>> {
        let config = checkpoint.config();
        let found = ["quantization_config", "compression_config"]
            .into_iter()
            .find_map(|name| Some((name, configured(config, name)?)));
        let settings = found.map_or(Value::Null, |(_, settings)| settings.clone());
        let is_set = |name: &str| settings.get(name).is_some_and(|value| !value.is_null());
        let mut file = Value::Null;
        if !is_set("quant_algo") || !is_set("quantized_layers") {
            file = document(checkpoint.side_files(), FILE)?.unwrap_or_default();
        }
        let producer = file.pointer("/producer/name").and_then(Value::as_str);
        let loads = |name| settings.get(name).and_then(Value::as_bool) == Some(true);
        let method = match settings.get("quant_method").and_then(Value::as_str) {
            Some(method) => method.to_owned(),
            // Configurations of the first versions do not name it.
            None if loads("load_in_4bit") || loads("load_in_8bit") => "bitsandbytes".to_owned(),
            None => producer.map(str::to_lowercase).unwrap_or_default(),
        };
        if found.is_none() && (file.is_null() || method.is_empty()) {
            // Mistral's own `params.json`.
            let own = config.pointer("/quantization/qformat_weight").and_then(Value::as_str);
            let method = own.map(|own| if own == "fp8_e4m3" { "fp8" } else { own }.to_owned());
            let (settings, file) = (Value::Null, Value::Null);
            return Ok(method.map(|method| Self { place: "quantization", method, settings, file }));
        }
        let place = found.map_or(FILE, |(name, _)| name);
        let file = file.get("quantization").cloned().unwrap_or_default();
        Ok(Some(Self { place, method, settings, file }))
    }

    /// A setting of Model Optimizer.
    pub(super) fn of_optimizer(&self, name: &str) -> Option<&Value> {
        let set = |value: &&Value| !value.is_null();
        self.file.get(name).or_else(|| self.settings.get(name)).filter(set)
    }

    /// Fails for a method that is not known, or not in checkpoints of this architecture.
    pub(crate) fn refuse_unknown(&self, architecture: &Architecture) -> Result<()> {
        let is_known = METHODS.contains(&&*self.method);
        if is_known && architecture.takes_quantized(&self.method) {
            return Ok(());
        }
        let method = match &*self.method {
            "" => " without a quant_method".to_owned(),
            method => format!(" ({})", RawStr::from(method)),
        };
        let reason = if is_known {
            format!("not supported in checkpoints of {}", architecture.name())
        } else {
            format!("the supported methods are {}", METHODS.join(", "))
        };
        let message = format!(
            "{}{method}: the weights are already quantized, {reason}; convert the original \
             checkpoint",
            self.place
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// An error about a setting.
pub(super) fn refused(setting: &str, found: &Value, expected: &str) -> Error {
    let message = format!(
        "quantization_config: {setting} is {}, expected {expected}",
        RawStr::from(&*found.to_string())
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// The bits of a level, as settings have them under one of these names.
pub(super) fn bits_of(settings: &Value, names: &[&str], known: &[u32]) -> Result<u32> {
    let found = names.iter().find_map(|name| Some((*name, settings.get(name)?)));
    let (name, value) = found.unwrap_or((names[0], &Value::Null));
    let bits = value.as_u64().and_then(|bits| u32::try_from(bits).ok());
    bits.filter(|bits| known.contains(bits)).ok_or_else(|| {
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        refused(name, value, &known.join(", "))
    })
}
