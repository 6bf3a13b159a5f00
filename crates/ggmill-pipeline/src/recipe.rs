//! Recipes, which define a file, and plans, which lay it out.

use ggmill_core::{
    Builder, Decoder, Endian, GgmlType, Header, Limits, MetadataBuf, Model, NamingError,
    PlannedTensor, Shape, size_label, suggested_file_name,
};

use crate::error::{Error, ErrorKind, Result};
use crate::expression::{Expression, Loss, all_zeros};
use crate::source::{Checkpoint, GgufCheckpoint, SourceTensor};

/// The definition of an output file: its metadata and its tensors, each with the [`Expression`]
/// that computes its elements. Every command that writes a model builds one and passes it to
/// [`Recipe::plan`] and [`run`](crate::run).
///
/// A recipe is data, so that several steps, such as conversion and quantization, can modify one
/// recipe and still need one plan and one pass over the sources.
///
/// ```
/// use ggmill_core::{GgmlType, Header, MetadataBuf, Shape};
/// use ggmill_pipeline::{Encoding, Expression, MemorySource, Recipe, RecipeTensor, RunOptions, run};
/// let mut source = MemorySource::new();
/// source.add("w", GgmlType::I8, Shape::new(&[2, 2])?, vec![1, 2, 3, 4])?;
/// let turned = Expression::named(&source, "w")?.transpose()?.encode(GgmlType::F16, Encoding::finite())?;
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "none");
/// let recipe = Recipe::new(metadata, vec![RecipeTensor::new("w.turned", turned)]);
/// let plan = recipe.plan(&source)?;
/// let file = run(&plan, &source, Vec::new(), &RunOptions::default(), &mut |_| std::ops::ControlFlow::Continue(()))?;
/// assert_eq!(Header::parse(&file)?.tensor("w.turned")?.ggml_type(), GgmlType::F16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recipe {
    /// The metadata of the file.
    pub metadata: MetadataBuf,
    /// The tensors, in order.
    pub tensors: Vec<RecipeTensor>,
    /// Notes about fallbacks and omissions.
    pub notes: Vec<String>,
    /// Version, byte order and padding of the file.
    pub form: Form,
}

/// One tensor of the output.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecipeTensor {
    /// The name in the file.
    pub name: Vec<u8>,
    /// The elements; its shape and type are those in the file.
    pub expression: Expression,
    /// The measured effect of its quantization on the output of the model, if known.
    pub sensitivity: Option<Sensitivity>,
}

impl RecipeTensor {
    /// Creates a tensor.
    pub fn new(name: impl Into<Vec<u8>>, expression: Expression) -> Self {
        Self { name: name.into(), expression, sensitivity: None }
    }

    /// Returns its type in the file.
    pub fn ggml_type(&self) -> GgmlType {
        self.expression.ggml_type()
    }

    /// Returns its shape in the file.
    pub fn shape(&self) -> &Shape {
        self.expression.shape()
    }
}

/// Version, byte order and padding of a file. The default is version 3, little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Form {
    /// If true, the file has version 2 of the format.
    pub version_2: bool,
    /// The byte order of every number.
    pub endian: Endian,
    /// If true, the header is padded even if no tensors follow.
    pub pad_header: bool,
}

impl Form {
    /// Returns the form of a model. A file of version 1 becomes version 3, as version 1 cannot be
    /// written.
    fn of(model: &Model) -> Self {
        let Some(first) = model.parts().first() else { return Self::default() };
        let is_padded = |len: u64| len > first.header_len() && len == first.data_offset();
        let padded = first.tensors().is_empty() && first.file_len().is_some_and(is_padded);
        Self { version_2: first.version() == 2, endian: first.endian(), pad_header: padded }
    }
}

impl Recipe {
    /// Creates the recipe of a little-endian file of version 3.
    pub fn new(metadata: MetadataBuf, tensors: Vec<RecipeTensor>) -> Self {
        Self { metadata, tensors, ..Self::default() }
    }

    /// Creates the recipe of an exact copy: every key and tensor of the file or set, in order, with
    /// its byte order and version (3 for a file of version 1). Recipes that edit a GGUF file start
    /// from this one. Omits the padding that edits leave
    /// ([`GGMILL_PADDING`](ggmill_core::keys::GGMILL_PADDING)).
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

    /// Returns the tensors of the output with their names, types and shapes.
    pub fn source_tensors(&self) -> Vec<SourceTensor> {
        self.tensors
            .iter()
            .map(|tensor| SourceTensor::new(&*tensor.name, tensor.ggml_type(), *tensor.shape()))
            .collect()
    }

    /// Returns the metadata of the file.
    pub fn metadata(&self) -> &MetadataBuf {
        &self.metadata
    }

