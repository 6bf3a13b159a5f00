//! `quantize`: quantizes the tensors of a model.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue};
use ggmill_core::{RawStr, keys};
use ggmill_inspect::TypeUse;
use ggmill_inspect::text::Candidate;
use ggmill_pipeline::{
    Checkpoint, ErrorKind, GgufCheckpoint, Plan, Recipe, ShardLimit, SourceTensor, SplitOptions,
};
use ggmill_quantize::{
    Fit, Goal, Importance, Losses, QuantizeOptions, RoleRule, Sensitivities, Target, TypePlan,
    Weighing, to_measure,
};

use super::RunText;
use super::calibrate::{self, Calibrated, RoundedTensor, round};
use super::measuring::Measuring;
use super::running::{program_with_note, runner};
use super::types::{Types, target, target_of, type_options, types_like};
use crate::error::Kind;
use crate::open::refuse_interrupted;
use crate::output::{Destination, Source, ToPlan};
use crate::progress::{Call, Stage, call_options};
use crate::{
    Error, Hint, Loss, Model, Note, Planned, Result, Written, read_architectures, read_text,
};

/// The maximum size of a plan, in bytes: it has a few hundred per tensor.
const MAX_PLAN_LEN: u64 = 256 << 20;

/// Quantizes a model to a type such as `Q4_K_M`: a name or number, as llama-quantize takes it.
/// `COPY` keeps the types.
///
/// ```no_run
/// let model = ggmill::Model::open("model-F16.gguf")?;
/// let written = ggmill::quantize(&model, "Q4_K_M")?.imatrix("imatrix.gguf")?.write("out.gguf")?;
/// println!("{} bytes", written.total_len());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn quantize<'a>(model: &Model, to: &str) -> Result<Quantize<'a>> {
    Ok(Quantize {
        model: model.clone(),
        target: target(to)?,
        types: Types::default(),
        call: Call::default(),
        allow_requantize: false,
        prune_layers: BTreeSet::new(),
        architectures: Vec::new(),
        architecture_files: Vec::new(),
        goal: None,
        measure: None,
        rounding: None,
        sensitivities: None,
        type_plan: None,
        type_plan_file: None,
        split: None,
        keep_split: false,
    })
}

/// The options of [`quantize()`].
#[derive(Debug)]
pub struct Quantize<'a> {
    model: Model,
    target: Target,
    types: Types,
    call: Call<'a>,
    allow_requantize: bool,
    prune_layers: BTreeSet<u64>,
    architectures: Vec<Architecture>,
    architecture_files: Vec<PathBuf>,
    goal: Option<Goal>,
    measure: Option<Calibration>,
    rounding: Option<(RunText, Option<u64>)>,
    sensitivities: Option<(PathBuf, Sensitivities)>,
    type_plan: Option<TypePlan>,
    type_plan_file: Option<PathBuf>,
    split: Option<SplitOptions>,
    keep_split: bool,
}

/// The measurement of sensitivities: the effect that quantizing each tensor has on the output of the
/// model.
#[derive(Clone, Debug)]
pub struct Calibration {
    text: RunText,
    memory: Option<u64>,
    without_importance: bool,
}

impl Calibration {
    /// Measures on this text. Every second chunk is used for the measurement, the others to test the
    /// result. Without an importance matrix, one is measured too.
    pub fn new(text: RunText) -> Self {
        Self { text, memory: None, without_importance: false }
    }

    /// Limits the memory for intermediate results, in bytes.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// Quantizes without an importance matrix.
    #[must_use]
    pub fn without_importance(self, without: bool) -> Self {
        Self { without_importance: without, ..self }
    }
}

impl<'a> Quantize<'a> {
    call_options!(overwrite, encoding);
    type_options!();

    /// Allows requantizing tensors that are already quantized, which loses quality.
    #[must_use]
    pub fn allow_requantize(mut self, allow: bool) -> Self {
        self.allow_requantize = allow;
        self
    }

    /// Removes these layers, and renumbers the others.
    #[must_use]
    pub fn prune_layers(mut self, layers: impl IntoIterator<Item = u64>) -> Self {
        self.prune_layers.extend(layers);
        self
    }

