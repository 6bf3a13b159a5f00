//! A plan whose ranges any programs compute, in whatever order.

use ggmill::pipeline::{Checkpoint, Plan, Recipe, plan_document, run_range};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::output::{Output, json, shown};
use crate::error::Result;
use crate::progress::reporting;
use crate::threads;

/// A file laid out to the byte, with what it is made of.
#[pyclass(frozen, module = "ggmill._native")]
pub(crate) struct SharedPlan {
    plan: Plan,
    checkpoint: Box<dyn Checkpoint + Send + Sync>,
    document: String,
}

impl SharedPlan {
    pub(super) fn new(
        recipe: Recipe,
        checkpoint: Box<dyn Checkpoint + Send + Sync>,
        output: &Output,
    ) -> Result<Self> {
        let plan = recipe.plan(&*checkpoint)?;
        let document = json(&plan_document(&plan, shown(&output.path), false))?;
        Ok(Self { plan, checkpoint, document })
    }
}

#[pymethods]
impl SharedPlan {
    /// The plan as JSON (`docs/formats/plan.md`).
    fn document(&self) -> &str {
        &self.document
    }

    /// The first bytes of the file.
    fn header<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.plan.layout().header())
    }

    /// Bytes `start` up to `stop` of the file.
    #[pyo3(signature = (start, stop, *, threads = None, progress = None))]
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyBytes>> {
        let options = threads::run_options(threads);
        let bytes = reporting(py, progress, |report| {
            let sink = Vec::new();
            run_range(&self.plan, &*self.checkpoint, start..stop, sink, &options, report)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}
