//! The tensors of a checkpoint from those of a file.

use std::collections::BTreeMap;

use ggmill_arch::{Operation, Origin, Resolved, ReversedConfig, Source, TensorSpec};
use ggmill_core::{RawStr, Shape};
use ggmill_pipeline::{Checkpoint as _, Error, ErrorKind, Expression, GgufCheckpoint, Result};

use super::file_tensors::FileTensors;
use super::inverse::undo;
use super::pieces::{Piece, whole};

/// A tensor of the checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Restored {
    /// Its elements.
    pub(super) values: Expression,
    /// The arithmetic that conversion does on each of its elements, in order.
    pub(super) arithmetic: Vec<Operation>,
}

/// Tensors of the checkpoint by the names that the description has for them.
pub(super) type Tensors = BTreeMap<String, Restored>;

/// Undoes what a description does with the tensors of a checkpoint. Fails where that loses
/// something, for a tensor that the description does not have, and for one of another shape.
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
        let (source, found) =
            chosen(sources, model, spec, &value).map_err(|error| error.tensor(&tensor.name))?;
        for (name, piece) in source.names.iter().zip(found) {
            let entry = pieces.entry(name.clone());
            let (_, pieces, _) =
                entry.or_insert_with(|| (spec.name.clone(), Vec::new(), arithmetic(source)));
            pieces.push(piece);
        }
    }
    let mut tensors = Tensors::new();
    for (name, (of, pieces, arithmetic)) in pieces {
        let values = whole(pieces).map_err(|error| error.tensor(&of))?;
        tensors.insert(name, Restored { values, arithmetic });
    }
    Ok(tensors)
}

/// The same of those tensors that are made of whole tensors of the checkpoint, without a fault for
/// the others.
pub(super) fn restore_some(checkpoint: &GgufCheckpoint, model: &Resolved<'_>) -> Tensors {
    let mut tensors = Tensors::new();
    let file = FileTensors::of(checkpoint);
    for (number, tensor) in checkpoint.tensors().iter().enumerate() {
        let Some(spec) = model.tensor(&String::from_utf8_lossy(&tensor.name)) else { continue };
        let Origin::Checkpoint(sources) = &spec.origin else { continue };
        let Ok(value) = file.value(number) else { continue };
        let Ok((source, found)) = chosen(sources, model, spec, &value) else { continue };
        for (name, piece) in source.names.iter().zip(found) {
            if let Ok(values) = whole(vec![piece]) {
                let restored = Restored { values, arithmetic: Vec::new() };
                tensors.entry(name.clone()).or_insert(restored);
            }
        }
    }
    tensors
}

/// The tensors that a file has as metadata values.
pub(super) fn of_metadata(reversed: &ReversedConfig) -> Result<Tensors> {
    let tensor = |(name, &(shape, number)): (&String, &(Shape, f64))| {
        #[expect(clippy::cast_possible_truncation, reason = "it is one of single precision")]
        let values = Expression::floats(shape, vec![number as f32])?;
        Ok((name.clone(), Restored { values, arithmetic: Vec::new() }))
    };
    reversed.tensors.iter().map(tensor).collect()
}

/// The alternative that has a way back and goes before the others, with what it says about its names.
pub(super) fn chosen<'s>(
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
    // A name that replacements change is never looked for.
    let can_be = |source: &&Source| {
        source.names.first().is_none_or(|name| rules.renamed(&rules.original(name)) == *name)
    };
    let bare = sources.iter().filter(|source| model.is_bare() && source.bare);
    let wanted = sources.iter().filter(|source| source.preferred).chain(bare);
    for source in wanted.chain(sources.iter().filter(can_be)).chain(sources) {
        match undo(source, &value) {
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

/// What an alternative does with single elements, whatever their place.
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

/// Fails unless the description makes of tensors with these names exactly those of the file.
pub(super) fn prove(
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
