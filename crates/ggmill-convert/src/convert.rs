use std::fmt::{self, Write as _};

use ggmill_arch::{
    Architecture, Assigned, Operation, Origin, Resolved, Source, TensorSpec, TensorType,
    VocabularyKind, VocabularySpec, kind_of_architecture,
};
use ggmill_core::{FileType, GgmlType, MetadataBuf, RawStr, Shape, keys, size_label};

use crate::blocks::Blocks;
use crate::facts::{Facts, documents, require_zeros, same_elements};
use crate::general::{General, MetadataOverride, Parameters, Sources};
use crate::operations::apply;
use crate::projector::has_projector;
use crate::vocabulary;
use crate::weights::{Quantization, Weights};
use ggmill_pipeline::{Checkpoint, Pretrained, SourceTensor};
use ggmill_pipeline::{Encoding, Expression, Narrow, Recipe, RecipeTensor};
use ggmill_pipeline::{Error, ErrorKind, Result};
use ggmill_quant::QUANTIZATION_VERSION;

/// The type of a tensor whose row length is not a multiple of the block size of the requested
/// type, as in the reference.
pub(crate) const FALLBACK: GgmlType = GgmlType::F16;

/// The options of a conversion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The type of most tensors: F32, F16, BF16 or Q8_0. The recipe of one of the float types can
    /// be quantized to any other type in the same pass (`ggmill_quantize::quantize_recipe`).
    pub file_type: FileType,
    /// The model's name; that of the checkpoint when not given.
    pub name: Option<String>,
    /// Leaves the vocabulary out where there is one.
    pub no_vocab: bool,
    /// The name of the pre-tokenizer (`tokenizer.ggml.pre`), for a vocabulary that has one; the one
    /// recognized when not given.
    pub pre: Option<String>,
    /// Leaves the tensors out: the result has the metadata alone, vocabulary included.
    pub vocab_only: bool,
    /// Metadata that replace what the checkpoint says of itself.
    pub metadata: Option<MetadataOverride>,
    /// How the vocabulary of the target model is converted, for a draft whose description has the
    /// vocabulary kind `target`: [`WithTarget::vocabulary`](crate::WithTarget::vocabulary).
    pub target_vocabulary: Option<VocabularySpec>,
}

impl ConvertOptions {
    /// A conversion to this type, with everything else as the checkpoint has it.
    pub fn new(file_type: FileType) -> Self {
        Self {
            file_type,
            name: None,
            no_vocab: false,
            pre: None,
            vocab_only: false,
            metadata: None,
            target_vocabulary: None,
        }
    }
}

/// The type that a conversion has where none is asked for, as the reference chooses it for
/// `--outtype auto`: a float type of 16 bits. Shows as a sentence that says why.
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
    /// The type.
    pub file_type: FileType,
    /// The name of the type of the weights that decided: the first of two dimensions or more.
    /// `None` without any.
    pub weights: Option<String>,
}

impl AutoType {
    /// BF16 or F16 by the first tensor of two dimensions or more that is one of them, otherwise
    /// F16.
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

    /// A type that was chosen for weights of a type.
    pub fn new(file_type: FileType, weights: Option<String>) -> Self {
        Self { file_type, weights }
    }

    /// Whether numbers of the weights are rounded to the type.
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

/// The float type from which a checkpoint is quantized in one pass: that of its first weights of
/// two dimensions or more, F32 for F64, and F32 where weights are decoded from packed ones: nothing
/// is rounded before it is quantized.
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

/// A checkpoint becomes a model file of its architecture.
///
/// Tensors keep the order of the checkpoint; one that is made of several is placed where the last
/// of them was. Fails when a required tensor is missing, one is there that the architecture does
/// not know, or a shape is not what the hyperparameters say.
pub fn convert(
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
    let resolved = architecture
        .resolve_checkpoint(checkpoint.config(), &documents, &facts)
        .map_err(|error| Error::caused(ErrorKind::Architecture, error))?;
    let mut notes: Vec<String> = resolved.warnings().iter().map(ToString::to_string).collect();

    let (tensors, wide) =
        if options.vocab_only { Default::default() } else { tensors(&weights, &resolved, target)? };
    notes.extend(fallback_note(&tensors, target));

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

/// Sets the keys of the vocabulary, and says what there is to say about it.
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
        let notes =
            vocabulary::write(checkpoint, spec, pre, metadata).map_err(vocabulary::fault_of)?;
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

/// The tensors of the recipe, in order, and the names of those that must not be multiplied with
/// activations of four bits.
fn tensors(
    weights: &Weights<'_>,
    resolved: &Resolved<'_>,
    target: GgmlType,
) -> Result<(Vec<RecipeTensor>, Vec<String>)> {
    let (architecture, rules) = (resolved.architecture(), resolved.name_rules());
    // Names come from JSON here, so they are text.
    let names: Vec<String> = weights.names().map(|name| rules.renamed(&name)).collect();
    refuse_renamed_twice(&names)?;
    let assignment =
        resolved.assign(&names).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
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
            .map_err(|error| located(error.tensor(&assigned.spec.name), assigned, weights))?;
        let place = match assigned.source {
            Some(source) if source.first => &mut first,
            Some(source) if source.last => &mut last,
            _ => &mut tensors,
        };
        place.extend(made);
    }
    let (others, wide) = blocks.before(tensors);
    first.extend(others);
    first.extend(last);
    Ok((first, wide))
}

/// An error about a tensor with the file that its first source is in.
fn located(error: Error, assigned: &Assigned<'_>, weights: &Weights<'_>) -> Error {
    match assigned.positions.first().and_then(|&position| weights.path(position)) {
        Some(path) => error.file(path),
        None => error,
    }
}

/// Whether a tensor is a factor of an adapter: models that have some get no label of their size.
fn is_adapter(tensor: &RecipeTensor) -> bool {
    [".lora_a", ".lora_b"].iter().any(|ending| tensor.name.ends_with(ending.as_bytes()))
}

/// Two tensors of the checkpoint must not get the same name.
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

/// The tensor type after a file type, for those that convert without a mixture.
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

/// One tensor of the recipe: its shape checked against its sources, its operations, its type.
fn tensor(
    assigned: &Assigned<'_>,
    weights: &Weights<'_>,
    target: GgmlType,
) -> Result<RecipeTensor> {
    let spec = assigned.spec;
    let expression = match (&spec.origin, assigned.source) {
        (Origin::Computed(elements), _) => Expression::floats(spec.shape, elements.to_vec())?,
        (_, Some(source)) => operated(spec, source, &assigned.positions, weights)?,
        (_, None) => {
            return Err(Error::new(ErrorKind::Checkpoint, "has no source in the checkpoint"));
        }
    };
    // Blocks that were packed already stay what they are.
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
    // What is copied is copied; numbers that are encoded again must fit, or the file would be
    // quietly another model.
    let is_another = |&number: &usize| weights.ggml_type(number) != Some(ggml_type);
    let finite = !matches!(ggml_type, GgmlType::I32 | GgmlType::I64)
        && (expression.computes() || assigned.positions.iter().any(is_another));
    Ok(RecipeTensor::new(&*spec.name, expression.encode(ggml_type, Encoding::new(None, finite))?))
}

fn operated(
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

/// Whether integers become others of half the size: a table of IDs, which checkpoints have in 64
/// bits.
fn is_narrowed(to: GgmlType, from: GgmlType) -> bool {
    (to, from) == (GgmlType::I32, GgmlType::I64)
}

/// Says which tensors could not have the type asked for.
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
