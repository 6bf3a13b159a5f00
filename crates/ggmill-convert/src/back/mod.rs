//! The way back: a checkpoint of Hugging Face from a finished file.
//!
//! The description of the architecture is read backwards. `ggmill-arch` proposes a configuration
//! for each class of checkpoints; the description applied to it says which tensors of a checkpoint
//! each tensor of the file was made of, and how, and that is undone. Then the description is applied
//! to the result: it must ask for the tensors of the file, by their names and shapes. Keys that would
//! differ are noted, and so are computed tensors; what undoing an operation drops, such as padding,
//! has to be what the conversion would add ([`dropped`]).

mod dropped;
mod facts;
mod file_tensors;
mod inverse;
mod pieces;
mod steps;
mod tensors;
mod types;
mod vocabulary;
mod write;

use std::collections::BTreeMap;

use ggmill_arch::{Architecture, CheckpointFacts, Resolved, ReversedConfig, kind_of_architecture};
use ggmill_core::{FileType, GgmlType, Metadata, MetadataBuf, RawStr, Shape, Value, keys};
use ggmill_pipeline::{
    Checkpoint, Derived, Error, ErrorKind, Expression, GgufCheckpoint, RecipeTensor, Result,
    WithConfig,
};
use serde_json::{Map, Value as Json};

use self::dropped::{computed_otherwise, refuse_loss};
use self::facts::{Facts, Known};
use self::tensors::{of_metadata, prove, restore, restore_some};
use self::types::{main_type, typed};
use crate::elements::floats;
use crate::general::sampling;
use crate::vocabulary::fault_of;

/// Options of the way back.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The type of the tensors: F32, F16 or BF16. When not given, tensors keep what they have as
    /// far as that is one of these; see [`restore_checkpoint`].
    pub ggml_type: Option<GgmlType>,
    /// The class of the checkpoint (`architectures` in `config.json`); the one that fits best when
    /// not given.
    pub class: Option<String>,
    /// Leaves the vocabulary out.
    pub no_vocab: bool,
}

/// A checkpoint that a finished file gives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestoredCheckpoint {
    /// Its class.
    pub class: String,
    /// Its tensors, computed from those of the file, sorted by name.
    pub tensors: Vec<RecipeTensor>,
    /// The tensors of modules behind the model, by the directory that each module has.
    pub modules: BTreeMap<String, Vec<RecipeTensor>>,
    /// The content of `config.json`; `null` of a vocabulary alone.
    pub config: Json,
    /// Other files, by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Notes about what is not as it was.
    pub notes: Vec<String>,
}

/// A class of checkpoints with what it makes of the file.
struct Attempt {
    reversed: ReversedConfig,
    known: Known,
    /// The names of the tensors in the checkpoint, in the order of those that are known.
    names: Vec<String>,
    /// Keys and computed tensors that the configuration gives otherwise than the file has them.
    differing: Vec<String>,
    /// Whether it is like most of its class.
    typical: bool,
}

impl Attempt {
    /// What tells against it, the worst first.
    fn cost(&self) -> (usize, bool, bool, usize) {
        // A class for text alone lacks nothing.
        let has_parts = self.reversed.part.is_some();
        (self.differing.len(), !self.typical, has_parts, self.reversed.foreign)
    }
}

/// Turns a file back into the checkpoint it was made from: `config.json`, tensors by their names
/// and in their layout there. Reads tensor data only to choose types, and where padding, repetitions
/// or shared parts are left out.
///
/// Where no type is asked for, floats of 16 bits stay as they are, quantized tensors and those of 32
/// bits become F16, BF16 or F32, as the largest weights are, those of 32 bits only where no number
/// changes.
///
/// Fails, with the tensor and the step, where the description does something that cannot be undone,
/// and where what is left out is not what the conversion would give;
/// for a tensor that it does not have; for a class that it is not for; and as [`restorable`] does.
pub fn restore_checkpoint(
    checkpoint: &GgufCheckpoint,
    architecture: &Architecture,
    options: &RestoreOptions,
) -> Result<RestoredCheckpoint> {
    restorable(checkpoint)?;
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
    best.differing.extend(computed_otherwise(checkpoint, &model)?);
    finished(checkpoint, best, options)
}

