//! Verification of a converted model: its outputs are compared with recorded logits, or with those of the
//! model before quantization and of the library that the checkpoint is made for.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, thread};

use ggmill_arch::{Catalogue, graph::Output};
use ggmill_core::RawStr;
use ggmill_pipeline::{Plan, PlannedFile};
use ggmill_run::{Difference, Options as RunnerOptions, Probe, RecordedLogits, Runner};
use ggmill_tokenizer::EncodeOptions;
use serde_json::{Value, json};

use super::checkpoint::open_checkpoint;
use super::running::{probe_with, program_with_note, within};
use crate::progress::Call;
use crate::{Model, OpenOptions, Result};

/// The text that both models read: prose, numbers, code and other scripts.
const TEXT: &str = "The river rises in the hills, 1,240 m above the sea, and reaches it after 87 km.\n\
                    def mean(values):\n    return sum(values) / len(values)\n\
                    Здравствуйте! 今日は。 Ça coûte 3,50 €.";

/// The program that runs a checkpoint with the library.
const SCRIPT: &str = include_str!("library.py");

/// The environment variable with the Python interpreter.
const PYTHON: &str = "GGMILL_PYTHON";

/// The interpreter without that variable.
const DEFAULT_PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

/// The most numbers per token that the library's answer can have.
const MAX_WIDTH: u64 = 1 << 21;

/// The most bytes of the line before the logits.
const MAX_LINE: u64 = 1 << 20;

/// What a converted model is compared with.
#[derive(Debug)]
pub(crate) enum Reference {
    /// Logits that another program computed.
    Recorded(RecordedLogits, Catalogue),
    /// The checkpoint.
    Checkpoint(Box<Original>),
}

/// A checkpoint that was converted.
#[derive(Debug)]
pub(crate) struct Original {
    pub(crate) path: PathBuf,
    pub(crate) open: OpenOptions,
    pub(crate) catalogue: Catalogue,
    /// The conversion to F32; `None` for a draft model, which reads a second checkpoint.
    pub(crate) plan: Option<Plan>,
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
        /// The position of the first token of the text that differs; `None` if all are equal, or if the
        /// library has no tokenizer for the checkpoint.
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
                faults.push(format!(
                    "token {position} of the text differs from the library's; `ggmill tokenize FILE \
                     --compare tokenizer.json` shows where"
                ));
            }
        }
        faults
    }
}

impl Reference {
    /// Runs the model at `path`, and compares it.
    pub(crate) fn compare(&self, path: &Path, call: &mut Call<'_>) -> Result<Verification> {
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

impl Original {
    fn compare(&self, model: &Model, call: &mut Call<'_>) -> Result<Verification> {
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
        let runner = Runner::new(RunnerOptions::default().with_threads(call.threads))
            .map_err(|error| within(error.into(), model))?;
        let ids = text_tokens(model);
        let tokens = ids.clone().unwrap_or_else(|| Probe::tokens_of(&program));

        let checkpoint = open_checkpoint(&self.path, false, &self.open)?;
        let exact = PlannedFile::new(plan.clone(), Box::new(checkpoint)).into_model()?;
        let exact = Model::at(exact, &self.path);
        let exact_program = program_with_note(&exact, &self.catalogue, None, call)?;
        let ours = RecordedLogits::of_run(&runner, &exact_program, &tokens)
            .map_err(|error| within(error.into(), &exact))?;
        let mut probe = ggmill_run::probe(&runner, &program, Some(&ours))
            .map_err(|error| within(error.into(), model))?;
        let unquantized = probe.difference.take();
        let library = match run_library(&self.path, ids.is_some(), &tokens) {
            Ok(answer) => match ours.difference(&answer.logits) {
                Ok(difference) => Library::Compared {
                    version: answer.version,
                    difference,
                    different_token: ids
                        .zip(answer.tokens)
                        .and_then(|(a, b)| first_difference(&a, &b)),
                },
                Err(error) => Library::NotCompared(error.to_string()),
            },
            Err(reason) => Library::NotCompared(reason),
        };
        Ok(Verification { probe, unquantized, library: Some(library) })
    }
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

/// The answer of the library.
struct Answer {
    version: String,
    /// The tokens of the text; `None` if the library has no tokenizer for the checkpoint.
    tokens: Option<Vec<u32>>,
    logits: RecordedLogits,
}

/// Runs a checkpoint on tokens with the library, in a Python process. No code of the checkpoint is executed,
/// and nothing is downloaded. Returns why there is no answer as an error.
fn run_library(path: &Path, has_text: bool, tokens: &[u32]) -> Result<Answer, String> {
    if !path.is_dir() {
        return Err("the library reads only directories".to_owned());
    }
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    let path = path.to_str().ok_or("the path is not UTF-8")?;
    let python = env::var_os(PYTHON).unwrap_or_else(|| DEFAULT_PYTHON.into());
    let shown = RawStr::new(python.as_encoded_bytes()).to_string();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let mut child = Command::new(&python)
        .args(["-c", SCRIPT])
        .envs([("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "1")])
        // The CPU computes F32 as it is; accelerators can round.
        .env("CUDA_VISIBLE_DEVICES", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let request = json!({ "path": path, "text": has_text.then_some(TEXT), "tokens": tokens });
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, stderr) else {
        return Err(format!("{shown}: no pipes"));
    };
    let (mut line, mut logits) = (Vec::new(), Vec::new());
    let (messages, read) = thread::scope(|scope| {
        let messages = scope.spawn(move || {
            let mut kept = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                kept.extend_from_slice(&buffer[..count]);
                // The last lines have the error.
                kept.drain(..kept.len().saturating_sub(buffer.len()));
            }
            kept
        });
        // A process that ended early reports why on its standard error.
        let _ = stdin.write_all(request.to_string().as_bytes());
        drop(stdin);
        let mut out = std::io::BufReader::new(stdout);
        let read = (|| {
            let mut limited = Read::by_ref(&mut out).take(MAX_LINE);
            std::io::BufRead::read_until(&mut limited, b'\n', &mut line)?;
            let most = tokens.len() as u64 * MAX_WIDTH * 4;
            out.take(most).read_to_end(&mut logits).map(drop)
        })();
        (messages.join().unwrap_or_default(), read)
    });
    read.map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        let messages = String::from_utf8_lossy(&messages);
        let last = messages.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("");
        return Err(format!("{shown} failed ({status}): {}", RawStr::from(last)));
    }
    answer(&line, &logits, tokens)
}

/// Reads the library's answer.
fn answer(line: &[u8], logits: &[u8], tokens: &[u32]) -> Result<Answer, String> {
    let unreadable = |_| "the answer of the Python process is not readable".to_owned();
    let line: Value = serde_json::from_slice(line).map_err(unreadable)?;
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    if let Some(error) = text("absent") {
        return Err(format!("{error}; {PYTHON} names an interpreter with torch and transformers"));
    }
    if let Some(reason) = text("incomparable") {
        return Err(reason.to_owned());
    }
    let (numbers, _) = logits.as_chunks::<4>();
    let numbers = numbers.iter().map(|&number| f32::from_le_bytes(number)).collect();
    let ids = line.get("tokens").and_then(Value::as_array).and_then(|ids| {
        let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
        ids.iter().map(id).collect()
    });
    Ok(Answer {
        version: text("version").unwrap_or_default().to_owned(),
        tokens: ids,
        logits: RecordedLogits::new(tokens.to_vec(), numbers).map_err(|error| error.to_string())?,
    })
}
