//! `verify`: compares a file with the one that its source gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use ggmill_arch::{Architecture, Catalogue};
use ggmill_convert::{ConvertOptions, own_type};
use ggmill_core::{FileType, GgmlType, RawStr, Shape, keys};
use ggmill_inspect::diff::{Diff, KeyDiff};
use ggmill_inspect::{FileKind, Selection};
use ggmill_pipeline::{
    Checkpoint as _, Difference, Encoding, Expression, GgufCheckpoint, Match, Recipe, RecipeTensor,
    SourceTensor, ToMatch, match_tensors, matrices, usual_error,
};
use ggmill_quantize::{Importance, QuantizeOptions, TypePlan, quantize_recipe};
use ggmill_text::LosslessStr;
use serde_json::json;

use super::checkpoint::{open_checkpoint, unknown_class};
use super::types::{Types, target_of};
use crate::find::refuse_missing;
use crate::open::{kind_of_file, refuse_interrupted};
use crate::output::Source;
use crate::paths::is_remote;
use crate::progress::{Call, Stage, call_options};
use crate::{Error, Model, OpenOptions, Result, read_architectures};

/// Verifies that a file is what its source gives: the checkpoint that it was converted from, or the GGUF
/// file that it was quantized from.
///
/// The types of the tensors are those of the file. Each tensor is computed from the source and compared
/// with the one in the file; nothing is written.
///
/// ```no_run
/// let model = ggmill::Model::open("model-Q4_K_M.gguf")?;
/// let verified = ggmill::verify(&model, "checkpoint/")?.imatrix("imatrix.gguf")?.run()?;
/// println!("{}", verified.verdict());
/// # Ok::<(), ggmill::Error>(())
/// ```
pub fn verify<'a>(model: &Model, source: impl AsRef<Path>) -> Result<Verify<'a>> {
    Ok(Verify {
        model: model.clone(),
        source: source.as_ref().to_owned(),
        types: Types::default(),
        open: OpenOptions::new(),
        call: Call::default(),
        architectures: Vec::new(),
    })
}

/// The options of [`verify()`].
#[derive(Debug)]
pub struct Verify<'a> {
    model: Model,
    source: PathBuf,
    types: Types,
    open: OpenOptions,
    call: Call<'a>,
    architectures: Vec<Architecture>,
}

/// The result of comparing a file, or one of its tensors, with its source. Worse results are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verdict {
    /// All bytes are those that the source gives.
    Identical,
    /// Every block is as near to the source as its type allows: another importance matrix, a calibration
    /// or another program gives such blocks.
    Consistent,
    /// The file does not come from this source.
    Different,
}

impl Verdict {
    /// Returns the name: `identical`, `consistent` or `different`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Consistent => "consistent",
            Self::Different => "different",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The comparison of one tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VerifiedTensor {
    /// The name in the file, or in the source if the file lacks it. Not necessarily UTF-8.
    pub name: Vec<u8>,
    /// The type in the file; `None` if the file lacks the tensor.
    pub ggml_type: Option<GgmlType>,
    found: Found,
}

/// The result for a tensor.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    Identical,
    Compared(Verdict, Difference),
    NotCompared(String),
}

/// The result of [`Verify::run`].
#[derive(Debug)]
pub struct Verified {
    model: Model,
    expected: ggmill_core::Model,
    tensors: Vec<VerifiedTensor>,
    float_type: Option<FileType>,
    lacks_importance: bool,
    is_from_quantized: bool,
}

impl<'a> Verify<'a> {
    call_options!();

    /// Reads the importance matrix that the file was quantized with.
    pub fn imatrix(mut self, path: impl AsRef<Path>) -> Result<Self> {
        self.types.read_imatrix(path.as_ref())?;
        Ok(self)
    }

    /// Reads descriptions of architectures, in addition to the built-in ones.
    pub fn architectures(mut self, paths: &[PathBuf]) -> Result<Self> {
        self.architectures.extend(read_architectures(paths)?);
        Ok(self)
    }

    /// Sets how the source is opened, if it is an address.
    #[must_use]
    pub fn open_with(mut self, options: OpenOptions) -> Self {
        self.open = options;
        self
    }

