//! Tensors: as a description writes them, and as a model has them.

mod budget;
mod group;
mod source;
mod template;

use std::sync::Arc;

use ggmill_core::{GgmlType, Shape};

pub(crate) use self::budget::Budget;
pub(crate) use self::group::TensorGroup;
use crate::checkpoint::operation::Operation;
use crate::error::{Error, Result, SubjectKind, quoted};
use crate::reference::role::Role;
use crate::reference::tensor_type::TensorType;

/// A tensor of a model: name, shape, role, and where its data come from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorSpec {
    /// The name in the file.
    pub name: String,
    /// The dimensions in stored order.
    pub shape: Shape,
    /// The role of the tensor.
    pub role: Role,
    /// Whether the model is incomplete without it.
    pub required: bool,
    /// Where its data come from.
    pub origin: Origin,
    /// The type that it has whatever type the file has; `None` where the file's counts. Tensors of
    /// at most one dimension and some others are F32.
    pub fixed_type: Option<TensorType>,
    /// The tensor of the checkpoint that makes it superfluous where the elements are equal.
    pub drop_if_equal: Option<String>,
    /// The tensor of the checkpoint before whose place it is written, where it is computed.
    pub before: Vec<String>,
    /// The tensor that replaces it when it is absent.
    pub tied: Option<String>,
    /// The tensor that it cannot be combined with: a file has one or the other.
    pub unless: Option<String>,
    /// Tensors of the same group are written one after the other, in the order of the description,
    /// at the position of the last of their sources in the checkpoint.
    pub together: Option<String>,
    /// Whether a finished file may have it in any shape, because no key says one.
    pub free_shape: bool,
    /// Whether a finished file may have more of it in the last dimension, which nothing takes.
    pub more_rows: bool,
}

/// Where the data of a tensor come from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Origin {
    /// From the checkpoint: the first of these alternatives that exists. Without any, only a
    /// finished file can have the tensor.
    Checkpoint(Vec<Source>),
    /// From hyperparameters alone: the elements in stored order. A finished file has its own: then
    /// there are none here.
    Computed(Arc<[f32]>),
}

/// Tensors of the checkpoint, and the operations that make one tensor of the file from them.
#[expect(clippy::struct_excessive_bools, reason = "the description says each of them by itself")]
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Source {
    /// Names in the checkpoint: one, or as many as the first operation joins, in order.
    pub names: Vec<String>,
    /// The operations, in order. The first takes all tensors; when it does not
    /// join, there is one.
    pub operations: Vec<Operation>,
    /// The operations on single names before that, in order; empty where nothing
    /// does.
    pub parts: Vec<Part>,
    /// Whether the tensor is written before those that no alternative of this sort makes.
    pub first: bool,
    /// Whether the tensor is written after all others.
    pub last: bool,
    /// Whether the names have none of their optional pieces, of which there are some.
    pub bare: bool,
    /// The shape of each tensor in the checkpoint, where the description says it, because the
    /// operations do not: for the way back.
    pub shape: Option<Shape>,
    /// What slices leave out of the tensors: for the way back.
    pub rest: Rest,
    /// Whether the way back takes it before others.
    pub preferred: bool,
}

/// What the operations on a tensor of a checkpoint leave out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest {
    /// The model uses it, so other tensors of the file have it.
    #[default]
    Needed,
    /// The model does not use it: zeros do in its place.
    Zero,
    /// It repeats what they keep.
    Same,
}

/// Some of the names of a [`Source`], with operations of their own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Part {
    /// How many names it has.
    pub names: usize,
    /// The operations that combine their tensors.
    pub operations: Vec<Operation>,
    /// The shape of each in the checkpoint, where the description says it.
    pub shape: Option<Shape>,
}

impl Source {
    /// The shape that comes out when tensors of these shapes, in the order of
    /// [`names`](Self::names), go in.
    pub fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        if self.parts.is_empty() {
            return shape_after(&self.operations, inputs);
        }
        let mut inputs = inputs;
        let mut shapes = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let missing = || {
                Error::configuration(format!(
                    "found {} tensors, expected {}",
                    inputs.len(),
                    part.names
                ))
            };
            let (these, rest) = inputs.split_at_checked(part.names).ok_or_else(missing)?;
            shapes.push(shape_after(&part.operations, these)?);
            inputs = rest;
        }
        shape_after(&self.operations, &shapes)
    }
}

/// The shape after operations on tensors of these shapes.
fn shape_after(operations: &[Operation], inputs: &[Shape]) -> Result<Shape> {
    let mut shapes = inputs.to_vec();
    for operation in operations {
        shapes = vec![operation.shape(&shapes)?];
    }
    match *shapes {
        [shape] => Ok(shape),
        _ => Err(Error::configuration(format!("expected one tensor, found {}", shapes.len()))),
    }
}

impl TensorSpec {
    /// Whether it is F32 whatever type the file has.
    pub fn is_f32(&self) -> bool {
        self.fixed_type == Some(TensorType::Fixed(GgmlType::F32))
    }

    /// Whether a checkpoint has some name of an alternative, given which names it has.
    pub(crate) fn has_some(&self, present: impl Fn(&str) -> bool) -> bool {
        match &self.origin {
            Origin::Checkpoint(sources) => {
                sources.iter().flat_map(|source| &source.names).any(|name| present(name))
            }
            Origin::Computed(_) => false,
        }
    }

    /// The alternative that a checkpoint has, given which names it has, or nothing.
    ///
    /// Fails when an alternative is there in part (the error says what is missing), and when the
    /// tensor is required and no alternative exists. A computed tensor has no alternatives.
    pub fn source(&self, present: impl Fn(&str) -> bool) -> Result<Option<&Source>> {
        let Origin::Checkpoint(sources) = &self.origin else { return Ok(None) };
        let fault = |message: String| {
            Err(Error::configuration(message).about(SubjectKind::Tensor, &self.name))
        };
        for source in sources {
            let Some(there) = source.names.iter().find(|name| present(name)) else { continue };
            return match source.names.iter().find(|name| !present(name)) {
                Some(missing) => fault(format!(
                    "the checkpoint has {} but not {}",
                    quoted(there),
                    quoted(missing)
                )),
                None => Ok(Some(source)),
            };
        }
        if !self.required {
            return Ok(None);
        }
        let names: Vec<_> = sources
            .iter()
            .filter_map(|source| source.names.first())
            .map(|name| quoted(name))
            .collect();
        fault(format!("not in the checkpoint, expected {}", names.join(", ")))
    }
}
