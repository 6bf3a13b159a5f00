//! Types chosen for a size: of all choices that fit, one that loses as little as can be.
//!
//! For each tensor, sampled rows are encoded as every type that its rows are whole blocks of, and
//! decoded again. What a type loses is the noise to signal of that, weighted by importance, times
//! what an error of the tensor counts, whatever the scale of its numbers or of its importance: its
//! number of elements, or the sensitivity that was measured of it. A knapsack with one choice for
//! each tensor does the rest.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "means and limits: no byte of a file depends on the last digit, and what is beyond \
              the range of a number becomes its end"
)]

mod knapsack;
mod measure;

use std::borrow::Cow;

use ggmill_arch::ModelView;
use ggmill_core::{Alignment, ByteSize, FileType, GgmlType};

use self::knapsack::{Way, solve};
use self::measure::{Candidate, Counts, Measured, Subject};
use crate::choice::{Choice, NEED_IMPORTANCE};
use crate::fallback;
use crate::hyper::Hyper;
use crate::layers::{self, remaining};
use crate::loss::for_measuring;
use crate::options::QuantizeOptions;
use crate::quantize::{is_known, quantize_recipe, quantize_shards};
use crate::sensitivity::{ToMeasure, Weighing, type_to_measure};
use crate::types::TypePlan;
use ggmill_pipeline::SplitOptions;
use ggmill_pipeline::{Checkpoint, Derived, GgufCheckpoint, SourceTensor};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Progress, Report};
use ggmill_pipeline::{Recipe, RunOptions};

/// How large the result may be.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Goal {
    /// This many bytes at most, headers and padding included. Of a set of shards all together, with
    /// the headers of as many shards as there are at most.
    Size(u64),
    /// So many bits for each weight at most, over all tensors and without padding.
    BitsPerWeight(f64),
}

/// Types chosen for a goal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fit {
    /// The type of every tensor.
    pub types: TypePlan,
    /// Bits for each weight, over all tensors.
    pub bits_per_weight: f64,
    /// The mean of what is lost: noise to signal of all tensors, weighted by importance, as measured
    /// on samples; each tensor with what its errors count.
    pub loss: f64,
    /// No choice of these types within the goal loses less.
    pub least_loss: f64,
    /// The predicted KL divergence of the output from that of the model as it is, in nats, where the
    /// sensitivities of the tensors are known.
    pub divergence: Option<f64>,
    /// No choice of these types within the goal has a smaller prediction.
    pub least_divergence: Option<f64>,
    /// Whether the goal has room for the largest result there is: a larger goal gives the same.
    pub is_largest: bool,
}

/// The types that are tried.
const TYPES: &[GgmlType] = &[
    GgmlType::BF16,
    GgmlType::F16,
    GgmlType::Q8_0,
    GgmlType::Q6_K,
    GgmlType::Q5_K,
    GgmlType::Q5_1,
    GgmlType::Q5_0,
    GgmlType::Q4_K,
    GgmlType::Q4_1,
    GgmlType::Q4_0,
    GgmlType::IQ4_NL,
    GgmlType::IQ4_XS,
    GgmlType::MXFP4,
    GgmlType::Q3_K,
    GgmlType::IQ3_S,
    GgmlType::IQ3_XXS,
    GgmlType::Q2_K,
    GgmlType::IQ2_S,
    GgmlType::IQ2_XS,
    GgmlType::IQ2_XXS,
    GgmlType::IQ1_M,
    GgmlType::IQ1_S,
];

