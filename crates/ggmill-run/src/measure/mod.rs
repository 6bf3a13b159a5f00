//! What a model makes of a text: perplexity or embeddings, and how far it is from another model.

mod chunks;
mod divided;
mod pass;
mod scores;
mod similarity;
mod statistics;
mod trials;

use ggmill_arch::graph::Output;
use ggmill_core::{Model, RawStr, keys};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSlice as _;

pub use self::chunks::Chunks;
pub(crate) use self::divided::Divided;
use self::divided::Wanted;
use self::pass::Pass;
use self::scores::Values;
pub use self::scores::{ModelScores, Scores};
pub use self::similarity::Similarity;
use self::similarity::Vectors;
pub use self::statistics::{Distribution, Estimate};
use self::statistics::{Sums, covariance, exponential};
pub use self::trials::{Trial, Tried, trials};
use crate::error::{Error, ErrorKind, Result};
use crate::logits::{greatest, may_follow, normalizer};
use crate::program::Program;
use crate::run::Runner;

/// What was measured of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// How many chunks the text had.
    pub chunks: usize,
    /// How many tokens were predicted and counted; of embeddings, all tokens.
    pub counted: usize,
    /// `exp` of the mean of the negative logarithms of the probabilities that the model gave to the
    /// tokens that came; `None` for a model whose output is embeddings.
    pub perplexity: Option<Estimate>,
    /// How far it is from another model, where there is one and the output is logits.
    pub comparison: Option<Comparison>,
    /// How near its embeddings are to those of another model, where the output is embeddings.
    pub similarity: Option<Similarity>,
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
    /// Its mean in each chunk.
    pub divergence_by_chunk: Vec<f64>,
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
    /// Which of the models it is of.
    pub program: usize,
    /// The number of the chunk.
    pub chunk: usize,
    /// How many there are.
    pub chunks: usize,
    /// All [outputs](Program::outputs_of_chunk) of the model for the chunk, a row for each; empty
    /// unless asked for.
    pub logits: &'a [f32],
}

/// What a position gives.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Position {
    /// Minus the logarithm of the probability of the token that came.
    surprise: f64,
    base_surprise: f64,
    divergence: f64,
    same_top: bool,
}

impl Position {
    /// That of a model without a base: as one that gives what the base does.
    fn alone(surprise: f64) -> Self {
        Self { surprise, base_surprise: surprise, divergence: 0.0, same_top: true }
    }
}

/// Measures a model over a text, against a base where there is one: [`measure_together`] for one
/// model.
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
/// let perplexity = measured.perplexity.ok_or("logits")?;
/// println!("{:.4} ± {:.4}", perplexity.value, perplexity.error);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn measure<E: From<Error>>(
    runner: &Runner,
    program: &Program<'_>,
    base: Option<&Program<'_>>,
    chunks: &Chunks,
    with_logits: bool,
    watch: impl FnMut(Measured<'_>) -> Result<(), E>,
) -> Result<Measurement, E> {
    let mut measured = measure_together(runner, &[program], base, chunks, with_logits, watch)?;
    let missing = || Error::new(ErrorKind::Graph, "nothing was measured").into();
    measured.pop().ok_or_else(missing)
}