    /// Reads descriptions of architectures. The one of the model's architecture assigns roles to its
    /// tensors.
    pub fn architectures(mut self, paths: &[PathBuf]) -> Result<Self> {
        self.architectures.extend(read_architectures(paths)?);
        self.architecture_files.extend_from_slice(paths);
        Ok(self)
    }

    /// Chooses the types with the lowest quantization error for a file of at most `bytes` bytes. The
    /// type to quantize to is then `COPY`.
    #[must_use]
    pub fn target_size(mut self, bytes: u64) -> Self {
        self.goal = Some(Goal::Size(bytes));
        self
    }

    /// Chooses the types with the lowest quantization error for at most `bits` bits per weight. The
    /// type to quantize to is then `COPY`.
    #[must_use]
    pub fn target_bpw(mut self, bits: f64) -> Self {
        self.goal = Some(Goal::BitsPerWeight(bits));
        self
    }

    /// Chooses types for a size by their effect on the output of the model, which is measured for each
    /// tensor.
    #[must_use]
    pub fn measure(mut self, measure: Calibration) -> Self {
        self.measure = Some(measure);
        self
    }

    /// Rounds matrices by what they compute on a text, not weight by weight: the products with their inputs
    /// come closer to those of the original. Types, sizes and metadata stay the same. `memory` limits the
    /// memory for intermediate results, in bytes.
    ///
    /// Matrices are rounded in the order of the computation graph, each with the inputs that the matrices
    /// before it, which are rounded, leave, so that it makes up for a part of their errors. Experts and heads
    /// are rounded with the inputs that they see. The last eighth of the text, at least one chunk, decides
    /// for each matrix whether rounding weight by weight has the smaller error, and tests the result: see
    /// [`Quantized::test`]. A note names the tensors that cannot be rounded on a text.
    #[must_use]
    pub fn calibrate(mut self, text: RunText, memory: Option<u64>) -> Self {
        self.rounding = Some((text, memory));
        self
    }

    /// Chooses types for a size by the sensitivities in a plan, which an earlier call measured.
    pub fn sensitivities(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = read_text(path, MAX_PLAN_LEN)?;
        let found = Sensitivities::parse(text.as_bytes()).map_err(|error| {
            Error::from(error).within(path).replace_hint(Hint::PlanWithSensitivities)
        })?;
        self.sensitivities = Some((path.to_owned(), found));
        Ok(self)
    }

    /// Takes the types of tensors from a plan. With the type `COPY` the plan must list every tensor.
    pub fn type_plan(mut self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = read_text(path, MAX_PLAN_LEN)?;
        self = self.type_plan_json(&text).map_err(|error| error.within(path))?;
        self.type_plan_file = Some(path.to_owned());
        Ok(self)
    }

    /// Gives each tensor the type that it has in another model, and the file its type. Fails if the tensors
    /// of the two have different names. The type to quantize to is then `COPY`.
    pub fn like(mut self, other: &Model) -> Result<Self> {
        if !self.target.is_copy() {
            let message = "both a type and a model with types were given, expected one of them";
            return Err(Error::misuse(message));
        }
        self.target = target_of(other);
        self.type_plan = Some(types_like(other));
        Ok(self)
    }

    /// Takes the types of tensors from the text of a plan: see [`type_plan`](Self::type_plan).
    pub fn type_plan_json(mut self, json: &str) -> Result<Self> {
        self.type_plan = Some(TypePlan::parse(json.as_bytes())?);
        Ok(self)
    }

    /// Writes shards up to this limit; the output is the prefix of their names.
    #[must_use]
    pub fn split(mut self, limit: ShardLimit) -> Self {
        self.split = Some(SplitOptions::new(limit));
        self
    }

    /// Writes one shard for each shard of the model; the output is the prefix of their names.
    #[must_use]
    pub fn keep_split(mut self, keep: bool) -> Self {
        self.keep_split = keep;
        self
    }

