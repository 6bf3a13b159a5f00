//! Computes the tensors of a checkpoint from those of a file, verifies elements that are dropped,
//! and selects types.

use std::collections::{BTreeMap, BTreeSet};

use ggmill_arch::{Operation, Origin, Resolved, ReversedConfig, Source, TensorSpec};
use ggmill_core::{GgmlType, RawStr, Shape};
use ggmill_pipeline::{
    Checkpoint as _, Encoding, Error, ErrorKind, Expression, GgufCheckpoint, Result,
};

use super::inverse::{Piece, join_pieces, undo_source};
use crate::facts::{all_chunks, floats};
use crate::operations::apply;

/// A restored tensor.
#[derive(Clone, Debug)]
pub(super) struct Restored {
    /// Its elements.
    pub(super) values: Expression,
    /// Element-wise operations of the conversion, in order.
    pub(super) arithmetic: Vec<Operation>,
}

/// Restored tensors by the names of the description.
pub(super) type Tensors = BTreeMap<String, Restored>;

/// Inverts the operations of a description. Fails if an operation loses information, and for a
/// tensor that the description does not have or that has another shape.
pub(super) fn restore(checkpoint: &GgufCheckpoint, model: &Resolved<'_>) -> Result<Tensors> {
    let mut pieces: BTreeMap<String, (String, Vec<Piece>, Vec<Operation>)> = BTreeMap::new();
    let file = FileTensors::of(checkpoint);
    for (number, tensor) in checkpoint.tensors().iter().enumerate() {
        let name = String::from_utf8_lossy(&tensor.name);
        let Some(spec) = model.tensor(&name) else {
            if file.is_factor(&tensor.name) {
                continue;
            }
            let message =
                format!("the description of {} has no such tensor", model.architecture().name());
            return Err(Error::new(ErrorKind::Architecture, message).tensor(&tensor.name));
        };
        let Origin::Checkpoint(sources) = &spec.origin else { continue };
        let value = file.value(number)?;
        let (source, found) = choose_source(sources, model, spec, &value)
            .map_err(|error| error.tensor(&tensor.name))?;
        for (name, piece) in source.names.iter().zip(found) {
            let entry = pieces.entry(name.clone());
            let (_, pieces, _) =
                entry.or_insert_with(|| (spec.name.clone(), Vec::new(), arithmetic(source)));
            pieces.push(piece);
        }
    }
    let mut tensors = Tensors::new();
    for (name, (of, pieces, arithmetic)) in pieces {
        let values = join_pieces(pieces).map_err(|error| error.tensor(&of))?;
        tensors.insert(name, Restored { values, arithmetic });
    }
    Ok(tensors)
}

/// Restores the checkpoint tensors that a single tensor of the file determines completely; skips
/// all others.
pub(super) fn restore_whole_tensors(checkpoint: &GgufCheckpoint, model: &Resolved<'_>) -> Tensors {
    let mut tensors = Tensors::new();
    let file = FileTensors::of(checkpoint);
    for (number, tensor) in checkpoint.tensors().iter().enumerate() {
        let Some(spec) = model.tensor(&String::from_utf8_lossy(&tensor.name)) else { continue };
        let Origin::Checkpoint(sources) = &spec.origin else { continue };
        let Ok(value) = file.value(number) else { continue };
        let Ok((source, found)) = choose_source(sources, model, spec, &value) else { continue };
        for (name, piece) in source.names.iter().zip(found) {
            if let Ok(values) = join_pieces(vec![piece]) {
                let restored = Restored { values, arithmetic: Vec::new() };
                tensors.entry(name.clone()).or_insert(restored);
            }
        }
    }
    tensors
}

/// Returns the tensors that the file has as metadata values.
pub(super) fn metadata_tensors(reversed: &ReversedConfig) -> Result<Tensors> {
    let tensor = |(name, &(shape, number)): (&String, &(Shape, f64))| {
        #[expect(clippy::cast_possible_truncation, reason = "it is one of single precision")]
        let values = Expression::floats(shape, vec![number as f32])?;
        Ok((name.clone(), Restored { values, arithmetic: Vec::new() }))
    };
    reversed.tensors.iter().map(tensor).collect()
}