/// Chooses a type for each tensor so that the goal is met and as little as possible is lost; reads
/// samples, in parallel.
///
/// Of the options, those count that say which tensors there are and which types they have already:
/// patterns, the types of embeddings and output, what is left alone, layers left out. Tensors that
/// are quantized already keep their type unless they may be quantized again.
/// [`QuantizeOptions::types`] takes the result. `progress` is told how many bytes of the model have
/// been measured, by samples. Fails when the goal is smaller than the smallest result, and says
/// what that is; and as [`quantize`](super::quantize) does. `cut` says how the result is going to
/// be [cut](Recipe::split), if it is, and `run` how many threads are used.
pub fn fit(
    checkpoint: &GgufCheckpoint,
    options: &QuantizeOptions,
    cut: Option<&SplitOptions>,
    goal: Goal,
    run: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<Fit> {
    let before = Recipe::copy_of(checkpoint)?;
    let shards = |options: &QuantizeOptions| quantize_shards(checkpoint, options);
    let model = ToFit { before: &before, source: checkpoint, tensors: checkpoint, shards: &shards };
    model.fit(options, cut, goal, run, progress)
}

/// The same for a model that is a recipe yet, whose expressions read `source`: the types are those
/// that would be chosen for the finished file. Its tensors are computed where they are measured.
pub fn fit_recipe(
    before: &Recipe,
    source: &dyn Checkpoint,
    options: &QuantizeOptions,
    cut: Option<&SplitOptions>,
    goal: Goal,
    run: &RunOptions,
    progress: &mut Report<'_>,
) -> Result<Fit> {
    let tensors = Derived::new(source, before.tensors.clone())?;
    let shards = |options: &QuantizeOptions| Ok(vec![quantize_recipe(before, options)?]);
    let model = ToFit { before, source, tensors: &tensors, shards: &shards };
    model.fit(options, cut, goal, run, progress)
}

/// A model that types are chosen for.
#[derive(Clone, Copy)]
struct ToFit<'a> {
    before: &'a Recipe,
    /// What its expressions read.
    source: &'a dyn Checkpoint,
    /// Its tensors, as they can be read.
    tensors: &'a dyn Checkpoint,
    /// The files that a quantization of it would be.
    shards: &'a dyn Fn(&QuantizeOptions) -> Result<Vec<Recipe>>,
}

impl ToFit<'_> {
    fn fit(
        self,
        options: &QuantizeOptions,
        cut: Option<&SplitOptions>,
        goal: Goal,
        run: &RunOptions,
        progress: &mut Report<'_>,
    ) -> Result<Fit> {
        let checkpoint = self.tensors;
        checkpoint.verify()?;
        let workers = run.workers()?;
        let task = Task::new(self, options, cut, goal)?;
        let Task { tensors, headers, total, budget, .. } = &task;
        let (headers, total, budget) = (*headers, *total, *budget);
        let padded = |bytes: u64| task.padded(bytes);
        let weights = total.max(1) as f64;
        let is_largest = task.bytes(|sizes| sizes.max()) <= budget;
        let stays = |tensor: &Subject<'_>| tensor.types.first() == Some(&tensor.source.ggml_type);
        if is_largest && tensors.iter().all(stays) {
            // Nothing has to be measured to know that nothing is lost.
            let bytes = tensors.iter().map(Subject::size).fold(0, u64::saturating_add);
            let types = tensors.iter().map(|tensor| (tensor.name.clone(), tensor.source.ggml_type));
            return Ok(Fit {
                types: types.collect(),
                bits_per_weight: bytes as f64 * 8.0 / weights,
                loss: 0.0,
                least_loss: 0.0,
                divergence: predicts(options).then_some(0.0),
                least_divergence: predicts(options).then_some(0.0),
                is_largest,
            });
        }
        let mut ways: Vec<Measured> = Vec::with_capacity(tensors.len());
        let (mut done, all) = (0, tensors.iter().map(Subject::size).fold(0, u64::saturating_add));
        for window in tensors.chunks(2 * workers.threads()) {
            let measured: Vec<Result<Measured>> =
                workers.map(window, |tensor| tensor.measure(checkpoint));
            for (tensor, measured) in window.iter().zip(measured) {
                ways.push(measured.map_err(|error| error.tensor(&tensor.name))?);
                done += tensor.size();
            }
            let name = window
                .last()
                .map(|tensor| String::from_utf8_lossy(&tensor.name))
                .unwrap_or_default();
            if progress(Progress::new(&name, done, all)).is_break() {
                return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
            }
        }

        checkpoint.verify()?;
        let least = if predicts(options) { least_weight(&ways) } else { 0.0 };
        let counts = |measured: &Measured| measured.weight.map_or(0.0, |weight| weight.max(least));
        let as_ways = |measured: &Measured| {
            let weight = counts(measured);
            let as_way =
                |way: &Candidate| Way { bytes: padded(way.bytes), loss: way.relative * weight };
            measured.candidates.iter().map(as_way).collect()
        };
        let knapsack: Vec<Vec<Way>> = ways.iter().map(as_ways).collect();
        let solution =
            solve(&knapsack, budget).map_err(|least| impossible(goal, least, headers, total))?;
        let chosen: Vec<&Candidate> = ways
            .iter()
            .zip(&solution.chosen)
            .filter_map(|(ways, &way)| ways.candidates.get(way))
            .collect();
        let counted = ways.iter().map(counts).sum::<f64>().max(f64::MIN_POSITIVE);
        let bytes: u64 = chosen.iter().map(|way| way.bytes).sum();
        Ok(Fit {
            types: tensors
                .iter()
                .zip(&chosen)
                .map(|(tensor, way)| (tensor.name.clone(), way.ggml_type))
                .collect(),
            bits_per_weight: bytes as f64 * 8.0 / weights,
            loss: solution.loss / counted,
            least_loss: solution.bound / counted,
            divergence: predicts(options).then_some(solution.loss),
            least_divergence: predicts(options).then_some(solution.bound),
            is_largest,
        })
    }
}

