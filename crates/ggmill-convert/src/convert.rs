//! Conversion of a checkpoint to a recipe for a GGUF file.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use ggmill_arch::{
    Architecture, Assigned, AssumedSetting, Operation, Origin, ParameterValue, Resolved, Source,
    Subject, TensorSpec, TensorType, VocabularyKind, VocabularySpec, kind_of_architecture,
};
use ggmill_core::{FileType, GgmlType, MetadataBuf, RawStr, Shape, keys, size_label};
use ggmill_pipeline::{
    Checkpoint, Encoding, Error, ErrorKind, Expression, Narrow, Pretrained, Recipe, RecipeTensor,
    Result, SourceTensor,
};
use ggmill_quant::QUANTIZATION_VERSION;
use serde_json::Value;

use crate::facts::{Facts, documents, require_zeros, same_elements};
use crate::general::{General, MetadataOverride, Parameters, Sources};
use crate::operations::apply;
use crate::prefix::WithoutPrefix;
use crate::vocabulary;
use crate::weights::{Quantization, TensorScales, Weights};

/// Type of a tensor whose row length is not a multiple of the block size of the requested type, as
/// in the reference.
pub(crate) const FALLBACK: GgmlType = GgmlType::F16;

/// The options of a conversion.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub struct ConvertOptions {
    /// The type of most tensors: F32, F16, BF16 or Q8_0. A recipe in one of the float types can be
    /// quantized to any other type in the same pass (`ggmill_quantize::quantize_recipe`).
    pub file_type: FileType,
    /// The model's name; defaults to the name of the checkpoint.
    pub name: Option<String>,
    /// Omits the vocabulary.
    pub no_vocab: bool,
    /// The name of the pre-tokenizer (`tokenizer.ggml.pre`), for vocabularies that have one;
    /// recognized from the tokenizer by default.
    pub pre: Option<String>,
    /// Omits the tensors: the result has only metadata, including the vocabulary.
    pub vocab_only: bool,
    /// Converts checkpoints with settings that the file cannot express: programs assume another
    /// value, so the file computes something else. It lists them under
    /// [`ASSUMED_SETTINGS_KEY`].
    pub assume_defaults: bool,
    /// Does not compare the tokens of the written vocabulary with those of `tokenizer.json`.
    pub no_verify: bool,
    /// Overrides of the metadata in the checkpoint.
    pub metadata: Option<MetadataOverride>,
    /// Rules for converting the target model's vocabulary, for a draft model whose description has
    /// the vocabulary kind `target`: [`WithTarget::vocabulary`](crate::WithTarget::vocabulary).
    pub target_vocabulary: Option<VocabularySpec>,
}

/// The key of a file with the settings of its checkpoint that it does not express.
pub const ASSUMED_SETTINGS_KEY: &str = "ggmill.assumed_settings";

impl ConvertOptions {
    /// Returns options for a conversion to `file_type`, with defaults for the rest.
    pub fn new(file_type: FileType) -> Self {
        Self {
            file_type,
            name: None,
            no_vocab: false,
            pre: None,
            vocab_only: false,
            assume_defaults: false,
            no_verify: false,
            metadata: None,
            target_vocabulary: None,
        }
    }
}

/// The default type of a conversion, chosen like the reference's `--outtype auto`: a 16-bit float
/// type. `Display` gives the reason in words.
///
/// ```
/// use ggmill_convert::AutoType;
/// # let bf16 = AutoType::new(ggmill_core::FileType::BF16, Some("BF16".to_owned()));
/// # let f32 = AutoType::new(ggmill_core::FileType::F16, Some("F32".to_owned()));
/// // AutoType::of(&checkpoint)
/// assert_eq!(bf16.to_string(), "BF16, like the weights of the checkpoint");
/// assert_eq!(f32.to_string(), "F16, because the weights of the checkpoint are F32");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AutoType {
    /// The chosen type.
    pub file_type: FileType,
    /// The type name of the weights that decided, the first tensor with two or more dimensions;
    /// `None` if there is no such tensor.
    pub weights: Option<String>,
}