/// Measures several models over a text in one pass, each against the same base where there is one,
/// whose output for a chunk is computed once. `watch` is called for each model and chunk when it is
/// done, all models of a chunk one after the other, with all its logits where `with_logits` says so;
/// what it returns as an error ends the measurement.
///
/// A model that takes two texts, such as T5, has the first half of each chunk, and the token after it,
/// as its source, and predicts the other half.
///
/// A model whose output is embeddings is measured by how near they are to those of the base, for all
/// tokens of each chunk.
///
/// Fails for models with embeddings without a base, for a model whose output is of another kind than
/// that of the base, for models with different vocabularies, for a file that changed while it was
/// read, and as [`Runner::states`] and [`Runner::output`] do; [`Error::program`] names the model.
pub fn measure_together<E: From<Error>>(
    runner: &Runner,
    programs: &[&Program<'_>],
    base: Option<&Program<'_>>,
    chunks: &Chunks,
    with_logits: bool,
    watch: impl FnMut(Measured<'_>) -> Result<(), E>,
) -> Result<Vec<Measurement>, E> {
    let found = scores_together(runner, programs, base, chunks, with_logits, watch)?;
    Ok(found.iter().map(ModelScores::measurement).collect())
}

/// The scores of several models on chunks of a text, as [`measure_together`] measures them: those of
/// different [parts](Chunks::part) of a text can be [merged](Scores::merge).
///
/// Fails as [`measure_together`] does.
pub fn scores_together<E: From<Error>>(
    runner: &Runner,
    programs: &[&Program<'_>],
    base: Option<&Program<'_>>,
    chunks: &Chunks,
    with_logits: bool,
    mut watch: impl FnMut(Measured<'_>) -> Result<(), E>,
) -> Result<Vec<ModelScores>, E> {
    for (number, program) in programs.iter().enumerate() {
        check(program, base).map_err(|error| error.of_program(number))?;
    }
    for (number, program) in programs.iter().copied().chain(base).enumerate() {
        check_came(program, chunks).map_err(|error| error.of_program(number))?;
    }
    let Some(first) = programs.first() else { return Ok(Vec::new()) };
    let count = chunks.texts().len();
    let of_embeddings = first.output() == Output::Embedding;
    let base_wanted = if of_embeddings { Wanted::All } else { Wanted::Counted };
    let wanted = if with_logits { Wanted::All } else { base_wanted };
    let counted = chunks.counted();
    let pass = Pass { runner, programs, base, chunks, wanted, base_wanted };
    let mut positions: Vec<Vec<Position>> = vec![Vec::new(); programs.len()];
    let mut vectors = vec![Vectors::default(); programs.len()];
    pass.run(|found| {
        let program = programs[found.program];
        let width = usize::try_from(program.output_len()).map_err(|_| Error::memory(usize::MAX))?;
        let (computed, used) =
            (program.places_of(chunks, wanted), program.places_of(chunks, base_wanted));
        let skipped = used.start - computed.start;
        let rows = &found.rows[skipped * width..(skipped + used.len()) * width];
        let of = found.program;
        if let (true, Some(base)) = (of_embeddings, found.base) {
            let near = runner.install(|| similarity::compare(rows, base, width));
            vectors[of].extend(near.map_err(|error| error.of_program(of))?);
        } else {
            let came = &found.tokens[counted.start + 1..=counted.end];
            let some = runner.install(|| compare(rows, found.base, width, came));
            positions[of].extend(some.map_err(|error| error.of_program(of))?);
        }
        let logits = if with_logits { found.rows } else { &[] };
        watch(Measured { program: of, chunk: found.chunk, chunks: count, logits })
    })?;
    let scores = positions.into_iter().zip(vectors).map(|(positions, vectors)| {
        let values = if of_embeddings {
            Values::Vectors(vectors)
        } else {
            Values::Positions { positions, compared: base.is_some() }
        };
        ModelScores::new(chunks.first(), count, values)
    });
    Ok(scores.collect())
}

/// What a program is measured by, and what it is compared with, are of one kind.
fn check(program: &Program<'_>, base: Option<&Program<'_>>) -> Result<()> {
    let (output, width) = (program.output(), program.output_len());
    let Some(base) = base else {
        if output == Output::Logits {
            return Ok(());
        }
        let message = "the model outputs embeddings, not logits, so it has no perplexity";
        return Err(Error::new(ErrorKind::Embeddings, message));
    };
    if base.output() != output {
        let kind = |output| if output == Output::Logits { "logits" } else { "embeddings" };
        let (ours, theirs) = (kind(output), kind(base.output()));
        let message = format!("the model outputs {ours}, but the base {theirs}");
        return Err(Error::new(ErrorKind::Graph, message));
    }
    let theirs = base.output_len();
    if width != theirs {
        if output == Output::Logits {
            let message = format!("the model has {width} tokens, but the base has {theirs}");
            return Err(Error::new(ErrorKind::Vocabulary, message));
        }
        let message = format!(
            "the model outputs embeddings of {width} numbers, but the base outputs {theirs}"
        );
        return Err(Error::new(ErrorKind::Graph, message));
    }
    match other_token(program.model, base.model) {
        Some(token) => {
            let message = format!("token {token} of the model differs from that of the base");
            Err(Error::new(ErrorKind::Vocabulary, message))
        }
        None => Ok(()),
    }
}

/// Every token that counts has a number in the output. The tables of a graph may have more rows.
fn check_came(program: &Program<'_>, chunks: &Chunks) -> Result<()> {
    if program.output() != Output::Logits {
        return Ok(());
    }
    // Those that the model does not have at all are refused when it is run.
    let (counted, known) = (chunks.counted(), program.output_len()..program.vocabulary());
    let came = chunks.texts().iter().flat_map(|text| &text[counted.start + 1..=counted.end]);
    match came.copied().find(|&token| known.contains(&u64::from(token))) {
        Some(token) => {
            let message =
                format!("token ID {token}, but the output of the model has {}", known.start);
            Err(Error::new(ErrorKind::Tokens, message))
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
        if !may_follow(row[came]) {
            let message = format!("the text contains token {came}, which the model never predicts");
            return Err(Error::new(ErrorKind::Tokens, message));
        }
        let normalizer = normalizer(row);
        let surprise = normalizer - f64::from(row[came]);
        let mut position = Position::alone(surprise);
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
            let is_of_base = position.surprise.is_finite() && !position.base_surprise.is_finite();
            let whose = if is_of_base { "base" } else { "model" };
            let message = format!("an output of the {whose} is not a finite number");
            Error::new(ErrorKind::NotFinite, message)
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
        let divergences: Vec<f64> = positions.iter().map(|position| position.divergence).collect();
        let squares = Sums::of(changes.iter().map(|change| change * change)).mean();
        let rms = squares.value.sqrt();
        let rms_error = if rms > 0.0 { squares.error / (2.0 * rms) } else { 0.0 };
        let same = positions.iter().map(|position| f64::from(u8::from(position.same_top)));
        Comparison {
            base_perplexity: exponential(base_mean),
            ratio: exponential(difference),
            divergence_by_chunk: statistics::by_part(&divergences, chunks),
            divergence: Distribution::of(divergences),
            probability_change: Distribution::of(changes),
            probability_rms: Estimate { value: rms, error: rms_error },
            same_top: Sums::of(same).mean(),
        }
    });
    Measurement {
        chunks,
        counted: positions.len(),
        perplexity: Some(exponential(mean)),
        comparison,
        similarity: None,
    }
}