/// The tensors whose types are chosen, and how many bytes they may take.
#[derive(Debug)]
struct Task<'a> {
    goal: Goal,
    tensors: Vec<Subject<'a>>,
    alignment: Alignment,
    /// Bytes of headers.
    headers: u64,
    /// Weights of all tensors.
    total: u64,
    /// Bytes of data, at most.
    budget: u64,
}

impl<'a> Task<'a> {
    /// Fails where the smallest types take more than the goal allows.
    fn new(
        model: ToFit<'a>,
        options: &'a QuantizeOptions,
        cut: Option<&SplitOptions>,
        goal: Goal,
    ) -> Result<Self> {
        let (tensors, alignment, mut headers) = outline(model, options)?;
        if let Some(cut) = cut {
            headers = headers_of_shards(model, options, &tensors, cut)?;
        }
        let total = tensors
            .iter()
            .map(|tensor| tensor.source.shape.elements())
            .fold(0, u64::saturating_add);
        let budget = match goal {
            Goal::Size(bytes) => bytes.saturating_sub(headers),
            Goal::BitsPerWeight(bits) => bytes_for(bits, total)?,
        };
        let task = Self { goal, tensors, alignment, headers, total, budget };
        let least = task.bytes(|sizes| sizes.min());
        if least > budget { Err(impossible(goal, least, headers, total)) } else { Ok(task) }
    }

    /// The bytes that count for the data of a tensor: with those up to the next one in a file of a
    /// size.
    fn padded(&self, bytes: u64) -> u64 {
        match self.goal {
            Goal::Size(_) => self.alignment.align(bytes).unwrap_or(u64::MAX),
            Goal::BitsPerWeight(_) => bytes,
        }
    }

    /// Bytes of all tensors, each as the one of its types that is chosen by size.
    fn bytes(&self, chosen: impl Fn(&mut dyn Iterator<Item = u64>) -> Option<u64>) -> u64 {
        let of = |tensor: &Subject<'_>| {
            let mut sizes = tensor.types.iter().map(|&ggml_type| size(tensor.source, ggml_type));
            self.padded(chosen(&mut sizes).unwrap_or(0))
        };
        self.tensors.iter().map(of).fold(0, u64::saturating_add)
    }
}

/// Whether losses are divergences.
fn predicts(options: &QuantizeOptions) -> bool {
    matches!(options.weighing, Weighing::Measured(_))
}

/// The least that errors of a measured tensor count: as much as those of the least sensitive one. A
/// tensor whose divergence was 0 would otherwise get the smallest type, however large its error.
fn least_weight(measured: &[Measured]) -> f64 {
    const OF_NONE: f64 = 1e-12;
    let weights = measured.iter().filter_map(|measured| measured.weight);
    weights.filter(|&weight| weight > 0.0).min_by(f64::total_cmp).unwrap_or(OF_NONE)
}

