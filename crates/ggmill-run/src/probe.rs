//! A few tokens through a model: whether what it gives is plausible, and how far it is from logits
//! that another program has recorded.

use ggmill_arch::graph::Output;
use ggmill_core::{GgmlType, Model, Tensor};

use crate::error::{Error, ErrorKind, Result};
use crate::logits::{greatest, may_follow, normalizer};
use crate::program::Program;
use crate::run::Runner;
use crate::source::Source;

/// What a model gives for a few tokens.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Probe {
    /// How many tokens were run.
    pub tokens: usize,
    /// The least and the greatest number of all outputs, without tokens that are never predicted: their
    /// number is the least there is.
    pub range: (f32, f32),
    /// The root mean square of the same.
    pub size: f64,
    /// How far they are from recorded logits, where there are some.
    pub difference: Option<Difference>,
    /// Tokens for which all numbers are equal.
    flat: usize,
}

/// How far logits are from others, without tokens that one of the two never predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The sum of squared differences, divided by the sum of squares of the others.
    pub nmse: f64,
    /// The share of tokens whose greatest number is at the same place.
    pub same_top: f64,
    /// The mean Kullback-Leibler divergence of the probabilities from those of the others, in nats.
    pub divergence: f64,
}

/// Tokens, and the logits that another program computed for each of them.
///
/// The form is that of `llama-results`: a GGUF file with the tensors `tokens` (I32) and `logits`
/// (F32), the numbers of one token after the other, in whichever order the two dimensions are
/// written. Of a model with an encoder it also has the encoder's input: `source` (I32), its tokens, or
/// `source_vectors` (F32), one vector after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    tokens: Vec<u32>,
    source: Option<Source<'static>>,
    logits: Vec<f32>,
}

impl Recorded {
    /// Reads recorded logits. Fails for a file without these tensors, or with others of the name, and
    /// for logits that are not finite: nothing can be compared with them.
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

    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl Probe {
    /// Tokens that are run where none are recorded.
    pub const TOKENS: usize = 16;
    /// The greatest root mean square that is plausible: trained models have less than 100.
    const LARGEST: f64 = 1e4;
    /// The greatest plausible error of a model that is not quantized to very few bits.
    const MOST: f64 = 1e-2;

    /// Tokens of a model, spread over its vocabulary.
    pub fn tokens_of(program: &Program<'_>) -> Vec<u32> {
        const STEP: u64 = 7919;
        let vocabulary = program.vocabulary().max(1);
        let tokens = (1..=Self::TOKENS as u64).map(|place| place * STEP % vocabulary);
        tokens.map(|token| u32::try_from(token).unwrap_or(0)).collect()
    }

    /// What is not plausible about the outputs, in words.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.flat > 0 {
            faults.push(format!("all outputs are equal for {} tokens", self.flat));
        }
        if self.size > Self::LARGEST {
            faults.push(format!("outputs have the root mean square {:.3e}", self.size));
        }
        // An error that is not a number is no small one.
        let is_small = |found: &Difference| (0.0..=Self::MOST).contains(&found.nmse);
        if let Some(found) = self.difference.filter(|found| !is_small(found)) {
            faults.push(format!(
                "outputs differ from the recorded ones by an NMSE of {:.1e}, more than {:.0e}",
                found.nmse,
                Self::MOST
            ));
        }
        faults
    }
}

/// Runs a few tokens: those of the record where there is one. A model that takes two texts has the source
/// of the record, or else the same tokens, or made-up vectors.
///
/// Fails for weights and outputs that are not finite, for a record of another vocabulary or without the
/// source that the model takes, for a file that changed while it was read, and as [`Runner::states`] does.
pub fn probe(runner: &Runner, program: &Program<'_>, recorded: Option<&Recorded>) -> Result<Probe> {
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
    // What is made up takes no more memory than the run, which may be refused.
    let length = tokens.len() as u64;
    runner.check_memory(program.memory_of_states(1, length, runner.threads()))?;
    let made_up = if recorded.is_none() { made_up(program, tokens) } else { None };
    let source = recorded.map_or(&made_up, |recorded| &recorded.source);
    let states = runner.states_with_sources(program, &[tokens], source.as_slice())?;
    let output = runner.output(program, &states, 0, 0..tokens.len())?;
    if let Some(place) = output.iter().position(|number| !number.is_finite()) {
        let message =
            format!("token {}: output {} is {}", place / width, place % width, output[place]);
        return Err(Error::new(ErrorKind::NotFinite, message));
    }
    program.verify()?;
    let counts = |number: f32| program.output() == Output::Embedding || may_follow(number);
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
    let is_flat = |row: &&[f32]| {
        let (least, greatest) = range(row);
        width > 1 && least >= greatest
    };
    Ok(Probe {
        tokens: tokens.len(),
        range: range(&output),
        size: (squares / counted().count().max(1) as f64).sqrt(),
        difference: recorded.map(|recorded| difference(&output, &recorded.logits, width)),
        flat: output.chunks_exact(width).filter(is_flat).count(),
    })
}

/// A source for a model that takes one, of as many tokens or vectors as its text has.
fn made_up<'t>(program: &Program<'_>, tokens: &'t [u32]) -> Option<Source<'t>> {
    match program.source_width() {
        Some(width) => {
            let vectors = tokens.len() as u64;
            let vectors = vectors.min(program.source_positions().unwrap_or(vectors));
            let count = width.saturating_mul(vectors);
            // From -1 to 1, about as large as what models are trained on.
            let number = |place: u64| (place * 7919 % 2001) as f32 / 1000.0 - 1.0;
            Some(Source::vectors((0..count).map(number).collect::<Vec<_>>()))
        }
        None => program.has_source().then(|| Source::tokens(tokens)),
    }
}

fn difference(ours: &[f32], theirs: &[f32], width: usize) -> Difference {
    let (mut errors, mut squares, mut same, mut divergence) = (0.0, 0.0, 0.0, 0.0);
    let rows = ours.chunks_exact(width).zip(theirs.chunks_exact(width));
    let count = rows.len() as f64;
    for (ours, theirs) in rows {
        let pairs = ours.iter().zip(theirs).filter(|&(&a, &b)| may_follow(a) && may_follow(b));
        let (ours, theirs): (Vec<f32>, Vec<f32>) = pairs.unzip();
        let (of_ours, of_theirs) = (normalizer(&ours), normalizer(&theirs));
        for (&a, &b) in ours.iter().zip(&theirs) {
            let (a, b) = (f64::from(a), f64::from(b));
            errors += (a - b).powi(2);
            squares += b.powi(2);
            let (a, b) = (a - of_ours, b - of_theirs);
            divergence += b.exp() * (b - a);
        }
        same += f64::from(u8::from(greatest(&ours) == greatest(&theirs)));
    }
    let nmse = if squares > 0.0 { errors / squares } else { f64::INFINITY };
    Difference { nmse, same_top: same / count, divergence: divergence / count }
}
