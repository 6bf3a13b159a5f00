//! Verification of a converted model: its outputs are compared with recorded logits, or with those of the
//! model before quantization and of the library that the checkpoint is made for.

use std::fmt;
use std::path::{Path, PathBuf};

use ggmill_arch::{Catalogue, graph::Output};
use ggmill_pipeline::{Plan, PlannedFile};
use ggmill_run::{Difference, Probe, RecordedLogits};
use ggmill_tokenizer::EncodeOptions;

use super::checkpoint::open_checkpoint;
use super::running::{probe_with, program_with_note, runner, within};
use crate::progress::Call;
use crate::{Model, OpenOptions, Result};

/// The text that both models read: prose, numbers, code and other scripts.
const TEXT: &str = "The river rises in the hills, 1,240 m above the sea, and reaches it after 87 km.\n\
                    def mean(values):\n    return sum(values) / len(values)\n\
                    Здравствуйте! 今日は。 Ça coûte 3,50 €.";

/// A request to run a checkpoint with the library that it is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryRequest {
    /// The directory of the checkpoint.
    pub path: PathBuf,
    /// A text whose tokens are compared; `None` for a model that cannot encode it.
    pub text: Option<&'static str>,
    /// The tokens whose logits are compared.
    pub tokens: Vec<u32>,
}

/// The answer of the library.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "callers make it")]
pub struct LibraryAnswer {
    /// The version of the library.
    pub version: String,
    /// The tokens of the text; `None` if the library has no tokenizer for the checkpoint.
    pub tokens: Option<Vec<u32>>,
    /// The logits of the tokens, one token after the other.
    pub logits: Vec<f32>,
}

/// Runs a checkpoint with the library. The error is the reason why there is no answer.
type Run<'a> = dyn FnMut(&LibraryRequest) -> Result<LibraryAnswer, String> + Send + 'a;

/// A function that runs a checkpoint with the library.
pub(crate) struct RunLibrary<'a>(pub(crate) Box<Run<'a>>);

impl fmt::Debug for RunLibrary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunLibrary").finish_non_exhaustive()
    }
}

/// The reference of a comparison.
#[derive(Debug)]
pub(crate) enum Reference<'a> {
    /// Logits that another program computed.
    Recorded(RecordedLogits, Catalogue),
    /// The checkpoint.
    Checkpoint(Box<Original<'a>>),
}

/// A checkpoint that was converted.
#[derive(Debug)]
pub(crate) struct Original<'a> {
    pub(crate) path: PathBuf,
    pub(crate) open: OpenOptions,
    pub(crate) catalogue: Catalogue,
    /// The conversion to F32; `None` for a draft model, which reads a second checkpoint.
    pub(crate) plan: Option<Plan>,
    pub(crate) library: RunLibrary<'a>,
}

/// The result of verifying a converted model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Verification {
    /// The outputs of the written model, with their difference from recorded logits, if these were given.
    pub probe: Probe,
    /// The difference of the written model from its conversion to F32, which is computed and not written.
    pub unquantized: Option<Difference>,
    /// The comparison of the conversion to F32 with the library; `None` if recorded logits were given.
    pub library: Option<Library>,
}

/// A comparison with the transformers library.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Library {
    /// The library ran the checkpoint.
    #[non_exhaustive]
    Compared {
        /// The version of the library.
        version: String,
        /// The difference of our logits from the library's.
        difference: Difference,
        /// The number of tokens of the text that were compared; 0 if the model or the library has no
        /// tokenizer.
        compared_tokens: usize,
        /// The position of the first token of the text that differs; `None` if all are equal, or if none was
        /// compared.
        different_token: Option<usize>,
    },
    /// The logits cannot be compared, for this reason.
    NotCompared(String),
}

impl Verification {
    /// The maximum NMSE of the conversion to F32, compared with the library.
    pub const MAX_NMSE: f64 = 1e-6;
    /// The maximum KL divergence from the conversion to F32, in nats. Models whose text is still readable
    /// have less than 1.
    pub const MAX_DIVERGENCE: f64 = 2.0;

