//! Selects one type per tensor that minimizes the total quantization error within a size limit (a
//! multiple-choice knapsack).
//!
//! For each tensor, sampled rows are encoded as every type whose blocks fit the rows, and decoded.
//! The loss of a type is its importance-weighted noise-to-signal ratio times the weight of the
//! tensor: its number of elements, or its measured sensitivity. So it does not depend on the scale
//! of the values or of the importance.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "means and limits: no byte of a file depends on the last digit, and conversions \
              saturate"
)]

mod knapsack;
mod measure;

use std::borrow::Cow;

use ggmill_arch::ModelView;
use ggmill_core::{Alignment, ByteSize, FileType, GgmlType};

use self::knapsack::{Item, solve};
use self::measure::{Candidate, ErrorWeight, FitTensor, Measurement};
use crate::choice::{Choice, NEED_IMPORTANCE};
use crate::layers::{self, remaining};
use crate::loss::for_measuring;
use crate::mixture::{Hyper, fitting};
use crate::options::QuantizeOptions;
use crate::quantize::{is_known, quantize_recipe, quantize_shards};
use crate::sensitivity::{ToMeasure, Weighing, type_to_measure};
use crate::types::TypePlan;
use ggmill_pipeline::SplitOptions;
use ggmill_pipeline::{Checkpoint, Derived, GgufCheckpoint, SourceTensor};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_pipeline::{Progress, Report};
use ggmill_pipeline::{Recipe, RunOptions};

/// The maximum size of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Goal {
    /// The maximum number of bytes, including headers and padding. For a set of shards, of all
    /// shards together, with the headers of the maximum number of shards.
    Size(u64),
    /// The maximum number of bits per weight, over all tensors, without padding.
    BitsPerWeight(f64),
}

/// The types chosen for a goal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fit {
    /// The type of every tensor.
    pub types: TypePlan,
    /// Bits per weight, over all tensors.
    pub bits_per_weight: f64,
    /// The mean loss: the importance-weighted noise-to-signal ratio, measured on samples, averaged
    /// over all tensors by their weights.
    pub loss: f64,
    /// A lower bound of the mean loss of any choice of these types within the goal.
    pub least_loss: f64,
    /// The predicted KL divergence of the output from that of the source model, in nats, if the
    /// sensitivities of the tensors are known.
    pub divergence: Option<f64>,
    /// A lower bound of the predicted divergence of any choice of these types within the goal.
    pub least_divergence: Option<f64>,
    /// `true` if the goal allows the largest possible result, so that a larger goal gives the same.
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

/// Chooses a type for each tensor that minimizes the loss within the goal. Reads samples in
/// parallel.
///
/// Of the options, those apply that select tensors or fix their types: type patterns, the types of
/// embeddings and output, excluded tensors, removed layers. Quantized tensors keep their type
/// unless requantization is allowed. The result is for [`QuantizeOptions::types`]. `progress`
/// receives the number of bytes of the model that have been measured by samples. `cut` is how the
/// result will be [split](Recipe::split), if it is, and `run` sets the number of threads.
///
/// # Errors
///
/// If the goal is smaller than the smallest possible result, which the message states; and those of
/// [`quantize`](super::quantize).
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
    let model =
        FitInput { before: &before, source: checkpoint, tensors: checkpoint, shards: &shards };
    model.fit(options, cut, goal, run, progress)
}

/// Chooses types for a recipe whose expressions read `source`: the types that [`fit`] would choose
/// for the finished file. Computes the tensors to measure them. Errors as [`fit`].
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
    let model = FitInput { before, source, tensors: &tensors, shards: &shards };
    model.fit(options, cut, goal, run, progress)
}

/// The model that types are chosen for.
#[derive(Clone, Copy)]
struct FitInput<'a> {
    before: &'a Recipe,
    /// The checkpoint that the expressions of the recipe read.
    source: &'a dyn Checkpoint,
    /// The tensors of the recipe.
    tensors: &'a dyn Checkpoint,
    /// Returns the recipes of the files that a quantization would write.
    shards: &'a dyn Fn(&QuantizeOptions) -> Result<Vec<Recipe>>,
}

