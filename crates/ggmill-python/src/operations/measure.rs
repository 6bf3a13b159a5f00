//! Models that are run over a text: scores and importance matrices, whole or in parts that are merged.

use std::ops::ControlFlow;
use std::path::PathBuf;

use ggmill::arch::Catalogue;
use ggmill::quantize::{Imatrix, ImatrixForm, ImatrixRun};
use ggmill::run::{self as library, Chunks, Matrices, Measurement, Options, Program, Runner};
use ggmill::{Model, find_program};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::json;
use crate::calls::{self, Reporter, thread_count};
use crate::error::{Class, Failure, Result};

/// A part of a text, and how a model is run over it, named like the arguments of `ggmill.measure`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Part {
    text: Option<String>,
    tokens: Option<Vec<u32>>,
    context: usize,
    first_chunk: usize,
    chunks: Option<usize>,
    memory: u64,
    threads: Option<usize>,
}

impl Part {
    /// Divides the text into chunks, with the vocabulary of a model.
    fn chunks(&self, model: &Model) -> Result<Chunks> {
        let (tokens, bos) = match (&self.text, &self.tokens) {
            (Some(text), None) => {
                let tokenizer = model.tokenizer()?;
                let mut tokens = Vec::new();
                let options = ggmill::tokenizer::EncodeOptions::new();
                tokenizer.encode(text, &options, &mut tokens)?;
                (tokens, tokenizer.vocabulary().leading_bos())
            }
            (None, Some(tokens)) => (tokens.clone(), None),
            _ => return Err(Failure::misuse("expected either text or tokens")),
        };
        Ok(Chunks::of(&tokens, self.context, bos)?.part(self.first_chunk, self.chunks)?)
    }

    fn runner(&self) -> Result<Runner> {
        let options = Options::default()
            .with_threads(Some(thread_count(self.threads).get()))
            .with_memory(self.memory);
        Ok(Runner::new(options)?)
    }
}

/// Reports the number of chunks that are done. Fails if the call is stopped.
fn report(reporter: &Reporter, done: usize, total: usize) -> Result<()> {
    match reporter.report(true, done as u64, total as u64, "chunks") {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            Err(Failure::new(Class::StoppedError, "cancelled", "stopped on request"))
        }
    }
}

/// Measures models on a part of a text; returns their scores as JSON (`ggmill.scores/1`).
#[pyfunction]
#[pyo3(signature = (paths, text, *, against = None, progress = None))]
pub(crate) fn measure(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    text: Part,
    against: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    calls::run(py, progress, |reporter| -> Result<_> {
        let catalogue = Catalogue::new();
        let models = paths.iter().chain(&against).map(Model::open);
        let models = models.collect::<ggmill::Result<Vec<Model>>>()?;
        let programs = models.iter().map(|model| find_program(model, &catalogue, None));
        let programs = programs.collect::<ggmill::Result<Vec<_>>>()?;
        let (programs, base) = programs.split_at(paths.len());
        let Some(first) = models.first() else {
            return Err(Failure::misuse("expected at least one model"));
        };
        let chunks = text.chunks(first).map_err(|failure| failure.at(&paths[0]))?;
        let several: Vec<&Program<'_>> = programs.iter().collect();
        let watch = |done: library::MeasureProgress<'_>| {
            let steps = done.chunks * several.len();
            report(&reporter, done.chunk * several.len() + done.program + 1, steps)
        };
        let runner = text.runner()?;
        let base = base.first();
        let found = library::scores_together(&runner, &several, base, &chunks, false, watch)?;
        let name = |path: &PathBuf| path.to_string_lossy().into_owned();
        let scores = library::Scores::new(
            against.as_ref().map(name),
            chunks.context(),
            paths.iter().map(name).zip(found),
        );
        json(&scores)
    })
}

/// Merges the scores of the parts of a text, all as JSON.
#[pyfunction]
pub(crate) fn merge_scores(py: Python<'_>, parts: Vec<String>) -> Result<String> {
    py.detach(|| {
        let parts = parts.iter().map(|part| library::Scores::parse(part.as_bytes()));
        json(&library::Scores::merge(parts.collect::<Result<Vec<_>, _>>()?)?)
    })
}

