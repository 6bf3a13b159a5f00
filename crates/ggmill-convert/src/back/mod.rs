//! Restores a Hugging Face checkpoint from a GGUF file.
//!
//! The description of the architecture is applied in reverse. `ggmill-arch` proposes a
//! configuration for each checkpoint class. The description, applied to that configuration, says
//! from which checkpoint tensors each tensor of the file was made and by which operations; these
//! operations are inverted. Then the description is applied to the restored tensor names: it must
//! produce exactly the tensors of the file. Keys and computed tensors that would differ are noted.
//! Elements that an inverse drops, such as padding, must be those that the conversion would add
//! ([`tensors::refuse_loss`]).

mod inverse;
mod tensors;
mod vocabulary;
mod write;

use std::collections::BTreeMap;

use ggmill_arch::{
    Architecture, CheckpointFacts, NameRules, ParameterValue, Resolved, ReversedConfig,
    kind_of_architecture,
};
use ggmill_core::{FileType, GgmlType, Metadata, MetadataBuf, RawStr, Shape, Value, keys};
use ggmill_pipeline::{
    Checkpoint, Derived, Error, ErrorKind, Expression, GgufCheckpoint, RecipeTensor, Result,
    WithConfig,
};
use serde_json::Value as Json;

use self::tensors::{
    Restored, Tensors, differing_computed_tensors, metadata_tensors, refuse_loss, restore,
    restore_whole_tensors, verify_round_trip,
};
use self::write::assemble;
use crate::facts::{floats, small};
use crate::vocabulary::{as_vocabulary_error, builtin_template};

/// Options of [`restore_checkpoint`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The type of the tensors: F32, F16 or BF16. By default, tensors keep their type if it is one
    /// of these; see [`restore_checkpoint`].
    pub ggml_type: Option<GgmlType>,
    /// The class of the checkpoint (`architectures` in `config.json`); defaults to the class that
    /// fits best.
    pub class: Option<String>,
    /// Omits the vocabulary.
    pub no_vocab: bool,
}

/// A checkpoint restored from a GGUF file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestoredCheckpoint {
    /// Its class.
    pub class: String,
    /// Its tensors, computed from those of the file, sorted by name.
    pub tensors: Vec<RecipeTensor>,
    /// The tensors of modules that follow the model (sentence-transformers), by the directory of
    /// the module.
    pub modules: BTreeMap<String, Vec<RecipeTensor>>,
    /// The content of `config.json`; `null` if only the vocabulary was restored.
    pub config: Json,
    /// Other files, by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Notes about differences from the original checkpoint.
    pub notes: Vec<String>,
}

/// A file restored as a checkpoint of one class.
struct Attempt {
    reversed: ReversedConfig,
    known: KnownTensors,
    /// Names of the tensors in the checkpoint, in the order of `known.tensors`.
    names: Vec<String>,
    /// Keys and computed tensors for which the configuration results in another value than the file
    /// has.
    differing: Vec<String>,
    /// `true` if the configuration is typical for its class.
    typical: bool,
}

impl Attempt {
    /// Returns the defects of an attempt, the most serious first; the attempt with the least cost
    /// is used.
    fn cost(&self) -> (usize, bool, bool, usize) {
        // Text-only classes are preferred to classes with a language-model part.
        let has_parts = self.reversed.part.is_some();
        (self.differing.len(), !self.typical, has_parts, self.reversed.foreign)
    }
}

