//! A planned file as a source of bytes, which are computed when they are read.

use std::ops::ControlFlow;

use ggmill_core::{ErrorKind, Model, ReadAt};

use crate::error::Result;
use crate::recipe::Plan;
use crate::run::{RunOptions, run_range};
use crate::source::Checkpoint;

/// The file of a plan that is not written anywhere: each read computes the bytes that [`run`](crate::run)
/// would write there.
///
/// Nothing is cached between reads, so that a model can be run before it is written, one tensor in memory
/// at a time.
#[derive(Debug)]
pub struct PlannedFile {
    plan: Plan,
    source: Box<dyn Checkpoint + Send + Sync>,
}

impl PlannedFile {
    /// Joins a plan and the checkpoint that it was made for.
    pub fn new(plan: Plan, source: Box<dyn Checkpoint + Send + Sync>) -> Self {
        Self { plan, source }
    }

    /// Returns the file as a model. Fails if its header exceeds the limits of the reader.
    pub fn into_model(self) -> Result<Model> {
        let header = self.plan.header()?;
        Ok(Model::from_header(header.with_source(self)))
    }
}

impl ReadAt for PlannedFile {
    fn len(&self) -> u64 {
        self.plan.layout.total_len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> ggmill_core::Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        // A reader sees what would be written, and the run that writes it decides.
        let options = RunOptions { allow_zeros: true, ..RunOptions::with_threads(1) };
        let bytes = run_range(
            &self.plan,
            &*self.source,
            range,
            Vec::with_capacity(out.len()),
            &options,
            &mut |_| ControlFlow::Continue(()),
        );
        let failed = |error| ggmill_core::Error::caused(ErrorKind::Io, error);
        out.copy_from_slice(&bytes.map_err(failed)?);
        Ok(())
    }
}