impl AutoType {
    /// Chooses BF16 or F16 by the first tensor with two or more dimensions that has one of these
    /// types, or F16 if none has.
    pub fn of(checkpoint: &dyn Checkpoint) -> Self {
        let is_half = |found| matches!(found, GgmlType::BF16 | GgmlType::F16);
        if let Some(found) = first_weights(checkpoint, is_half) {
            let is_brain = found.ggml_type == GgmlType::BF16;
            let file_type = if is_brain { FileType::BF16 } else { FileType::F16 };
            return Self::new(file_type, Some(file_type.to_string()));
        }
        let weights = first_weights(checkpoint, |_| true);
        Self::new(FileType::F16, weights.map(SourceTensor::type_name))
    }

    /// Creates a choice of `file_type` for weights of type `weights`.
    pub fn new(file_type: FileType, weights: Option<String>) -> Self {
        Self { file_type, weights }
    }

    /// Returns `true` if converting to the chosen type rounds the weights.
    pub fn rounds(&self) -> bool {
        self.weights.as_deref().is_some_and(|weights| matches!(weights, "F32" | "F64"))
    }
}

impl fmt::Display for AutoType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file_type, weights } = self;
        match weights {
            Some(weights) if *weights == file_type.to_string() => {
                write!(f, "{file_type}, like the weights of the checkpoint")
            }
            Some(weights) => {
                write!(f, "{file_type}, because the weights of the checkpoint are {weights}")
            }
            None => write!(f, "{file_type}"),
        }
    }
}

/// Returns the float type from which a checkpoint is quantized in one pass: the type of the first
/// weights with two or more dimensions, or F32 for F64 and for packed weights that are decoded, so
/// that nothing is rounded before quantization.
pub fn own_type(checkpoint: &dyn Pretrained) -> FileType {
    let weights = Quantization::of(checkpoint)
        .and_then(|quantization| Weights::of(checkpoint, quantization.as_ref()));
    if weights.is_ok_and(|weights| weights.are_decoded()) {
        return FileType::F32;
    }
    match first_weights(checkpoint, is_float).map(|tensor| tensor.ggml_type) {
        Some(GgmlType::BF16) => FileType::BF16,
        Some(GgmlType::F16) => FileType::F16,
        _ => FileType::F32,
    }
}

pub(crate) fn is_float(found: GgmlType) -> bool {
    matches!(found, GgmlType::F64 | GgmlType::F32 | GgmlType::F16 | GgmlType::BF16)
}

fn first_weights(
    checkpoint: &dyn Checkpoint,
    is_wanted: impl Fn(GgmlType) -> bool,
) -> Option<&SourceTensor> {
    let mut weights =
        checkpoint.tensors().iter().filter(|tensor| tensor.shape.dimensions().len() > 1);
    weights.find(|tensor| is_wanted(tensor.ggml_type))
}

/// Converts a checkpoint to a GGUF model file of its architecture.
///
/// Tensors keep the order of the checkpoint; a tensor made from several is placed at the last of
/// them. If the names do not fit the description, but do without the `model.` that all of them begin
/// with, this is removed, with a note.
///
/// # Errors
///
/// Fails if a required tensor is missing, the architecture does not know a tensor, or a shape
/// contradicts the hyperparameters.
pub fn convert(
    checkpoint: &dyn Pretrained,
    architecture: &Architecture,
    options: &ConvertOptions,
) -> Result<Recipe> {
    let converted = convert_named(checkpoint, architecture, options);
    let is_about_names =
        |error: &Error| matches!(error.kind(), ErrorKind::Checkpoint | ErrorKind::Architecture);
    match converted {
        Err(error) if is_about_names(&error) => WithoutPrefix::of(checkpoint)
            .and_then(|inner| convert_named(&inner, architecture, options).ok())
            .ok_or(error),
        converted => converted,
    }
}