impl FitInput<'_> {
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
        let problem = Problem::new(self, options, cut, goal)?;
        let Problem { tensors, headers, total, budget, .. } = &problem;
        let (headers, total, budget) = (*headers, *total, *budget);
        let padded = |bytes: u64| problem.padded(bytes);
        let weights = total.max(1) as f64;
        let is_largest = problem.bytes(|sizes| sizes.max()) <= budget;
        let stays = |tensor: &FitTensor<'_>| tensor.types.first() == Some(&tensor.source.ggml_type);
        if is_largest && tensors.iter().all(stays) {
            // All tensors keep their types, so there is nothing to measure.
            let bytes = tensors.iter().map(FitTensor::size).fold(0, u64::saturating_add);
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
        let mut measurements: Vec<Measurement> = Vec::with_capacity(tensors.len());
        let (mut done, all) = (0, tensors.iter().map(FitTensor::size).fold(0, u64::saturating_add));
        for window in tensors.chunks(2 * workers.threads()) {
            let measured: Vec<Result<Measurement>> =
                workers.map(window, |tensor| tensor.measure(checkpoint));
            for (tensor, measured) in window.iter().zip(measured) {
                measurements.push(measured.map_err(|error| error.tensor(&tensor.name))?);
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
        let least = if predicts(options) { least_weight(&measurements) } else { 0.0 };
        let weight_of =
            |measured: &Measurement| measured.weight.map_or(0.0, |weight| weight.max(least));
        let as_items = |measured: &Measurement| {
            let weight = weight_of(measured);
            let as_item =
                |item: &Candidate| Item { bytes: padded(item.bytes), loss: item.relative * weight };
            measured.candidates.iter().map(as_item).collect()
        };
        let knapsack: Vec<Vec<Item>> = measurements.iter().map(as_items).collect();
        let solution = solve(&knapsack, budget)
            .map_err(|least| goal_too_small(goal, least, headers, total))?;
        let chosen: Vec<&Candidate> = measurements
            .iter()
            .zip(&solution.chosen)
            .filter_map(|(measured, &item)| measured.candidates.get(item))
            .collect();
        let total_weight = measurements.iter().map(weight_of).sum::<f64>().max(f64::MIN_POSITIVE);
        let bytes: u64 = chosen.iter().map(|item| item.bytes).sum();
        Ok(Fit {
            types: tensors
                .iter()
                .zip(&chosen)
                .map(|(tensor, item)| (tensor.name.clone(), item.ggml_type))
                .collect(),
            bits_per_weight: bytes as f64 * 8.0 / weights,
            loss: solution.loss / total_weight,
            least_loss: solution.bound / total_weight,
            divergence: predicts(options).then_some(solution.loss),
            least_divergence: predicts(options).then_some(solution.bound),
            is_largest,
        })
    }
}

/// The tensors whose types are chosen, and their budget.
#[derive(Debug)]
struct Problem<'a> {
    goal: Goal,
    tensors: Vec<FitTensor<'a>>,
    alignment: Alignment,
    /// The size of all headers in bytes.
    headers: u64,
    /// The number of weights of all tensors.
    total: u64,
    /// The maximum size of the data in bytes.
    budget: u64,
}

impl<'a> Problem<'a> {
    /// Returns an error if the smallest types exceed the goal.
    fn new(
        model: FitInput<'a>,
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
        let problem = Self { goal, tensors, alignment, headers, total, budget };
        let least = problem.bytes(|sizes| sizes.min());
        if least > budget { Err(goal_too_small(goal, least, headers, total)) } else { Ok(problem) }
    }

    /// Returns the bytes that count for the data of a tensor, including padding if the goal is a
    /// file size.
    fn padded(&self, bytes: u64) -> u64 {
        match self.goal {
            Goal::Size(_) => self.alignment.align(bytes).unwrap_or(u64::MAX),
            Goal::BitsPerWeight(_) => bytes,
        }
    }

    /// Returns the total bytes if `chosen` selects the size of each tensor from those of its types.
    fn bytes(&self, chosen: impl Fn(&mut dyn Iterator<Item = u64>) -> Option<u64>) -> u64 {
        let of = |tensor: &FitTensor<'_>| {
            let mut sizes = tensor.types.iter().map(|&ggml_type| size(tensor.source, ggml_type));
            self.padded(chosen(&mut sizes).unwrap_or(0))
        };
        self.tensors.iter().map(of).fold(0, u64::saturating_add)
    }
}

/// Returns `true` if losses are predicted divergences.
fn predicts(options: &QuantizeOptions) -> bool {
    matches!(options.weighing, Weighing::Measured(_))
}

/// Returns the minimum weight of a measured tensor: the least positive weight of all tensors.
/// Otherwise a tensor with a measured divergence of 0 would get the smallest type regardless of its
/// error.
fn least_weight(measured: &[Measurement]) -> f64 {
    /// Used if no tensor has a positive weight.
    const DEFAULT: f64 = 1e-12;
    let weights = measured.iter().filter_map(|measured| measured.weight);
    weights.filter(|&weight| weight > 0.0).min_by(f64::total_cmp).unwrap_or(DEFAULT)
}

