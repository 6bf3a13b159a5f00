//! Measures models on a text: perplexity, and the KL divergence or cosine similarity to a base model.

mod chunks;
mod scores;
mod statistics;
mod trials;

use ggmill_arch::graph::Output;
use ggmill_core::{Model, RawStr, keys};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSlice as _;

pub(crate) use self::chunks::ChunkInputs;
pub use self::chunks::Chunks;
use self::chunks::OutputRange;
use self::scores::ScoreValues;
pub use self::scores::{ModelScores, Scores};
use self::statistics::{Cosines, Sums, covariance_of_means, exp_estimate, means_by_part};
pub use self::statistics::{Distribution, Estimate, Similarity};
pub use self::trials::{Trial, TrialOutcome, trials};
use crate::error::{Error, ErrorKind, Result};
use crate::program::Program;
use crate::run::{Runner, States};

/// A measurement of a model on a text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// The number of chunks.
    pub chunks: usize,
    /// The number of scored tokens; for embeddings, the number of all tokens.
    pub counted: usize,
    /// The perplexity: `exp` of the mean negative log probability of the scored tokens; `None` if the output
    /// is embeddings.
    pub perplexity: Option<Estimate>,
    /// The comparison with the base, if there is one and the output is logits.
    pub comparison: Option<Comparison>,
    /// The similarity to the base, if the output is embeddings.
    pub similarity: Option<Similarity>,
}

impl Measurement {
    /// A note on how the numbers are computed, for reports.
    pub const ABOUT: &'static str = "computed in F32 from the weights in the file; a program that also rounds activations, as \
         llama.cpp does for quantized types, adds its own error";
}

/// The comparison of a model with a base model, over all scored positions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The perplexity of the base.
    pub base_perplexity: Estimate,
    /// The perplexity of the model divided by that of the base.
    pub ratio: Estimate,
    /// The Kullback-Leibler divergence of the model's probabilities from the base's, in nats.
    pub divergence: Distribution,
    /// The mean divergence in each chunk.
    pub divergence_by_chunk: Vec<f64>,
    /// The change in the probability of the text's token: the model's probability minus the base's.
    pub probability_change: Distribution,
    /// The root mean square of that change.
    pub probability_rms: Estimate,
    /// The share of positions at which both have the same most probable token.
    pub same_top: Estimate,
}

/// Progress of [`measure`], which is passed to its callback after each chunk.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MeasureProgress<'a> {
    /// The index of the model.
    pub program: usize,
    /// The index of the chunk.
    pub chunk: usize,
    /// The number of chunks in total.
    pub chunks: usize,
    /// All [outputs](Program::outputs_of_chunk) of the model for the chunk, a row per output; empty unless
    /// requested.
    pub logits: &'a [f32],
}

/// The scores at a position.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PositionScores {
    /// The negative log probability of the text's token.
    surprise: f64,
    base_surprise: f64,
    divergence: f64,
    same_top: bool,
}

impl PositionScores {
    /// Returns the scores of a model without a base: as if the model were its base.
    fn without_base(surprise: f64) -> Self {
        Self { surprise, base_surprise: surprise, divergence: 0.0, same_top: true }
    }
}

/// Measures a model on a text, optionally against a base, like [`measure_together`] for one model.
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
    watch: impl FnMut(MeasureProgress<'_>) -> Result<(), E>,
) -> Result<Measurement, E> {
    let mut measured = measure_together(runner, &[program], base, chunks, with_logits, watch)?;
    let missing = || Error::new(ErrorKind::Graph, "nothing was measured").into();
    measured.pop().ok_or_else(missing)
}