    /// Reads the file and its source, and compares them.
    ///
    /// Fails for a source of another architecture, one that cannot be converted, and an importance matrix
    /// of another model.
    pub fn run(mut self) -> Result<Verified> {
        refuse_interrupted(&self.model.files())?;
        let file = self.model.checkpoint()?;
        let Opened { source, float_types, base } = self.open_source(file.tensors())?;
        self.refuse_other_architecture(&base)?;
        let mut options = QuantizeOptions::new(target_of(&self.model));
        std::mem::take(&mut self.types).apply(&mut options, &[], &mut self.call)?;
        options.allow_requantize = true;
        options.dry_run = true;
        let mut expected = expected_recipe(base, file.tensors(), &mut options)?;
        let has_scales = has_nvfp4_scales(file.tensors());
        if has_scales {
            self.call.with_report(Stage::Sampling, |options, report| {
                ggmill_quantize::add_scales(&mut expected, &*source, options, report)
            })?;
        }

        let by_name: Vec<ByName<'_>> =
            float_types.iter().map(|(_, recipe)| by_name(recipe)).collect();
        self.refuse_other_importance(options.importance.as_ref(), file.tensors())?;
        let scaled = has_scales.then(|| self::by_name(&expected));
        let importance = options.importance.as_ref();
        let mut tensors = Vec::with_capacity(file.tensors().len());
        let mut pairs = Vec::new();
        for (number, found) in file.tensors().iter().enumerate() {
            tensors.push(match candidates(found, &by_name, importance, scaled.as_ref()) {
                Ok(candidates) => {
                    pairs.push(ToMatch::new(number, candidates));
                    VerifiedTensor::of(found, Found::NotCompared("was not compared".to_owned()))
                }
                Err(reason) => VerifiedTensor::of(found, Found::NotCompared(reason)),
            });
        }
        let matched = self.call.with_report(Stage::Reading, |options, report| {
            match_tensors(&pairs, &*source, &file, options, report)
        })?;
        // Only quantized tensors show the float type that they were quantized from.
        let mut uses = vec![0usize; float_types.len()];
        for (pair, found) in pairs.iter().zip(matched) {
            match found {
                Match::Identical(candidate) => {
                    let tensor = &mut tensors[pair.number];
                    tensor.found = Found::Identical;
                    let is_scaled =
                        scaled.as_ref().is_some_and(|scaled| scaled.contains_key(&*tensor.name));
                    if !is_scaled && tensor.ggml_type.is_some_and(GgmlType::is_quantized) {
                        uses[candidate % float_types.len()] += 1;
                    }
                }
                Match::Different(difference) => {
                    let verdict = verdict_of(&file.tensors()[pair.number], &difference);
                    tensors[pair.number].found = Found::Compared(verdict, difference);
                }
                _ => {}
            }
        }
        let of_file: BTreeSet<&[u8]> = file.tensors().iter().map(|tensor| &*tensor.name).collect();
        let missing = |name: &&[u8]| VerifiedTensor {
            name: name.to_vec(),
            ggml_type: None,
            found: Found::NotCompared("the file lacks this tensor of the source".to_owned()),
        };
        tensors.extend(by_name[0].keys().filter(|name| !of_file.contains(*name)).map(missing));
        let most = uses.iter().copied().max().unwrap_or(0);
        let float_type = uses.iter().position(|&count| count == most);
        let float_type = float_type.filter(|&number| number > 0).and_then(|n| float_types[n].0);
        let lacks_importance = options.importance.is_none()
            && self
                .model
                .metadata()
                .iter()
                .any(|entry| entry.key().as_bytes().starts_with(b"quantize.imatrix."));
        let is_from_quantized = tensors.iter().any(|tensor| {
            tensor.verdict() == Verdict::Different
                && tensor.ggml_type.is_some_and(|ggml_type| !ggml_type.is_quantized())
                && by_name[0].get(&*tensor.name).is_some_and(|of| of.ggml_type().is_quantized())
        });
        let expected = expected.plan(&*source)?.model()?;
        Ok(Verified {
            model: self.model,
            expected,
            tensors,
            float_type,
            lacks_importance,
            is_from_quantized,
        })
    }