/// The tensors of a model whose types are chosen for a size, each with a type to measure its
/// sensitivity with and the importance weights that it is quantized with.
///
/// Of the options, those count that count for [`fit`]. Fails as that does, and so before anything is
/// measured where the goal is smaller than the smallest result.
pub fn to_measure(
    checkpoint: &GgufCheckpoint,
    options: &QuantizeOptions,
    cut: Option<&SplitOptions>,
    goal: Goal,
) -> Result<Vec<ToMeasure>> {
    let before = Recipe::copy_of(checkpoint)?;
    let shards = |options: &QuantizeOptions| quantize_shards(checkpoint, options);
    let model = ToFit { before: &before, source: checkpoint, tensors: checkpoint, shards: &shards };
    let mut options = options.clone();
    options.weighing = Weighing::Even;
    let Task { tensors, .. } = Task::new(model, &options, cut, goal)?;
    let to_measure = |tensor: Subject<'_>| {
        let ggml_type = match tensor.types[..] {
            [only] => Some(only).filter(|&only| only != tensor.source.ggml_type),
            _ => type_to_measure(&tensor.types),
        }?;
        let importance = tensor.importance.filter(|_| ggml_type.is_quantized());
        Some(ToMeasure { name: tensor.name, ggml_type, importance })
    };
    Ok(tensors.into_iter().filter_map(to_measure).collect())
}

/// Bytes that so many bits for each of so many weights are.
fn bytes_for(bits: f64, weights: u64) -> Result<u64> {
    if !bits.is_finite() || bits <= 0.0 {
        return Err(Error::new(
            ErrorKind::Budget,
            format!("{bits} bits per weight, expected more than 0"),
        ));
    }
    // Beyond any file it is as good as no limit.
    Ok((bits * weights as f64 / 8.0).floor() as u64)
}

fn impossible(goal: Goal, least: u64, headers: u64, weights: u64) -> Error {
    let bits = (least as f64 * 8.0 / weights.max(1) as f64 * 1e4).ceil() / 1e4;
    let message = match goal {
        Goal::Size(bytes) => {
            let (asked, exact) = (ByteSize::from(bytes), least.saturating_add(headers));
            let least = ByteSize::from(exact);
            format!(
                "{asked} is too little: the smallest possible size of this model is {exact} bytes \
                 ({least})"
            )
        }
        Goal::BitsPerWeight(asked) => format!(
            "{asked} bits per weight are too few: the smallest possible size of this model is \
             {bits} bits per weight"
        ),
    };
    Error::new(ErrorKind::Budget, message)
}

/// The tensors with what they may become, the alignment, and how many bytes headers take.
fn outline<'a>(
    fitted: ToFit<'a>,
    options: &'a QuantizeOptions,
) -> Result<(Vec<Subject<'a>>, Alignment, u64)> {
    // Headers have the same length whatever the types.
    let mut as_it_is = options.clone();
    (as_it_is.target, as_it_is.types, as_it_is.dry_run) = (super::Target::copy(), None, true);
    let recipes: Vec<Recipe> = (fitted.shards)(&as_it_is)?;
    let (mut headers, mut alignment, mut metadata) = (0, Alignment::DEFAULT, None);
    for recipe in recipes {
        metadata.get_or_insert_with(|| recipe.metadata.clone());
        let plan = recipe.plan(fitted.source)?;
        alignment = plan.layout().alignment();
        headers += plan.layout().data_offset();
    }
    let sources = fitted.tensors.tensors();
    let (tensors, _) = remaining(sources, layers::by_layer(sources), &options.prune_layers);
    let metadata = metadata.unwrap_or_default();
    let model = ModelView::of_metadata_to_write(&metadata);
    let hyper = Hyper::of(&model, sources.iter().map(|tensor| &*tensor.name));
    let choice =
        Choice::new(options, &model, &hyper, &tensors, FileType::F32, is_known(&metadata, options));
    let subject = |tensor: &layers::Remaining| {
        let source = &sources[tensor.number];
        let about = |error: Error| error.tensor(&tensor.name);
        // Weights are known for any type that has a use for them, and measured with for all.
        let importance = choice.importance(source, GgmlType::Q8_0).map_err(about)?;
        let pinned = choice.pinned(&String::from_utf8_lossy(&tensor.name), source);
        let measure = importance
            .as_deref()
            .and_then(|weights| for_measuring(weights, &source.shape))
            .map(Cow::into_owned);
        let counts = match &options.weighing {
            Weighing::Even => Some(Counts::Known(source.shape.elements() as f64)),
            Weighing::Measured(found) => found.get(&tensor.name).map(Counts::Measured),
        };
        // A tensor that was not measured keeps its type.
        let pinned = pinned.or_else(|| counts.is_none().then_some(source.ggml_type));
        let types =
            pinned.map_or_else(|| candidates(source, measure.is_some()), |pinned| vec![pinned]);
        Ok(Subject {
            number: tensor.number,
            name: tensor.name.clone(),
            source,
            importance,
            measure,
            types,
            counts,
        })
    };
    if let Weighing::Measured(found) = &options.weighing {
        found.check(tensors.iter().map(|tensor| &*tensor.name))?;
    }
    Ok((tensors.iter().map(subject).collect::<Result<_>>()?, alignment, headers))
}