/// Measures several models on a text in one pass, optionally against one base, whose output is computed
/// once. `watch` is called after each chunk for each model, with all logits if `with_logits`. An error from
/// it ends the measurement.
///
/// For a model with an encoder, such as T5, the source is the first half of each chunk and one more token,
/// and the rest of the chunk is predicted.
///
/// Embeddings are compared with the base's embeddings, for all tokens of each chunk.
///
/// Fails for embeddings without a base, if the outputs of model and base are of different kinds, if their
/// vocabularies differ, if a file changed while it was read, and like [`Runner::states`] and
/// [`Runner::output`]. [`Error::program`] returns the index of the model.
pub fn measure_together<E: From<Error>>(
    runner: &Runner,
    programs: &[&Program<'_>],
    base: Option<&Program<'_>>,
    chunks: &Chunks,
    with_logits: bool,
    watch: impl FnMut(MeasureProgress<'_>) -> Result<(), E>,
) -> Result<Vec<Measurement>, E> {
    let found = scores_together(runner, programs, base, chunks, with_logits, watch)?;
    Ok(found.iter().map(ModelScores::measurement).collect())
}

/// Returns the scores of several models on chunks of a text, measured like [`measure_together`]. Scores of
/// different [parts](Chunks::part) of a text can be [merged](Scores::merge).
///
/// Fails like [`measure_together`].
pub fn scores_together<E: From<Error>>(
    runner: &Runner,
    programs: &[&Program<'_>],
    base: Option<&Program<'_>>,
    chunks: &Chunks,
    with_logits: bool,
    mut watch: impl FnMut(MeasureProgress<'_>) -> Result<(), E>,
) -> Result<Vec<ModelScores>, E> {
    for (number, program) in programs.iter().enumerate() {
        check(program, base).map_err(|error| error.with_program(number))?;
    }
    for (number, program) in programs.iter().copied().chain(base).enumerate() {
        check_next_tokens(program, chunks).map_err(|error| error.with_program(number))?;
    }
    let Some(first) = programs.first() else { return Ok(Vec::new()) };
    let count = chunks.texts().len();
    let are_embeddings = first.output() == Output::Embedding;
    let base_wanted = if are_embeddings { OutputRange::All } else { OutputRange::Scored };
    let wanted = if with_logits { OutputRange::All } else { base_wanted };
    let counted = chunks.scored();
    let pass = Pass { runner, programs, base, chunks, wanted, base_wanted };
    let mut positions: Vec<Vec<PositionScores>> = vec![Vec::new(); programs.len()];
    let mut cosines = vec![Cosines::default(); programs.len()];
    pass.run(|found| {
        let program = programs[found.program];
        let width = usize::try_from(program.output_len()).map_err(|_| Error::memory(usize::MAX))?;
        let (computed, used) = (
            program.output_positions(chunks, wanted),
            program.output_positions(chunks, base_wanted),
        );
        let skipped = used.start - computed.start;
        let rows = &found.rows[skipped * width..(skipped + used.len()) * width];
        let of = found.program;
        if let (true, Some(base)) = (are_embeddings, found.base) {
            let near = runner.install(|| statistics::cosines(rows, base, width));
            cosines[of].extend(near.map_err(|error| error.with_program(of))?);
        } else {
            let next_tokens = &found.tokens[counted.start + 1..=counted.end];
            let some = runner.install(|| compare(rows, found.base, width, next_tokens));
            positions[of].extend(some.map_err(|error| error.with_program(of))?);
        }
        let logits = if with_logits { found.rows } else { &[] };
        watch(MeasureProgress { program: of, chunk: found.chunk, chunks: count, logits })
    })?;
    let scores = positions.into_iter().zip(cosines).map(|(positions, cosines)| {
        let values = if are_embeddings {
            ScoreValues::Cosines(cosines)
        } else {
            ScoreValues::Positions { positions, compared: base.is_some() }
        };
        ModelScores::new(chunks.first(), count, values)
    });
    Ok(scores.collect())
}

/// Fails unless a program can be measured against this base.
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
    match first_different_token(program.model, base.model) {
        Some(token) => {
            let message = format!("token {token} of the model differs from that of the base");
            Err(Error::new(ErrorKind::Vocabulary, message))
        }
        None => Ok(()),
    }
}

/// Fails if a scored token has no logit: the embedding table can have more rows than the output.
fn check_next_tokens(program: &Program<'_>, chunks: &Chunks) -> Result<()> {
    if program.output() != Output::Logits {
        return Ok(());
    }
    // Running the model fails for tokens outside the vocabulary.
    let (counted, known) = (chunks.scored(), program.output_len()..program.vocabulary());
    let next_tokens = chunks.texts().iter().flat_map(|text| &text[counted.start + 1..=counted.end]);
    match next_tokens.copied().find(|&token| known.contains(&u64::from(token))) {
        Some(token) => {
            let message =
                format!("token ID {token}, but the output of the model has {}", known.start);
            Err(Error::new(ErrorKind::Tokens, message))
        }
        None => Ok(()),
    }
}

/// Returns the first token ID whose text differs between two vocabularies; `None` if they are equal or one
/// is missing.
fn first_different_token(left: &Model, right: &Model) -> Option<usize> {
    fn tokens(model: &Model) -> Option<impl Iterator<Item = Option<RawStr<'_>>>> {
        let tokens = model.metadata().array(keys::TOKENIZER_TOKENS).ok()?.strings()?;
        Some(tokens.map(Result::ok))
    }
    tokens(left)?.zip(tokens(right)?).position(|(left, right)| left != right)
}

/// Returns the scores at some positions. `rows` are the outputs, `others` the outputs of the base,
/// `next_tokens` the tokens that follow.
fn compare(
    rows: &[f32],
    others: Option<&[f32]>,
    width: usize,
    next_tokens: &[u32],
) -> Result<Vec<PositionScores>> {
    let one = |(number, row): (usize, &[f32])| {
        let next_tokens = next_tokens[number] as usize;
        if !is_unmasked(row[next_tokens]) {
            let message =
                format!("the text contains token {next_tokens}, which the model never predicts");
            return Err(Error::new(ErrorKind::Tokens, message));
        }
        let log_sum_exp = log_sum_exp(row);
        let surprise = log_sum_exp - f64::from(row[next_tokens]);
        let mut position = PositionScores::without_base(surprise);
        if let Some(others) = others {
            let base = &others[number * width..(number + 1) * width];
            let base_log_sum_exp = self::log_sum_exp(base);
            position.base_surprise = base_log_sum_exp - f64::from(base[next_tokens]);
            position.same_top = argmax(row) == argmax(base);
            for (&ours, &theirs) in row.iter().zip(base) {
                let theirs = f64::from(theirs) - base_log_sum_exp;
                let ours = f64::from(ours) - log_sum_exp;
                position.divergence += theirs.exp() * (theirs - ours);
            }
        }
        let is_finite = position.surprise.is_finite() && position.divergence.is_finite();
        is_finite.then_some(position).ok_or_else(|| {
            let is_of_base = position.surprise.is_finite() && !position.base_surprise.is_finite();
            let owner = if is_of_base { "base" } else { "model" };
            let message = format!("an output of the {owner} is not a finite number");
            Error::new(ErrorKind::NotFinite, message)
        })
    };
    rows.par_chunks_exact(width).enumerate().map(one).collect()
}

/// Summarizes the scores of all positions.
fn summary(positions: &[PositionScores], compared: bool, chunks: usize) -> Measurement {
    let surprise: Vec<f64> = positions.iter().map(|position| position.surprise).collect();
    let mean = Sums::of(surprise.iter().copied()).mean();
    let comparison = compared.then(|| {
        let base: Vec<f64> = positions.iter().map(|position| position.base_surprise).collect();
        let base_mean = Sums::of(base.iter().copied()).mean();
        let of_difference = mean.error.powi(2) + base_mean.error.powi(2)
            - 2.0 * covariance_of_means(&surprise, &base);
        let difference =
            Estimate { value: mean.value - base_mean.value, error: of_difference.max(0.0).sqrt() };
        let change = |position: &PositionScores| {
            (-position.surprise).exp() - (-position.base_surprise).exp()
        };
        let changes: Vec<f64> = positions.iter().map(change).collect();
        let divergences: Vec<f64> = positions.iter().map(|position| position.divergence).collect();
        let squares = Sums::of(changes.iter().map(|change| change * change)).mean();
        let rms = squares.value.sqrt();
        let rms_error = if rms > 0.0 { squares.error / (2.0 * rms) } else { 0.0 };
        let same = positions.iter().map(|position| f64::from(u8::from(position.same_top)));
        Comparison {
            base_perplexity: exp_estimate(base_mean),
            ratio: exp_estimate(difference),
            divergence_by_chunk: means_by_part(&divergences, chunks),
            divergence: Distribution::of(divergences),
            probability_change: Distribution::of(changes),
            probability_rms: Estimate { value: rms, error: rms_error },
            same_top: Sums::of(same).mean(),
        }
    });
    Measurement {
        chunks,
        counted: positions.len(),
        perplexity: Some(exp_estimate(mean)),
        comparison,
        similarity: None,
    }
}

/// A pass of several models and a base over the chunks of a text.
struct Pass<'a, 'm> {
    runner: &'a Runner,
    programs: &'a [&'a Program<'m>],
    base: Option<&'a Program<'m>>,
    chunks: &'a Chunks,
    /// The outputs that are computed for each chunk by the models and by the base.
    wanted: OutputRange,
    base_wanted: OutputRange,
}

/// The outputs of one model for one chunk.
struct Outputs<'a> {
    program: usize,
    chunk: usize,
    /// The tokens of the chunk.
    tokens: &'a [u32],
    rows: &'a [f32],
    /// The output of the base.
    base: Option<&'a [f32]>,
}

impl Pass<'_, '_> {
    /// Calls `each` for every chunk and model. In [`Error::program`], the index of the base is the number of
    /// models.
    fn run<E: From<Error>>(
        &self,
        mut each: impl FnMut(&Outputs<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let at_once = self.texts_at_once()?;
        let of_base = self.programs.len();
        for (group, texts) in self.chunks.texts().chunks(at_once).enumerate() {
            let states = |number: usize, program: &Program<'_>| {
                let of = ChunkInputs::of(program, texts).and_then(|divided| {
                    let (texts, sources) = (divided.texts(), divided.sources());
                    self.runner.states_observed(program, &texts, sources, None)
                });
                of.map_err(|error| error.with_program(number))
            };
            let base = match self.base {
                Some(base) => Some((base, states(of_base, base)?)),
                None => None,
            };
            let programs = self.programs.iter().enumerate();
            let held: Result<Vec<States>> =
                programs.map(|(number, program)| states(number, program)).collect();
            let held = held?;
            for (number, tokens) in texts.iter().enumerate() {
                let output = |of: usize, program: &Program<'_>, states: &States, wanted| {
                    let rows = program.output_positions(self.chunks, wanted);
                    let output = self.runner.output(program, states, number, rows);
                    output.map_err(|error| error.with_program(of))
                };
                let theirs = match &base {
                    Some((base, states)) => Some(output(of_base, base, states, self.base_wanted)?),
                    None => None,
                };
                for (program, states) in held.iter().enumerate() {
                    let rows = output(program, self.programs[program], states, self.wanted)?;
                    let chunk = group * at_once + number;
                    let base = theirs.as_deref();
                    each(&Outputs { program, chunk, tokens, rows: &rows, base })?;
                }
            }
        }
        for (number, program) in self.programs.iter().copied().chain(self.base).enumerate() {
            program.verify().map_err(|error| error.with_program(number))?;
        }
        Ok(())
    }

    /// Returns the number of chunks that are run together. While one model runs, the states of all others are
    /// in memory; afterwards the outputs of the base and of one model for a chunk.
    fn texts_at_once(&self) -> Result<usize> {
        let (length, threads) = (self.chunks.context() as u64, self.runner.threads());
        let all = || self.programs.iter().copied().chain(self.base);
        let of_output = |program: &Program<'_>, wanted| {
            program.memory_of_output(program.output_positions(self.chunks, wanted).len() as u64)
        };
        let outputs = self.programs.iter().map(|program| of_output(program, self.wanted)).max();
        let outputs = outputs.unwrap_or(0);
        let of_base = self.base.map_or(0, |base| of_output(base, self.base_wanted));
        let outputs = outputs.saturating_add(of_base);
        self.runner.texts_within(length, &|texts| {
            let working = all().map(|program| program.memory_of_states(texts, length, threads));
            let tokens = texts.saturating_mul(length);
            let kept: Vec<u64> = all().map(|program| program.state_memory(tokens)).collect();
            let others = kept.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
            let others = others - kept.iter().min().copied().unwrap_or(0).min(others);
            working.max().unwrap_or(0).saturating_add(others).saturating_add(outputs)
        })
    }
}

/// Returns the logarithm of the sum of exponentials, in double precision.
pub(crate) fn log_sum_exp(row: &[f32]) -> f64 {
    let most = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + row.iter().map(|&logit| (f64::from(logit) - most).exp()).sum::<f64>().ln()
}

/// Returns `true` unless the logit is `f32::MIN`, the logit of masked tokens. NaN is unmasked, so that it
/// is reported.
pub(crate) fn is_unmasked(logit: f32) -> bool {
    logit > f32::MIN || logit.is_nan()
}

/// Returns the index of the greatest number, the first one in case of ties.
pub(crate) fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (place, logit) in row.iter().enumerate() {
        if *logit > row[best] {
            best = place;
        }
    }
    best
}