    /// Returns the input files, which are never overwritten.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = self.model.files();
        inputs.extend(self.types.files().cloned());
        inputs.extend(self.measure.iter().filter_map(|measure| measure.text.input()));
        inputs.extend(self.rounding.iter().filter_map(|(text, _)| text.input()));
        inputs.extend(self.sensitivities.iter().map(|(path, _)| path.clone()));
        inputs.extend(self.type_plan_file.iter().cloned());
        inputs.extend(self.architecture_files.iter().cloned());
        inputs
    }

    /// Quantizes the model into a file, or into shards with this prefix: `plan(out)?.write()`.
    pub fn write(self, out: impl AsRef<Path>) -> Result<Quantized<'a>> {
        self.plan(out)?.write()
    }

    /// Chooses the types and plans the file, and writes nothing. With [`measure`](Self::measure), this
    /// includes the measurement.
    pub fn plan(mut self, out: impl AsRef<Path>) -> Result<QuantizePlan<'a>> {
        self.check_goal()?;
        let is_split = self.keep_split || self.split.is_some();
        let destination = Destination::new(out.as_ref(), is_split);
        let inputs = self.inputs();
        refuse_interrupted(&self.model.files())?;
        destination.check(&inputs, self.call.overwrite)?;
        let checkpoint = self.model.checkpoint()?;
        let mut measuring = self.start_measuring()?;
        let rounding = self.start_rounding()?;
        let model = self.model.clone();
        self.note_sensitivities();
        let (goal, split, keep_split) = (self.goal, self.split, self.keep_split);
        let sensitivities = self.sensitivities.take().map(|(_, found)| found);
        let (mut options, mut call) = self.into_options(&checkpoint)?;
        let mut predicted = None;
        if let Some(goal) = goal {
            let found = match &measuring {
                Some(measuring) => {
                    if options.importance.is_none() {
                        options.importance = measuring.importance(&mut call)?;
                    }
                    let tensors = to_measure(&checkpoint, &options, split.as_ref(), goal)
                        .map_err(|error| too_small(error, checkpoint.tensors(), &options))?;
                    Some(measuring.sensitivities(tensors, &mut call)?)
                }
                None => sensitivities,
            };
            options.weighing = found.map_or(Weighing::Even, Weighing::Measured);
            let fit = call.with_report(Stage::Sampling, |run, report| {
                ggmill_quantize::fit(&checkpoint, &options, split.as_ref(), goal, run, report)
            });
            let fit = fit.map_err(|error| too_small(error, checkpoint.tensors(), &options))?;
            note_choice(&fit, goal, &mut call);
            predicted = fit.divergence;
            options.types = Some(fit.types);
        }
        let keeps_shards = keep_split && split.is_none();
        let recipes = |options: &QuantizeOptions| {
            if keeps_shards {
                ggmill_quantize::quantize_shards(&checkpoint, options)
            } else {
                Ok(vec![ggmill_quantize::quantize(&checkpoint, options)?])
            }
        };
        let test = rounding.as_ref().map(|(_, test)| test);
        let (mut recipes, refusal) = with_refusal(&mut options, test, &mut call, recipes)?;
        if let [recipe] = &mut *recipes
            && !keeps_shards
        {
            if rounding.is_none() && refusal.is_none() {
                add_scales(recipe, &checkpoint, &mut call)?;
            }
            if let Some(split) = &split {
                recipes = std::mem::take(recipe).split(split)?;
            }
        }
        let mut compared = Vec::new();
        let (source, rounded) = match rounding.filter(|_| refusal.is_none()) {
            Some((calibrated, test)) => {
                let plans = recipes.iter().map(|recipe| recipe.clone().plan(&checkpoint));
                compared = plans.collect::<ggmill_pipeline::Result<_>>()?;
                let found = round(&mut recipes, checkpoint, &calibrated, &test, &mut call)?;
                measuring = Some(test);
                found
            }
            None => (Box::new(checkpoint) as Source, Vec::new()),
        };
        let what = ToPlan {
            recipes,
            source,
            destination,
            inputs,
            name: None,
            other_name: String::new(),
            rules: None,
            refusal,
        };
        let planned = Planned::new(what, call)?;
        let importance = options.importance;
        Ok(QuantizePlan { planned, model, importance, measuring, predicted, rounded, compared })
    }

    /// Plans the model with each of these types, and returns their sizes. The size for a type that
    /// requires an importance matrix is computed without one, too, and has a remark.
    pub fn compare(self, types: &[&str]) -> Result<Compared> {
        let targets = types.iter().map(|name| target(name)).collect::<Result<Vec<Target>>>()?;
        let checkpoint = self.model.checkpoint()?;
        let (mut options, _) = self.into_options(&checkpoint)?;
        options.dry_run = true;
        let mut compared = Compared { candidates: Vec::new(), notes: Vec::new() };
        for target in targets {
            options.target = target;
            let plan = ggmill_quantize::quantize(&checkpoint, &options)?.plan(&checkpoint)?;
            compared.add(target, &plan);
        }
        Ok(compared)
    }

    fn check_goal(&self) -> Result<()> {
        if self.goal.is_some() && !self.target.is_copy() {
            let message = "both a type and a target size were given, expected one of them";
            return Err(Error::misuse(message));
        }
        if self.measure.is_none() && self.sensitivities.is_none() {
            return Ok(());
        }
        if self.goal.is_none() {
            let message = "sensitivities choose types for a size, and there is none";
            return Err(Error::misuse(message).with_hint(Hint::NameSize));
        }
        if !self.prune_layers.is_empty() {
            let message = "sensitivities are of the whole model, and layers are removed";
            return Err(Error::misuse(message).with_hint(Hint::PruneFirst));
        }
        Ok(())
    }

    fn start_measuring(&mut self) -> Result<Option<Measuring>> {
        let Some(measure) = &self.measure else { return Ok(None) };
        let model = self.model.clone();
        let (fitted, held_out) = measure.text.read(&model)?.halves();
        if held_out.texts().is_empty() {
            let message = "one chunk of text was given, expected one to measure with and one to \
                           test the result with";
            return Err(Error::misuse(message));
        }
        let runner = runner(self.call.threads, measure.memory)?;
        let catalogue = self.catalogue();
        program_with_note(&model, &catalogue, None, &mut self.call)?;
        let measures_importance = self.types.imatrix.is_none() && !measure.without_importance;
        let dataset = measures_importance.then(|| measure.text.name().unwrap_or_default());
        Ok(Some(Measuring { model, catalogue, runner, dataset, fitted, held_out }))
    }

    /// Reads the text for rounding, and divides it into chunks. Also returns the test of the result.
    fn start_rounding(&self) -> Result<Option<(Calibrated, Measuring)>> {
        let Some((text, memory)) = &self.rounding else { return Ok(None) };
        if !self.prune_layers.is_empty() {
            let message = "the text is run through the whole model, and layers are removed";
            return Err(Error::misuse(message).with_hint(Hint::PruneFirst));
        }
        calibrate::start(&self.model, self.catalogue(), (text, *memory), self.call.threads)
            .map(Some)
    }

    fn catalogue(&self) -> Catalogue {
        self.architectures.iter().cloned().fold(Catalogue::new(), Catalogue::with)
    }

    fn note_sensitivities(&mut self) {
        if let Some((path, found)) = &self.sensitivities
            && found.with_importance()
            && self.types.imatrix.is_none()
        {
            self.call.note(Note::SensitivitiesWithImportance(path.clone()));
        }
    }

    fn into_options(self, checkpoint: &GgufCheckpoint) -> Result<(QuantizeOptions, Call<'a>)> {
        let Self { target, types, mut call, .. } = self;
        let mut options = QuantizeOptions::new(target);
        let described = described_roles(&self.architectures, checkpoint)?;
        let decides = |plan: &TypePlan| plan.is_complete() || target.is_copy();
        if self.type_plan.as_ref().is_some_and(decides) && types.decide_types() {
            call.note(Note::PlanDecidesTypes);
        }
        let names: Vec<String> = checkpoint
            .tensors()
            .iter()
            .map(|tensor| tensor.name().to_string_lossy().into_owned())
            .collect();
        types.apply(&mut options, &names, &mut call)?;
        options.allow_requantize = self.allow_requantize;
        options.roles.extend(described);
        options.types = self.type_plan;
        options.prune_layers = self.prune_layers;
        Ok((options, call))
    }
}