/// Restores the checkpoint that a file was converted from: `config.json`, and the tensors with
/// their original names and layout. Reads tensor data only to select types and to verify padding,
/// repetitions and shared parts that are dropped.
///
/// Without a requested type, 16-bit floats keep their type. Quantized tensors get the type of the
/// largest weights (F16, BF16 or F32). F32 tensors get that type only if no number changes.
///
/// # Errors
///
/// Fails, with the tensor and the operation, if the description applies an operation that cannot be
/// inverted, if dropped elements are not those that the conversion would add, if the file has a
/// tensor that the description does not have, if the class does not belong to the architecture, and
/// as [`check_restorable`] does.
pub fn restore_checkpoint(
    checkpoint: &GgufCheckpoint,
    architecture: &Architecture,
    options: &RestoreOptions,
) -> Result<RestoredCheckpoint> {
    check_restorable(checkpoint)?;
    if architecture.needs_target() {
        let message = "is a draft model for speculative decoding: its checkpoint needs the \
                       configuration and the tokenizer of its target model, and the file contains \
                       neither";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let metadata = checkpoint.metadata();
    let tensors: Vec<(RawStr<'_>, Shape)> =
        checkpoint.tensors().iter().map(|tensor| (tensor.name(), tensor.shape)).collect();
    let class = options.class.as_deref();
    let read = |name: &str| elements(checkpoint, name);
    let proposals = architecture.reversed(metadata, &tensors, class, &read, None);
    if proposals.is_empty() {
        return Err(no_class(architecture, class));
    }
    let mut best: Option<Attempt> = None;
    let mut refusal = None;
    for proposal in proposals {
        match attempt(checkpoint, architecture, &tensors, proposal) {
            Ok(found) => {
                if best.as_ref().is_none_or(|best| found.cost() < best.cost()) {
                    best = Some(found);
                }
            }
            Err(error) => refusal = refusal.or(Some(error)),
        }
        if best.as_ref().is_some_and(|best| best.cost() == (0, false, false, 0)) {
            break;
        }
    }
    let Some(mut best) = best else {
        return Err(refusal.unwrap_or_else(|| no_class(architecture, class)));
    };
    let facts = Facts::of(checkpoint, &best.known, architecture, &best.reversed.config);
    let model = resolved(architecture, &best.reversed, &facts)?;
    refuse_loss(checkpoint, &model, &best.known.tensors)?;
    best.differing.extend(differing_computed_tensors(checkpoint, &model)?);
    assemble(checkpoint, best, options)
}

/// Fails for a file that is not a model: an adapter, a projector, an importance matrix, a control
/// vector, or a vocabulary without tensors.
pub fn check_restorable(checkpoint: &GgufCheckpoint) -> Result<()> {
    let metadata = checkpoint.metadata();
    let text = |key: &str| metadata.raw_str(key).ok().map(RawStr::to_string_lossy);
    let kind = text(keys::GENERAL_TYPE);
    let of_architecture = text(keys::GENERAL_ARCHITECTURE);
    let of_architecture = of_architecture.as_deref().and_then(kind_of_architecture);
    let refused = |what: &str| {
        let message =
            format!("is {what}, expected a model: its tensors are not sufficient for a checkpoint");
        Err(Error::new(ErrorKind::Unsupported, message))
    };
    match kind.as_deref().or(of_architecture) {
        Some("adapter") => refused("an adapter"),
        Some("mmproj") => refused("a projector (mmproj file)"),
        Some("imatrix") => refused("an importance matrix"),
        Some("controlvector") => refused("a control vector"),
        _ if checkpoint.tensors().is_empty() => {
            let message = "has no tensors, only metadata";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        _ => Ok(()),
    }
}

impl RestoredCheckpoint {
    /// Returns the checkpoint as one that can be converted: its tensors are computed from `file` as
    /// they are read, and its name is its class. Fails if `file` is not the file that it was
    /// restored from.
    pub fn into_checkpoint(self, file: &dyn Checkpoint) -> Result<WithConfig<Derived<'_>>> {
        let mut tensors = self.tensors;
        for (directory, module) in self.modules {
            tensors.extend(module.into_iter().map(|tensor| {
                let name = [directory.as_bytes(), b"/", &tensor.name].concat();
                RecipeTensor::new(name, tensor.expression)
            }));
        }
        let tensors = Derived::new(file, tensors)?;
        Ok(WithConfig::new(tensors, self.config).with_name(self.class).with_files(self.files))
    }

    /// Restores only the tokenizer files. Fails if the file has no vocabulary, or one of a kind
    /// that cannot be restored.
    pub fn from_vocabulary(metadata: Metadata<'_>) -> Result<Self> {
        let files = vocabulary::files(metadata).map_err(as_vocabulary_error)?;
        if files.is_empty() {
            return Err(Error::new(ErrorKind::Vocabulary, "the file has no vocabulary"));
        }
        let (class, tensors, notes) = (String::new(), Vec::new(), Vec::new());
        let modules = BTreeMap::new();
        Ok(Self { class, tensors, modules, config: Json::Null, files, notes })
    }
}

/// Returns the elements of a small tensor of the file.
fn elements(checkpoint: &GgufCheckpoint, name: &str) -> Option<Vec<f32>> {
    /// More than any tensor of rotary factors has.
    const MAX_ELEMENTS: u64 = 1 << 16;
    let tensor = Expression::named(checkpoint, name).ok()?;
    let count = Some(tensor.shape().elements()).filter(|count| *count <= MAX_ELEMENTS)?;
    floats(checkpoint, &tensor, 0..count).ok()
}

fn no_class(architecture: &Architecture, class: Option<&str>) -> Error {
    let known: Vec<&str> = architecture.checkpoint_classes().collect();
    let name = architecture.name();
    let message = match class {
        _ if known.is_empty() => {
            format!("the description of {name} is for finished files, not for checkpoints")
        }
        Some(class) => format!(
            "the description of {name} is not for checkpoints of class {}, but only of {}",
            RawStr::from(class),
            known.join(", ")
        ),
        None => format!("the description of {name} names no class of checkpoints"),
    };
    Error::new(ErrorKind::Architecture, message)
}

fn resolved<'a>(
    architecture: &'a Architecture,
    reversed: &ReversedConfig,
    facts: &dyn CheckpointFacts,
) -> Result<Resolved<'a>> {
    architecture
        .resolve_checkpoint(&reversed.config, &reversed.documents, facts)
        .map_err(|error| Error::caused(ErrorKind::Architecture, error))
}