/// Converts a checkpoint whose tensors have the names that the description expects.
fn convert_named(
    checkpoint: &dyn Pretrained,
    architecture: &Architecture,
    options: &ConvertOptions,
) -> Result<Recipe> {
    if architecture.is_projector() && !has_projector(checkpoint, architecture) {
        let message = "none of its tensors belongs to an image or audio tower";
        return Err(Error::new(ErrorKind::Checkpoint, message));
    }
    let quantization = Quantization::of(checkpoint)?;
    if let Some(quantization) = &quantization {
        quantization.refuse_unknown(architecture)?;
    }
    let target = target_type(options.file_type)?;
    let weights = Weights::of(checkpoint, quantization.as_ref())?;
    let file_type = weights.file_type(options.file_type);
    let facts = Facts::of(&weights, architecture);
    let documents = documents(checkpoint, architecture)?;
    let resolve = |config: &Value| {
        architecture
            .resolve_checkpoint(config, &documents, &facts)
            .map_err(|error| Error::caused(ErrorKind::Architecture, error))
    };
    let mut resolved = resolve(checkpoint.config())?;
    let mut notes = checkpoint.notes().to_vec();
    let corrected = without_absent_blocks(&weights, &resolved, checkpoint.config());
    if let Some((config, note)) = &corrected {
        resolved = resolve(config)?;
        notes.push(note.clone());
    }
    notes.extend(resolved.warnings().iter().map(ToString::to_string));
    // A vocabulary alone computes nothing.
    let assumed = resolved.assumed_settings().iter().filter(|_| !options.vocab_only);
    let (mild, severe): (Vec<_>, Vec<_>) =
        assumed.partition(|setting| setting.is_exact_for_short_texts());
    let list = |settings: &[&AssumedSetting]| {
        let texts: Vec<String> = settings.iter().map(ToString::to_string).collect();
        format!("config.json: {}", texts.join("; "))
    };
    if !severe.is_empty() {
        if !options.assume_defaults {
            return Err(Error::new(ErrorKind::Setting, list(&severe)));
        }
        notes
            .push(format!("the file does not compute what the checkpoint does: {}", list(&severe)));
    }
    if !mild.is_empty() {
        notes.push(format!("the file computes long texts differently: {}", list(&mild)));
    }
    let assumed: Vec<String> = severe.iter().chain(&mild).map(ToString::to_string).collect();

    let (tensors, wide) =
        if options.vocab_only { Default::default() } else { tensors(&weights, &resolved, target)? };
    notes.extend(fallback_note(&tensors, target));
    notes.extend(weights.unscaled_note().filter(|_| !options.vocab_only));

    let label =
        size_label(tensors.iter().map(|tensor| (RawStr::new(&tensor.name), tensor.shape())))
            .filter(|_| !tensors.is_empty() && !tensors.iter().any(is_adapter));
    let parameters =
        tensors.iter().fold(0u64, |sum, tensor| sum.saturating_add(tensor.shape().elements()));
    let sources = Sources {
        config: checkpoint.config(),
        directory: checkpoint.name(),
        files: checkpoint.side_files(),
        parameters: Parameters::Exactly(parameters),
        size_label: label,
        given: options.metadata.as_ref(),
        name: options.name.as_deref(),
    };
    let general = General::of(&sources, &mut notes);

    let mut metadata = MetadataBuf::new();
    metadata.set(keys::GENERAL_ARCHITECTURE, architecture.name());
    resolved.write_early_keys(file_type, &mut metadata);
    let kind = kind_of_architecture(architecture.name()).unwrap_or("model");
    metadata.set(keys::GENERAL_TYPE, kind);
    general.write_to(&mut metadata);
    resolved.write_keys(file_type, &mut metadata);
    metadata.set(keys::GENERAL_QUANTIZATION_VERSION, QUANTIZATION_VERSION);
    if !assumed.is_empty() {
        metadata.set(ASSUMED_SETTINGS_KEY, assumed);
    }
    if !wide.is_empty() {
        let values = vec![false; wide.len()];
        metadata.set("general.tensor_extra.name", wide);
        metadata.set("general.tensor_extra.prec_a4", values);
    }
    if !architecture.is_projector() {
        notes.extend(write_vocabulary(checkpoint, &resolved, options, &mut metadata)?);
    }
    let mut recipe = Recipe::new(metadata, tensors);
    recipe.notes = notes;
    Ok(recipe)
}