    /// Opens the source. `tensors` are those of the file.
    fn open_source(&self, tensors: &[SourceTensor]) -> Result<Opened> {
        let path = &self.source;
        let is_gguf = if is_remote(path) {
            path.extension().is_some_and(|extension| extension == "gguf")
        } else {
            refuse_missing(path)?;
            kind_of_file(path) == Some(FileKind::Gguf)
        };
        if is_gguf {
            let source = self.open.open(path)?;
            refuse_interrupted(&source.files())?;
            let checkpoint: GgufCheckpoint = source.checkpoint()?;
            let base = Recipe::copy_of(&checkpoint)?;
            let mut float_types = vec![(None, base.clone())];
            for file_type in [FileType::F16, FileType::BF16] {
                float_types.extend(rounded(&base, file_type)?);
            }
            return Ok(Opened { source: Box::new(checkpoint), float_types, base });
        }
        let checkpoint = open_checkpoint(path, false, &self.open)?;
        let catalogue = self.architectures.iter().cloned().fold(Catalogue::new(), Catalogue::with);
        let is_projector =
            self.model.metadata().str(keys::GENERAL_TYPE).is_ok_and(|found| found == "mmproj");
        let config = ggmill_pipeline::Pretrained::config(&checkpoint);
        let found = if is_projector {
            catalogue.for_projector(config)
        } else {
            catalogue.for_checkpoint(config)
        };
        let architecture =
            found.map_err(|error| unknown_class(error, is_projector, &catalogue, &checkpoint))?;
        let convert = |file_type, no_vocab| {
            let mut options = ConvertOptions::new(file_type);
            (options.no_verify, options.no_vocab) = (true, no_vocab);
            ggmill_convert::convert(&checkpoint, architecture, &options)
        };
        let own = own_type(&checkpoint);
        let mut float_types = Vec::new();
        for file_type in [own, FileType::BF16, FileType::F16, FileType::F32] {
            if float_types.iter().all(|(known, _)| *known != Some(file_type)) {
                float_types.push((Some(file_type), convert(file_type, true)?));
            }
        }
        let of_file = types_of(tensors);
        let is_as_written = |recipe: &Recipe| {
            let mut tensors = recipe.tensors.iter();
            tensors.all(|tensor| of_file.get(&*tensor.name) == Some(&tensor.ggml_type()))
        };
        let written = [own, FileType::BF16, FileType::F16, FileType::F32, FileType::Q8_0];
        let mut base_type = own;
        for file_type in written {
            if is_as_written(&convert(file_type, true)?) {
                base_type = file_type;
                break;
            }
        }
        let base = convert(base_type, false)?;
        Ok(Opened { source: Box::new(checkpoint), float_types, base })
    }

    /// Fails if an importance matrix has no entry for any quantized tensor of the file.
    fn refuse_other_importance(
        &self,
        importance: Option<&Importance>,
        tensors: &[SourceTensor],
    ) -> Result<()> {
        let Some(importance) = importance else { return Ok(()) };
        let mut quantized = tensors.iter().filter(|tensor| tensor.ggml_type.is_quantized());
        let has_entry = |tensor: &SourceTensor| {
            let columns = matrices(&tensor.shape).saturating_mul(tensor.shape.row_len());
            let weights = importance.weights(&tensor.name);
            weights.is_some_and(|weights| weights.len() as u64 == columns)
        };
        if quantized.any(has_entry) {
            return Ok(());
        }
        let message = "the importance matrix has no weights for any quantized tensor of the file";
        Err(self.model.located(Error::misuse(message)))
    }

    /// Fails if the source has another architecture than the file.
    fn refuse_other_architecture(&self, base: &Recipe) -> Result<()> {
        let of_file = self.model.metadata().str(keys::GENERAL_ARCHITECTURE);
        let of_file = of_file.map_err(|error| self.model.located(error))?;
        let stated = base.metadata.get(keys::GENERAL_ARCHITECTURE);
        let of_source = stated.as_ref().and_then(ggmill_core::Value::as_str).unwrap_or_default();
        if of_file == of_source {
            return Ok(());
        }
        let message =
            format_args!("has the architecture {of_source:?}, and the file has {of_file:?}");
        Err(Error::misuse(message).at(&self.source))
    }
}

/// An opened source.
struct Opened {
    source: Source,
    /// The models that may have been quantized: the source as it is, and rounded to other float types.
    float_types: Vec<(Option<FileType>, Recipe)>,
    /// The model that has the metadata.
    base: Recipe,
}

/// Returns the model with its matrices rounded to a float type; `None` if none has more precision.
fn rounded(base: &Recipe, file_type: FileType) -> Result<Option<(Option<FileType>, Recipe)>> {
    let to = if file_type == FileType::F16 { GgmlType::F16 } else { GgmlType::BF16 };
    let (mut recipe, mut is_rounded) = (base.clone(), false);
    for tensor in &mut recipe.tensors {
        let is_wider = tensor.ggml_type() == GgmlType::F32
            || (tensor.ggml_type(), to) == (GgmlType::BF16, GgmlType::F16);
        if is_wider && tensor.shape().dimensions().len() > 1 {
            tensor.expression = tensor.expression.encode(to, Encoding::default())?;
            is_rounded = true;
        }
    }
    Ok(is_rounded.then_some((Some(file_type), recipe)))
}

