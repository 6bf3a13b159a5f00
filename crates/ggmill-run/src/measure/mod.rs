//! What a model makes of a text: perplexity, and how far it is from another model.

mod chunks;
mod statistics;
mod trials;

use ggmill_arch::graph::Output;
use ggmill_core::{Model, RawStr, keys};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSlice as _;

pub use self::chunks::Chunks;
pub use self::statistics::{Distribution, Estimate};
use self::statistics::{Sums, covariance, exponential};
pub use self::trials::{Trial, Tried, trials};
use crate::error::{Error, ErrorKind, Result};
use crate::logits::{greatest, normalizer};
use crate::program::Program;
use crate::run::Runner;

/// What was measured of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// How many chunks the text had.
    pub chunks: usize,
    /// How many tokens were predicted and counted.
    pub counted: usize,
    /// `exp` of the mean of the negative logarithms of the probabilities that the model gave to the
    /// tokens that came.
    pub perplexity: Estimate,
    /// How far it is from another model, where there is one.
    pub comparison: Option<Comparison>,
}

impl Measurement {
    /// What the numbers are of, in words.
    pub const ABOUT: &'static str = "computed in F32 from the weights in the file; a program that also rounds activations, as \
         llama.cpp does for quantized types, adds an error of its own";
}

/// How far a model is from another one, the base, position by position.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The perplexity of the base.
    pub base_perplexity: Estimate,
    /// The perplexity of the model divided by that of the base.
    pub ratio: Estimate,
    /// The Kullback-Leibler divergence of the probabilities of the model from those of the base, in
    /// nats.
    pub divergence: Distribution,
    /// The probability of the token that came: that of the model minus that of the base.
    pub probability_change: Distribution,
    /// The root mean square of that change.
    pub probability_rms: Estimate,
    /// The share of positions at which both have the same most probable token.
    pub same_top: Estimate,
}

/// What of a chunk is passed to a caller of [`measure`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Measured<'a> {
    /// The number of the chunk.
    pub chunk: usize,
    /// How many there are.
    pub chunks: usize,
    /// The output of the model for every token of the chunk, a row for each; empty unless asked for.
    pub logits: &'a [f32],
}

/// What a position gives.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// Minus the logarithm of the probability of the token that came.
    surprise: f64,
    base_surprise: f64,
    divergence: f64,
    same_top: bool,
}

/// Measures a model over a text, against a base where there is one. `watch` is called for each chunk
/// when it is done, with all its logits where `with_logits` says so; what it returns as an error ends
/// the measurement.
///
/// Fails for a model whose output is not logits, for two models with different vocabularies, for a
/// file that changed while it was read, and as [`Runner::states`] and [`Runner::output`] do.
///
/// ```no_run
/// use ggmill_arch::Catalogue;
/// use ggmill_run::{Chunks, Options, Program, Runner, measure};
/// # let (model, tokens) = (ggmill_core::Model::open(Vec::new())?, Vec::<u32>::new());
/// let catalogue = Catalogue::new();
/// let description = catalogue.by_name("llama").ok_or("described")?;
/// let program = Program::of(&model, description)?;
/// let chunks = Chunks::of(&tokens, Chunks::CONTEXT, Some(1))?;
/// let runner = Runner::new(Options::default())?;
/// let measured = measure(&runner, &program, None, &chunks, false, |_| Ok::<_, ggmill_run::Error>(()))?;
/// println!("{:.4} ± {:.4}", measured.perplexity.value, measured.perplexity.error);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn measure<E: From<Error>>(
    runner: &Runner,
    program: &Program<'_>,
    base: Option<&Program<'_>>,
    chunks: &Chunks,
    with_logits: bool,
    mut watch: impl FnMut(Measured<'_>) -> Result<(), E>,
) -> Result<Measurement, E> {
    check(program, base)?;
    let width = usize::try_from(program.output_len()).map_err(|_| Error::memory(usize::MAX))?;
    let length = chunks.context() as u64;
    let counted = chunks.counted();
    let outputs = if with_logits { length } else { counted.len() as u64 };
    let mut at_once = runner.texts_with(program, length, outputs)?;
    if let Some(base) = base {
        // Both are held together.
        let others = runner.texts_with(base, length, counted.len() as u64)?;
        at_once = at_once.min(others).div_ceil(2);
    }
    let mut positions = Vec::with_capacity(counted.len() * chunks.texts().len());
    for (group, texts) in chunks.texts().chunks(at_once).enumerate() {
        let tokens: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let states = runner.states(program, &tokens)?;
        let base = match base {
            Some(base) => Some((base, runner.states(base, &tokens)?)),
            None => None,
        };
        for (number, text) in texts.iter().enumerate() {
            let start = if with_logits { 0 } else { counted.start };
            let end = if with_logits { text.len() } else { counted.end };
            let logits = runner.output(program, &states, number, start..end)?;
            let rows = &logits[(counted.start - start) * width..(counted.end - start) * width];
            let others = match &base {
                Some((base, states)) => {
                    Some(runner.output(base, states, number, counted.clone())?)
                }
                None => None,
            };
            let came = &text[counted.start + 1..=counted.end];
            positions.extend(runner.install(|| compare(rows, others.as_deref(), width, came))?);
            let chunk = group * at_once + number;
            let logits = if with_logits { &logits[..] } else { &[] };
            watch(Measured { chunk, chunks: chunks.texts().len(), logits })?;
        }
    }
    for program in [Some(program), base].into_iter().flatten() {
        program.verify()?;
    }
    Ok(summary(&positions, base.is_some(), chunks.texts().len()))
}

