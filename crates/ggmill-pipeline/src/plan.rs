//! The work laid out: offsets and sizes from the core, and for each tensor where its elements come
//! from.

use ggmill_core::{
    Decoder, Endian, Limits, Model, NamingError, PlannedTensor, size_label, suggested_file_name,
};

use crate::error::{Error, ErrorKind, Result};
use crate::expression::Expression;
use crate::sensitivity::Sensitivity;
use crate::source::Checkpoint;

/// A file laid out to the byte, before any tensor data is read.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) layout: ggmill_core::Plan,
    /// As many as the layout has tensors.
    pub(crate) expressions: Vec<Expression>,
    /// As many, too.
    pub(crate) sensitivities: Vec<Option<Sensitivity>>,
    pub(crate) endian: Endian,
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// The file as it will be: header, offsets, sizes.
    pub fn layout(&self) -> &ggmill_core::Plan {
        &self.layout
    }

    /// Where the elements of each tensor come from, in the order of the layout.
    pub fn expressions(&self) -> &[Expression] {
        &self.expressions
    }

    /// Fails when a tensor that is read is another one in this source than in the one the plan was
    /// made for.
    pub(crate) fn check(&self, source: &dyn Checkpoint) -> Result<()> {
        let check = |(tensor, expression): (&PlannedTensor, &Expression)| {
            expression
                .check(source.tensors())
                .map_err(|error| error.tensor(tensor.name().as_bytes()))
        };
        self.layout.tensors().iter().zip(&self.expressions).try_for_each(check)
    }

    /// The file as a reader sees it that has its header alone: metadata, tensors, length. Its tensor
    /// data cannot be read. Fails when the header is beyond the limits of the reader.
    pub fn model(&self) -> Result<Model> {
        let failed = |error| Error::caused(ErrorKind::Misuse, error);
        let mut decoder = Decoder::new(Some(self.layout.total_len()), &Limits::default());
        decoder.feed(self.layout.header()).map_err(failed)?;
        Ok(Model::from_header(decoder.finish().map_err(failed)?, Vec::new()))
    }

    /// The name of the file by the naming convention, as [`suggested_file_name`] has it. Fails when
    /// the metadata do not say enough for one.
    pub fn file_name(&self) -> core::result::Result<String, NamingError> {
        let model = self.model().map_err(|_| NamingError::NoBaseName)?;
        let tensors = self.layout.tensors().iter();
        let label = size_label(tensors.map(|tensor| (tensor.name(), tensor.shape())));
        suggested_file_name(&model.metadata(), label, None)
    }

    /// Notes about the choices made.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
