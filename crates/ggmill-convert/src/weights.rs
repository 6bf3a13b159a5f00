//! The weights of a checkpoint as descriptions see them: those of one byte decoded.

use std::collections::BTreeMap;

use ggmill_core::{GgmlType, RawStr, Shape};
use ggmill_pipeline::{Checkpoint, Error, ErrorKind, Expression, Fp8, Fp8Blocks, Pretrained};
use ggmill_pipeline::{Result, SourceTensor};
use serde_json::Value;

/// Endings of the names of scales, with what the weights have in their place.
const SCALES: [(&str, &str); 2] = [("_scale_inv", ""), ("qscale_weight", "weight")];

/// Endings of the names of scales of activations, which no file has.
const UNUSED: [&str; 3] = [".activation_scale", "_activation_scale", ".qscale_act"];

/// The tensors of a checkpoint in their order, without the scales of weights that are decoded.
pub(crate) struct Weights<'a> {
    checkpoint: &'a dyn Pretrained,
    tensors: Vec<Weight>,
}

/// A tensor of a checkpoint.
struct Weight {
    /// Its number in the checkpoint.
    number: usize,
    /// Its values, where it has scales.
    scaled: Option<Expression>,
}

/// How a checkpoint is quantized, as its configuration says (`quant_method`; `qformat_weight` in
/// Mistral's `params.json`).
pub(crate) fn quantization(checkpoint: &dyn Pretrained) -> Option<&str> {
    let at = |part: &str, name: &str| checkpoint.config().get(part)?.get(name)?.as_str();
    at("quantization_config", "quant_method").or_else(|| {
        let own = at("quantization", "qformat_weight")?;
        (own == "fp8_e4m3").then_some("fp8")
    })
}

impl<'a> Weights<'a> {
    pub(crate) fn of(checkpoint: &'a dyn Pretrained) -> Result<Self> {
        let weight = |number| Weight { number, scaled: None };
        let mut tensors: Vec<Weight> = (0..checkpoint.tensors().len()).map(weight).collect();
        if quantization(checkpoint) == Some("fp8") {
            decode_fp8(checkpoint, &mut tensors)?;
        }
        Ok(Self { checkpoint, tensors })
    }

    pub(crate) fn checkpoint(&self) -> &'a dyn Pretrained {
        self.checkpoint
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.tensors.len()
    }

    /// The tensor of the checkpoint.
    fn stored(&self, position: usize) -> &'a SourceTensor {
        &self.checkpoint.tensors()[self.tensors[position].number]
    }

    /// The name in the checkpoint.
    pub(crate) fn name(&self, position: usize) -> RawStr<'a> {
        self.stored(position).name()
    }

    /// The names, as text.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        (0..self.len()).map(|position| String::from_utf8_lossy(&self.stored(position).name).into())
    }

    pub(crate) fn shape(&self, position: usize) -> Shape {
        self.stored(position).shape
    }

    /// The type of the values; `None` where they are of a type that GGML does not have, nor are
    /// decoded.
    pub(crate) fn ggml_type(&self, position: usize) -> Option<GgmlType> {
        let stored = self.stored(position);
        match stored.stored_type {
            _ if self.tensors[position].scaled.is_some() => Some(GgmlType::F32),
            None => Some(stored.ggml_type),
            Some(name) => Fp8::of_name(name).map(|_| GgmlType::F32),
        }
    }

    /// The name of the type in the checkpoint.
    pub(crate) fn type_name(&self, position: usize) -> String {
        self.stored(position).type_name()
    }

    /// The values.
    pub(crate) fn values(&self, position: usize) -> Result<Expression> {
        let weight = &self.tensors[position];
        match &weight.scaled {
            Some(scaled) => Ok(scaled.clone()),
            None => unscaled(self.checkpoint, weight.number),
        }
    }

    /// What is stored, for packings that a description knows.
    pub(crate) fn packed(&self, position: usize) -> Result<Expression> {
        Expression::stored(self.checkpoint, self.tensors[position].number)
    }
}

/// The values of a tensor that has no scale.
fn unscaled(checkpoint: &dyn Checkpoint, number: usize) -> Result<Expression> {
    match checkpoint.tensors()[number].stored_type.and_then(Fp8::of_name) {
        Some(format) => Expression::decode(format, &[Expression::stored(checkpoint, number)?]),
        None => Expression::tensor(checkpoint, number),
    }
}

