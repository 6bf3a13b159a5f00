//! Models that are run over a text: what measurements and importance matrices are made of, in parts
//! that can be merged.

use std::path::{Path, PathBuf};

use ggmill::arch::Catalogue;
use ggmill::core::Model;
use ggmill::core::Sink as _;
use ggmill::pipeline::{Progress, Report};
use ggmill::quantize::{Imatrix, ImatrixForm, ImatrixRun};
use ggmill::run::{self as library, Chunks, Matrices, Measurement, Options, Program, Runner};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::output::{json, open, start};
use crate::error::{Failure, Result};
use crate::progress::reporting_work;
use crate::threads;

/// A part of a text, and how a model is run over it, as keywords of Python.
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
    /// The chunks, with the vocabulary of a model.
    fn chunks(&self, model: &Model) -> Result<Chunks> {
        let (tokens, bos) = match (&self.text, &self.tokens) {
            (Some(text), None) => {
                let options = ggmill::tokenizer::LoadOptions::new();
                let tokenizer =
                    ggmill::tokenizer::Tokenizer::with_options(&model.metadata(), &options)?;
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
            .with_threads(Some(threads::count(self.threads)))
            .with_memory(self.memory);
        Ok(Runner::new(options)?)
    }
}

fn program<'m>(path: &Path, model: &'m Model, catalogue: &Catalogue) -> Result<Program<'m>> {
    let described = catalogue.for_metadata(model.metadata());
    Program::find(model, described, None).map_err(|error| Failure::from(error).at(path))
}

/// Tells of chunks that are done.
fn tell(report: &mut Report<'_>, done: usize, total: usize) -> Result<()> {
    match report(Progress::new("chunks", done as u64, total as u64)) {
        std::ops::ControlFlow::Continue(()) => Ok(()),
        std::ops::ControlFlow::Break(()) => Err(Failure::new("cancelled", "stopped on request")),
    }
}

/// The scores of models on a part of a text, as JSON (`ggmill.scores/1`).
#[pyfunction]
#[pyo3(signature = (paths, text, *, against = None, progress = None))]
pub(crate) fn measure(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    text: Part,
    against: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> Result<String> {
    reporting_work(py, progress, |report| {
        let catalogue = Catalogue::new();
        let all: Vec<&PathBuf> = paths.iter().chain(&against).collect();
        let models = all.iter().map(|path| open(path)).collect::<Result<Vec<_>>>()?;
        let programs = all.iter().zip(&models);
        let programs = programs
            .map(|(path, model)| program(path, model.model(), &catalogue))
            .collect::<Result<Vec<_>>>()?;
        let (programs, base) = programs.split_at(paths.len());
        let Some(first) = models.first() else {
            return Err(Failure::misuse("expected at least one model"));
        };
        let chunks = text.chunks(first.model()).map_err(|failure| failure.at(&paths[0]))?;
        let several: Vec<&Program<'_>> = programs.iter().collect();
        let watch = |done: library::Measured<'_>| {
            let steps = done.chunks * several.len();
            tell(report, done.chunk * several.len() + done.program + 1, steps)
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

/// The scores of a whole text from those of its parts, all as JSON.
#[pyfunction]
pub(crate) fn merge_scores(py: Python<'_>, parts: Vec<String>) -> Result<String> {
    py.detach(|| {
        let parts = parts.iter().map(|part| library::Scores::parse(part.as_bytes()));
        json(&library::Scores::merge(parts.collect::<Result<Vec<_>, _>>()?)?)
    })
}

/// The document of `ggmill measure --json` for scores.
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

/// The importance matrix of a model on a part of a text: the bytes of a GGUF file.
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
    let bytes = reporting_work(py, progress, |report| {
        let model = open(&path)?;
        let program = program(&path, model.model(), &Catalogue::new())?;
        let chunks = text.chunks(model.model()).map_err(|failure| failure.at(&path))?;
        let texts = chunks.texts();
        let sums = library::activations(&text.runner()?, &program, texts, matrices, |_, done| {
            tell(report, done, texts.len())
        })?;
        let sums = sums.tensors();
        let sums = sums.map(|tensor| (tensor.name.as_str(), &*tensor.sums, &*tensor.counts));
        let run = ImatrixRun::new(chunks.context()).with_dataset(dataset);
        Ok(run.imatrix(sums, texts.len())?.to_bytes(ImatrixForm::Gguf)?)
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// The matrix that some matrices are parts of, all as the bytes of files.
#[pyfunction]
pub(crate) fn merge_imatrices(py: Python<'_>, parts: Vec<Vec<u8>>) -> Result<Bound<'_, PyBytes>> {
    let bytes = py.detach(|| -> Result<Vec<u8>> {
        let parts = parts.iter().map(|part| Imatrix::parse(part)).collect::<Result<Vec<_>, _>>()?;
        let chunk_size = parts.first().map_or(0, Imatrix::chunk_size);
        Ok(Imatrix::merge(&parts, chunk_size)?.to_bytes(ImatrixForm::Gguf)?)
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// The bytes of the file of a matrix, GGUF or of the legacy form.
#[pyfunction]
pub(crate) fn imatrix_bytes(py: Python<'_>, path: PathBuf) -> Result<Bound<'_, PyBytes>> {
    let bytes = py
        .detach(|| -> Result<Vec<u8>> { Ok(Imatrix::open(&path)?.to_bytes(ImatrixForm::Gguf)?) })?;
    Ok(PyBytes::new(py, &bytes))
}

/// Writes a matrix: in the legacy form where the name ends in `.dat`.
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
        let mut sink = start(&path, &[], overwrite, bytes.len() as u64)?;
        sink.append(&bytes)?;
        Ok(sink.commit()?)
    })
}