/// Creates recipes. If that needs an importance matrix, `test` measures one. If it fails for a reason that
/// only prevents writing, such as a missing importance matrix, returns the recipes of a dry run, and the
/// error.
pub(super) fn with_refusal<R>(
    options: &mut QuantizeOptions,
    test: Option<&Measuring>,
    call: &mut Call<'_>,
    recipes: impl Fn(&QuantizeOptions) -> ggmill_pipeline::Result<R>,
) -> Result<(R, Option<Error>)> {
    options.dry_run = false;
    let mut found = recipes(options);
    if let Some(test) = test
        && found.as_ref().is_err_and(|error| error.kind() == ErrorKind::Importance)
        && options.importance.is_none()
    {
        options.importance = test.importance(call)?;
        found = recipes(options);
    }
    match found {
        Ok(recipes) => Ok((recipes, None)),
        Err(refusal) => {
            options.dry_run = true;
            Ok((recipes(options)?, Some(refusal.into())))
        }
    }
}

/// Adds the scales with which NVFP4 blocks hold weights.
pub(super) fn add_scales(
    recipe: &mut Recipe,
    checkpoint: &dyn Checkpoint,
    call: &mut Call<'_>,
) -> Result<()> {
    let scaled = call.with_report(Stage::Sampling, |run, report| {
        ggmill_quantize::add_scales(recipe, checkpoint, run, report)
    });
    Ok(scaled?)
}