/// Weights times their scales, as the reference makes them; the scales are left out.
fn decode_fp8(checkpoint: &dyn Pretrained, tensors: &mut Vec<Weight>) -> Result<()> {
    let block = &checkpoint.config()["quantization_config"]["weight_block_size"];
    let block = block_size(block)?;
    let found = checkpoint.tensors();
    let numbers: BTreeMap<&[u8], usize> =
        found.iter().enumerate().map(|(number, tensor)| (&*tensor.name, number)).collect();
    let mut is_scale = vec![false; found.len()];
    for (number, tensor) in found.iter().enumerate() {
        is_scale[number] = UNUSED.iter().any(|ending| tensor.name.ends_with(ending.as_bytes()));
        let of_weights = SCALES.iter().find_map(|(ending, with)| {
            let start = tensor.name.strip_suffix(ending.as_bytes())?;
            Some([start, with.as_bytes()].concat())
        });
        let Some(of_weights) = of_weights else { continue };
        let &weights = numbers.get(&*of_weights).ok_or_else(|| {
            let message = format!("there are no weights {:?} to it", RawStr::new(&of_weights));
            Error::new(ErrorKind::Checkpoint, message).tensor(&tensor.name)
        })?;
        is_scale[number] = true;
        tensors[weights].scaled = Some(
            scaled(checkpoint, weights, number, block)
                .map_err(|error| error.tensor(&found[weights].name))?,
        );
    }
    tensors.retain(|tensor| !is_scale[tensor.number]);
    Ok(())
}

/// Rows and columns of the blocks that share a scale.
fn block_size(value: &Value) -> Result<Option<[u64; 2]>> {
    if value.is_null() {
        return Ok(None);
    }
    let sizes: Option<Vec<u64>> =
        value.as_array().and_then(|sizes| sizes.iter().map(Value::as_u64).collect());
    match sizes.as_deref() {
        Some(&[rows, columns]) if rows > 0 && columns > 0 => Ok(Some([rows, columns])),
        _ => {
            let message = "weight_block_size of quantization_config, expected two positive numbers";
            Err(Error::new(ErrorKind::Checkpoint, message))
        }
    }
}

/// Weights times their scales: one for each block of this size, or, without a size, one for all,
/// for each matrix or for each row.
fn scaled(
    checkpoint: &dyn Checkpoint,
    weights: usize,
    scales: usize,
    block: Option<[u64; 2]>,
) -> Result<Expression> {
    let fault = |shape: &Shape, of: &Shape| {
        let message = format!("scales of shape {shape} for weights of shape {of}");
        Error::new(ErrorKind::Checkpoint, message)
    };
    let format = checkpoint.tensors()[weights].stored_type.map(|name| {
        let message = || format!("elements of type {name} have no scales");
        Fp8::of_name(name).ok_or_else(|| Error::new(ErrorKind::Unsupported, message()))
    });
    let format = format.transpose()?;
    let weights = Expression::stored(checkpoint, weights)?;
    let scales = unscaled(checkpoint, scales)?;
    let shape = *weights.shape();
    let (dimensions, found) = (shape.dimensions(), scales.shape().dimensions());
    // Scales have the slow dimensions of the weights; those that are missing have one.
    let missing = dimensions.len().checked_sub(found.len());
    let missing = missing.ok_or_else(|| fault(scales.shape(), &shape))?;
    let mut extents = vec![1; missing];
    extents.extend(found);
    let at = |dimension: usize| dimensions.get(dimension).copied().unwrap_or(1);
    let whole = |dimension: usize| match extents.get(dimension) {
        Some(1) | None => at(dimension),
        Some(_) => 1,
    };
    let [rows, columns] = block.unwrap_or_else(|| [whole(1), whole(0)]);
    let mut scales = scales.reshape(
        Shape::new(&extents).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?,
    )?;
    for (dimension, &times) in dimensions.iter().enumerate().skip(2) {
        if extents.get(dimension) == Some(&1) {
            scales = scales.repeat(dimension, times)?;
        }
    }
    let mut blocks = Fp8Blocks::new(columns, rows);
    if let Some(format) = format {
        blocks = blocks.of(format);
    }
    Expression::decode(blocks, &[weights, scales])
}
