//! The weights of a checkpoint as descriptions see them: packed weights are decoded, or become
//! blocks of a GGML type.
//!
//! [`Quantization`] holds the settings in the configuration. Each method has a function that
//! replaces tensors in the list ([`Unpacking`]) by the weights that they contain.

mod compressed;
mod fp4;
mod packed;
mod scaled;
mod unpacking;

use std::collections::BTreeSet;
use std::path::Path;

use ggmill_arch::{Architecture, configured};
use ggmill_core::{FileType, GgmlType, RawStr, Shape};
use ggmill_pipeline::{Error, ErrorKind, Expression, Fp8, Pretrained, Result, SourceTensor};
use serde_json::Value;

use self::fp4::Nvfp4Layers;
pub(crate) use self::unpacking::TensorScales;
use self::unpacking::{Content, Unpacking, Weight, unscaled};
use crate::vocabulary::json;

/// The tensors of a checkpoint in order, without those that only describe how others are packed
/// (scales, zero points, …).
pub(crate) struct Weights<'a> {
    checkpoint: &'a dyn Pretrained,
    tensors: Vec<Weight>,
    /// Which weights are NVFP4; `None` if none are.
    nvfp4: Option<Nvfp4Layers>,
    mxfp4: Mxfp4,
}

/// For which requested file types the result gets the file type `MXFP4_MOE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mxfp4 {
    /// For none: no experts are MXFP4.
    Never,
    /// For float types, for experts that a description repacks.
    Floats,
    /// For all.
    Always,
}

impl<'a> Weights<'a> {
    pub(crate) fn of(
        checkpoint: &'a dyn Pretrained,
        quantization: Option<&Quantization>,
    ) -> Result<Self> {
        let mut list = Unpacking::of(checkpoint);
        let (mut nvfp4, mut mxfp4) = (None, Mxfp4::Never);
        if let Some(quantization) = quantization {
            nvfp4 = Nvfp4Layers::of(quantization, checkpoint)?;
            if let Some(layers) = &nvfp4 {
                layers.repack(&mut list)?;
            }
            let settings = &quantization.settings;
            match &*quantization.method {
                "fp8" | "fbgemm_fp8" => {
                    let is_mxfp4 = scaled::fp8(&mut list, settings)?;
                    mxfp4 = if is_mxfp4 { Mxfp4::Always } else { mxfp4 };
                }
                "modelopt" => scaled::modelopt(&mut list)?,
                "gptq" => packed::gptq(&mut list, settings)?,
                "awq" => packed::awq(&mut list, settings)?,
                "bitnet" => scaled::bitnet(&mut list)?,
                "bitsandbytes" => packed::bitsandbytes(&mut list)?,
                "compressed-tensors" if nvfp4.is_none() => {
                    let is_mxfp4 = compressed::decode(&mut list, settings)?;
                    mxfp4 = if is_mxfp4 { Mxfp4::Always } else { mxfp4 };
                }
                "mxfp4" => mxfp4 = Mxfp4::Floats,
                _ => {}
            }
        }
        Ok(Self { checkpoint, tensors: list.finish(), nvfp4, mxfp4 })
    }