/// The number of blocks in `config.json` that predict further tokens.
const PREDICTING_BLOCKS: &str = "num_nextn_predict_layers";

/// Returns the configuration without the blocks that predict further tokens, and a note, if the
/// configuration announces such blocks and the checkpoint has no tensor of any: fine-tuned models are
/// often saved without them. llama.cpp refuses a file that lacks blocks that its keys count.
fn without_absent_blocks(
    weights: &Weights<'_>,
    resolved: &Resolved<'_>,
    config: &Value,
) -> Option<(Value, String)> {
    let number = |name: &str| match resolved.parameter(name) {
        Some(ParameterValue::Int(number)) => Some(*number),
        _ => None,
    };
    let (blocks, announced) = (number("block_count")?, number("nextn_count")?);
    let first = blocks.checked_sub(announced).filter(|_| announced > 0)?;
    let rules = resolved.name_rules();
    let mut has_tensors = false;
    for name in weights.names() {
        has_tensors = true;
        let name = rules.renamed(&name);
        // The first number of a name is that of its block.
        let block = name.split('.').find_map(|part| part.parse::<i64>().ok());
        if block.is_some_and(|block| block >= first) || name.split('.').any(|part| part == "mtp") {
            return None;
        }
    }
    let mut config = config.clone();
    let is_set = ["", "/text_config"].iter().any(|section| {
        let members = config.pointer_mut(section).and_then(Value::as_object_mut);
        let count = members.and_then(|members| members.get_mut(PREDICTING_BLOCKS));
        count.map(|count| *count = 0.into()).is_some()
    });
    let note = format!(
        "{PREDICTING_BLOCKS} is {announced}, but the checkpoint has no tensor of these blocks; they \
         were omitted"
    );
    (has_tensors && is_set).then_some((config, note))
}

/// Sets the keys of the vocabulary; returns notes about it.
fn write_vocabulary(
    checkpoint: &dyn Pretrained,
    resolved: &Resolved<'_>,
    options: &ConvertOptions,
    metadata: &mut MetadataBuf,
) -> Result<Vec<String>> {
    let own = resolved.vocabulary();
    let draft = own.filter(|spec| spec.kinds.contains(&VocabularyKind::Target));
    let spec = if draft.is_some() { options.target_vocabulary.as_ref() } else { own };
    let is_written = vocabulary::is_written(checkpoint.side_files(), spec);
    if is_written && !options.no_vocab {
        if draft.is_some() && spec.is_none() {
            let message = "the draft model uses the vocabulary of its target model, which was not \
                           given";
            return Err(Error::new(ErrorKind::Vocabulary, message));
        }
        let pre = options.pre.as_deref();
        let notes = vocabulary::write(checkpoint, spec, pre, !options.no_verify, metadata)
            .map_err(vocabulary::as_vocabulary_error)?;
        if let Some(draft) = draft {
            draft.write_keys(VocabularyKind::Target, metadata);
        }
        return Ok(notes);
    }
    metadata.set(keys::TOKENIZER_MODEL, "none");
    let why = if is_written { "as asked" } else { "the checkpoint has no tokenizer" };
    let mut note = format!("no vocabulary was written ({why})");
    let size = format!("{}.vocab_size", resolved.architecture().name());
    if metadata.get(&size).is_none() {
        let _ = write!(note, "; llama.cpp loads such a file only if it has the key {size}");
    }
    Ok(vec![note])
}

