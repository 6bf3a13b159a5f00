//! Runs a model on a few tokens, to check that its output is plausible and to compare it with logits that
//! another program recorded.

use ggmill_arch::graph::Output;
use ggmill_core::{GgmlType, Model, Tensor};

use crate::error::{Error, ErrorKind, Result};
use crate::input::Source;
use crate::measure::{argmax, is_unmasked, log_sum_exp};
use crate::program::Program;
use crate::run::Runner;

/// The result of running a model on a few tokens.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Probe {
    /// The number of tokens.
    pub tokens: usize,
    /// The minimum and maximum of all outputs, except masked tokens (`f32::MIN`).
    pub range: (f32, f32),
    /// The root mean square of these outputs.
    pub root_mean_square: f64,
    /// The mean entropy of the probabilities of the next token, in nats; `None` for a model that outputs
    /// no logits.
    pub entropy: Option<f64>,
    /// The difference from recorded logits, if they were given.
    pub difference: Option<Difference>,
    /// The number of tokens for which all outputs are equal.
    constant_outputs: usize,
}

/// The difference between logits and recorded logits, except tokens that either of them masks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The normalized mean square error: the sum of squared differences divided by the sum of squared
    /// recorded logits.
    pub nmse: f64,
    /// The share of positions with the same most probable token.
    pub same_top: f64,
    /// The mean Kullback-Leibler divergence from the recorded probabilities, in nats.
    pub divergence: f64,
}

/// Tokens, and the logits that another program computed for them.
///
/// The format is that of `llama-results`: a GGUF file with the tensors `tokens` (I32) and `logits` (F32),
/// token by token, in either order of the two dimensions. For a model with an encoder it also has the
/// encoder's input: the tokens `source` (I32), or the concatenated vectors `source_vectors` (F32).
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedLogits {
    tokens: Vec<u32>,
    source: Option<Source<'static>>,
    logits: Vec<f32>,
}

impl RecordedLogits {
    /// Makes recorded logits from tokens and the logits for them, one token after the other. Fails if the
    /// number of logits is not a multiple of that of the tokens, or if a logit is not finite.
    pub fn new(tokens: Vec<u32>, logits: Vec<f32>) -> Result<Self> {
        Self::with_source(tokens, None, logits)
    }

    /// Runs a model over tokens, and records its logits. Fails for a model that does not output logits, or
    /// needs a source, and like [`Runner::states`].
    pub fn of_run(runner: &Runner, program: &Program<'_>, tokens: &[u32]) -> Result<Self> {
        if program.output() != Output::Logits {
            let message = "the model outputs vectors, expected logits".to_owned();
            return Err(Error::new(ErrorKind::Vocabulary, message));
        }
        let memory = program.memory_of_states(1, tokens.len() as u64, runner.threads());
        runner.check_memory(memory)?;
        let states = runner.states(program, &[tokens])?;
        Self::new(tokens.to_vec(), runner.output(program, &states, 0, 0..tokens.len())?)
    }