    /// Returns notes about fallbacks and omissions.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Computes every offset of the file and checks every tensor against the source. Reads no
    /// tensor data.
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
        let limit = Limits::default().dimensions as usize;
        for tensor in self.tensors {
            if tensor.shape().dimensions().len() > limit {
                let message = format!(
                    "has {} dimensions, expected at most {limit}",
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

/// The layout of a file, computed before any tensor data is read, with the expression of each
/// tensor.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) layout: ggmill_core::Plan,
    /// One for each tensor of the layout.
    pub(crate) expressions: Vec<Expression>,
    /// One for each tensor of the layout.
    pub(crate) sensitivities: Vec<Option<Sensitivity>>,
    pub(crate) endian: Endian,
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// Returns the layout: header, offsets, sizes.
    pub fn layout(&self) -> &ggmill_core::Plan {
        &self.layout
    }

    /// Returns the expression of each tensor, in the order of the layout.
    pub fn expressions(&self) -> &[Expression] {
        &self.expressions
    }

    /// Returns what the last run of the plan lost beyond what the types usually lose: a sentence for
    /// each tensor, with its name, its error, and the type that would hold it.
    pub fn losses(&self) -> Vec<String> {
        let tensors = self.layout.tensors().iter().zip(&self.expressions);
        let lost = tensors.filter_map(|(tensor, expression)| {
            let (name, (loss, ggml_type)) = (tensor.name(), expression.loss()?);
            Some(match loss {
                Loss::Error(error) => format!(
                    "tensor {name:?}: {ggml_type} loses {:.0} % of it (relative error), since most \
                     values are below the range or the resolution of the type; BF16 or F32 holds them",
                    error * 100.0
                ),
                Loss::Everything => format!("tensor {name:?}: {}", all_zeros(ggml_type)),
            })
        });
        lost.collect()
    }

    /// Returns the values of copied tensors that were not finite in the last run: a sentence for each
    /// tensor, with its name, and the number and the first of them.
    pub fn non_finite(&self) -> Vec<String> {
        let tensors = self.layout.tensors().iter().zip(&self.expressions);
        let found = tensors.filter_map(|(tensor, expression)| {
            let (count, first) = expression.non_finite()?;
            let (values, row_len) = (expression.shape().elements(), expression.shape().row_len());
            let (row, column) = (first / row_len.max(1), first % row_len.max(1));
            Some(format!(
                "tensor {:?}: {count} of {values} values are NaN or infinite, the first in row {row}, \
                 column {column}",
                tensor.name(),
            ))
        });
        found.collect()
    }

    /// Fails if a tensor became zero in the last run.
    pub(crate) fn refuse_zeros(&self) -> Result<()> {
        for (tensor, expression) in self.layout.tensors().iter().zip(&self.expressions) {
            expression.refuse_zeros().map_err(|error| error.tensor(tensor.name().as_bytes()))?;
        }
        Ok(())
    }

    /// Fails if a tensor that the plan reads differs in this source from the one it was planned
    /// for.
    pub(crate) fn check(&self, source: &dyn Checkpoint) -> Result<()> {
        let check = |(tensor, expression): (&PlannedTensor, &Expression)| {
            expression
                .check(source.tensors())
                .map_err(|error| error.tensor(tensor.name().as_bytes()))
        };
        self.layout.tensors().iter().zip(&self.expressions).try_for_each(check)
    }

    /// Returns the planned file as a model without data: metadata, tensors, length. Fails if the
    /// header exceeds the limits of the reader.
    pub fn model(&self) -> Result<Model> {
        Ok(Model::from_header(self.header()?))
    }

    /// Returns the header of the planned file, without a source of data.
    pub(crate) fn header(&self) -> Result<Header<'static>> {
        let failed = |error| Error::caused(ErrorKind::Misuse, error);
        let mut decoder = Decoder::new(Some(self.layout.total_len()), &Limits::default());
        decoder.feed(self.layout.header()).map_err(failed)?;
        decoder.finish().map_err(failed)
    }

    /// Returns the name of the file by the naming convention ([`suggested_file_name`]). Fails if
    /// the metadata is insufficient.
    pub fn file_name(&self) -> core::result::Result<String, NamingError> {
        let model = self.model().map_err(|_| NamingError::NoBaseName)?;
        let tensors = self.layout.tensors().iter();
        let label = size_label(tensors.map(|tensor| (tensor.name(), tensor.shape())));
        suggested_file_name(&model.metadata(), label, None)
    }

    /// Returns notes about fallbacks and omissions.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// The measured effect of quantizing only one tensor on the output of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sensitivity {
    /// The type of the tensor in the measurement.
    pub ggml_type: GgmlType,
    /// The mean KL divergence from the output of the unquantized model, in nats.
    pub divergence: f64,
    /// If true, it was quantized with importance weights.
    pub with_importance: bool,
}

impl Sensitivity {
    /// Creates the result of a measurement without importance weights. `None` for an infinite
    /// divergence or NaN. A negative divergence, which rounding can cause, becomes zero.
    pub fn new(ggml_type: GgmlType, divergence: f64) -> Option<Self> {
        let divergence = divergence.is_finite().then_some(divergence.max(0.0))?;
        Some(Self { ggml_type, divergence, with_importance: false })
    }

    /// Sets whether importance weights were used.
    #[must_use]
    pub fn with_importance(self, with_importance: bool) -> Self {
        Self { with_importance, ..self }
    }
}