/// Returns the tensors of the recipe in order, and the names of the NVFP4 tensors that must not be
/// multiplied with 4-bit activations.
fn tensors(
    weights: &Weights<'_>,
    resolved: &Resolved<'_>,
    target: GgmlType,
) -> Result<(Vec<RecipeTensor>, Vec<String>)> {
    let (architecture, rules) = (resolved.architecture(), resolved.name_rules());
    // The names come from JSON, so they are valid UTF-8.
    let names: Vec<String> = weights.names().map(|name| rules.renamed(&name)).collect();
    refuse_renamed_twice(&names)?;
    let assignment = resolved.assign(&names).map_err(|error| not_assigned(&error, &names))?;
    let unknown = assignment.unknown.iter();
    let (zeros, unknown): (Vec<usize>, Vec<usize>) =
        unknown.copied().partition(|&number| rules.must_be_zero(&names[number]));
    for number in zeros {
        require_zeros(weights, number)?;
    }
    if let Some(&unknown) = unknown.first() {
        let blocks = resolved
            .parameter("block_count")
            .map(|count| format!(" with {count} layers"))
            .unwrap_or_default();
        let message = format!(
            "the description of {}{blocks} has no tensor that is made from this one",
            architecture.name()
        );
        return Err(Error::new(ErrorKind::Architecture, message).tensor(&*names[unknown]));
    }
    let mut blocks = Blocks::new(weights, resolved);
    let (mut first, mut tensors, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for assigned in &assignment.tensors {
        if let Some(other) = &assigned.spec.drop_if_equal
            && let Some(other) = names.iter().position(|name| name == other)
            && let [own] = *assigned.positions
            && same_elements(weights, own, other)?
        {
            continue;
        }
        let made = tensor(assigned, weights, target)
            .and_then(|tensor| blocks.take(assigned, tensor))
            .map_err(|error| with_file(error.tensor(&assigned.spec.name), assigned, weights))?;
        let group = match assigned.source {
            Some(source) if source.first => &mut first,
            Some(source) if source.last => &mut last,
            _ => &mut tensors,
        };
        group.extend(made);
    }
    let (others, wide) = blocks.followed_by(tensors);
    first.extend(others);
    first.extend(last);
    Ok((first, wide))
}

/// Returns the error for a checkpoint without a required tensor, with the names that it has.
fn not_assigned(error: &ggmill_arch::Error, names: &[String]) -> Error {
    /// The number of groups of names to list.
    const LISTED: usize = 4;
    /// The number of components that identify a group.
    const COMPONENTS: usize = 3;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
        let parts = name.split('.').take_while(|part| !is_number(part)).take(COMPONENTS);
        let group = parts.collect::<Vec<_>>().join(".");
        *counts.entry(group).or_default() += 1;
    }
    let mut groups: Vec<(String, usize)> = counts.into_iter().collect();
    groups.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
    let listed = groups
        .iter()
        .take(LISTED)
        .map(|(group, count)| format!("{count} of {:?}", RawStr::from(&**group)));
    let listed: Vec<String> = listed.collect();
    let more = if groups.len() > LISTED { ", …" } else { "" };
    let mut message =
        format!("{error}; found {} tensors: {}{more}", names.len(), listed.join(", "));
    let is_output = |subject| matches!(subject, Subject::Tensor(name) if name == "output.weight");
    if error.subject().is_some_and(is_output) {
        message.push_str(
            "; if the model uses its token embeddings as the output matrix, set \
             tie_word_embeddings to true in config.json",
        );
    }
    Error::new(ErrorKind::Checkpoint, message)
}

/// Adds the file of the first source tensor to an error.
fn with_file(error: Error, assigned: &Assigned<'_>, weights: &Weights<'_>) -> Error {
    match assigned.positions.first().and_then(|&position| weights.path(position)) {
        Some(path) => error.file(path),
        None => error,
    }
}

/// Returns `true` if a tensor is a factor of an adapter. Models with such tensors get no size
/// label.
fn is_adapter(tensor: &RecipeTensor) -> bool {
    [".lora_a", ".lora_b"].iter().any(|ending| tensor.name.ends_with(ending.as_bytes()))
}

/// Fails if renaming gives two tensors of the checkpoint the same name.
fn refuse_renamed_twice(names: &[String]) -> Result<()> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let message = "two tensors of the checkpoint have this name after renaming by the \
                           description";
            Err(Error::new(ErrorKind::Checkpoint, message).tensor(pair[0]))
        }
        None => Ok(()),
    }
}