fn types_of(tensors: &[SourceTensor]) -> BTreeMap<&[u8], GgmlType> {
    tensors.iter().map(|tensor| (&*tensor.name, tensor.ggml_type)).collect()
}

/// The tensors of a recipe by name.
type ByName<'a> = BTreeMap<&'a [u8], &'a RecipeTensor>;

fn by_name(recipe: &Recipe) -> ByName<'_> {
    recipe.tensors.iter().map(|tensor| (&*tensor.name, tensor)).collect()
}

/// Returns the recipe whose metadata the file should have.
fn expected_recipe(
    before: Recipe,
    tensors: &[SourceTensor],
    options: &mut QuantizeOptions,
) -> Result<Recipe> {
    let of_file = types_of(tensors);
    let weight_types: BTreeSet<GgmlType> = ggmill_quantize::weight_types().collect();
    let type_of = |tensor: &RecipeTensor| {
        let own = tensor.ggml_type();
        let possible = of_file.get(&*tensor.name).copied().filter(|&found| {
            [found, own].iter().all(|either| weight_types.contains(either))
                && tensor.expression.encode(found, Encoding::default()).is_ok()
        });
        possible.unwrap_or(own)
    };
    if before.tensors.iter().all(|tensor| type_of(tensor) == tensor.ggml_type()) {
        return Ok(before);
    }
    let types = before.tensors.iter().map(|tensor| (tensor.name.clone(), type_of(tensor)));
    options.types = Some(types.collect::<TypePlan>());
    Ok(quantize_recipe(&before, options)?)
}