    pub(crate) fn checkpoint(&self) -> &'a dyn Pretrained {
        self.checkpoint
    }

    /// Returns the tensor of the checkpoint.
    fn stored(&self, position: usize) -> &'a SourceTensor {
        &self.checkpoint.tensors()[self.tensors[position].number]
    }

    /// Returns the name of a weight: its name in the checkpoint, or the name of the decoded weight.
    pub(crate) fn name(&self, position: usize) -> RawStr<'_> {
        RawStr::new(&self.tensors[position].name)
    }

    /// Returns the names as text.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.tensors.iter().map(|tensor| String::from_utf8_lossy(&tensor.name).into())
    }

    pub(crate) fn shape(&self, position: usize) -> Shape {
        match &self.tensors[position].content {
            Content::Stored => self.stored(position).shape,
            Content::Values(values) => *values.shape(),
            Content::Blocks(blocks, _) => *blocks.shape(),
        }
    }

    /// Returns the type of the values, or `None` if they are stored in a type that GGML does not
    /// have and are not decoded.
    pub(crate) fn ggml_type(&self, position: usize) -> Option<GgmlType> {
        let stored = self.stored(position);
        match (&self.tensors[position].content, stored.stored_type) {
            (Content::Values(_), _) => Some(GgmlType::F32),
            (Content::Blocks(blocks, _), _) => Some(blocks.ggml_type()),
            (Content::Stored, None) => Some(stored.ggml_type),
            (Content::Stored, Some(name)) => Fp8::from_name(name).map(|_| GgmlType::F32),
        }
    }

    /// Returns the type in a file that keeps the types of the checkpoint. It is Q8_0 for decoded
    /// values, which no checkpoint stores with more bits.
    pub(crate) fn kept_type(&self, position: usize) -> Option<GgmlType> {
        match &self.tensors[position].content {
            Content::Values(_) => Some(GgmlType::Q8_0),
            _ => self.ggml_type(position),
        }
    }

    /// Returns a note about FP8 tensors without scales. Like the library, a conversion takes their values
    /// as they are stored; usually, a scale was lost.
    pub(crate) fn unscaled_note(&self) -> Option<String> {
        let mut unscaled = (0..self.tensors.len()).filter(|&position| {
            matches!(self.tensors[position].content, Content::Stored)
                && self.stored(position).stored_type.and_then(Fp8::from_name).is_some()
        });
        let first = unscaled.next()?;
        let (of, has) = match unscaled.count() {
            0 => (String::new(), "has no scale, and its values are"),
            more => {
                (format!(" and {more} other FP8 tensors"), "have no scales, and their values are")
            }
        };
        Some(format!("{:?}{of} {has} converted as they are stored in FP8", self.name(first)))
    }

    /// Returns names and shapes of the tensors that only describe how others are packed.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (String, Shape)> {
        let kept: BTreeSet<&[u8]> = self.tensors.iter().map(|weight| &*weight.name).collect();
        let all = self.checkpoint.tensors().iter();
        all.filter(move |tensor| !kept.contains(&*tensor.name))
            .map(|tensor| (String::from_utf8_lossy(&tensor.name).into(), tensor.shape))
    }

    /// Returns the path of the file that contains the tensor, if it is known.
    pub(crate) fn path(&self, position: usize) -> Option<&Path> {
        let range = self.checkpoint.range(self.tensors[position].number)?;
        Some(range.file.path())
    }

    /// Returns the name of the type in the checkpoint.
    pub(crate) fn type_name(&self, position: usize) -> String {
        self.stored(position).type_name()
    }

    /// Returns the values of a weight.
    pub(crate) fn values(&self, position: usize) -> Result<Expression> {
        let weight = &self.tensors[position];
        match &weight.content {
            Content::Stored => unscaled(self.checkpoint, weight.number),
            Content::Values(values) => Ok(values.clone()),
            Content::Blocks(blocks, _) => Ok(blocks.clone()),
        }
    }

    /// Returns the stored data, for packings that a description decodes itself.
    pub(crate) fn packed(&self, position: usize) -> Result<Expression> {
        Expression::stored(self.checkpoint, self.tensors[position].number)
    }

    /// Returns the scales that apply to whole tensors of blocks, or `None` for weights that are not
    /// blocks.
    pub(crate) fn scales(&self, position: usize) -> Option<TensorScales> {
        match &self.tensors[position].content {
            Content::Blocks(_, factors) => Some(factors.clone()),
            _ => None,
        }
    }

    /// Returns the NVFP4 layers, or `None` if there are none.
    pub(crate) fn nvfp4(&self) -> Option<&Nvfp4Layers> {
        self.nvfp4.as_ref()
    }

    /// Returns `true` if packed weights are decoded to F32.
    pub(crate) fn are_decoded(&self) -> bool {
        self.tensors.iter().any(|tensor| matches!(tensor.content, Content::Values(_)))
    }

    /// Returns the file type for a requested one: weights that keep their blocks override it.
    pub(crate) fn file_type(&self, asked: FileType) -> FileType {
        let is_float = matches!(asked, FileType::F32 | FileType::F16 | FileType::BF16);
        if self.mxfp4 == Mxfp4::Always || is_float && self.mxfp4 == Mxfp4::Floats {
            FileType::MXFP4_MOE
        } else if is_float && self.nvfp4.is_some() {
            FileType::NVFP4
        } else {
            asked
        }
    }
}