/// Returns the tensor type of a file type, for file types without a mixture.
pub(crate) fn target_type(file_type: FileType) -> Result<GgmlType> {
    Ok(match file_type {
        FileType::F32 => GgmlType::F32,
        FileType::F16 => GgmlType::F16,
        FileType::BF16 => GgmlType::BF16,
        FileType::Q8_0 => GgmlType::Q8_0,
        other => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("conversion to {other} is not supported; expected F32, F16, BF16 or Q8_0"),
            ));
        }
    })
}

/// Creates one tensor of the recipe: checks its shape against its sources, applies the operations
/// and selects the type.
fn tensor(
    assigned: &Assigned<'_>,
    weights: &Weights<'_>,
    target: GgmlType,
) -> Result<RecipeTensor> {
    let spec = assigned.spec;
    let expression = match (&spec.origin, assigned.source) {
        (Origin::Computed(elements), _) => Expression::floats(spec.shape, elements.to_vec())?,
        (_, Some(source)) => apply_operations(spec, source, &assigned.positions, weights)?,
        (_, None) => {
            return Err(Error::new(ErrorKind::Checkpoint, "has no source in the checkpoint"));
        }
    };
    // Packed blocks are not encoded again.
    if expression.ggml_type().is_quantized() {
        return Ok(RecipeTensor::new(&*spec.name, expression));
    }
    let of_source = || assigned.positions.first().and_then(|&number| weights.kept_type(number));
    let wanted = match spec.fixed_type {
        Some(TensorType::Fixed(fixed)) => fixed,
        Some(TensorType::OfSource) => of_source().unwrap_or(target),
        Some(TensorType::HalfOrSingle) if target != GgmlType::F16 => GgmlType::F32,
        _ => target,
    };
    let ggml_type = if fits(wanted, &spec.shape) { wanted } else { FALLBACK };
    // Copied elements may be anything, and those that are not finite are reported. Elements that are
    // encoded again must be finite in the new type, or the file would silently be a different model.
    let is_another = |&number: &usize| weights.ggml_type(number) != Some(ggml_type);
    let finite = !matches!(ggml_type, GgmlType::I32 | GgmlType::I64)
        && (expression.computes() || assigned.positions.iter().any(is_another));
    let is_float = matches!(ggml_type, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16);
    let encoding =
        if is_float && !finite { Encoding::counting() } else { Encoding::new(None, finite) };
    Ok(RecipeTensor::new(&*spec.name, expression.encode(ggml_type, encoding)?))
}