/// Returns the expressions that a tensor of the file may come from: those of each recipe with importance
/// weights, then without, then that of `scaled`. The error is the reason why there are none.
fn candidates(
    found: &SourceTensor,
    recipes: &[ByName<'_>],
    importance: Option<&Importance>,
    scaled: Option<&ByName<'_>>,
) -> Result<Vec<Expression>, String> {
    let columns = matrices(&found.shape).saturating_mul(found.shape.row_len());
    let weights = importance
        .and_then(|importance| importance.weights(&found.name))
        .filter(|weights| weights.len() as u64 == columns)
        .map(<[f32]>::to_vec);
    let needs_weights =
        ggmill_quant::codec(found.ggml_type).is_ok_and(ggmill_quant::BlockCodec::needs_weights);
    let mut candidates = Vec::new();
    let mut encodings = Vec::new();
    if found.ggml_type.is_quantized() {
        encodings.extend(weights.map(|weights| Encoding::new(Some(weights), false)));
    }
    encodings.push(if needs_weights {
        // Every column is equally important.
        let columns = usize::try_from(columns).unwrap_or(0);
        Encoding::new(Some(vec![1.0; columns]), false)
    } else {
        Encoding::default()
    });
    let scaled = scaled
        .and_then(|scaled| scaled.get(&*found.name))
        .filter(|tensor| (tensor.ggml_type(), tensor.shape()) == (found.ggml_type, &found.shape));
    for encoding in encodings {
        for recipe in recipes {
            if scaled.is_some() && !recipe.contains_key(&*found.name) {
                continue;
            }
            let tensor = recipe.get(&*found.name).ok_or("the source has no such tensor")?;
            if !has_same_dimensions(tensor.shape(), &found.shape) {
                return Err(format!("the source gives it the shape {}", tensor.shape()));
            }
            let reshaped =
                tensor.expression.reshape(found.shape).map_err(|error| error.to_string())?;
            let encoded = reshaped.encode(found.ggml_type, encoding.clone());
            candidates.push(encoded.map_err(|error| error.to_string())?);
        }
    }
    candidates.extend(scaled.map(|tensor| tensor.expression.clone()));
    Ok(candidates)
}

/// Returns `true` if two shapes differ only in trailing dimensions of 1, which llama.cpp does not write.
fn has_same_dimensions(a: &Shape, b: &Shape) -> bool {
    let rank = |shape: &Shape| {
        shape.dimensions().iter().rposition(|&dimension| dimension != 1).map_or(0, |last| last + 1)
    };
    a.dimensions()[..rank(a)] == b.dimensions()[..rank(b)]
}

/// Returns `true` if NVFP4 tensors have scales of whole matrices.
fn has_nvfp4_scales(tensors: &[SourceTensor]) -> bool {
    let names: BTreeSet<&[u8]> = tensors.iter().map(|tensor| &*tensor.name).collect();
    tensors.iter().any(|tensor| {
        let stem = tensor.name.strip_suffix(b".weight");
        tensor.ggml_type == GgmlType::NVFP4
            && stem.is_some_and(|stem| names.contains(&*[stem, b".scale"].concat()))
    })
}

/// The greatest squared error of a tensor, as a multiple of the expected one. An importance matrix whose
/// weights differ by a factor of 50,000 gives 2.3 at most (`conformance/verify_bounds.py`).
const MAX_ERROR: f64 = 4.0;

/// The greatest squared error of a block, as a multiple of the expected one: 70 at most, because a single
/// weight can have all the importance.
const MAX_BLOCK_ERROR: f64 = 96.0;

/// Returns the verdict for a tensor that differs from every candidate. Unrelated weights have a squared error
/// of twice the signal.
fn verdict_of(tensor: &SourceTensor, difference: &Difference) -> Verdict {
    if !tensor.ggml_type.is_quantized() {
        return Verdict::Different;
    }
    let Difference { signal, error, expected, .. } = *difference;
    let least = expected.max(usual_error(tensor.ggml_type) * signal);
    let is_near_everywhere = error <= (MAX_ERROR * least).min(signal.midpoint(expected))
        && difference.worst.is_none_or(|worst| worst.ratio <= MAX_BLOCK_ERROR);
    if is_near_everywhere { Verdict::Consistent } else { Verdict::Different }
}

/// Formats a percentage with enough digits for a small one.
fn percent(value: f64) -> String {
    if value == 0.0 || value >= 0.01 { format!("{value:.3} %") } else { format!("{value:.1e} %") }
}

impl VerifiedTensor {
    fn of(tensor: &SourceTensor, found: Found) -> Self {
        Self { name: tensor.name.clone(), ggml_type: Some(tensor.ggml_type), found }
    }

    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        match &self.found {
            Found::Identical => Verdict::Identical,
            Found::Compared(verdict, _) => *verdict,
            Found::NotCompared(_) => Verdict::Different,
        }
    }

    /// Returns the difference from the source, if values were compared and differ.
    pub fn difference(&self) -> Option<&Difference> {
        match &self.found {
            Found::Compared(_, difference) => Some(difference),
            _ => None,
        }
    }

    /// Returns the reason for the verdict in words; empty for an identical tensor.
    pub fn reason(&self) -> String {
        match &self.found {
            Found::Identical => String::new(),
            Found::NotCompared(reason) => reason.clone(),
            Found::Compared(_, difference) => {
                let Difference { blocks, different, signal, error, expected, .. } = *difference;
                let rows = match difference.rows {
                    Some((first, last)) if first == last => format!("row {first}"),
                    Some((first, last)) => format!("rows {first} to {last}"),
                    None => "no row".to_owned(),
                };
                let relative = |sum: f64| 100.0 * (sum / signal.max(f64::MIN_POSITIVE)).sqrt();
                format!(
                    "{different} of {blocks} blocks differ ({rows}); relative error {}, expected {}",
                    percent(relative(error)),
                    percent(relative(expected))
                )
            }
        }
    }

    fn document(&self) -> serde_json::Value {
        let mut object = json!({
            "name": LosslessStr(RawStr::new(&self.name)),
            "type": self.ggml_type.map(|ggml_type| ggml_type.to_string()),
            "verdict": self.verdict().name(),
        });
        match &self.found {
            Found::Identical => {}
            Found::NotCompared(reason) => object["reason"] = json!(reason),
            Found::Compared(_, difference) => {
                object["blocks"] = json!(difference.blocks);
                object["different_blocks"] = json!(difference.different);
                object["rows"] = json!(difference.rows);
                object["signal"] = json!(difference.signal);
                object["error"] = json!(difference.error);
                object["expected_error"] = json!(difference.expected);
                object["worst_block"] = json!(difference.worst.map(|worst| json!({
                    "row": worst.row,
                    "signal": worst.signal,
                    "error": worst.error,
                    "expected_error": worst.expected,
                })));
            }
        }
        object
    }
}

impl Verified {
    /// Returns the tensors, in the order of the file, then those that it lacks.
    pub fn tensors(&self) -> &[VerifiedTensor] {
        &self.tensors
    }

    /// Returns the float type that the tensors were rounded to before they were quantized, if that is not
    /// the type of the source.
    pub fn float_type(&self) -> Option<FileType> {
        self.float_type
    }