/// Returns the first alternative that can be inverted, by precedence (`preferred`, `bare`, names
/// that the rules can produce, all others), and the pieces of its tensors.
pub(super) fn choose_source<'s>(
    sources: &'s [Source],
    model: &Resolved<'_>,
    spec: &TensorSpec,
    value: &Expression,
) -> Result<(&'s Source, Vec<Piece>)> {
    let (found, expected) = (*value.shape(), spec.shape);
    if found.elements() != expected.elements() {
        let message =
            format!("has shape {found}, expected {expected} according to the keys of the file");
        return Err(Error::new(ErrorKind::Checkpoint, message));
    }
    let value = value.reshape(expected)?;
    let mut refusal = None;
    let rules = model.name_rules();
    // The conversion never looks up a name that the replacements change.
    let can_be = |source: &&Source| {
        source.names.first().is_none_or(|name| rules.renamed(&rules.original(name)) == *name)
    };
    let bare = sources.iter().filter(|source| model.is_bare() && source.bare);
    let wanted = sources.iter().filter(|source| source.preferred).chain(bare);
    for source in wanted.chain(sources.iter().filter(can_be)).chain(sources) {
        match undo_source(source, &value) {
            Ok(pieces) => return Ok((source, pieces)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "such a tensor occurs only in GGUF files, not in checkpoints",
        )
    }))
}

/// Returns the element-wise operations of an alternative.
fn arithmetic(source: &Source) -> Vec<Operation> {
    let own = source.parts.iter().flat_map(|part| &part.operations).chain(&source.operations);
    let own = own.filter(|operation| {
        matches!(
            operation,
            Operation::Add(_)
                | Operation::Multiply(_)
                | Operation::Float
                | Operation::Exp
                | Operation::NegExp
        )
    });
    own.cloned().collect()
}

/// Fails unless the description produces exactly the tensors of the file from tensors with these
/// names.
pub(super) fn verify_round_trip(
    checkpoint: &GgufCheckpoint,
    model: &Resolved<'_>,
    names: &[String],
) -> Result<()> {
    let assignment =
        model.assign(names).map_err(|error| Error::caused(ErrorKind::Architecture, error))?;
    if let Some(name) = assignment.unknown.first().and_then(|&number| names.get(number)) {
        let message = "is not defined by the architecture description";
        return Err(Error::new(ErrorKind::Architecture, message).tensor(name));
    }
    let mut made: Vec<&str> = assignment.tensors.iter().map(|tensor| &*tensor.spec.name).collect();
    made.sort_unstable();
    let file = FileTensors::of(checkpoint);
    for tensor in checkpoint.tensors().iter().filter(|tensor| !file.is_factor(&tensor.name)) {
        let name = RawStr::new(&tensor.name);
        if name.to_str().is_ok_and(|name| made.binary_search(&name).is_err()) {
            let message = "would not be produced by converting the checkpoint again";
            return Err(Error::new(ErrorKind::Unsupported, message).tensor(&tensor.name));
        }
    }
    match made.iter().find(|name| !file.has(name.as_bytes())) {
        Some(missing) => {
            let message = "is missing from the file, but converting the checkpoint again would \
                           produce it";
            Err(Error::new(ErrorKind::Checkpoint, message).tensor(missing))
        }
        None => Ok(()),
    }
}

/// Suffix of the names of NVFP4 weights.
const WEIGHT: &[u8] = b".weight";
/// Suffix of the scale of a matrix, or of each matrix of a stack.
const SCALE: &[u8] = b".scale";
/// Suffix of the scale of the activations, which does not affect the weights.
const INPUT_SCALE: &[u8] = b".input_scale";

/// The tensors of a file by name. NVFP4 weights are returned multiplied by their scale tensors.
pub(super) struct FileTensors<'a> {
    checkpoint: &'a GgufCheckpoint,
    numbers: BTreeMap<&'a [u8], usize>,
}

impl<'a> FileTensors<'a> {
    pub(super) fn of(checkpoint: &'a GgufCheckpoint) -> Self {
        let tensors = checkpoint.tensors().iter().enumerate();
        let numbers = tensors.map(|(number, tensor)| (&*tensor.name, number)).collect();
        Self { checkpoint, numbers }
    }