/// The configuration file of NVIDIA's Model Optimizer.
const FILE: &str = "hf_quant_config.json";

/// Supported quantization methods.
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

/// The quantization settings of a checkpoint.
#[derive(Debug)]
pub(crate) struct Quantization {
    /// The member of `config.json` or the file that has the settings, for messages.
    place: &'static str,
    /// `quant_method`, or empty.
    pub(crate) method: String,
    /// The object in `config.json`, or null.
    pub(crate) settings: Value,
    /// The object in [`FILE`], which is read only if the other lacks settings.
    file: Value,
}

impl Quantization {
    /// Reads the settings of a checkpoint; `None` if its weights are not quantized.
    pub(crate) fn of(checkpoint: &dyn Pretrained) -> Result<Option<Self>> {
        let config = checkpoint.config();
        let found = ["quantization_config", "compression_config"]
            .into_iter()
            .find_map(|name| Some((name, configured(config, name)?)));
        let settings = found.map_or(Value::Null, |(_, settings)| settings.clone());
        let is_set = |name: &str| settings.get(name).is_some_and(|value| !value.is_null());
        let mut file = Value::Null;
        if !is_set("quant_algo") || !is_set("quantized_layers") {
            file = json(checkpoint.side_files(), FILE)?.unwrap_or_default();
        }
        let producer = file.pointer("/producer/name").and_then(Value::as_str);
        let loads = |name| settings.get(name).and_then(Value::as_bool) == Some(true);
        let method = match settings.get("quant_method").and_then(Value::as_str) {
            Some(method) => method.to_owned(),
            // The first versions of bitsandbytes did not write `quant_method`.
            None if loads("load_in_4bit") || loads("load_in_8bit") => "bitsandbytes".to_owned(),
            None => producer.map(str::to_lowercase).unwrap_or_default(),
        };
        if found.is_none() && (file.is_null() || method.is_empty()) {
            // Mistral's `params.json`.
            let own = config.pointer("/quantization/qformat_weight").and_then(Value::as_str);
            let method = own.map(|own| if own == "fp8_e4m3" { "fp8" } else { own }.to_owned());
            let (settings, file) = (Value::Null, Value::Null);
            return Ok(method.map(|method| Self { place: "quantization", method, settings, file }));
        }
        let place = found.map_or(FILE, |(name, _)| name);
        let file = file.get("quantization").cloned().unwrap_or_default();
        Ok(Some(Self { place, method, settings, file }))
    }

    /// Returns a setting of Model Optimizer.
    fn optimizer_setting(&self, name: &str) -> Option<&Value> {
        let set = |value: &&Value| !value.is_null();
        self.file.get(name).or_else(|| self.settings.get(name)).filter(set)
    }

    /// Fails if the method is not supported, or not supported for this architecture.
    pub(crate) fn refuse_unknown(&self, architecture: &Architecture) -> Result<()> {
        let is_known = METHODS.contains(&&*self.method);
        if is_known && architecture.supports_quantization(&self.method) {
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

/// Returns an error about a setting.
fn invalid_setting(setting: &str, found: &Value, expected: &str) -> Error {
    let message = format!(
        "quantization_config: {setting} is {}, expected {expected}",
        RawStr::from(&*found.to_string())
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// Returns the bits per weight, from the first of these settings that exists.
fn read_bits(settings: &Value, names: &[&str], known: &[u32]) -> Result<u32> {
    let found = names.iter().find_map(|name| Some((*name, settings.get(name)?)));
    let (name, value) = found.unwrap_or((names[0], &Value::Null));
    let bits = value.as_u64().and_then(|bits| u32::try_from(bits).ok());
    bits.filter(|bits| known.contains(bits)).ok_or_else(|| {
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        invalid_setting(name, value, &known.join(", "))
    })
}
