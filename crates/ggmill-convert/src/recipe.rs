//! What a file is made of: the step between a checkpoint and a plan.

use ggmill_core::{Builder, GgmlType, MetadataBuf, Shape};

use crate::checkpoint::{Checkpoint, SourceTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Job, Plan};
use crate::rows::{RowMap, Step};

/// Which tensors, under which names, through which operations, with which metadata. Every command that writes a model makes one and hands it to the same
/// [`Recipe::plan`] and [`run`](crate::run).
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    pub(crate) metadata: MetadataBuf,
    pub(crate) tensors: Vec<RecipeTensor>,
    pub(crate) notes: Vec<String>,
}

/// One tensor of the output.
#[derive(Clone, Debug)]
pub(crate) struct RecipeTensor {
    pub(crate) name: String,
    pub(crate) ggml_type: GgmlType,
    pub(crate) shape: Shape,
    /// Numbers of the checkpoint's tensors it is made of: stacked along a new slowest dimension when there are several.
    pub(crate) sources: Vec<usize>,
    pub(crate) steps: Vec<Step>,
}

impl Recipe {
    /// The metadata of the file.
    pub fn metadata(&self) -> &MetadataBuf {
        &self.metadata
    }

    /// What a person should know of the choices made: fallbacks, things left out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Lays the file out to the byte and holds every tensor against its sources. Reads no tensor data.
    pub fn plan(self, checkpoint: &dyn Checkpoint) -> Result<Plan> {
        let mut builder = Builder::new().metadata(self.metadata);
        let mut jobs = Vec::with_capacity(self.tensors.len());
        for tensor in self.tensors {
            jobs.push(job(&tensor, checkpoint.tensors()).map_err(|error| error.tensor(&tensor.name))?);
            builder = builder.tensor(&tensor.name, tensor.ggml_type, tensor.shape);
        }
        let layout = builder.plan().map_err(|error| Error::caused(ErrorKind::Misuse, error))?;
        Ok(Plan { layout, jobs, notes: self.notes })
    }
}

/// The work one tensor takes, once its sources turn out to hold what the recipe says.
fn job(tensor: &RecipeTensor, sources: &[SourceTensor]) -> Result<Job> {
    let mut found = tensor.sources.iter().filter_map(|&number| sources.get(number));
    let Some(first) = found.next() else { return Err(Error::new(ErrorKind::Misuse, "has no source")) };
    if found.any(|other| other.shape != first.shape || other.ggml_type != first.ggml_type) {
        return Err(Error::new(ErrorKind::Checkpoint, "is stacked from tensors of different shapes or types"));
    }
    let elements = first.shape.elements().checked_mul(tensor.sources.len() as u64);
    if elements != Some(tensor.shape.elements()) {
        return Err(Error::new(ErrorKind::Checkpoint, format!("{:?} has shape {}, expected {}", first.name, first.shape, tensor.shape)));
    }
    // The slowest dimension is the last in stored order; a scalar is one unit of one element.
    let units = first.shape.dimensions().last().copied().unwrap_or(1);
    let unit_len = first.shape.elements().checked_div(units).unwrap_or(0);
    let map = RowMap::new(units, unit_len, tensor.steps.clone())
        .ok_or_else(|| Error::new(ErrorKind::Checkpoint, format!("its {units} rows do not divide into the heads the configuration gives")))?;
    Ok(Job { sources: tensor.sources.clone(), map, from: first.ggml_type, to: tensor.ggml_type, shape: tensor.shape })
}