/// Restores the file as a checkpoint of one class.
fn attempt(
    checkpoint: &GgufCheckpoint,
    architecture: &Architecture,
    file: &[(RawStr<'_>, Shape)],
    mut reversed: ReversedConfig,
) -> Result<Attempt> {
    /// Hyperparameters derived from restored tensors can change which tensors are expected, so the
    /// derivation is repeated until the names are stable, at most this many times.
    const MAX_ITERATIONS: usize = 4;
    let mut known =
        KnownTensors { tensors: metadata_tensors(&reversed)?, ..KnownTensors::default() };
    let derive_again = |reversed: &mut ReversedConfig, known: &KnownTensors| {
        let facts = Facts::of(checkpoint, known, architecture, &reversed.config);
        let class = Some(&*reversed.class);
        let read = |name: &str| elements(checkpoint, name);
        let metadata = checkpoint.metadata();
        let found = architecture.reversed(metadata, file, class, &read, Some(&facts));
        let mut found = found.into_iter();
        if let Some(again) = found.find(|again| again.model_type == reversed.model_type) {
            *reversed = again;
        }
    };
    let facts = Facts::of(checkpoint, &known, architecture, &reversed.config);
    let first = resolved(architecture, &reversed, &facts);
    if first.and_then(|model| restore(checkpoint, &model)).is_err() {
        // Expressions that read checkpoint tensors use those that follow from the keys of the file.
        known = restore_from_keys(checkpoint, architecture);
        known.tensors.extend(metadata_tensors(&reversed)?);
        derive_again(&mut reversed, &known);
    }
    for _ in 0..MAX_ITERATIONS {
        let model = resolve_without_extra_keys(checkpoint, architecture, &mut reversed, &known)?;
        let mut next = restore(checkpoint, &model)?;
        next.extend(metadata_tensors(&reversed)?);
        let is_stable = next.keys().eq(known.tensors.keys());
        known = KnownTensors { tensors: next, rules: model.name_rules().clone() };
        if is_stable {
            break;
        }
        derive_again(&mut reversed, &known);
    }
    let model = resolve_without_extra_keys(checkpoint, architecture, &mut reversed, &known)?;
    let rules = model.name_rules();
    let names: Vec<String> = known.tensors.keys().map(|name| rules.original(name)).collect();
    let renamed: Vec<String> = names.iter().map(|name| rules.renamed(name)).collect();
    verify_round_trip(checkpoint, &model, &renamed)?;
    let differing = differing_keys(checkpoint, &model)?;
    let typical = model.is_typical();
    Ok(Attempt { reversed, known, names, differing, typical })
}

/// Resolves a configuration, after removing members that would add keys that the file does not
/// have.
fn resolve_without_extra_keys<'a>(
    checkpoint: &GgufCheckpoint,
    architecture: &'a Architecture,
    reversed: &mut ReversedConfig,
    known: &KnownTensors,
) -> Result<Resolved<'a>> {
    let facts = Facts::of(checkpoint, known, architecture, &reversed.config);
    let model = resolved(architecture, reversed, &facts)?;
    let mut is_changed = false;
    for key in extra_keys(checkpoint, &model) {
        is_changed |= reversed.leave_out(architecture, &key);
    }
    if is_changed { resolved(architecture, reversed, &facts) } else { Ok(model) }
}

/// Restores the tensors that the keys of the file determine without a configuration.
fn restore_from_keys(checkpoint: &GgufCheckpoint, architecture: &Architecture) -> KnownTensors {
    let metadata = MetadataBuf::copy_of(&checkpoint.metadata()).ok();
    let metadata = metadata.map(|metadata| with_vocabulary(metadata, checkpoint, architecture));
    let model = metadata.and_then(|metadata| architecture.resolve_metadata(&metadata).ok());
    let known = model.map(|model| KnownTensors {
        tensors: restore_whole_tensors(checkpoint, &model),
        rules: model.name_rules().clone(),
    });
    known.unwrap_or_default()
}

