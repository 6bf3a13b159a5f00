//! The weights of a checkpoint as descriptions see them: those that are packed are decoded, or
//! become blocks of a type that GGML has.
//!
//! [`Quantization`] is what the configuration says; each method is a file that replaces tensors of
//! the list ([`Unpacking`]) by what they hold.

mod awq;
mod bitnet;
mod bitsandbytes;
mod compressed;
mod gptq;
mod groups;
mod mxfp4;
mod nvfp4;
mod quantization;
mod scaled;
mod unpacking;

use std::collections::BTreeSet;
use std::path::Path;

use ggmill_core::{FileType, GgmlType, RawStr, Shape};
use ggmill_pipeline::{Expression, Fp8, Pretrained, Result, SourceTensor};

use self::nvfp4::Nvfp4Layers;
pub(crate) use self::quantization::Quantization;
pub(crate) use self::unpacking::Factors;
use self::unpacking::{Content, Unpacking, Weight, unscaled};

/// The tensors of a checkpoint in order, without those that only say how others are packed.
pub(crate) struct Weights<'a> {
    checkpoint: &'a dyn Pretrained,
    tensors: Vec<Weight>,
    /// Which weights are NVFP4, where some are.
    nvfp4: Option<Nvfp4Layers>,
    mxfp4: Mxfp4,
}

/// In which files the file type says that experts are MXFP4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mxfp4 {
    /// In none: they are not.
    Never,
    /// In those of a float type, for experts that a description repacks.
    Floats,
    /// In all.
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
                "gptq" => gptq::decode(&mut list, settings)?,
                "awq" => awq::decode(&mut list, settings)?,
                "bitnet" => bitnet::decode(&mut list)?,
                "bitsandbytes" => bitsandbytes::decode(&mut list)?,
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

    /// The tensor of the checkpoint.
    fn stored(&self, position: usize) -> &'a SourceTensor {
        &self.checkpoint.tensors()[self.tensors[position].number]
    }

    /// The name: that in the checkpoint, or of what its packed tensors hold.
    pub(crate) fn name(&self, position: usize) -> RawStr<'_> {
        RawStr::new(&self.tensors[position].name)
    }

    /// The names, as text.
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

    /// The type of the values; `None` where they are of a type that GGML does not have, nor are
    /// decoded.
    pub(crate) fn ggml_type(&self, position: usize) -> Option<GgmlType> {
        let stored = self.stored(position);
        match (&self.tensors[position].content, stored.stored_type) {
            (Content::Values(_), _) => Some(GgmlType::F32),
            (Content::Blocks(blocks, _), _) => Some(blocks.ggml_type()),
            (Content::Stored, None) => Some(stored.ggml_type),
            (Content::Stored, Some(name)) => Fp8::from_name(name).map(|_| GgmlType::F32),
        }
    }

    /// The type in a file that keeps the types of the checkpoint: Q8_0 for values that are decoded,
    /// which have more bits in no checkpoint.
    pub(crate) fn kept_type(&self, position: usize) -> Option<GgmlType> {
        match &self.tensors[position].content {
            Content::Values(_) => Some(GgmlType::Q8_0),
            _ => self.ggml_type(position),
        }
    }

    /// Names and shapes of the tensors that only say how others are packed.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (String, Shape)> {
        let kept: BTreeSet<&[u8]> = self.tensors.iter().map(|weight| &*weight.name).collect();
        let all = self.checkpoint.tensors().iter();
        all.filter(move |tensor| !kept.contains(&*tensor.name))
            .map(|tensor| (String::from_utf8_lossy(&tensor.name).into(), tensor.shape))
    }

    /// The file that the tensor is in, where it is known.
    pub(crate) fn path(&self, position: usize) -> Option<&Path> {
        let range = self.checkpoint.range(self.tensors[position].number)?;
        Some(range.file.path())
    }

    /// The name of the type in the checkpoint.
    pub(crate) fn type_name(&self, position: usize) -> String {
        self.stored(position).type_name()
    }

    /// The values.
    pub(crate) fn values(&self, position: usize) -> Result<Expression> {
        let weight = &self.tensors[position];
        match &weight.content {
            Content::Stored => unscaled(self.checkpoint, weight.number),
            Content::Values(values) => Ok(values.clone()),
            Content::Blocks(blocks, _) => Ok(blocks.clone()),
        }
    }

    /// What is stored, for packings that a description knows.
    pub(crate) fn packed(&self, position: usize) -> Result<Expression> {
        Expression::stored(self.checkpoint, self.tensors[position].number)
    }

    /// The factors that blocks do not have in themselves; `None` for weights that are not such
    /// blocks.
    pub(crate) fn factors(&self, position: usize) -> Option<Factors> {
        match &self.tensors[position].content {
            Content::Blocks(_, factors) => Some(factors.clone()),
            _ => None,
        }
    }

    /// The layers of NVFP4, where some weights are.
    pub(crate) fn nvfp4(&self) -> Option<&Nvfp4Layers> {
        self.nvfp4.as_ref()
    }

    /// Whether packed weights are decoded to F32.
    pub(crate) fn are_decoded(&self) -> bool {
        self.tensors.iter().any(|tensor| matches!(tensor.content, Content::Values(_)))
    }

    /// The file type where this one was asked for: weights that keep their blocks decide it.
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
