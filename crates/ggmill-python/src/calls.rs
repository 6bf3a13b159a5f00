//! Long calls: progress, signals and threads.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ggmill::Stage;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error::{Failure, Result};

/// The minimum time between two calls of a progress callback, except for the last.
const PAUSE: Duration = Duration::from_millis(50);
/// The number of values that a thread works on before it takes the next piece.
const PIECE: usize = 1 << 18;

/// Runs a long call without holding the GIL, and reports its progress.
///
/// The call ends early if the callback raises an exception, which is passed on, or returns `False`,
/// and at a signal such as Ctrl-C.
pub(crate) fn run<T: Send, E: Into<Failure> + Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(Reporter) -> Result<T, E> + Send,
) -> Result<T> {
    let reporter = Reporter(Arc::new(State { callback, now: Mutex::default() }));
    let outcome = py.detach(|| work(reporter.clone()));
    match reporter.0.now.lock().unwrap_or_else(PoisonError::into_inner).raised.take() {
        Some(error) => Err(Failure::Raised(error)),
        None => outcome.map_err(Into::into),
    }
}

/// A progress callback of Python.
#[derive(Clone)]
pub(crate) struct Reporter(Arc<State>);

struct State {
    callback: Option<Py<PyAny>>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    reported: Option<Instant>,
    is_stopped: bool,
    raised: Option<PyErr>,
}

impl Reporter {
    /// Reports the progress of a verb. Only bytes that are read or written are passed to the callback;
    /// other stages only check for signals.
    pub(crate) fn progress(&self, progress: &ggmill::Progress<'_>) -> ControlFlow<()> {
        let is_shown = matches!(progress.stage, Stage::Writing | Stage::Reading);
        self.report(is_shown, progress.done, progress.total, progress.tensor)
    }

    /// Reports progress. A call that was stopped once stays stopped.
    pub(crate) fn report(
        &self,
        is_shown: bool,
        done: u64,
        total: u64,
        tensor: &str,
    ) -> ControlFlow<()> {
        let mut now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.is_stopped {
            return ControlFlow::Break(());
        }
        if done < total && now.reported.is_some_and(|reported| reported.elapsed() < PAUSE) {
            return ControlFlow::Continue(());
        }
        now.reported = Some(Instant::now());
        let callback = self.0.callback.as_ref().filter(|_| is_shown);
        match continues(callback, done, total, tensor) {
            Ok(true) => return ControlFlow::Continue(()),
            Ok(false) => {}
            Err(error) => now.raised = Some(error),
        }
        now.is_stopped = true;
        ControlFlow::Break(())
    }
}

/// Calls the callback as `(done, total, tensor)`, and returns `true` if the call should continue.
fn continues(callback: Option<&Py<PyAny>>, done: u64, total: u64, tensor: &str) -> PyResult<bool> {
    Python::attach(|py| {
        py.check_signals()?;
        let Some(callback) = callback else { return Ok(true) };
        let answer = callback.call1(py, (done, total, tensor))?;
        Ok(answer.bind(py).cast::<PyBool>().map_or(true, PyBoolMethods::is_true))
    })
}

/// Returns the number of threads; one per core for `None` and 0.
pub(crate) fn thread_count(threads: Option<usize>) -> NonZero<usize> {
    let all = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    threads.and_then(NonZero::new).unwrap_or_else(all)
}

/// Converts whole rows of `input` to rows of `output` on several threads, which end with the call, so
/// that a process can fork afterwards.
///
/// `work` is called with the number of the first row of a piece, and the piece of both.
pub(crate) fn convert_rows<A: Sync, B: Send>(
    threads: Option<usize>,
    (input, input_row): (&[A], usize),
    (output, output_row): (&mut [B], usize),
    work: impl Fn(usize, &[A], &mut [B]) -> Result<()> + Sync,
) -> Result<()> {
    let per_piece = (PIECE / input_row.max(output_row).max(1)).max(1);
    let pieces: Vec<_> = input
        .chunks(per_piece * input_row.max(1))
        .zip(output.chunks_mut(per_piece * output_row.max(1)))
        .enumerate()
        .collect();
    let threads = thread_count(threads).get().min(pieces.len());
    if threads <= 1 {
        return pieces
            .into_iter()
            .try_for_each(|(number, (input, output))| work(number * per_piece, input, output));
    }
    let queue = Mutex::new(pieces.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        let (next, work) = (&next, &work);
        let run = move || -> Result<()> {
            while let Some((number, (input, output))) = next() {
                work(number * per_piece, input, output)?;
            }
            Ok(())
        };
        // If the system cannot start more threads, those that run do all the work.
        let spawned =
            (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, run).ok());
        let others: Vec<_> = spawned.collect();
        let own = run();
        others.into_iter().fold(own, |done, other| match other.join() {
            Ok(other) => done.and(other),
            // PyO3 converts the panic to an exception.
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
