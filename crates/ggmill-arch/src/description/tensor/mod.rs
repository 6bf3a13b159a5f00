//! Tensors in descriptions and of models.

mod group;
mod source;
mod template;

use std::sync::Arc;

use ggmill_core::{ByteSize, GgmlType, Shape};

pub(crate) use self::group::TensorGroup;
use crate::checkpoint::operation::Operation;
use crate::error::{Error, ErrorKind, Result, SubjectKind, quoted};
use crate::language::expression::Scope;
use crate::language::pattern::Template;
use crate::limits::{MAX_TENSOR_BYTES, MAX_TENSORS};
use crate::reference::role::Role;
use crate::reference::tensor_type::TensorType;

/// A tensor in a description, with expressions instead of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorOutline<'a> {
    /// The name, with `{bid}` for the loop variable.
    pub name: &'a str,
    /// The dimensions in stored order.
    pub shape: Vec<&'a str>,
    /// The role.
    pub role: Role,
    /// The enclosing loop, such as `bid in 0..block_count`.
    pub repeat: Option<String>,
    /// The conditions for the tensor, which must all hold.
    pub conditions: Vec<&'a str>,
    /// The condition under which the model is incomplete without the tensor: `true`, `false`, or an
    /// expression.
    pub required: &'a str,
    /// The tensor that replaces it if it is missing.
    pub tied: Option<&'a str>,
    /// The tensor that excludes it.
    pub unless: Option<&'a str>,
}

/// A tensor of a model: name, shape, role, and the source of its data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorSpec {
    /// The name in the file.
    pub name: String,
    /// The dimensions in stored order.
    pub shape: Shape,
    /// The role of the tensor.
    pub role: Role,
    /// If true, the model is incomplete without the tensor.
    pub required: bool,
    /// The source of its data.
    pub origin: Origin,
    /// The type, if it is independent of the file type. Tensors with at most one dimension, and some
    /// others, are F32.
    pub fixed_type: Option<TensorType>,
    /// The checkpoint tensor that makes it redundant if the elements are equal.
    pub drop_if_equal: Option<String>,
    /// For a computed tensor, the checkpoint tensor that it is written before, by all its possible
    /// names.
    pub before: Vec<String>,
    /// The tensor that replaces it if it is missing.
    pub tied: Option<String>,
    /// The tensor that excludes it: a file has one or the other.
    pub unless: Option<String>,
    /// The group of tensors that are written consecutively, in the order of the description, at the
    /// position of the last of their sources in the checkpoint.
    pub together: Option<String>,
    /// If true, an existing file may have it in any shape, because no key determines it.
    pub free_shape: bool,
    /// If true, an existing file may have it with a larger last dimension; the excess is unused.
    pub more_rows: bool,
}

/// The source of the data of a tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Origin {
    /// Computed from checkpoint tensors: by the first alternative that exists. Without alternatives,
    /// only existing files can have the tensor.
    Checkpoint(Vec<Source>),
    /// Computed from hyperparameters: the elements in stored order; empty for an existing file.
    Computed(Arc<[f32]>),
}

/// Checkpoint tensors, and the operations that compute a tensor of the file from them.
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the description")]
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Source {
    /// The checkpoint names, in order: one, or as many as the first operation combines.
    pub names: Vec<String>,
    /// The operations, in order. The first one takes all tensors.
    pub operations: Vec<Operation>,
    /// Operations on consecutive subsets of the names, which are applied before; may be empty.
    pub parts: Vec<SourcePart>,
    /// If true, the tensor is written before all others.
    pub first: bool,
    /// If true, the tensor is written after all others.
    pub last: bool,
    /// If true, the pattern of the names has optional pieces, and all of them are omitted.
    pub bare: bool,
    /// The shape of each checkpoint tensor, for converting back, if the operations do not determine it.
    pub shape: Option<Shape>,
    /// The elements outside slices, for converting back.
    pub rest: UnusedElements,
    /// If true, converting back prefers this alternative.
    pub preferred: bool,
}

/// The elements of a checkpoint tensor that its operations do not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnusedElements {
    /// The model uses them: other tensors of the file contain them.
    #[default]
    Needed,
    /// The model does not use them: converting back sets them to zero.
    Zero,
    /// They repeat the used elements.
    Same,
}

/// A consecutive subset of the names of a [`Source`], with operations.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourcePart {
    /// The number of names.
    pub names: usize,
    /// The operations that combine their tensors.
    pub operations: Vec<Operation>,
    /// The shape of each checkpoint tensor, if the description gives it.
    pub shape: Option<Shape>,
}

impl Source {
    /// Returns the result shape for tensors of these shapes, in the order of [`names`](Self::names).
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

/// Returns the result shape of operations on tensors of these shapes.
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
    /// Returns `true` if the type is F32, independent of the file type.
    pub fn is_f32(&self) -> bool {
        self.fixed_type == Some(TensorType::Fixed(GgmlType::F32))
    }

    /// Returns `true` if a checkpoint has any of its source tensors.
    pub(crate) fn has_some(&self, present: impl Fn(&str) -> bool) -> bool {
        match &self.origin {
            Origin::Checkpoint(sources) => {
                sources.iter().flat_map(|source| &source.names).any(|name| present(name))
            }
            Origin::Computed(_) => false,
        }
    }

    /// Returns the alternative that a checkpoint has, given which names it has.
    ///
    /// Fails if an alternative is incomplete, or if the tensor is required and there is no alternative.
    /// A computed tensor has no alternatives.
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

/// The remaining numbers of tensors and bytes of a model.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) tensors: u64,
    /// The remaining memory, in bytes.
    pub(crate) bytes: u64,
}

impl Budget {
    /// Subtracts a tensor. Fails if no tensors are left.
    fn tensor(&mut self) -> Result<()> {
        self.take(size_of::<TensorSpec>())?;
        self.tensors = self.tensors.checked_sub(1).ok_or_else(|| {
            Error::new(ErrorKind::Limit, format!("more than {MAX_TENSORS} tensors"))
        })?;
        Ok(())
    }

    /// Fills in a name pattern and subtracts its memory.
    fn name(&mut self, template: &Template, scope: &Scope<'_>, choice: u32) -> Result<String> {
        let name = template.fill(scope, choice)?;
        self.take(name.len().saturating_add(size_of::<String>()))?;
        Ok(name)
    }

    /// Subtracts memory. Fails if too little is left.
    fn take(&mut self, bytes: usize) -> Result<()> {
        let left = u64::try_from(bytes).ok().and_then(|bytes| self.bytes.checked_sub(bytes));
        self.bytes = left.ok_or_else(|| {
            let most = ByteSize::from(MAX_TENSOR_BYTES);
            let message = format!("tensors and their names take more than {most}");
            Error::new(ErrorKind::Limit, message)
        })?;
        Ok(())
    }
}
