//! Limits on the tensors of a model.

use ggmill_core::ByteSize;

use crate::description::tensor::TensorSpec;
use crate::error::{Error, ErrorKind, Result};
use crate::language::expression::Scope;
use crate::language::pattern::Template;
use crate::limits::{MAX_TENSOR_BYTES, MAX_TENSORS};

/// The remaining numbers of tensors and bytes of a model.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) tensors: u64,
    /// The remaining memory, in bytes.
    pub(crate) bytes: u64,
}

impl Budget {
    /// Subtracts a tensor. Fails if no tensors are left.
    pub(super) fn tensor(&mut self) -> Result<()> {
        self.take(size_of::<TensorSpec>())?;
        self.tensors = self.tensors.checked_sub(1).ok_or_else(|| {
            Error::new(ErrorKind::Limit, format!("more than {MAX_TENSORS} tensors"))
        })?;
        Ok(())
    }

    /// Fills in a name pattern and subtracts its memory.
    pub(super) fn name(
        &mut self,
        template: &Template,
        scope: &Scope<'_>,
        choice: u32,
    ) -> Result<String> {
        let name = template.fill(scope, choice)?;
        self.take(name.len().saturating_add(size_of::<String>()))?;
        Ok(name)
    }

    /// Subtracts memory. Fails if too little is left.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        let left = u64::try_from(bytes).ok().and_then(|bytes| self.bytes.checked_sub(bytes));
        self.bytes = left.ok_or_else(|| {
            let most = ByteSize::from(MAX_TENSOR_BYTES);
            let message = format!("tensors and their names take more than {most}");
            Error::new(ErrorKind::Limit, message)
        })?;
        Ok(())
    }
}
