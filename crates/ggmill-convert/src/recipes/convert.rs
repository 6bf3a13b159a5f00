use std::collections::BTreeMap;

use ggmill_arch::{Architecture, Operation, Origin, Resolved, Source, TensorSpec};
use ggmill_core::{FileType, GgmlType, MetadataBuf, Shape, keys};

use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::general::{General, size_label};
use crate::recipe::{Recipe, RecipeTensor};
use crate::rows::Step;

/// The version of the quantization format that this and the reference write (`GGML_QNT_VERSION`).
const QUANTIZATION_VERSION: u32 = 2;

/// What a tensor becomes when its rows are no whole blocks of the type asked for, as in the reference.
const FALLBACK: GgmlType = GgmlType::F16;

/// What a conversion is to give.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// What most tensors become: F32, F16, BF16 or Q8_0.
    pub file_type: FileType,
    /// The model's name; that of the checkpoint when not given.
    pub name: Option<String>,
    /// Leaves the vocabulary out where there is one.
    pub no_vocab: bool,
}

impl ConvertOptions {
    /// A conversion to this type, with everything else as the checkpoint has it.
    pub fn new(file_type: FileType) -> Self {
        Self { file_type, name: None, no_vocab: false }
    }
}

/// A checkpoint becomes a model file of its architecture.
///
/// Tensors keep the order of the checkpoint; one that is made of several stands where the last of them stood. Fails when a required tensor is missing, one is
/// there that the architecture does not know, or a shape is not what the hyper-parameters say.
pub fn convert(checkpoint: &dyn Checkpoint, architecture: &Architecture, options: &ConvertOptions) -> Result<Recipe> {
    if checkpoint.has_tokenizer() && !options.no_vocab {
        return Err(Error::new(ErrorKind::Unsupported, "the checkpoint has a tokenizer, and vocabularies are not converted yet"));
    }
    let target = target_type(options.file_type)?;
    let resolved = architecture.resolve(checkpoint.config()).map_err(|error| Error::caused(ErrorKind::Architecture, error))?;
    let mut notes: Vec<String> = resolved.warnings().iter().map(ToString::to_string).collect();

    let mut tensors = Vec::new();
    for assigned in assign(checkpoint, &resolved)? {
        tensors.push(tensor(assigned, checkpoint, target)?);
    }
    notes.extend(fallback_note(&tensors, target));

    let (label, parameters) = size_label(tensors.iter().map(|tensor| (&*tensor.name, &tensor.shape)));
    let mut general = General::of(checkpoint.config(), checkpoint.name(), parameters);
    general.size_label = general.size_label.or(label);
    general.name = options.name.clone().or(general.name);

    let mut metadata = MetadataBuf::new();
    metadata.set(keys::GENERAL_ARCHITECTURE, architecture.name());
    metadata.set(keys::GENERAL_TYPE, "model");
    general.write_to(&mut metadata);
    resolved.write_keys(options.file_type, &mut metadata);
    metadata.set(keys::GENERAL_QUANTIZATION_VERSION, QUANTIZATION_VERSION);
    metadata.set(keys::TOKENIZER_MODEL, "none");
    let why = if checkpoint.has_tokenizer() { "as asked" } else { "the checkpoint has no tokenizer" };
    notes.push(format!("no vocabulary was written: {why}"));
    Ok(Recipe { metadata, tensors, notes })
}

/// The tensor type behind a file type, for those that convert without a mixture.
fn target_type(file_type: FileType) -> Result<GgmlType> {
    Ok(match file_type {
        FileType::F32 => GgmlType::F32,
        FileType::F16 => GgmlType::F16,
        FileType::BF16 => GgmlType::BF16,
        FileType::Q8_0 => GgmlType::Q8_0,
        other => return Err(Error::new(ErrorKind::Unsupported, format!("conversion to {other} is not there yet, expected F32, F16, BF16 or Q8_0"))),
    })
}

/// A tensor of the file and the numbers of the checkpoint's tensors it is made of.
struct Assigned<'r> {
    spec: &'r TensorSpec,
    source: &'r Source,
    numbers: Vec<usize>,
}