/// How many bytes the headers of a set of shards take, when every tensor has the largest type it
/// may become: then there are the most shards.
fn headers_of_shards(
    fitted: ToFit<'_>,
    options: &QuantizeOptions,
    tensors: &[Subject<'_>],
    cut: &SplitOptions,
) -> Result<u64> {
    let mut largest = options.clone();
    let of = |tensor: &Subject<'_>| {
        tensor
            .types
            .iter()
            .copied()
            .max_by_key(|&ggml_type| size(tensor.source, ggml_type))
            .unwrap_or(tensor.source.ggml_type)
    };
    largest.types = Some(tensors.iter().map(|tensor| (tensor.name.clone(), of(tensor))).collect());
    (largest.target, largest.dry_run) = (super::Target::copy(), true);
    let mut headers = 0;
    for shard in quantize_recipe(fitted.before, &largest)?.split(cut)? {
        headers += shard.plan(fitted.source)?.layout().data_offset();
    }
    Ok(headers)
}

/// The bytes of a tensor that has become this type.
fn size(source: &SourceTensor, ggml_type: GgmlType) -> u64 {
    ggml_type
        .layout()
        .and_then(|layout| layout.bytes_for(source.shape.elements()))
        .unwrap_or(u64::MAX)
}

impl Choice<'_> {
    /// The one type a tensor can have, or `None` where there is a choice.
    fn pinned(&self, name: &str, source: &SourceTensor) -> Option<GgmlType> {
        let is_free = self.kept(name, source).is_none()
            && (!source.ggml_type.is_quantized() || self.options.allow_requantize);
        if !is_free || ggmill_quant::codec(source.ggml_type).is_err() {
            return Some(source.ggml_type);
        }
        let by_pattern = self.asked_by_pattern(name);
        let by_role = self.asked_by_role(name, self.roles.of(name), by_pattern);
        by_role.or_else(|| by_pattern.map(|asked| fallback::fitting(asked, source.shape.row_len())))
    }
}

/// The types a tensor may become: that it has, and smaller ones that hold its rows.
fn candidates(source: &SourceTensor, has_importance: bool) -> Vec<GgmlType> {
    let row_len = source.shape.row_len();
    let fits = |ggml_type: GgmlType| {
        ggml_type.layout().is_some_and(|layout| row_len.is_multiple_of(u64::from(layout.elements)))
    };
    let is_candidate = |ggml_type: GgmlType| {
        fits(ggml_type)
            && size(source, ggml_type) < size(source, source.ggml_type)
            && (has_importance || !NEED_IMPORTANCE.contains(&ggml_type))
    };
    std::iter::once(source.ggml_type)
        .chain(TYPES.iter().copied().filter(|&ggml_type| is_candidate(ggml_type)))
        .collect()
}