    /// Returns `true` if there is a tensor of this name.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.numbers.contains_key(name)
    }

    /// Returns `true` if a tensor is the scale of another tensor.
    pub(super) fn is_factor(&self, name: &[u8]) -> bool {
        [SCALE, INPUT_SCALE]
            .into_iter()
            .any(|ending| name.strip_suffix(ending).is_some_and(|base| self.blocks(base).is_some()))
    }

    /// Returns the index of the NVFP4 weights of a layer.
    fn blocks(&self, base: &[u8]) -> Option<usize> {
        let number = *self.numbers.get(&*[base, WEIGHT].concat())?;
        let tensor = self.checkpoint.tensors().get(number)?;
        (tensor.ggml_type == GgmlType::NVFP4).then_some(number)
    }

    /// Returns the elements of a tensor.
    pub(super) fn value(&self, number: usize) -> Result<Expression> {
        let value = Expression::tensor(self.checkpoint, number)?;
        let name = &*self.checkpoint.tensors()[number].name;
        let base = name.strip_suffix(WEIGHT).filter(|_| value.ggml_type() == GgmlType::NVFP4);
        let factor = base.and_then(|base| self.numbers.get(&*[base, SCALE].concat()));
        let Some(&factor) = factor else { return Ok(value) };
        let factor = Expression::tensor(self.checkpoint, factor)?;
        multiplied(&value, &factor).map_err(|error| error.tensor(name))
    }
}

/// Multiplies decoded blocks by one scale, or one scale per matrix.
fn multiplied(blocks: &Expression, factor: &Expression) -> Result<Expression> {
    let dimensions = blocks.shape().dimensions();
    let count = factor.shape().elements();
    let matrices = dimensions.get(2).copied().unwrap_or(1);
    if count != matrices && count != 1 {
        let message = format!(
            "has {matrices} matrices, but its scale tensor has {count} elements, expected 1 or \
             {matrices}"
        );
        return Err(Error::new(ErrorKind::Checkpoint, message));
    }
    let mut shape = vec![1; dimensions.len()];
    if let Some(slowest) = shape.get_mut(2) {
        *slowest = count;
    }
    let shape = Shape::new(&shape).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let mut factors = factor.to_f32()?.reshape(shape)?;
    for (dimension, &extent) in dimensions.iter().enumerate() {
        if factors.shape().dimensions().get(dimension) != Some(&extent) {
            factors = factors.repeat(dimension, extent)?;
        }
    }
    blocks.to_f32()?.product(&factors)
}

/// Fails if a tensor has dropped elements that the conversion would not reproduce: padding,
/// repetitions, and parts that several tensors of the file share.
pub(super) fn refuse_loss(
    checkpoint: &GgufCheckpoint,
    model: &Resolved<'_>,
    tensors: &Tensors,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    let file = FileTensors::of(checkpoint);
    for (number, tensor) in checkpoint.tensors().iter().enumerate() {
        let Some(spec) = model.tensor(&String::from_utf8_lossy(&tensor.name)) else { continue };
        let Origin::Checkpoint(sources) = &spec.origin else { continue };
        let fault = |error: Error| error.tensor(&tensor.name);
        let value = file.value(number)?;
        let (source, pieces) = choose_source(sources, model, spec, &value).map_err(fault)?;
        // The same slice of a tensor was already seen in another tensor of the file.
        let mut is_again = false;
        for (name, piece) in source.names.iter().zip(&pieces) {
            is_again |= !seen.insert((name, piece.run()));
        }
        if !(is_again || drops_elements(source)) {
            continue;
        }
        let inputs: Option<Vec<Expression>> =
            source.names.iter().map(|name| Some(tensors.get(name)?.values.clone())).collect();
        let Some(inputs) = inputs else { continue };
        let made = apply(source, inputs).map_err(fault)?;
        let found = value.reshape(*made.shape()).map_err(fault)?;
        if !elements_equal(checkpoint, &found, &made).map_err(fault)? {
            let message = format!(
                "converting the checkpoint again would not reproduce its elements: {} has \
                 different elements in the file",
                if is_again {
                    "a part that is shared with other tensors"
                } else {
                    "padding or a repetition"
                }
            );
            return Err(fault(Error::new(ErrorKind::Unsupported, message)));
        }
    }
    Ok(())
}

/// Returns the names of the computed tensors whose elements in the file differ from those that the
/// conversion computes.
pub(super) fn differing_computed_tensors(
    checkpoint: &GgufCheckpoint,
    model: &Resolved<'_>,
) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (number, tensor) in checkpoint.tensors().iter().enumerate() {
        let Some(spec) = model.tensor(&String::from_utf8_lossy(&tensor.name)) else { continue };
        let Origin::Computed(elements) = &spec.origin else { continue };
        // Computed only when a file is read, or of another size in this file.
        if elements.is_empty() || tensor.shape.elements() != elements.len() as u64 {
            continue;
        }
        let found = Expression::tensor(checkpoint, number)?.reshape(spec.shape)?;
        let made = Expression::floats(spec.shape, elements.to_vec())?;
        if !elements_equal(checkpoint, &found, &made)? {
            names.push(spec.name.clone());
        }
    }
    Ok(names)
}