/// Adds the vocabulary size, which files without a vocabulary can lack, from the shape of the
/// embeddings.
fn with_vocabulary(
    mut metadata: MetadataBuf,
    checkpoint: &GgufCheckpoint,
    architecture: &Architecture,
) -> MetadataBuf {
    const EMBEDDINGS: &[u8] = b"token_embd.weight";
    let key = format!("{}.vocab_size", architecture.name());
    let embeddings = checkpoint.tensors().iter().find(|tensor| tensor.name == EMBEDDINGS);
    let rows = embeddings.and_then(|tensor| tensor.shape.dimensions().get(1).copied());
    if let Some(rows) = rows.and_then(|rows| u32::try_from(rows).ok())
        && metadata.get(key.as_bytes()).is_none()
    {
        metadata.set(&key, rows);
    }
    metadata
}

/// Returns the keys that the conversion of a configuration would write.
fn derived(model: &Resolved<'_>) -> MetadataBuf {
    let mut keys = MetadataBuf::new();
    model.write_early_keys(FileType::F32, &mut keys);
    model.write_keys(FileType::F32, &mut keys);
    keys.remove(keys::GENERAL_FILE_TYPE);
    keys
}

/// Returns the derived keys that the file does not have.
fn extra_keys(checkpoint: &GgufCheckpoint, model: &Resolved<'_>) -> Vec<String> {
    let file = checkpoint.metadata();
    let derived = derived(model);
    let extra = derived.iter().filter(|(key, _)| file.get(key.as_bytes()).is_none());
    extra.map(|(key, _)| key.to_string_lossy().into_owned()).collect()
}

/// Returns the keys that are missing or different in the file, and the file's keys that the
/// configuration does not produce.
fn differing_keys(checkpoint: &GgufCheckpoint, model: &Resolved<'_>) -> Result<Vec<String>> {
    let file = MetadataBuf::copy_of(&checkpoint.metadata())
        .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let derived = derived(model);
    let mut differing = Vec::new();
    for (key, value) in derived.iter() {
        if file.get(key.as_bytes()).is_none_or(|found| !values_equal(&found, &value)) {
            differing.push(key.to_string_lossy().into_owned());
        }
    }
    let own = format!("{}.", model.architecture().name());
    for (key, _) in file.iter() {
        let name = key.to_string_lossy();
        if name.starts_with(&own) && derived.get(key.as_bytes()).is_none() {
            differing.push(name.into_owned());
        }
    }
    Ok(differing)
}

/// Compares values; integers of different types are the same if they are equal.
fn values_equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    let integers = || a.as_i128().is_some() && a.as_i128() == b.as_i128();
    a == b || integers()
}

/// The checkpoint tensors restored so far.
#[derive(Clone, Debug, Default)]
struct KnownTensors {
    tensors: Tensors,
    /// The rules that rename checkpoint names to the names in `tensors`.
    rules: NameRules,
}

/// The restored checkpoint as seen by the description of its architecture.
struct Facts<'a> {
    checkpoint: &'a GgufCheckpoint,
    /// By names after the replacements that depend only on the configuration.
    tensors: BTreeMap<String, &'a Restored>,
}

impl<'a> Facts<'a> {
    fn of(
        checkpoint: &'a GgufCheckpoint,
        known: &'a KnownTensors,
        architecture: &Architecture,
        config: &Json,
    ) -> Self {
        let rules = architecture.name_rules(config);
        let name = |name: &str| rules.renamed(&known.rules.original(name));
        let tensors = known.tensors.iter().map(|(known, tensor)| (name(known), tensor)).collect();
        Self { checkpoint, tensors }
    }
}

impl CheckpointFacts for Facts<'_> {
    fn shape(&self, name: &str) -> Option<Shape> {
        self.tensors.get(name).map(|tensor| *tensor.values.shape())
    }

    fn values(&self, name: &str) -> Result<Vec<ParameterValue>, String> {
        let tensor = self.tensors.get(name).ok_or("there is no such tensor")?;
        small(self.checkpoint, name, &tensor.values)
    }

    fn chat_template(&self, name: &str) -> Option<&str> {
        builtin_template(name).ok()
    }

    /// Returns none: the conversion has removed such rows.
    fn zero_rows(&self, _: &str) -> Result<Vec<u64>, String> {
        Ok(Vec::new())
    }

    /// Returns an empty name: the directory does not exist yet.
    fn name(&self) -> Option<&str> {
        Some("")
    }
}