    /// Reads recorded logits. Fails if a tensor is missing or has the wrong type or length, or if a logit is
    /// not finite.
    pub fn read(model: &Model) -> Result<Self> {
        let tensor = |name: &str, ggml_type: GgmlType| {
            let tensor = model.tensor(name)?;
            if tensor.ggml_type() == ggml_type {
                return Ok(tensor);
            }
            let found = tensor.ggml_type();
            let message = format!("tensor {name:?} is {found}, expected {ggml_type}");
            Err(Error::new(ErrorKind::Tensor, message))
        };
        let (tokens, logits) = (tensor("tokens", GgmlType::I32)?, tensor("logits", GgmlType::F32)?);
        let wrong = |message: String| Error::new(ErrorKind::Tokens, message);
        let ids = |tensor: &Tensor<'_>| {
            let bytes = model.read_tensor(tensor)?;
            let (numbers, _) = bytes.as_chunks::<4>();
            let ids = numbers.iter().map(|&number| {
                let token = i32::from_le_bytes(number);
                u32::try_from(token).map_err(|_| wrong(format!("recorded token {token}")))
            });
            ids.collect::<Result<Vec<u32>>>()
        };
        let source = if model.tensor("source_vectors").is_ok() {
            let vectors = tensor("source_vectors", GgmlType::F32)?;
            Some(Source::vectors(ggmill_quant::read_f32(model, &vectors)?))
        } else if model.tensor("source").is_ok() {
            Some(Source::tokens(ids(&tensor("source", GgmlType::I32)?)?))
        } else {
            None
        };
        let (tokens, logits) = (ids(&tokens)?, ggmill_quant::read_f32(model, &logits)?);
        Self::with_source(tokens, source, logits)
    }

    fn with_source(
        tokens: Vec<u32>,
        source: Option<Source<'static>>,
        logits: Vec<f32>,
    ) -> Result<Self> {
        let wrong = |message: String| Error::new(ErrorKind::Tokens, message);
        if tokens.is_empty() || logits.is_empty() || !logits.len().is_multiple_of(tokens.len()) {
            let (found, count) = (logits.len(), tokens.len());
            return Err(wrong(format!(
                "{found} recorded logits do not match {count} recorded tokens"
            )));
        }
        if let Some(place) = logits.iter().position(|logit| !logit.is_finite()) {
            let width = logits.len() / tokens.len();
            let (token, number, found) = (place / width, place % width, logits[place]);
            let message = format!(
                "token {token}: recorded logit {number} is {found}, expected a finite number"
            );
            return Err(Error::new(ErrorKind::NotFinite, message));
        }
        Ok(Self { tokens, source, logits })
    }

    /// Returns the difference of these logits from others for the same tokens. Fails if the number of
    /// tokens or of logits differs.
    pub fn difference(&self, expected: &Self) -> Result<Difference> {
        let (ours, theirs) = (self.logits.len(), expected.logits.len());
        let count = self.tokens.len();
        if ours != theirs || count != expected.tokens.len() {
            let message = format!(
                "the model outputs {} numbers per token, expected {}",
                ours / count,
                theirs / expected.tokens.len()
            );
            return Err(Error::new(ErrorKind::Vocabulary, message));
        }
        Ok(difference(&self.logits, &expected.logits, ours / count))
    }

    /// Returns the tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl Probe {
    /// The number of tokens of a run without recorded logits.
    pub const TOKENS: usize = 16;
    /// The maximum plausible root mean square. For trained models it is less than 100.
    const MAX_ROOT_MEAN_SQUARE: f64 = 1e4;
    /// The maximum plausible NMSE of a model that is not quantized to very few bits.
    const MAX_NMSE: f64 = 1e-2;

    /// Returns tokens that are spread over the vocabulary of a model.
    pub fn tokens_of(program: &Program<'_>) -> Vec<u32> {
        const STEP: u64 = 7919;
        let vocabulary = program.vocabulary().max(1);
        let tokens = (1..=Self::TOKENS as u64).map(|place| place * STEP % vocabulary);
        tokens.map(|token| u32::try_from(token).unwrap_or(0)).collect()
    }

    /// Returns a description of each implausible property of the outputs.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.constant_outputs > 0 {
            faults.push(format!("all outputs are equal for {} tokens", self.constant_outputs));
        }
        if self.root_mean_square > Self::MAX_ROOT_MEAN_SQUARE {
            faults.push(format!("outputs have the root mean square {:.3e}", self.root_mean_square));
        }
        // The range excludes NaN.
        let is_small = |found: &Difference| (0.0..=Self::MAX_NMSE).contains(&found.nmse);
        if let Some(found) = self.difference.filter(|found| !is_small(found)) {
            faults.push(format!(
                "outputs differ from the recorded ones by an NMSE of {:.1e}, more than {:.0e}",
                found.nmse,
                Self::MAX_NMSE
            ));
        }
        faults
    }
}