fn apply_operations(
    spec: &TensorSpec,
    source: &Source,
    positions: &[usize],
    weights: &Weights<'_>,
) -> Result<Expression> {
    let is_packed = source.operations.first() == Some(&Operation::Mxfp4);
    for &position in positions.iter().filter(|_| !is_packed) {
        let is_taken = weights.ggml_type(position).is_some_and(|found| match spec.fixed_type {
            _ if is_float(found) || found.is_quantized() => true,
            Some(TensorType::OfSource) => true,
            Some(TensorType::Fixed(fixed)) => fixed == found || is_narrowed(fixed, found),
            _ => false,
        });
        if !is_taken {
            let message = format!(
                "{:?} has elements of type {}, expected floating-point weights",
                weights.name(position),
                weights.type_name(position)
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    let inputs: Vec<Shape> = positions.iter().map(|&number| weights.shape(number)).collect();
    let shape =
        source.shape(&inputs).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    if shape != spec.shape {
        let message = format!(
            "{:?} results in shape {shape}, but the configuration requires {}",
            source.names[0], spec.shape
        );
        return Err(Error::new(ErrorKind::Checkpoint, message));
    }
    let inputs = positions
        .iter()
        .map(|&number| if is_packed { weights.packed(number) } else { weights.values(number) })
        .collect::<Result<_>>()?;
    let made = apply(source, inputs)?;
    match spec.fixed_type {
        Some(TensorType::Fixed(fixed)) if is_narrowed(fixed, made.ggml_type()) => {
            Expression::decode(Narrow::new(), &[made])
        }
        _ => Ok(made),
    }
}

/// Returns `true` for a conversion from I64 to I32: checkpoints store tables of IDs in 64 bits.
fn is_narrowed(to: GgmlType, from: GgmlType) -> bool {
    (to, from) == (GgmlType::I32, GgmlType::I64)
}

/// Returns a note that lists the tensors that do not have the requested type.
pub(crate) fn fallback_note(tensors: &[RecipeTensor], target: GgmlType) -> Option<String> {
    const NAMED: usize = 3;
    let is_fallback =
        |tensor: &&RecipeTensor| !fits(target, tensor.shape()) && tensor.ggml_type() == FALLBACK;
    let names: Vec<String> = tensors
        .iter()
        .filter(is_fallback)
        .map(|tensor| RawStr::new(&tensor.name).to_string())
        .collect();
    let more = names
        .len()
        .checked_sub(NAMED)
        .filter(|&more| more > 0)
        .map(|more| format!(" and {more} more"))
        .unwrap_or_default();
    let first = names.get(..NAMED).unwrap_or(&names).join(", ");
    let elements = target.layout()?.elements;
    let tensors = match names.len() {
        0 => return None,
        1 => format!("1 tensor is {FALLBACK}, because its"),
        count => format!("{count} tensors are {FALLBACK}, because their"),
    };
    Some(format!(
        "{tensors} row length is not a multiple of {elements}, the block size of {target}: \
         {first}{more}"
    ))
}

pub(crate) fn fits(ggml_type: GgmlType, shape: &Shape) -> bool {
    ggml_type
        .layout()
        .is_some_and(|layout| shape.row_len().is_multiple_of(u64::from(layout.elements)))
}

/// The sort key of tensors that keep their blocks: NVFP4 before MXFP4, single tensors before
/// stacks, the position, and the name in the checkpoint for tensors of the same position.
type Place<'a> = (bool, bool, usize, &'a str);

/// Tensors that keep the blocks they have in the checkpoint (NVFP4, MXFP4). They come before all
/// other tensors of the file, each followed by its scale tensors.
struct Blocks<'a> {
    weights: &'a Weights<'a>,
    /// Positions in the description: of a tensor, or of the first tensor of its group.
    positions: BTreeMap<&'a str, usize>,
    tensors: Vec<(Place<'a>, Vec<RecipeTensor>)>,
    /// Names of the tensors that must not be multiplied with 4-bit activations.
    wide: Vec<String>,
}

impl<'a> Blocks<'a> {
    fn new(weights: &'a Weights<'a>, resolved: &'a Resolved<'a>) -> Self {
        let mut places = BTreeMap::new();
        let mut groups = BTreeMap::new();
        for (place, spec) in resolved.tensors().iter().enumerate() {
            let group = spec.together.as_deref();
            let first = group.map_or(place, |group| *groups.entry(group).or_insert(place));
            places.insert(&*spec.name, first);
        }
        Self { weights, positions: places, tensors: Vec::new(), wide: Vec::new() }
    }

    /// Takes a tensor that keeps its blocks; returns any other tensor. Fails for a tensor that is
    /// computed from blocks, because their scales would be lost.
    fn take(
        &mut self,
        assigned: &Assigned<'a>,
        tensor: RecipeTensor,
    ) -> Result<Option<RecipeTensor>> {
        let positions = &assigned.positions;
        let scales: Vec<TensorScales> =
            positions.iter().filter_map(|&position| self.weights.scales(position)).collect();
        if scales.is_empty() {
            return Ok(Some(tensor));
        }
        let found = tensor.ggml_type();
        let is_same = |&position: &usize| self.weights.ggml_type(position) == Some(found);
        if !positions.iter().all(is_same) {
            let message = "the conversion must compute with its weights, which are quantized in \
                           the checkpoint: convert the original checkpoint";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let is_stack = assigned.source.is_some_and(|source| {
            source.operations.iter().any(|operation| matches!(operation, Operation::Stack))
        });
        let name = &*assigned.spec.name;
        let source = assigned.source.and_then(|source| source.names.first());
        let last = positions.iter().max().copied().unwrap_or_default();
        let place = if found == GgmlType::NVFP4 {
            let counts = self.weights.nvfp4().is_some_and(|layers| layers.counts_experts);
            (false, is_stack && !counts, if counts { last } else { positions[0] }, "")
        } else {
            let place = self.positions.get(name).copied().unwrap_or(last);
            (true, false, place, source.map_or("", |name| &**name))
        };
        let mut all = vec![tensor];
        let of_weights: Vec<_> = scales.iter().map(|scales| &scales.weights).collect();
        let of_inputs: Vec<_> = scales.iter().map(|scales| &scales.inputs).collect();
        for (ending, scales) in [(".scale", of_weights), (".input_scale", of_inputs)] {
            if let Some(scales) = join_scales(&scales, is_stack)? {
                let count = scales.len() as u64;
                let shape = Shape::new(&[count])
                    .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
                let name = name.replace(".weight", ending);
                all.push(RecipeTensor::new(name, Expression::floats(shape, scales)?));
            }
        }
        self.tensors.push((place, all));
        if let (Some(layers), Some(source)) = (self.weights.nvfp4(), source)
            && found == GgmlType::NVFP4
            && layers.is_wide(&without_expert(source))
        {
            self.wide.push(name.to_owned());
        }
        Ok(None)
    }

    /// Returns all tensors of the file in order, and the names of those that must not be multiplied
    /// with 4-bit activations.
    fn followed_by(mut self, others: Vec<RecipeTensor>) -> (Vec<RecipeTensor>, Vec<String>) {
        self.tensors.sort_by_key(|(place, _)| *place);
        self.wide.sort_unstable();
        let tensors = self.tensors.into_iter().flat_map(|(_, all)| all).chain(others).collect();
        (tensors, self.wide)
    }
}

/// Joins the scales of the sources of a tensor: one per matrix of a stack. Returns `None` if all
/// are 1.
fn join_scales(factors: &[&Vec<f32>], is_stack: bool) -> Result<Option<Vec<f32>>> {
    let sum = |factors: &[f32]| match factors {
        [] => 1.0,
        factors => factors.iter().sum::<f32>(),
    };
    if is_stack {
        let all: Vec<f32> = factors.iter().map(|factors| sum(factors)).collect();
        // The tolerances of `numpy.allclose` in the reference.
        let is_one = |&factor: &f32| (f64::from(factor) - 1.0).abs() <= 1e-6 + 1e-5;
        return Ok((!all.iter().all(is_one)).then_some(all));
    }
    let first = factors.first().copied().cloned().unwrap_or_default();
    if factors.iter().any(|factors| **factors != first) {
        let message = "it is made from several tensors with different scales, which NVFP4 blocks \
                       cannot represent";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let is_one = first.len() <= 1 && (f64::from(sum(&first)) - 1.0).abs() < 1e-6;
    Ok((!is_one).then_some(first))
}

/// Removes the expert number from a tensor name.
fn without_expert(name: &str) -> String {
    let Some((before, after)) = name.split_once(".experts.") else { return name.to_owned() };
    match after.split_once('.') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{before}.experts.{rest}")
        }
        _ => name.to_owned(),
    }
}

/// Returns `true` if a checkpoint has tensors of the towers (vision or audio encoders) that
/// `projector` describes. The class is not sufficient: some of its checkpoints have only the
/// language model.
pub fn has_projector(checkpoint: &dyn Pretrained, projector: &Architecture) -> bool {
    let rules = projector.name_rules(checkpoint.config());
    let is_taken = |name: &[u8]| {
        core::str::from_utf8(name).is_ok_and(|name| !rules.ignores(&rules.renamed(name)))
    };
    checkpoint.tensors().iter().any(|tensor| is_taken(&tensor.name))
}
