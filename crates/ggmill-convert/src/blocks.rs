//! Tensors that keep the blocks they have in the checkpoint, NVFP4 and MXFP4: their place in the
//! file, which is before all others, and the factors beside them.

use std::collections::BTreeMap;

use ggmill_arch::{Assigned, Operation, Resolved};
use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::{Error, ErrorKind, Expression, RecipeTensor, Result};

use crate::weights::{Factors, Weights};

/// What tensors of blocks are sorted by: NVFP4 before MXFP4, single tensors before stacks, the place,
/// and the name in the checkpoint among those of one place.
type Place<'a> = (bool, bool, usize, &'a str);

/// Such tensors of a file, each with what follows it.
pub(crate) struct Blocks<'a> {
    weights: &'a Weights<'a>,
    /// Places in the description: of a tensor, or of the first that is written together with it.
    places: BTreeMap<&'a str, usize>,
    made: Vec<(Place<'a>, Vec<RecipeTensor>)>,
    /// Names of those that must not be multiplied with activations of four bits.
    wide: Vec<String>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(weights: &'a Weights<'a>, resolved: &'a Resolved<'a>) -> Self {
        let mut places = BTreeMap::new();
        let mut groups = BTreeMap::new();
        for (place, spec) in resolved.tensors().iter().enumerate() {
            let group = spec.together.as_deref();
            let first = group.map_or(place, |group| *groups.entry(group).or_insert(place));
            places.insert(&*spec.name, first);
        }
        Self { weights, places, made: Vec::new(), wide: Vec::new() }
    }

    /// Takes a tensor that is made of such blocks; gives back any other. Fails for one that is
    /// calculated from them, as the factors would be lost.
    pub(crate) fn take(
        &mut self,
        assigned: &Assigned<'a>,
        tensor: RecipeTensor,
    ) -> Result<Option<RecipeTensor>> {
        let positions = &assigned.positions;
        let factors: Vec<Factors> =
            positions.iter().filter_map(|&position| self.weights.factors(position)).collect();
        if factors.is_empty() {
            return Ok(Some(tensor));
        }
        let found = tensor.ggml_type();
        let is_same = |&position: &usize| self.weights.ggml_type(position) == Some(found);
        if !positions.iter().all(is_same) {
            let message = "the conversion must compute with its weights, which are quantized in \
                           the checkpoint: convert the original checkpoint";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let is_stack = assigned.source.is_some_and(|source| {
            source.operations.iter().any(|operation| matches!(operation, Operation::Stack))
        });
        let name = &*assigned.spec.name;
        let source = assigned.source.and_then(|source| source.names.first());
        let last = positions.iter().max().copied().unwrap_or_default();
        let place = if found == GgmlType::NVFP4 {
            let counts = self.weights.nvfp4().is_some_and(|layers| layers.counts_experts);
            (false, is_stack && !counts, if counts { last } else { positions[0] }, "")
        } else {
            let place = self.places.get(name).copied().unwrap_or(last);
            (true, false, place, source.map_or("", |name| &**name))
        };
        let mut all = vec![tensor];
        let of_weights: Vec<_> = factors.iter().map(|factors| &factors.weights).collect();
        let of_inputs: Vec<_> = factors.iter().map(|factors| &factors.inputs).collect();
        for (ending, factors) in [(".scale", of_weights), (".input_scale", of_inputs)] {
            if let Some(factors) = joined(&factors, is_stack)? {
                let count = factors.len() as u64;
                let shape = Shape::new(&[count])
                    .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
                let name = name.replace(".weight", ending);
                all.push(RecipeTensor::new(name, Expression::floats(shape, factors)?));
            }
        }
        self.made.push((place, all));
        if let (Some(layers), Some(source)) = (self.weights.nvfp4(), source)
            && found == GgmlType::NVFP4
            && layers.is_wide(&without_expert(source))
        {
            self.wide.push(name.to_owned());
        }
        Ok(None)
    }

    /// All tensors of the file in order, and the names of those that must not be multiplied with
    /// activations of four bits.
    pub(crate) fn before(mut self, others: Vec<RecipeTensor>) -> (Vec<RecipeTensor>, Vec<String>) {
        self.made.sort_by_key(|(place, _)| *place);
        self.wide.sort_unstable();
        let tensors = self.made.into_iter().flat_map(|(_, all)| all).chain(others).collect();
        (tensors, self.wide)
    }
}

/// The factors of a tensor: one for each of a stack; `None` where they are ones.
fn joined(factors: &[&Vec<f32>], is_stack: bool) -> Result<Option<Vec<f32>>> {
    let sum = |factors: &[f32]| match factors {
        [] => 1.0,
        factors => factors.iter().sum::<f32>(),
    };
    if is_stack {
        let all: Vec<f32> = factors.iter().map(|factors| sum(factors)).collect();
        // As numpy.allclose with these tolerances.
        let is_one = |&factor: &f32| (f64::from(factor) - 1.0).abs() <= 1e-6 + 1e-5;
        return Ok((!all.iter().all(is_one)).then_some(all));
    }
    let first = factors.first().copied().cloned().unwrap_or_default();
    if factors.iter().any(|factors| **factors != first) {
        let message = "it is made from several tensors with different scales, which NVFP4 blocks \
                       cannot represent";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let is_one = first.len() <= 1 && (f64::from(sum(&first)) - 1.0).abs() < 1e-6;
    Ok((!is_one).then_some(first))
}

/// The name of a tensor of all experts, from that of one.
fn without_expert(name: &str) -> String {
    let Some((before, after)) = name.split_once(".experts.") else { return name.to_owned() };
    match after.split_once('.') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{before}.experts.{rest}")
        }
        _ => name.to_owned(),
    }
}