/// Finds the sources of each tensor of the architecture that the checkpoint has, in the order in which they are written.
fn assign<'r>(checkpoint: &dyn Checkpoint, resolved: &'r Resolved<'_>) -> Result<Vec<Assigned<'r>>> {
    let present: BTreeMap<&str, usize> = checkpoint.tensors().iter().enumerate().map(|(number, tensor)| (&*tensor.name, number)).collect();
    let mut used = vec![false; present.len()];
    let mut assigned = Vec::new();
    let mut group_ends: BTreeMap<&str, usize> = BTreeMap::new();
    for spec in resolved.tensors() {
        if let Origin::Computed(computation) = &spec.origin {
            let message = format!("computing it ({}) is not there yet", computation.name());
            return Err(Error::new(ErrorKind::Unsupported, message).tensor(&spec.name));
        }
        let source = spec.source(|name| present.contains_key(name)).map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let Some(source) = source else { continue };
        let numbers: Vec<usize> = source.names.iter().filter_map(|name| present.get(&**name).copied()).collect();
        for &number in &numbers {
            used[number] = true;
        }
        let last = numbers.iter().copied().max().unwrap_or(0);
        if let Some(group) = &spec.together {
            let end = group_ends.entry(group).or_insert(last);
            *end = last.max(*end);
        }
        assigned.push(Assigned { spec, source, numbers });
    }
    let unknown = checkpoint.tensors().iter().zip(&used).find(|(tensor, used)| !**used && !resolved.architecture().ignores(&tensor.name));
    if let Some((tensor, _)) = unknown {
        let message = format!("the description of {} has no tensor that comes from this name", resolved.architecture().name());
        return Err(Error::new(ErrorKind::Architecture, message).tensor(&tensor.name));
    }
    // Each stands where the last of its sources stood, a group where the last of all of them did. The sort keeps the order of the description within a group.
    let place = |assigned: &Assigned<'_>| {
        let group_end = assigned.spec.together.as_ref().and_then(|group| group_ends.get(&**group).copied());
        group_end.or_else(|| assigned.numbers.iter().copied().max())
    };
    assigned.sort_by_key(place);
    Ok(assigned)
}

/// One tensor of the recipe: its shape held against its sources, its type, and its operations as steps.
fn tensor(assigned: Assigned<'_>, checkpoint: &dyn Checkpoint, target: GgmlType) -> Result<RecipeTensor> {
    let Assigned { spec, source, numbers } = assigned;
    let inputs: Vec<Shape> = numbers.iter().map(|&number| checkpoint.tensors()[number].shape).collect();
    let shape = source.shape(&inputs).map_err(|error| Error::caused(ErrorKind::Checkpoint, error).tensor(&spec.name))?;
    if shape != spec.shape {
        let message = format!("{:?} gives shape {shape}, the configuration asks for {}", source.names[0], spec.shape);
        return Err(Error::new(ErrorKind::Checkpoint, message).tensor(&spec.name));
    }
    let mut steps = Vec::new();
    for operation in &source.operations {
        match *operation {
            Operation::Permute { heads } => steps.push(Step::Permute { heads }),
            // Sources follow one another as they do in memory, and a new shape moves nothing.
            Operation::Stack | Operation::Reshape(_) => {}
            _ => return Err(Error::new(ErrorKind::Unsupported, format!("the operation {} is not there yet", operation.name())).tensor(&spec.name)),
        }
    }
    let ggml_type = match target {
        _ if spec.keep_f32 => GgmlType::F32,
        target if fits(target, &spec.shape) => target,
        _ => FALLBACK,
    };
    Ok(RecipeTensor { name: spec.name.clone(), ggml_type, shape: spec.shape, sources: numbers, steps })
}

/// Says which tensors could not have the type asked for.
fn fallback_note(tensors: &[RecipeTensor], target: GgmlType) -> Option<String> {
    const NAMED: usize = 3;
    let names: Vec<&str> = tensors.iter().filter(|tensor| !fits(target, &tensor.shape) && tensor.ggml_type == FALLBACK).map(|tensor| &*tensor.name).collect();
    let more = names.len().checked_sub(NAMED).filter(|&more| more > 0).map(|more| format!(" and {more} more")).unwrap_or_default();
    let first = names.get(..NAMED).unwrap_or(&names).join(", ");
    (!names.is_empty()).then(|| format!("{FALLBACK} where rows are no whole blocks of {target}: {first}{more}"))
}

fn fits(ggml_type: GgmlType, shape: &Shape) -> bool {
    ggml_type.layout().is_some_and(|layout| shape.row_len().is_multiple_of(u64::from(layout.elements)))
}