    /// Returns `true` if the file was quantized with an importance matrix, and none was given.
    pub fn lacks_importance(&self) -> bool {
        self.lacks_importance
    }

    /// Returns `true` if a tensor is quantized in the source and not in the file, and differs: the file
    /// and its source may be exchanged.
    pub fn is_from_quantized(&self) -> bool {
        self.is_from_quantized
    }

    /// Returns the differences of the metadata: A is what the source gives, B is the file.
    pub fn metadata(&self) -> Result<Diff<'_>> {
        let selection = Selection::metadata(Vec::new());
        Ok(Diff::of(&self.expected, self.model.core(), &selection)?)
    }

    /// Returns the verdict for the metadata: keys that change what the model computes, or the text that it
    /// reads, decide. Keys that describe the file (`general.name`, …) do not.
    pub fn metadata_verdict(&self) -> Result<Verdict> {
        let diff = self.metadata()?;
        let keys = diff.metadata().unwrap_or_default();
        let decides = keys.iter().any(|key| !is_descriptive(key.key().as_bytes()));
        Ok(if decides { Verdict::Different } else { Verdict::Identical })
    }

    /// Returns the verdict for the tensors: that of the worst.
    pub fn tensors_verdict(&self) -> Verdict {
        self.tensors.iter().map(VerifiedTensor::verdict).max().unwrap_or(Verdict::Identical)
    }

    /// Returns the verdict for the file.
    pub fn verdict(&self) -> Verdict {
        self.metadata_verdict().unwrap_or(Verdict::Different).max(self.tensors_verdict())
    }

    /// Returns what the verdict means, as a sentence without a full stop.
    pub fn conclusion(&self) -> String {
        let float_type = self.float_type.map_or_else(String::new, |float_type| {
            format!(", rounded to {float_type} before quantization")
        });
        let metadata = self.metadata_verdict().unwrap_or(Verdict::Different);
        match (self.tensors_verdict(), metadata) {
            (Verdict::Identical, Verdict::Identical) => {
                format!("every tensor is the one that the source gives{float_type}")
            }
            (Verdict::Consistent, Verdict::Identical) => {
                "every tensor is as near to the source as its type allows, but some have other bytes"
                    .to_owned()
            }
            (Verdict::Different, _) => "some tensors do not come from this source".to_owned(),
            (_, _) => "metadata that changes what the model computes or reads differs from the source's"
                .to_owned(),
        }
    }

    /// Returns the result as JSON: `ggmill.verify/1`, with every tensor that is not identical.
    pub fn document(&self) -> Result<serde_json::Value> {
        let count =
            |verdict| self.tensors.iter().filter(|tensor| tensor.verdict() == verdict).count();
        let others = self.tensors.iter().filter(|tensor| tensor.verdict() != Verdict::Identical);
        let diff = self.metadata()?;
        let key = |key: &KeyDiff<'_>| {
            let change = match (key.a(), key.b()) {
                (None, _) => "added",
                (_, None) => "missing",
                _ => "changed",
            };
            let decides = !is_descriptive(key.key().as_bytes());
            json!({ "key": LosslessStr(key.key()), "change": change, "decides": decides })
        };
        Ok(json!({
            "schema": "ggmill.verify/1",
            "verdict": self.verdict().name(),
            "rounded_to": self.float_type.map(|float_type| float_type.to_string()),
            "lacks_importance": self.lacks_importance,
            "tensors": {
                "verdict": self.tensors_verdict().name(),
                "identical": count(Verdict::Identical),
                "consistent": count(Verdict::Consistent),
                "different": count(Verdict::Different),
                "not_identical": others.map(VerifiedTensor::document).collect::<Vec<_>>(),
            },
            "metadata": {
                "verdict": self.metadata_verdict()?.name(),
                "same": diff.same_keys(),
                "differences": diff.metadata().unwrap_or_default().iter().map(key).collect::<Vec<_>>(),
            },
        }))
    }
}

/// Returns `true` for a key that describes the file, and does not change what the model computes. Programs
/// take the defaults of sampling from `general.sampling`.
fn is_descriptive(key: &[u8]) -> bool {
    let decides = [keys::GENERAL_ARCHITECTURE, keys::GENERAL_TYPE].map(str::as_bytes);
    let begins = |prefix: &[u8]| key.starts_with(prefix);
    let is_general = begins(b"general.") && !begins(b"general.sampling.");
    !decides.contains(&key) && (is_general || begins(b"quantize.") || begins(b"split."))
}
