//! What a file is made of: the step between a checkpoint and a plan.

use ggmill_core::{Builder, Endian, GgmlType, Limits, MetadataBuf, Model, Shape};

use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Job, Plan, Work};
use crate::rows::{RowMap, Step};
use crate::source::{Checkpoint, GgufCheckpoint, SourceTensor};

/// Which tensors, under which names, through which operations, with which metadata. Every command that writes a model makes one and hands it to the same
/// [`Recipe::plan`] and [`run`](crate::run).
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    pub metadata: MetadataBuf,
    pub tensors: Vec<RecipeTensor>,
    pub notes: Vec<String>,
    pub form: Form,
}

/// What a file is like besides what it says: version 3 and little-endian unless its recipe says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    pub version_2: bool,
    pub endian: Endian,
    /// Whether a header that nothing follows is padded all the same.
    pub pad_header: bool,
}

impl Form {
    /// That of a file or set. Version 1 is not written any more.
    fn of(model: &Model) -> Self {
        let Some(first) = model.parts().first() else { return Self::default() };
        let index = first.index();
        let is_padded = |len: u64| len > index.header_len() && len == index.data_offset();
        let padded = first.tensors().is_empty() && first.file_len().is_some_and(is_padded);
        Self { version_2: index.version() == 2, endian: index.endian(), pad_header: padded }
    }
}

/// One tensor of the output.
#[derive(Clone, Debug)]
pub struct RecipeTensor {
    pub name: Vec<u8>,
    pub ggml_type: GgmlType,
    pub shape: Shape,
    pub content: Content,
    pub encoding: Encoding,
}

impl RecipeTensor {
    /// A tensor encoded without importance weights, whatever numbers it holds.
    pub fn new(name: impl Into<Vec<u8>>, ggml_type: GgmlType, shape: Shape, content: Content) -> Self {
        Self { name: name.into(), ggml_type, shape, content, encoding: Encoding::default() }
    }

    /// Bytes of its data; `None` where it is no whole blocks of a known type.
    pub fn size(&self) -> Option<u64> {
        self.ggml_type.layout()?.bytes_for(self.shape.elements())
    }
}

/// What is known of the numbers when they are turned into the output's type.
#[derive(Clone, Debug, Default)]
pub struct Encoding {
    /// How much each column matters, one row of weights for each matrix of a stack. Types without blocks have no use for it.
    pub importance: Option<Vec<f32>>,
    /// Whether every number has to be finite, before and after: also those of a tensor that is copied.
    pub finite: bool,
}

/// Where the numbers of a tensor come from.
#[derive(Clone, Debug)]
pub enum Content {
    /// From these tensors of the checkpoint, by number, one behind the other along the slowest dimension, through these steps.
    Gathered { sources: Vec<usize>, steps: Vec<Step> },
    /// From a computation: the values themselves.
    Values(Vec<f32>),
}

impl Recipe {
    /// A model as it is: every key and every tensor of the file or set, in order, in its byte order and version (3 for a file of version 1). Other recipes for
    /// GGUF files begin here and change what they are about.
    pub fn copy_of(checkpoint: &GgufCheckpoint) -> Result<Self> {
        let metadata = MetadataBuf::copy_of(&checkpoint.metadata()).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let tensor = |(number, tensor): (usize, &SourceTensor)| {
            let content = Content::Gathered { sources: vec![number], steps: Vec::new() };
            RecipeTensor::new(&*tensor.name, tensor.ggml_type, tensor.shape, content)
        };
        let tensors = checkpoint.tensors().iter().enumerate().map(tensor).collect();
        Ok(Self { metadata, tensors, notes: Vec::new(), form: Form::of(checkpoint.model()) })
    }

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
        let Form { version_2, endian, pad_header } = self.form;
        let mut builder = Builder::new().metadata(self.metadata).endian(endian);
        if version_2 {
            builder = builder.version_2();
        }
        if pad_header {
            builder = builder.pad_header();
        }
        let mut jobs = Vec::with_capacity(self.tensors.len());
        let most = Limits::default().dimensions as usize;
        for tensor in self.tensors {
            if tensor.shape.dimensions().len() > most {
                let message = format!("has {} dimensions, expected at most {most}", tensor.shape.dimensions().len());
                return Err(Error::new(ErrorKind::Unsupported, message).tensor(&tensor.name));
            }
            builder = builder.tensor(&tensor.name, tensor.ggml_type, tensor.shape);
            let name = tensor.name.clone();
            jobs.push(job(tensor, checkpoint.tensors()).map_err(|error| error.tensor(&name))?);
        }
        let layout = builder.plan().map_err(|error| Error::caused(ErrorKind::Misuse, error))?;
        Ok(Plan { layout, jobs, endian, notes: self.notes })
    }
}

/// The work one tensor takes, once its sources turn out to hold what the recipe says.
fn job(tensor: RecipeTensor, sources: &[SourceTensor]) -> Result<Job> {
    let RecipeTensor { ggml_type: to, shape, content, encoding, .. } = tensor;
    if let Some(weights) = &encoding.importance
        && matrices(&shape).checked_mul(shape.row_len()) != Some(weights.len() as u64)
    {
        return Err(Error::new(ErrorKind::Misuse, format!("{} importance weights do not fit shape {shape}", weights.len())));
    }
    let work = match content {
        Content::Values(values) if values.len() as u64 == shape.elements() => Work::Values(values),
        Content::Values(values) => return Err(Error::new(ErrorKind::Misuse, format!("{} values, expected {}", values.len(), shape.elements()))),
        Content::Gathered { sources: numbers, steps } => gather(numbers, steps, &shape, sources)?,
    };
    Ok(Job { work, to, shape, encoding })
}

/// How many matrices are stacked in a tensor: its third dimension.
pub fn matrices(shape: &Shape) -> u64 {
    shape.dimensions().get(2).copied().unwrap_or(1)
}

fn gather(numbers: Vec<usize>, steps: Vec<Step>, shape: &Shape, sources: &[SourceTensor]) -> Result<Work> {
    let mut found = numbers.iter().filter_map(|&number| sources.get(number));
    let Some(first) = found.next() else { return Err(Error::new(ErrorKind::Misuse, "has no source")) };
    if found.any(|other| other.shape != first.shape || other.ggml_type != first.ggml_type) {
        return Err(Error::new(ErrorKind::Checkpoint, "is made of tensors of different shapes or types"));
    }
    if first.shape.elements().checked_mul(numbers.len() as u64) != Some(shape.elements()) {
        return Err(Error::new(ErrorKind::Checkpoint, format!("{:?} has shape {}, expected {shape}", first.name(), first.shape)));
    }
    // The slowest dimension is the last in stored order; a scalar is one unit of one element.
    let units = first.shape.dimensions().last().copied().unwrap_or(1);
    let unit_len = first.shape.elements().checked_div(units).unwrap_or(0);
    let map = RowMap::new(units, unit_len, steps)
        .ok_or_else(|| Error::new(ErrorKind::Checkpoint, format!("its {units} rows do not divide into the heads the configuration gives")))?;
    Ok(Work::Gather { from: first.ggml_type, sources: numbers, map })
}