fn check(program: &Program<'_>, base: Option<&Program<'_>>) -> Result<()> {
    if program.output() != Output::Logits {
        let message = "the model outputs vectors, not logits, so it has no perplexity";
        return Err(Error::new(ErrorKind::Graph, message));
    }
    let Some(base) = base else { return Ok(()) };
    let (ours, theirs) = (program.output_len(), base.output_len());
    if base.output() != Output::Logits || ours != theirs {
        let message = format!("the model has {ours} tokens, but the base has {theirs}");
        return Err(Error::new(ErrorKind::Vocabulary, message));
    }
    match other_token(program.model, base.model) {
        Some(token) => {
            let message = format!("token {token} of the model differs from that of the base");
            Err(Error::new(ErrorKind::Vocabulary, message))
        }
        None => Ok(()),
    }
}

/// The first token that two models have different texts for, where both have a vocabulary.
fn other_token(left: &Model, right: &Model) -> Option<usize> {
    fn tokens(model: &Model) -> Option<impl Iterator<Item = Option<RawStr<'_>>>> {
        let tokens = model.metadata().array(keys::TOKENIZER_TOKENS).ok()?.strings()?;
        Some(tokens.map(Result::ok))
    }
    tokens(left)?.zip(tokens(right)?).position(|(left, right)| left != right)
}

/// What the outputs at some positions give, with the token that came after each.
fn compare(
    rows: &[f32],
    others: Option<&[f32]>,
    width: usize,
    came: &[u32],
) -> Result<Vec<Position>> {
    let one = |(number, row): (usize, &[f32])| {
        let came = came[number] as usize;
        let normalizer = normalizer(row);
        let surprise = normalizer - f64::from(row[came]);
        let mut position =
            Position { surprise, base_surprise: surprise, divergence: 0.0, same_top: true };
        if let Some(others) = others {
            let base = &others[number * width..(number + 1) * width];
            let base_normalizer = crate::logits::normalizer(base);
            position.base_surprise = base_normalizer - f64::from(base[came]);
            position.same_top = greatest(row) == greatest(base);
            for (&ours, &theirs) in row.iter().zip(base) {
                let theirs = f64::from(theirs) - base_normalizer;
                let ours = f64::from(ours) - normalizer;
                position.divergence += theirs.exp() * (theirs - ours);
            }
        }
        let is_finite = position.surprise.is_finite() && position.divergence.is_finite();
        is_finite.then_some(position).ok_or_else(|| {
            Error::new(ErrorKind::NotFinite, "an output of the model is not a finite number")
        })
    };
    rows.par_chunks_exact(width).enumerate().map(one).collect()
}

fn summary(positions: &[Position], compared: bool, chunks: usize) -> Measurement {
    let surprise: Vec<f64> = positions.iter().map(|position| position.surprise).collect();
    let mean = Sums::of(surprise.iter().copied()).mean();
    let comparison = compared.then(|| {
        let base: Vec<f64> = positions.iter().map(|position| position.base_surprise).collect();
        let base_mean = Sums::of(base.iter().copied()).mean();
        let of_difference =
            mean.error.powi(2) + base_mean.error.powi(2) - 2.0 * covariance(&surprise, &base);
        let difference =
            Estimate { value: mean.value - base_mean.value, error: of_difference.max(0.0).sqrt() };
        let change =
            |position: &Position| (-position.surprise).exp() - (-position.base_surprise).exp();
        let changes: Vec<f64> = positions.iter().map(change).collect();
        let squares = Sums::of(changes.iter().map(|change| change * change)).mean();
        let rms = squares.value.sqrt();
        let rms_error = if rms > 0.0 { squares.error / (2.0 * rms) } else { 0.0 };
        let same = positions.iter().map(|position| f64::from(u8::from(position.same_top)));
        Comparison {
            base_perplexity: exponential(base_mean),
            ratio: exponential(difference),
            divergence: Distribution::of(
                positions.iter().map(|position| position.divergence).collect(),
            ),
            probability_change: Distribution::of(changes),
            probability_rms: Estimate { value: rms, error: rms_error },
            same_top: Sums::of(same).mean(),
        }
    });
    Measurement { chunks, counted: positions.len(), perplexity: exponential(mean), comparison }
}