/// Returns the tensors whose sensitivity [`fit`] needs, each with the type to measure it with and
/// the importance weights for its quantization.
///
/// The options apply as in [`fit`], and so do the errors: if the goal is too small, this fails
/// before anything is measured.
pub fn to_measure(
    checkpoint: &GgufCheckpoint,
    options: &QuantizeOptions,
    cut: Option<&SplitOptions>,
    goal: Goal,
) -> Result<Vec<ToMeasure>> {
    let before = Recipe::copy_of(checkpoint)?;
    let shards = |options: &QuantizeOptions| quantize_shards(checkpoint, options);
    let model =
        FitInput { before: &before, source: checkpoint, tensors: checkpoint, shards: &shards };
    let mut options = options.clone();
    options.weighing = Weighing::Even;
    let Problem { tensors, .. } = Problem::new(model, &options, cut, goal)?;
    let to_measure = |tensor: FitTensor<'_>| {
        let ggml_type = match tensor.types[..] {
            [only] => Some(only).filter(|&only| only != tensor.source.ggml_type),
            _ => type_to_measure(&tensor.types),
        }?;
        let importance = tensor.importance.filter(|_| ggml_type.is_quantized());
        Some(ToMeasure { name: tensor.name, ggml_type, importance })
    };
    Ok(tensors.into_iter().filter_map(to_measure).collect())
}

/// Returns the number of bytes of `weights` weights of `bits` bits each.
fn bytes_for(bits: f64, weights: u64) -> Result<u64> {
    if !bits.is_finite() || bits <= 0.0 {
        return Err(Error::new(
            ErrorKind::Budget,
            format!("{bits} bits per weight, expected more than 0"),
        ));
    }
    // Saturates for sizes beyond any file.
    Ok((bits * weights as f64 / 8.0).floor() as u64)
}

fn goal_too_small(goal: Goal, least: u64, headers: u64, weights: u64) -> Error {
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

/// Returns the tensors with their candidate types, the alignment, and the size of the headers.
fn outline<'a>(
    fitted: FitInput<'a>,
    options: &'a QuantizeOptions,
) -> Result<(Vec<FitTensor<'a>>, Alignment, u64)> {
    // The length of headers does not depend on the types.
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
        // Weights exist for any quantized type, and errors are weighted for all types.
        let importance = choice.importance(source, GgmlType::Q8_0).map_err(about)?;
        let pinned = choice.pinned(&String::from_utf8_lossy(&tensor.name), source);
        let measure = importance
            .as_deref()
            .and_then(|weights| for_measuring(weights, &source.shape))
            .map(Cow::into_owned);
        let error_weight = match &options.weighing {
            Weighing::Even => Some(ErrorWeight::Known(source.shape.elements() as f64)),
            Weighing::Measured(found) => found.get(&tensor.name).map(ErrorWeight::Measured),
        };
        // A tensor without a measured sensitivity keeps its type.
        let pinned = pinned.or_else(|| error_weight.is_none().then_some(source.ggml_type));
        let types =
            pinned.map_or_else(|| candidates(source, measure.is_some()), |pinned| vec![pinned]);
        Ok(FitTensor {
            number: tensor.number,
            name: tensor.name.clone(),
            source,
            importance,
            measure,
            types,
            error_weight,
        })
    };
    if let Weighing::Measured(found) = &options.weighing {
        found.check(tensors.iter().map(|tensor| &*tensor.name))?;
    }
    Ok((tensors.iter().map(subject).collect::<Result<_>>()?, alignment, headers))
}

/// Returns the size of the headers of a set of shards if every tensor has its largest type, which
/// gives the most shards.
fn headers_of_shards(
    fitted: FitInput<'_>,
    options: &QuantizeOptions,
    tensors: &[FitTensor<'_>],
    cut: &SplitOptions,
) -> Result<u64> {
    let mut largest = options.clone();
    let of = |tensor: &FitTensor<'_>| {
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

/// Returns the size of a tensor in bytes if it has this type.
fn size(source: &SourceTensor, ggml_type: GgmlType) -> u64 {
    ggml_type
        .layout()
        .and_then(|layout| layout.bytes_for(source.shape.elements()))
        .unwrap_or(u64::MAX)
}

impl Choice<'_> {
    /// Returns the only type that a tensor can have, or `None` if there is a choice.
    fn pinned(&self, name: &str, source: &SourceTensor) -> Option<GgmlType> {
        let is_free = self.kept(name, source).is_none()
            && (!source.ggml_type.is_quantized() || self.options.allow_requantize);
        if !is_free || ggmill_quant::codec(source.ggml_type).is_err() {
            return Some(source.ggml_type);
        }
        let by_pattern = self.requested_by_pattern(name);
        let by_role = self.requested_by_role(name, self.roles.of(name), by_pattern);
        by_role.or_else(|| by_pattern.map(|asked| fitting(asked, source.shape.row_len())))
    }
}

/// Returns the candidate types of a tensor: its own, and smaller ones whose blocks fit its rows.
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