/// Returns `true` if inverting an alternative drops elements.
fn drops_elements(source: &Source) -> bool {
    let of_parts = source.parts.iter().flat_map(|part| &part.operations);
    of_parts.chain(&source.operations).any(|operation| match *operation {
        Operation::Resize { before, after, .. } => before > 0 || after > 0,
        Operation::Repeat { times, .. } => times > 1,
        _ => false,
    })
}

/// Returns `true` if the elements are equal, up to the rounding of arithmetic and its inverse.
fn elements_equal(
    checkpoint: &GgufCheckpoint,
    found: &Expression,
    made: &Expression,
) -> Result<bool> {
    const ROUNDING: f32 = 1e-5;
    let is_near = |(a, b): (&f32, &f32)| {
        a.to_bits() == b.to_bits() || (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
    };
    all_chunks(made.shape().elements(), |elements| {
        let one = floats(checkpoint, found, elements.clone())?;
        let other = floats(checkpoint, made, elements)?;
        Ok(one.iter().zip(&other).all(is_near))
    })
}

/// Returns the default type of the tensors: that of the largest weights, F16 if they are quantized.
pub(super) fn main_type(checkpoint: &GgufCheckpoint) -> GgmlType {
    let weights = checkpoint.tensors().iter().filter(|tensor| tensor.shape.dimensions().len() > 1);
    let largest = weights.rev().max_by_key(|tensor| tensor.shape.elements());
    match largest.map(|tensor| tensor.ggml_type) {
        Some(found @ (GgmlType::F32 | GgmlType::F16 | GgmlType::BF16)) => found,
        Some(GgmlType::F64) | None => GgmlType::F32,
        Some(_) => GgmlType::F16,
    }
}

/// Encodes a tensor in the type in which it is written. Integers keep their type.
///
/// Without a requested type, no information of the file is lost: 16-bit floats keep their type, and
/// F32 becomes the main type only if every number survives, as for the norms of a 16-bit model.
pub(super) fn typed(
    checkpoint: &GgufCheckpoint,
    tensor: &Restored,
    main: GgmlType,
    asked: Option<GgmlType>,
) -> Result<Expression> {
    let values = &tensor.values;
    let is_integer =
        [GgmlType::I8, GgmlType::I16, GgmlType::I32, GgmlType::I64].contains(&values.ggml_type());
    if is_integer {
        return Ok(values.clone());
    }
    let encode = |wanted| values.encode(wanted, Encoding::new(None, values.ggml_type() != wanted));
    match (asked, values.ggml_type()) {
        (Some(wanted), _) => encode(wanted),
        (None, GgmlType::F16 | GgmlType::BF16) => Ok(values.clone()),
        (None, GgmlType::F32) if !survives(checkpoint, tensor, main)? => Ok(values.clone()),
        (None, _) => encode(main),
    }
}

/// Returns `true` if converting the elements in this type would reproduce the file bit for bit.
fn survives(checkpoint: &GgufCheckpoint, tensor: &Restored, main: GgmlType) -> Result<bool> {
    if main == GgmlType::F32 {
        return Ok(true);
    }
    let rounded = tensor.values.encode(main, Encoding::default())?;
    let rounded = forward(&rounded.to_f32()?, &tensor.arithmetic)?;
    let exact = forward(&tensor.values, &tensor.arithmetic)?;
    all_chunks(exact.shape().elements(), |elements| {
        Ok(rounded.evaluate(checkpoint, elements.clone())?
            == exact.evaluate(checkpoint, elements)?)
    })
}

/// Applies the element-wise operations of the conversion.
fn forward(values: &Expression, arithmetic: &[Operation]) -> Result<Expression> {
    arithmetic.iter().try_fold(values.clone(), |values, operation| match operation {
        Operation::Add(number) => values.add(*number),
        Operation::Multiply(number) => values.mul(*number),
        Operation::Float => values.to_f32(),
        Operation::Exp => values.exp(),
        Operation::NegExp => values.neg_exp(),
        other => Err(Error::new(
            ErrorKind::Misuse,
            format!("{} is not an arithmetic operation", other.name()),
        )),
    })
}
