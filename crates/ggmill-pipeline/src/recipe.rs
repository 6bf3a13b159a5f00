//! The definition of a file: the step between a checkpoint and a plan.

use ggmill_core::{Builder, Endian, GgmlType, Limits, MetadataBuf, Model, Shape};

use crate::error::{Error, ErrorKind, Result};
use crate::expression::Expression;
use crate::plan::Plan;
use crate::sensitivity::Sensitivity;
use crate::source::{Checkpoint, GgufCheckpoint, SourceTensor};

/// A file to be: its metadata, and which tensors it has, each with the [`Expression`] its elements
/// come from. Every command that writes a model makes one and hands it to the same [`Recipe::plan`]
/// and [`run`](crate::run).
///
/// A recipe is data: one step makes it, others change it, and what they make together is one plan
/// and one pass over the sources.
///
/// ```
/// use ggmill_core::{GgmlType, Gguf, MetadataBuf, Shape};
/// use ggmill_pipeline::{Encoding, Expression, MemorySource, Recipe, RecipeTensor, RunOptions, run};
/// let mut source = MemorySource::new();
/// source.add("w", GgmlType::I8, Shape::new(&[2, 2])?, vec![1, 2, 3, 4])?;
/// let turned = Expression::named(&source, "w")?.transpose()?.encode(GgmlType::F16, Encoding::finite())?;
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "none");
/// let recipe = Recipe::new(metadata, vec![RecipeTensor::new("w.turned", turned)]);
/// let plan = recipe.plan(&source)?;
/// let file = run(&plan, &source, Vec::new(), &RunOptions::default(), &mut |_| std::ops::ControlFlow::Continue(()))?;
/// assert_eq!(Gguf::parse(&file)?.tensor("w.turned")?.ggml_type(), GgmlType::F16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recipe {
    /// The metadata of the file.
    pub metadata: MetadataBuf,
    /// The tensors, in order.
    pub tensors: Vec<RecipeTensor>,
    /// Notes about the choices made: fallbacks, omissions.
    pub notes: Vec<String>,
    /// The form of the file.
    pub form: Form,
}

/// One tensor of the output.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecipeTensor {
    /// The name in the file.
    pub name: Vec<u8>,
    /// Where its elements come from; its shape and type are those of the file.
    pub expression: Expression,
    /// What its quantization does to the output of the model, where that was measured.
    pub sensitivity: Option<Sensitivity>,
}

impl RecipeTensor {
    /// A tensor of this name with these elements.
    pub fn new(name: impl Into<Vec<u8>>, expression: Expression) -> Self {
        Self { name: name.into(), expression, sensitivity: None }
    }

    /// The type it has in the file.
    pub fn ggml_type(&self) -> GgmlType {
        self.expression.ggml_type()
    }

    /// The shape it has in the file.
    pub fn shape(&self) -> &Shape {
        self.expression.shape()
    }
}

/// The form of a file: version 3 and little-endian unless its recipe says
/// otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Form {
    /// Whether the file has version 2 of the format.
    pub version_2: bool,
    /// The byte order of every number.
    pub endian: Endian,
    /// Whether a header that nothing follows is padded anyway.
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

impl Recipe {
    /// A file of version 3, little-endian, with these metadata and tensors.
    pub fn new(metadata: MetadataBuf, tensors: Vec<RecipeTensor>) -> Self {
        Self { metadata, tensors, ..Self::default() }
    }

    /// A model as it is: every key and every tensor of the file or set, in order, in its byte order
    /// and version (3 for a file of version 1). Other recipes for GGUF files begin here and
    /// change what they are about. The room that edits leave
    /// ([`GGMILL_PADDING`](ggmill_core::keys::GGMILL_PADDING)) says nothing, and is left out.
    pub fn copy_of(checkpoint: &GgufCheckpoint) -> Result<Self> {
        let mut metadata = MetadataBuf::copy_of(&checkpoint.metadata())
            .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        metadata.remove(ggmill_core::keys::GGMILL_PADDING);
        let tensor = |(number, tensor): (usize, &SourceTensor)| {
            Ok(RecipeTensor::new(&*tensor.name, Expression::of_tensor(number, tensor)?))
        };
        let tensors = checkpoint.tensors().iter().enumerate().map(tensor).collect::<Result<_>>()?;
        Ok(Self { metadata, tensors, notes: Vec::new(), form: Form::of(checkpoint.model()) })
    }

    /// The tensors with the names, types and shapes that they get: those of the file, as a source
    /// would list them.
    pub fn source_tensors(&self) -> Vec<SourceTensor> {
        self.tensors
            .iter()
            .map(|tensor| SourceTensor::new(&*tensor.name, tensor.ggml_type(), *tensor.shape()))
            .collect()
    }

    /// The metadata of the file.
    pub fn metadata(&self) -> &MetadataBuf {
        &self.metadata
    }

    /// Notes about the choices made: fallbacks, omissions.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Lays the file out to the byte and holds every tensor against its sources. Reads no tensor
    /// data.
    pub fn plan(self, checkpoint: &dyn Checkpoint) -> Result<Plan> {
        let Form { version_2, endian, pad_header } = self.form;
        let mut builder = Builder::new().metadata(self.metadata).endian(endian);
        if version_2 {
            builder = builder.version_2();
        }
        if pad_header {
            builder = builder.pad_header();
        }
        let mut expressions = Vec::with_capacity(self.tensors.len());
        let mut sensitivities = Vec::with_capacity(self.tensors.len());
        let most = Limits::default().dimensions as usize;
        for tensor in self.tensors {
            if tensor.shape().dimensions().len() > most {
                let message = format!(
                    "has {} dimensions, expected at most {most}",
                    tensor.shape().dimensions().len()
                );
                return Err(Error::new(ErrorKind::Unsupported, message).tensor(&tensor.name));
            }
            tensor
                .expression
                .check(checkpoint.tensors())
                .map_err(|error| error.tensor(&tensor.name))?;
            builder = builder.tensor(&tensor.name, tensor.ggml_type(), *tensor.shape());
            expressions.push(tensor.expression);
            sensitivities.push(tensor.sensitivity);
        }
        let layout = builder.plan().map_err(|error| Error::caused(ErrorKind::Misuse, error))?;
        Ok(Plan { layout, expressions, sensitivities, endian, notes: self.notes })
    }
}
