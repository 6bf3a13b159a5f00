//! `measure`: measures the perplexity of models on a text, and their divergence from another model.

use std::path::{Path, PathBuf};

use ggmill_core::Sink as _;
use ggmill_io::FileSink;
use ggmill_pipeline::formats::npy_header;
use ggmill_run::{Chunks, Program, Scores};

use super::running::{RunChoices, program_with_note, run_options, within};
use crate::open::refuse_interrupted;
use crate::output::start;
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Hint, Model, Result, display_path, read_bytes};

/// The maximum size of a file of scores, in bytes: about a hundred per position and model.
const MAX_SCORES_LEN: u64 = 1 << 30;

/// Measures a model on a text: its perplexity, and its KL divergence from another model.
///
/// The text is divided into chunks, and only the second half of each chunk is scored, as in
/// llama-perplexity. Everything is computed in F32 on the CPU, with the same result on every machine.
///
/// ```no_run
/// use ggmill::{Model, RunText};
/// let (base, small) = (Model::open("model-F16.gguf")?, Model::open("model-Q4_K_M.gguf")?);
/// let text = RunText::file("wiki.test.raw");
/// let scores = ggmill::measure(&small)?.against(&base).text(text).run()?;
/// for (name, found) in scores.measurements() {
///     println!("{name}: {:?} {:?}", found.perplexity, found.comparison);
/// }
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn measure<'a>(model: &Model) -> Result<Measure<'a>> {
    Ok(Measure {
        models: vec![model.clone()],
        base: None,
        running: RunChoices::default(),
        logits: None,
        call: Call::default(),
    })
}

/// The options of [`measure()`].
#[derive(Debug)]
pub struct Measure<'a> {
    models: Vec<Model>,
    base: Option<Model>,
    running: RunChoices,
    logits: Option<PathBuf>,
    call: Call<'a>,
}

impl<'a> Measure<'a> {
    call_options!(overwrite);
    run_options!();

    /// Measures another model in the same pass. It must have the same vocabulary.
    #[must_use]
    pub fn and(mut self, model: &Model) -> Self {
        self.models.push(model.clone());
        self
    }

    /// Compares with this model, usually the one that was quantized: by the KL divergence, and for
    /// embedding models by the cosine of the embeddings.
    #[must_use]
    pub fn against(mut self, base: &Model) -> Self {
        self.base = Some(base.clone());
        self
    }

    /// Writes the logits of the only model into an `.npy` file: an F32 array with one row per token,
    /// of the decoder's input if there is an encoder.
    #[must_use]
    pub fn logits(mut self, out: impl Into<PathBuf>) -> Self {
        self.logits = Some(out.into());
        self
    }

    /// Returns the input files, which are never overwritten.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = self.model_files();
        inputs.extend(self.running.text.as_ref().and_then(super::RunText::input));
        inputs
    }

    fn model_files(&self) -> Vec<PathBuf> {
        self.models.iter().chain(&self.base).flat_map(Model::files).collect()
    }

    /// Runs the models over the text, and returns the scores of each, in order. Models without a path
    /// are called `model 1`, `model 2`, ….
    pub fn run(self) -> Result<Scores> {
        if self.logits.is_some() && self.models.len() > 1 {
            return Err(Error::misuse("logits of several models do not go into one file"));
        }
        let (catalogue, graph) = (self.running.catalogue(), self.running.graph);
        let inputs = self.inputs();
        let model_files = self.model_files();
        let Self { models, base, running, logits, mut call } = self;
        let all: Vec<&Model> = models.iter().chain(&base).collect();
        let mut programs: Vec<Program<'_>> = Vec::with_capacity(all.len());
        for model in &all {
            programs.push(program_with_note(model, &catalogue, graph, &mut call)?);
        }
        let chunks = running.text()?.read(&models[0])?;
        let runner = running.runner(call.threads)?;
        refuse_interrupted(&model_files)?;
        let (programs, base_program) = programs.split_at(models.len());
        let mut sink = logits
            .map(|path| start_logits(&path, &inputs, call.overwrite, &programs[0], &chunks))
            .transpose()?;
        let several: Vec<&Program<'_>> = programs.iter().collect();
        let measured = ggmill_run::scores_together(
            &runner,
            &several,
            base_program.first(),
            &chunks,
            sink.is_some(),
            |chunk| {
                if let Some(sink) = &mut sink {
                    let bytes: Vec<u8> =
                        chunk.logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
                    sink.append(&bytes).map_err(|error| Stopped::Other(error.into()))?;
                }
                let done = chunk.chunk.saturating_add(1);
                call.report(Stage::Measuring, done, chunk.chunks, "").map_err(Stopped::Other)
            },
        );
        let measured = measured.map_err(|stopped| match stopped {
            Stopped::Other(error) => error,
            Stopped::Run(error) => {
                let one = all.first().filter(|_| all.len() == 1);
                let model = error.program().map_or(one, |number| all.get(number));
                let error = Error::from(error);
                match model {
                    Some(model) => within(error, model),
                    None => error,
                }
            }
        })?;
        if let Some(sink) = sink {
            sink.commit()?;
        }
        let names = models.iter().enumerate().map(|(number, model)| name(model, number + 1));
        let base = base.map(|base| match base.path() {
            Some(path) => display_path(path).to_string(),
            None => "base".to_owned(),
        });
        Ok(Scores::new(base, chunks.context(), names.zip(measured)))
    }
}

/// The reason why running models ended early.
enum Stopped {
    Run(ggmill_run::Error),
    Other(Error),
}

impl From<ggmill_run::Error> for Stopped {
    fn from(error: ggmill_run::Error) -> Self {
        Self::Run(error)
    }
}

fn name(model: &Model, number: usize) -> String {
    match model.path() {
        Some(path) => display_path(path).to_string(),
        None => format!("model {number}"),
    }
}

/// Starts the file of logits, and writes its header.
fn start_logits(
    path: &Path,
    inputs: &[PathBuf],
    overwrite: bool,
    program: &Program<'_>,
    chunks: &Chunks,
) -> Result<FileSink> {
    let rows = chunks.texts().len().saturating_mul(program.outputs_of_chunk(chunks)) as u64;
    let columns = program.output_len();
    let header = npy_header(&[rows, columns]);
    let size = rows.saturating_mul(columns).saturating_mul(4);
    let size = size.saturating_add(header.len() as u64);
    let mut sink = start(path, inputs, overwrite, size)?;
    sink.append(&header)?;
    Ok(sink)
}

/// Merges the scores of parts of a text, in any order, into those of the whole text. The files contain
/// the JSON of [`Scores`]. Fails if they are of different models, or if a chunk is missing.
pub fn merge_scores(paths: &[PathBuf]) -> Result<Scores> {
    let part = |path: &PathBuf| {
        let found = Scores::parse(&read_bytes(path, MAX_SCORES_LEN)?);
        found.map_err(|error| Error::from(error).replace_hint(None::<Hint>).within(path))
    };
    let parts = paths.iter().map(part).collect::<Result<Vec<Scores>>>()?;
    Scores::merge(parts).map_err(|error| Error::from(error).replace_hint(None::<Hint>))
}