/// Returns the JSON document of `ggmill measure` for scores.
#[pyfunction]
pub(crate) fn measurement(py: Python<'_>, scores: &str) -> Result<String> {
    py.detach(|| {
        let scores = library::Scores::parse(scores.as_bytes())?;
        let measured: Vec<(&str, Measurement)> =
            scores.models().map(|(name, scores)| (name, scores.measurement())).collect();
        let measured = measured.iter().map(|(name, found)| (*name, found));
        json(&library::json::document(scores.base(), scores.context(), measured))
    })
}

/// Measures the importance matrix of a model on a part of a text; returns the bytes of its GGUF file.
#[pyfunction]
#[pyo3(signature = (path, text, *, matrices, dataset = None, progress = None))]
pub(crate) fn imatrix<'py>(
    py: Python<'py>,
    path: PathBuf,
    text: Part,
    matrices: &str,
    dataset: Option<String>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyBytes>> {
    let matrices = match matrices {
        "blocks" => Matrices::Blocks,
        "output" => Matrices::BlocksAndOutput,
        "all" => Matrices::All,
        other => {
            let expected = "expected \"blocks\", \"output\" or \"all\"";
            return Err(Failure::misuse(format!("{other:?}: {expected}")));
        }
    };
    let bytes = calls::run(py, progress, |reporter| -> Result<_> {
        let model = Model::open(&path)?;
        let program = find_program(&model, &Catalogue::new(), None)?;
        let chunks = text.chunks(&model).map_err(|failure| failure.at(&path))?;
        let texts = chunks.texts();
        let sums = library::activations(&text.runner()?, &program, texts, matrices, |_, done| {
            report(&reporter, done, texts.len())
        })?;
        let sums = sums.tensors();
        let sums = sums.map(|tensor| (tensor.name.as_str(), &*tensor.sums, &*tensor.counts));
        let run = ImatrixRun::new(chunks.context()).with_dataset(dataset);
        Ok(run.imatrix(sums, texts.len())?.to_bytes(ImatrixForm::Gguf)?)
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// Merges the matrices of the parts of a text, all as the bytes of files.
#[pyfunction]
pub(crate) fn merge_imatrices(py: Python<'_>, parts: Vec<Vec<u8>>) -> Result<Bound<'_, PyBytes>> {
    let bytes = py.detach(|| -> Result<Vec<u8>> {
        let parts = parts.iter().map(|part| Imatrix::parse(part)).collect::<Result<Vec<_>, _>>()?;
        let chunk_size = parts.first().map_or(0, Imatrix::chunk_size);
        Ok(Imatrix::merge(&parts, chunk_size)?.to_bytes(ImatrixForm::Gguf)?)
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// Reads a matrix in GGUF or the legacy format; returns the bytes of its GGUF file.
#[pyfunction]
pub(crate) fn imatrix_bytes(py: Python<'_>, path: PathBuf) -> Result<Bound<'_, PyBytes>> {
    let bytes = py
        .detach(|| -> Result<Vec<u8>> { Ok(Imatrix::open(&path)?.to_bytes(ImatrixForm::Gguf)?) })?;
    Ok(PyBytes::new(py, &bytes))
}

/// Writes a matrix, in the legacy format if the name ends in `.dat`.
#[pyfunction]
#[pyo3(signature = (imatrix, path, *, overwrite = false))]
pub(crate) fn save_imatrix(
    py: Python<'_>,
    imatrix: Vec<u8>,
    path: PathBuf,
    overwrite: bool,
) -> Result<()> {
    py.detach(|| {
        let is_legacy = path.extension().is_some_and(|ending| ending == "dat");
        let form = if is_legacy { ImatrixForm::Legacy } else { ImatrixForm::Gguf };
        let bytes = Imatrix::parse(&imatrix)?.to_bytes(form)?;
        Ok(ggmill::write_file(&path, &[], overwrite, &bytes)?)
    })
}