    /// Returns a description of each implausible property.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.probe.faults();
        let is_within = |number: f64, limit: f64| (..=limit).contains(&number);
        if let Some(found) = &self.unquantized
            && !is_within(found.divergence, Self::MAX_DIVERGENCE)
        {
            faults.push(format!(
                "the KL divergence from the unquantized model is {:.2} nats, more than {}",
                found.divergence,
                Self::MAX_DIVERGENCE
            ));
        }
        if let Some(Library::Compared { difference, different_token, .. }) = &self.library {
            if !is_within(difference.nmse, Self::MAX_NMSE) {
                faults.push(format!(
                    "outputs differ from the library's by an NMSE of {:.1e}, more than {:.0e}",
                    difference.nmse,
                    Self::MAX_NMSE
                ));
            }
            if let Some(position) = different_token {
                faults.push(format!("token {position} of the text differs from the library's"));
            }
        }
        faults
    }
}

impl Reference<'_> {
    /// Runs the model at `path`, and compares it.
    pub(crate) fn compare(&mut self, path: &Path, call: &mut Call<'_>) -> Result<Verification> {
        let model = Model::open(path)?;
        match self {
            Self::Recorded(logits, catalogue) => {
                let probe = probe_with(&model, Some(logits), catalogue, call)?;
                Ok(Verification { probe, unquantized: None, library: None })
            }
            Self::Checkpoint(original) => original.compare(&model, call),
        }
    }
}

impl Original<'_> {
    fn compare(&mut self, model: &Model, call: &mut Call<'_>) -> Result<Verification> {
        let program = program_with_note(model, &self.catalogue, None, call)?;
        let reason = match &self.plan {
            _ if program.output() != Output::Logits => Some("the model outputs vectors"),
            _ if program.has_source() => Some("the model has an encoder and a decoder"),
            None => Some("a draft model runs with its target only"),
            Some(_) => None,
        };
        let (Some(plan), None) = (&self.plan, reason) else {
            let probe = probe_with(model, None, &self.catalogue, call)?;
            let library = reason.map(|reason| Library::NotCompared(reason.to_owned()));
            return Ok(Verification { probe, unquantized: None, library });
        };
        let runner = runner(call.threads, None).map_err(|error| within(error, model))?;
        let ids = text_tokens(model);
        let tokens = ids.clone().unwrap_or_else(|| Probe::tokens_of(&program));

        let exact = planned_model(plan.clone(), &self.path, &self.open)?;
        let exact_program = program_with_note(&exact, &self.catalogue, None, call)?;
        let ours = RecordedLogits::of_run(&runner, &exact_program, &tokens)
            .map_err(|error| within(error.into(), &exact))?;
        let mut probe = ggmill_run::probe(&runner, &program, Some(&ours))
            .map_err(|error| within(error.into(), model))?;
        let unquantized = probe.difference.take();
        let path = self.path.clone();
        let request = LibraryRequest { path, text: ids.as_ref().map(|_| TEXT), tokens };
        let library = match (self.library.0)(&request) {
            Ok(answer) => match RecordedLogits::new(request.tokens, answer.logits)
                .and_then(|theirs| ours.difference(&theirs))
            {
                Ok(difference) => {
                    let tokens = ids.zip(answer.tokens);
                    Library::Compared {
                        version: answer.version,
                        difference,
                        compared_tokens: tokens.as_ref().map_or(0, |(ours, _)| ours.len()),
                        different_token: tokens
                            .and_then(|(ours, theirs)| first_difference(&ours, &theirs)),
                    }
                }
                Err(error) => Library::NotCompared(error.to_string()),
            },
            Err(reason) => Library::NotCompared(reason),
        };
        Ok(Verification { probe, unquantized, library: Some(library) })
    }
}

/// Returns the model that a plan of a checkpoint describes, without writing it: each read converts.
pub(super) fn planned_model(plan: Plan, path: &Path, open: &OpenOptions) -> Result<Model> {
    let checkpoint = open_checkpoint(path, false, open)?;
    let model = PlannedFile::new(plan, Box::new(checkpoint)).into_model()?;
    Ok(Model::at(model, path))
}

/// Returns the tokens of the text; `None` for a model that cannot encode it.
fn text_tokens(model: &Model) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    let tokenizer = model.tokenizer().ok()?;
    tokenizer.encode(TEXT, &EncodeOptions::new(), &mut ids).ok()?;
    (!ids.is_empty()).then_some(ids)
}

/// Returns the first position at which two lists differ.
fn first_difference(a: &[u32], b: &[u32]) -> Option<usize> {
    let common = a.iter().zip(b).position(|(a, b)| a != b);
    common.or_else(|| (a.len() != b.len()).then(|| a.len().min(b.len())))
}