/// Fails for a file that is not a model: an adapter, the towers that are beside a model, or a
/// vocabulary alone, which has no tensors.
pub fn restorable(checkpoint: &GgufCheckpoint) -> Result<()> {
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
    /// The checkpoint over the file that it came from, as one that can be converted: its tensors
    /// are computed as they are read, and its name is that of its class. Fails for another file.
    pub fn over(self, file: &dyn Checkpoint) -> Result<WithConfig<Derived<'_>>> {
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

    /// The files of the tokenizer alone. Fails where the file has no vocabulary, or one of a kind
    /// that is not turned back.
    pub fn of_vocabulary(metadata: Metadata<'_>) -> Result<Self> {
        let files = vocabulary::files(metadata).map_err(fault_of)?;
        if files.is_empty() {
            return Err(Error::new(ErrorKind::Vocabulary, "the file has no vocabulary"));
        }
        let (class, tensors, notes) = (String::new(), Vec::new(), Vec::new());
        let modules = BTreeMap::new();
        Ok(Self { class, tensors, modules, config: Json::Null, files, notes })
    }
}

/// The elements of a small tensor of the file.
fn elements(checkpoint: &GgufCheckpoint, name: &str) -> Option<Vec<f32>> {
    /// As many as factors of rotary positions are at most.
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

/// What the file is as a checkpoint of one class.
fn attempt(
    checkpoint: &GgufCheckpoint,
    architecture: &Architecture,
    file: &[(RawStr<'_>, Shape)],
    mut reversed: ReversedConfig,
) -> Result<Attempt> {
    /// What the tensors of a checkpoint say about its numbers may give it other tensors.
    const ROUNDS: usize = 4;
    let mut known = Known { tensors: of_metadata(&reversed)?, ..Known::default() };
    let again = |reversed: &mut ReversedConfig, known: &Known| {
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
        // What asks for tensors of the checkpoint gets those that the keys of the file mean.
        known = by_keys(checkpoint, architecture);
        known.tensors.extend(of_metadata(&reversed)?);
        again(&mut reversed, &known);
    }
    for _ in 0..ROUNDS {
        let model = fitting(checkpoint, architecture, &mut reversed, &known)?;
        let mut next = restore(checkpoint, &model)?;
        next.extend(of_metadata(&reversed)?);
        let is_stable = next.keys().eq(known.tensors.keys());
        known = Known { tensors: next, rules: model.name_rules().clone() };
        if is_stable {
            break;
        }
        again(&mut reversed, &known);
    }
    let model = fitting(checkpoint, architecture, &mut reversed, &known)?;
    let rules = model.name_rules();
    let names: Vec<String> = known.tensors.keys().map(|name| rules.original(name)).collect();
    let renamed: Vec<String> = names.iter().map(|name| rules.renamed(name)).collect();
    prove(checkpoint, &model, &renamed)?;
    let differing = differing_keys(checkpoint, &model)?;
    let typical = model.is_typical();
    Ok(Attempt { reversed, known, names, differing, typical })
}

/// The model of a configuration, of which is left out what gives keys that the file does not have.
fn fitting<'a>(
    checkpoint: &GgufCheckpoint,
    architecture: &'a Architecture,
    reversed: &mut ReversedConfig,
    known: &Known,
) -> Result<Resolved<'a>> {
    let facts = Facts::of(checkpoint, known, architecture, &reversed.config);
    let model = resolved(architecture, reversed, &facts)?;
    let mut is_changed = false;
    for key in extra_keys(checkpoint, &model) {
        is_changed |= reversed.leave_out(architecture, &key);
    }
    if is_changed { resolved(architecture, reversed, &facts) } else { Ok(model) }
}

/// The tensors of a checkpoint as far as the keys of the file alone say what they are.
fn by_keys(checkpoint: &GgufCheckpoint, architecture: &Architecture) -> Known {
    let metadata = MetadataBuf::copy_of(&checkpoint.metadata()).ok();
    let metadata = metadata.map(|metadata| with_vocabulary(metadata, checkpoint, architecture));
    let model = metadata.and_then(|metadata| architecture.resolve_metadata(&metadata).ok());
    let known = model.map(|model| Known {
        tensors: restore_some(checkpoint, &model),
        rules: model.name_rules().clone(),
    });
    known.unwrap_or_default()
}

/// The metadata with the size of the vocabulary, which a file without one does not always have.
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

/// The keys that a configuration gives.
fn derived(model: &Resolved<'_>) -> MetadataBuf {
    let mut keys = MetadataBuf::new();
    model.write_early_keys(FileType::F32, &mut keys);
    model.write_keys(FileType::F32, &mut keys);
    keys.remove(keys::GENERAL_FILE_TYPE);
    keys
}

/// Those that the file does not have.
fn extra_keys(checkpoint: &GgufCheckpoint, model: &Resolved<'_>) -> Vec<String> {
    let file = checkpoint.metadata();
    let derived = derived(model);
    let extra = derived.iter().filter(|(key, _)| file.get(key.as_bytes()).is_none());
    extra.map(|(key, _)| key.to_string_lossy().into_owned()).collect()
}

/// Those that the file has otherwise, or does not have, or has and the configuration does not give.
fn differing_keys(checkpoint: &GgufCheckpoint, model: &Resolved<'_>) -> Result<Vec<String>> {
    let file = MetadataBuf::copy_of(&checkpoint.metadata())
        .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    let derived = derived(model);
    let mut differing = Vec::new();
    for (key, value) in derived.iter() {
        if file.get(key.as_bytes()).is_none_or(|found| !is_same(&found, &value)) {
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

/// Numbers of other types are the same where they are equal.
fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    let integers = || a.as_i128().is_some() && a.as_i128() == b.as_i128();
    a == b || integers()
}

fn finished(
    checkpoint: &GgufCheckpoint,
    attempt: Attempt,
    options: &RestoreOptions,
) -> Result<RestoredCheckpoint> {
    let Attempt { reversed, known: Known { tensors, .. }, names, differing, .. } = attempt;
    let main = options.ggml_type.unwrap_or_else(|| main_type(checkpoint));
    let mut made = Vec::with_capacity(tensors.len());
    let mut modules: BTreeMap<String, Vec<RecipeTensor>> = BTreeMap::new();
    for (name, tensor) in names.into_iter().zip(tensors.values()) {
        let expression = typed(checkpoint, tensor, main, options.ggml_type)
            .map_err(|error| error.tensor(&name))?;
        match name.split_once('/') {
            Some((directory, name)) => {
                let module = modules.entry(directory.to_owned()).or_default();
                module.push(RecipeTensor::new(name, expression));
            }
            None => made.push(RecipeTensor::new(name, expression)),
        }
    }
    made.sort_by(|a, b| a.name.cmp(&b.name));
    let mut config = reversed.config;
    if let Some(members) = config.as_object_mut() {
        complete(members, checkpoint, main);
    }
    let mut notes = Vec::new();
    if !differing.is_empty() {
        notes.push(format!(
            "converting config.json again would not reproduce the values of {}",
            differing
                .iter()
                .map(|key| RawStr::from(&**key).to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    let mut files: BTreeMap<String, Vec<u8>> =
        reversed.documents.into_iter().map(|(name, document)| (name, pretty(&document))).collect();
    files.insert("config.json".to_owned(), pretty(&config));
    let mut generation = sampling::restored(checkpoint.metadata());
    special_ids(&mut generation, checkpoint);
    if !generation.is_empty() {
        files.insert("generation_config.json".to_owned(), pretty(&Json::Object(generation)));
    }
    if !options.no_vocab {
        files.extend(vocabulary::files(checkpoint.metadata()).map_err(fault_of)?);
    }
    Ok(RestoredCheckpoint { class: reversed.class, tensors: made, modules, config, files, notes })
}

/// What the file says and no key of the description does: the type of the weights, and the special
/// tokens that a model goes by when it writes.
fn complete(config: &mut Map<String, Json>, checkpoint: &GgufCheckpoint, main: GgmlType) {
    let name = match main {
        GgmlType::F16 => "float16",
        GgmlType::BF16 => "bfloat16",
        _ => "float32",
    };
    config.insert("torch_dtype".to_owned(), name.into());
    special_ids(config, checkpoint);
}

/// The special tokens that a model goes by when it writes.
fn special_ids(members: &mut Map<String, Json>, checkpoint: &GgufCheckpoint) {
    for (member, key) in [
        ("bos_token_id", "tokenizer.ggml.bos_token_id"),
        ("eos_token_id", "tokenizer.ggml.eos_token_id"),
        ("pad_token_id", "tokenizer.ggml.padding_token_id"),
    ] {
        let value = checkpoint.metadata().get(key).and_then(|entry| entry.value().ok()?.as_u32());
        if let Some(value) = value {
            members.entry(member).or_insert(value.into());
        }
    }
}

/// As people read it, with a line break at the end.
fn pretty(document: &Json) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(document).unwrap_or_default();
    text.push(b'\n');
    text
}