/// Returns the rules for roles in the description of the model's architecture.
fn described_roles(
    architectures: &[Architecture],
    checkpoint: &GgufCheckpoint,
) -> Result<Vec<RoleRule>> {
    if architectures.is_empty() {
        return Ok(Vec::new());
    }
    let metadata = checkpoint.metadata();
    let name = metadata.str(keys::GENERAL_ARCHITECTURE).unwrap_or_default();
    let found = architectures.iter().rev().find(|architecture| architecture.name() == name);
    let architecture = found.ok_or_else(|| {
        let names: Vec<_> = architectures
            .iter()
            .map(|architecture| format!("{:?}", RawStr::from(architecture.name())))
            .collect();
        let (name, names) = (RawStr::from(name), names.join(", "));
        let message = format_args!(
            "the architecture of the model is {name:?}, but the description is of {names}"
        );
        Error::new(Kind::Misuse, "description", message)
    })?;
    Ok(RoleRule::of(architecture)?)
}

/// Adds a note about the types that were chosen for a size.
pub(super) fn note_choice(fit: &Fit, goal: Goal, call: &mut Call<'_>) {
    let bits_per_weight = fit.bits_per_weight;
    call.note(match (fit.is_largest, fit.divergence, fit.least_divergence) {
        (true, ..) => Note::GoalTooLarge { goal, bits_per_weight },
        (false, Some(divergence), Some(least)) => {
            Note::Chosen { bits_per_weight, loss: Loss::Output(divergence, least) }
        }
        _ => {
            let loss = Loss::Weights(fit.loss.sqrt(), fit.least_loss.sqrt());
            Note::Chosen { bits_per_weight, loss }
        }
    });
}

/// Converts an error of choosing types. If the size is too small, the hint names options that allow a
/// smaller result.
pub(super) fn too_small(
    error: ggmill_pipeline::Error,
    tensors: &[SourceTensor],
    options: &QuantizeOptions,
) -> Error {
    if error.kind() != ErrorKind::Budget {
        return error.into();
    }
    let requantize =
        !options.allow_requantize && tensors.iter().any(|tensor| tensor.ggml_type.is_quantized());
    // The smallest types, which need an importance matrix, have blocks of 256 elements.
    let has_long_rows = tensors.iter().any(|tensor| {
        tensor.shape.dimensions().len() > 1 && tensor.shape.row_len().is_multiple_of(256)
    });
    let importance = options.importance.is_none() && has_long_rows;
    let hint = (requantize || importance).then_some(Hint::Smaller { requantize, importance });
    Error::from(error).with_hint(hint)
}