/// Runs a model on the tokens of recorded logits, or on synthetic tokens. A model with an encoder gets the
/// recorded source, or else the same tokens or synthetic vectors.
///
/// Fails for non-finite weights and outputs, for recorded logits of a different vocabulary or without a
/// source that the model needs, for a file that changed while it was read, and like [`Runner::states`].
pub fn probe(
    runner: &Runner,
    program: &Program<'_>,
    recorded: Option<&RecordedLogits>,
) -> Result<Probe> {
    let own = Probe::tokens_of(program);
    let tokens = recorded.map_or(&*own, |recorded| &recorded.tokens);
    let width = usize::try_from(program.output_len()).map_err(|_| Error::memory(usize::MAX))?;
    if let Some(recorded) = recorded {
        let found = recorded.logits.len() / tokens.len();
        if program.output() != Output::Logits || found != width {
            let message =
                format!("the model outputs {width} numbers per token, but {found} were recorded");
            return Err(Error::new(ErrorKind::Vocabulary, message));
        }
    }
    // Checked before allocating synthetic vectors, which need no more memory than the run.
    let length = tokens.len() as u64;
    runner.check_memory(program.memory_of_states(1, length, runner.threads()))?;
    let synthetic = if recorded.is_none() { synthetic_source(program, tokens) } else { None };
    let source = recorded.map_or(&synthetic, |recorded| &recorded.source);
    let states = runner.states_with_sources(program, &[tokens], source.as_slice())?;
    let output = runner.output(program, &states, 0, 0..tokens.len())?;
    if let Some(place) = output.iter().position(|number| !number.is_finite()) {
        let message =
            format!("token {}: output {} is {}", place / width, place % width, output[place]);
        return Err(Error::new(ErrorKind::NotFinite, message));
    }
    program.verify()?;
    let counts = |number: f32| program.output() == Output::Embedding || is_unmasked(number);
    let counted = || output.iter().copied().filter(|&number| counts(number));
    let squares: f64 = counted().map(|x| f64::from(x).powi(2)).sum();
    let range = |row: &[f32]| {
        let start = (f32::INFINITY, f32::NEG_INFINITY);
        let counted = row.iter().filter(|&&number| counts(number));
        match counted.fold(start, |(least, greatest), &x| (least.min(x), greatest.max(x))) {
            (least, greatest) if least > greatest => (f32::MIN, f32::MIN),
            found => found,
        }
    };
    let is_constant = |row: &&[f32]| {
        let (least, greatest) = range(row);
        width > 1 && least >= greatest
    };
    Ok(Probe {
        tokens: tokens.len(),
        range: range(&output),
        root_mean_square: (squares / counted().count().max(1) as f64).sqrt(),
        entropy: (program.output() == Output::Logits).then(|| entropy(&output, width)),
        difference: recorded.map(|recorded| difference(&output, &recorded.logits, width)),
        constant_outputs: output.chunks_exact(width).filter(is_constant).count(),
    })
}

/// Returns a synthetic source of the length of the text, if the model takes a source.
fn synthetic_source<'t>(program: &Program<'_>, tokens: &'t [u32]) -> Option<Source<'t>> {
    match program.source_width() {
        Some(width) => {
            let vectors = tokens.len() as u64;
            let vectors = vectors.min(program.source_positions().unwrap_or(vectors));
            let count = width.saturating_mul(vectors);
            // From -1 to 1, the magnitude of typical training data.
            let number = |place: u64| (place * 7919 % 2001) as f32 / 1000.0 - 1.0;
            Some(Source::vectors((0..count).map(number).collect::<Vec<_>>()))
        }
        None => program.has_source().then(|| Source::tokens(tokens)),
    }
}

/// Returns the mean entropy of the probabilities that logits describe, `width` per token, in nats.
fn entropy(logits: &[f32], width: usize) -> f64 {
    let rows = logits.chunks_exact(width);
    let count = rows.len().max(1) as f64;
    let of_row = |row: &[f32]| -> f64 {
        let row: Vec<f32> = row.iter().copied().filter(|&logit| is_unmasked(logit)).collect();
        let all = log_sum_exp(&row);
        row.iter().map(|&logit| f64::from(logit) - all).map(|log| -log.exp() * log).sum()
    };
    rows.map(of_row).sum::<f64>() / count
}

/// Compares logits, `width` per token, with recorded ones.
fn difference(ours: &[f32], theirs: &[f32], width: usize) -> Difference {
    let (mut errors, mut squares, mut same, mut divergence) = (0.0, 0.0, 0.0, 0.0);
    let rows = ours.chunks_exact(width).zip(theirs.chunks_exact(width));
    let count = rows.len() as f64;
    for (ours, theirs) in rows {
        let pairs = ours.iter().zip(theirs).filter(|&(&a, &b)| is_unmasked(a) && is_unmasked(b));
        let (ours, theirs): (Vec<f32>, Vec<f32>) = pairs.unzip();
        let (of_ours, of_theirs) = (log_sum_exp(&ours), log_sum_exp(&theirs));
        for (&a, &b) in ours.iter().zip(&theirs) {
            let (a, b) = (f64::from(a), f64::from(b));
            errors += (a - b).powi(2);
            squares += b.powi(2);
            let (a, b) = (a - of_ours, b - of_theirs);
            divergence += b.exp() * (b - a);
        }
        same += f64::from(u8::from(argmax(&ours) == argmax(&theirs)));
    }
    let nmse = if squares > 0.0 { errors / squares } else { f64::INFINITY };
    Difference { nmse, same_top: same / count, divergence: divergence / count }
}
