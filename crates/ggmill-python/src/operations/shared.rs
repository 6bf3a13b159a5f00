//! A plan whose ranges any programs compute, in whatever order.

use ggmill::Planned;
use ggmill::pipeline::{Checkpoint, Plan, run_range};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::output::json;
use crate::error::{Failure, Result};
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
    /// The plan of one file.
    pub(super) fn of(planned: Planned<'_>) -> Result<Self> {
        let document = json(&planned.document()?)?;
        let (mut plans, checkpoint) = planned.into_plans();
        let plan = plans.pop().ok_or_else(|| Failure::misuse("there is no plan"))?;
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