/// The sizes of a model in several types.
#[derive(Debug)]
#[non_exhaustive]
pub struct Compared {
    /// The size of each type.
    pub candidates: Vec<Candidate>,
    /// Remarks, each with the names of the types to which it applies.
    pub notes: Vec<(String, Vec<&'static str>)>,
}

impl Compared {
    fn add(&mut self, target: Target, plan: &Plan) {
        let is_refusal = |note: &&String| ggmill_quantize::is_failure(note);
        let refusal = plan.notes().iter().find(is_refusal);
        for note in plan.notes().iter().filter(|note| !is_refusal(note)) {
            match self.notes.iter_mut().find(|(known, _)| known == note) {
                Some((_, names)) => names.push(target.name()),
                None => self.notes.push((note.clone(), vec![target.name()])),
            }
        }
        let tensors = plan.layout().tensors().iter();
        let uses = TypeUse::tally(
            tensors.map(|tensor| (tensor.ggml_type(), tensor.shape(), Some(tensor.size()))),
        );
        self.candidates.push(
            Candidate::new(target.name(), plan.layout().total_len(), uses)
                .with_remark(refusal.cloned()),
        );
    }
}

/// A planned quantization: a [`Planned`], with the choice of types.
#[derive(Debug)]
pub struct QuantizePlan<'a> {
    planned: Planned<'a>,
    model: Model,
    importance: Option<Importance>,
    measuring: Option<Measuring>,
    predicted: Option<f64>,
    rounded: Vec<RoundedTensor>,
    /// The plans before rounding on a text, whose tensors are made from those of the model.
    compared: Vec<Plan>,
}

impl<'a> Deref for QuantizePlan<'a> {
    type Target = Planned<'a>;

    fn deref(&self) -> &Planned<'a> {
        &self.planned
    }
}

impl<'a> QuantizePlan<'a> {
    /// Returns the plan of the model. Fails if [`write`](Self::write) would, for example because an
    /// importance matrix is missing.
    pub fn into_planned(self) -> Result<Planned<'a>> {
        self.planned.without_refusal()
    }

    /// Returns the error of [`write`](Self::write) for a model that can be planned, but not written,
    /// for example because an importance matrix is missing.
    pub fn into_refusal(self) -> Option<Error> {
        self.planned.into_refusal()
    }

    /// Writes the files: all of them complete, or none.
    pub fn write(self) -> Result<Quantized<'a>> {
        let Self { planned, model, importance, measuring, predicted, rounded, compared } = self;
        let (written, call) = planned.write_with_call()?;
        Ok(Quantized { written, call, model, importance, measuring, predicted, rounded, compared })
    }
}

/// A quantized model that was written: a [`Written`], which can be compared with the original.
#[derive(Debug)]
pub struct Quantized<'a> {
    written: Written,
    call: Call<'a>,
    model: Model,
    importance: Option<Importance>,
    measuring: Option<Measuring>,
    predicted: Option<f64>,
    rounded: Vec<RoundedTensor>,
    /// The plans before rounding on a text, whose tensors are made from those of the model.
    compared: Vec<Plan>,
}

impl Deref for Quantized<'_> {
    type Target = Written;

    fn deref(&self) -> &Written {
        &self.written
    }
}

impl Quantized<'_> {
    /// Returns the tensors that were rounded on a text, in the order of the computation graph: see
    /// [`Quantize::calibrate`].
    pub fn rounded(&self) -> &[RoundedTensor] {
        &self.rounded
    }

    /// Measures the quantization error of each tensor, which reads the original and the result.
    pub fn losses(&mut self) -> Result<Losses> {
        let Some(first) = self.written.paths().first() else { return Ok(Losses::default()) };
        let written = GgufCheckpoint::open(first)?;
        let plans = if self.compared.is_empty() { self.written.plans() } else { &self.compared };
        let plans: Vec<&Plan> = plans.iter().collect();
        let (checkpoint, importance) = (self.model.checkpoint()?, self.importance.as_ref());
        let losses = self.call.with_report(Stage::Reading, |run, report| {
            ggmill_quantize::loss(&plans, &checkpoint, &written, importance, run, report)
        })?;
        if !losses.unmeasured.is_empty() {
            let name = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
            let names = losses.unmeasured.iter().map(name).collect();
            self.call.note(Note::NotCompared(names));
        }
        self.written.notes.append(&mut self.call.notes);
        Ok(losses)
    }

    /// Measures the result on the held-out text, and adds a note. Does nothing if types were chosen
    /// without a measurement.
    pub fn test(&mut self) -> Result<()> {
        if let (Some(measuring), Some(path)) = (&self.measuring, self.written.paths().first()) {
            measuring.test(path, self.predicted, &mut self.call)?;
        }
        self.written.notes.append(&mut self.call.notes);
        Ok(())
    }
}
