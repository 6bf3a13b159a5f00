//! Progress told to Python, and Python's wish to stop.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ggmill::pipeline::{self, Progress, Report};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error::{Failure, Result};

/// The least time between two calls, but for the last.
const PAUSE: Duration = Duration::from_millis(50);

/// Does long work without holding Python, and tells `callback` of it as `(done, total, tensor)`.
///
/// The work ends early where the callback raises, which is what the caller gets, where it returns
/// `False`, and at a signal such as Ctrl-C.
pub(crate) fn reporting<T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&mut Report<'_>) -> pipeline::Result<T> + Send,
) -> Result<T> {
    reporting_work(py, callback, |report| Ok(work(report)?))
}

/// The same for work of any kind.
pub(crate) fn reporting_work<T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&mut Report<'_>) -> Result<T> + Send,
) -> Result<T> {
    let raised: Mutex<Option<PyErr>> = Mutex::default();
    let outcome = py.detach(|| {
        let mut told: Option<Instant> = None;
        let mut report = |progress: Progress<'_>| {
            let is_last = progress.written >= progress.total;
            if !is_last && told.is_some_and(|told| told.elapsed() < PAUSE) {
                return ControlFlow::Continue(());
            }
            told = Some(Instant::now());
            match tell(callback.as_ref(), progress) {
                Ok(true) => ControlFlow::Continue(()),
                Ok(false) => ControlFlow::Break(()),
                Err(error) => {
                    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        work(&mut report)
    });
    match raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(Failure::Raised(error)),
        None => outcome,
    }
}

/// A callback of Python's for the progress of a verb, and what it raised.
#[derive(Clone)]
pub(crate) struct Told {
    callback: Option<Arc<Py<PyAny>>>,
    raised: Arc<Mutex<Option<PyErr>>>,
    last: Arc<Mutex<Option<Instant>>>,
}

impl Told {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback: callback.map(Arc::new), raised: Arc::default(), last: Arc::default() }
    }

    /// Reports progress: of writing to the callback, of everything else only to signals.
    pub(crate) fn show(&self, progress: &ggmill::Progress<'_>) -> ControlFlow<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_last = progress.done >= progress.total;
        if !is_last && last.is_some_and(|last| last.elapsed() < PAUSE) {
            return ControlFlow::Continue(());
        }
        *last = Some(Instant::now());
        let callback = self.callback.as_deref();
        let callback = callback.filter(|_| progress.stage == ggmill::Stage::Writing);
        match tell(callback, Progress::new(progress.tensor, progress.done, progress.total)) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// What the call returned, or what the callback raised.
    pub(crate) fn outcome<T>(&self, outcome: ggmill::Result<T>) -> Result<T> {
        match self.raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(Failure::Raised(error)),
            None => Ok(outcome?),
        }
    }
}

/// Whether the work is to go on.
fn tell(callback: Option<&Py<PyAny>>, progress: Progress<'_>) -> PyResult<bool> {
    Python::attach(|py| {
        py.check_signals()?;
        let Some(callback) = callback else { return Ok(true) };
        let answer = callback.call1(py, (progress.written, progress.total, progress.tensor))?;
        Ok(answer.bind(py).cast::<PyBool>().map_or(true, PyBoolMethods::is_true))
    })
}
