//! Conversion of PEFT adapters to GGUF adapters.
//!
//! An adapter changes weights of its base model by products of two factors. The operations that the
//! architecture's description applies to a weight are applied to the factors ([`factors`]).

mod config;
mod factors;

use std::collections::BTreeMap;

use ggmill_arch::{Architecture, Assigned, NameRules, Operation, Source, TensorSpec};
use ggmill_core::{GgmlType, MetadataBuf, Shape, keys};
use ggmill_pipeline::{
    Checkpoint, Encoding, Error, ErrorKind, Expression, Pretrained, Recipe, RecipeTensor, Result,
};
use ggmill_quant::QUANTIZATION_VERSION;
use serde_json::Value;

use self::config::Config;
use self::factors::Factors;
use crate::convert::{ConvertOptions, FALLBACK, fallback_note, fits, is_float, target_type};
use crate::facts::{Facts, documents};
use crate::general::{General, Parameters, Sources};
use crate::operations::{apply, apply_with};
use crate::vocabulary::json;
use crate::weights::{Quantization, Weights};

/// Converts a PEFT adapter to a GGUF adapter for models of this architecture, like
/// `convert_lora_to_gguf.py`.
///
/// The configuration of `adapter` is `adapter_config.json`. From `base`, the configuration and any
/// tensors are used. The options of the vocabulary have no effect.
///
/// # Errors
///
/// Fails if the adapter is of another kind (DoRA and others), contains whole weights, changes a
/// tensor that the architecture lacks, or has factors whose shape contradicts the configuration,
/// and if the description applies an operation to a weight that cannot be applied to a product of
/// two factors.
pub fn convert_lora(
    adapter: &dyn Pretrained,
    base: &dyn Pretrained,
    architecture: &Architecture,
    options: &ConvertOptions,
) -> Result<Recipe> {
    let target = target_type(options.file_type)?;
    let config = Config::of(adapter.config())?;
    let quantization = Quantization::of(base)?;
    let weights = Weights::of(base, quantization.as_ref())?;
    let facts = Facts::of(&weights, architecture);
    let documents = documents(base, architecture)?;
    let resolved = architecture
        .resolve_checkpoint(base.config(), &documents, &facts)
        .map_err(|error| Error::caused(ErrorKind::Architecture, error))?;
    let targets = Targets::of(adapter, resolved.name_rules())?;
    let assignment = resolved
        .assign_some(&targets.names)
        .map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
    if let Some(&unknown) = assignment.unknown.first() {
        let message = format!(
            "the adapter changes this tensor, but the description of {} has no tensor that is made \
             from it",
            architecture.name()
        );
        let name = &targets.names[unknown];
        return Err(Error::new(ErrorKind::Architecture, message).tensor(name));
    }
    let made = AdapterTensors { adapter, targets: &targets, config: &config, target };
    let mut tensors = Vec::new();
    for assigned in &assignment.tensors {
        let Some(source) = assigned.source else { continue };
        made.add(assigned, source, &mut tensors)
            .map_err(|error| error.tensor(&assigned.spec.name))?;
    }

    let mut notes = Vec::new();
    notes.extend(targets.ignored.first().map(|first| {
        format!(
            "{} tensors of the adapter do not belong to the language model, and were omitted: \
             {first}{}",
            targets.ignored.len(),
            if targets.ignored.len() > 1 { ", …" } else { "" }
        )
    }));
    notes.extend(fallback_note(&tensors, target));
    let own = json(adapter.side_files(), "config.json")?.unwrap_or(Value::Null);
    let sources = Sources {
        config: &own,
        directory: adapter.name(),
        files: adapter.side_files(),
        parameters: Parameters::AtLeast(count_changed_elements(&tensors)),
        size_label: None,
        given: options.metadata.as_ref(),
        name: options.name.as_deref(),
    };
    let general = General::of(&sources, &mut notes);

    let mut metadata = MetadataBuf::new();
    metadata.set(keys::GENERAL_ARCHITECTURE, architecture.name());
    metadata.set(keys::GENERAL_TYPE, "adapter");
    metadata.set(keys::ADAPTER_TYPE, "lora");
    general.write_to(&mut metadata);
    metadata.set(keys::ADAPTER_LORA_ALPHA, config.alpha);
    if !config.invocation_tokens.is_empty() {
        metadata.set(keys::ADAPTER_ALORA_INVOCATION_TOKENS, config.invocation_tokens.as_slice());
    }
    metadata.set(keys::GENERAL_QUANTIZATION_VERSION, QUANTIZATION_VERSION);
    let mut recipe = Recipe::new(metadata, tensors);
    recipe.notes = notes;
    Ok(recipe)
}

/// Counts the elements of the weights that an adapter changes, like the reference.
fn count_changed_elements(tensors: &[RecipeTensor]) -> u64 {
    let mut sum = 0u64;
    let mut columns = 1;
    for tensor in tensors {
        let dimensions = tensor.shape().dimensions();
        if tensor.name.ends_with(b".lora_a") {
            columns = dimensions.first().copied().unwrap_or(1);
        } else if tensor.name.ends_with(b".lora_b") {
            let rows =
                dimensions.iter().skip(1).fold(1u64, |rows, &rest| rows.saturating_mul(rest));
            sum = sum.saturating_add(rows.saturating_mul(columns));
        } else {
            sum = sum.saturating_add(tensor.shape().elements());
        }
    }
    sum
}

/// Creates the tensors of an adapter's file.
struct AdapterTensors<'a> {
    adapter: &'a dyn Pretrained,
    targets: &'a Targets,
    config: &'a Config,
    target: GgmlType,
}

impl AdapterTensors<'_> {
    /// Adds the adapter's tensors for a tensor of the base.
    fn add(
        &self,
        assigned: &Assigned<'_>,
        source: &Source,
        tensors: &mut Vec<RecipeTensor>,
    ) -> Result<()> {
        let norms = self.targets.norms.len();
        let spec = assigned.spec;
        if assigned.positions.iter().all(|&position| position < norms) {
            tensors.push(self.norm(spec, source, &assigned.positions)?);
            return Ok(());
        }
        let mut factors = Vec::with_capacity(assigned.positions.len());
        for &position in &assigned.positions {
            let target =
                position.checked_sub(norms).and_then(|place| self.targets.weights.get(place));
            let Some(target) = target else {
                let message = "is made from a norm and a weight that the adapter changes";
                return Err(Error::new(ErrorKind::Unsupported, message));
            };
            let [a, b] = target.factors()?.map(|number| self.elements(number));
            let pair = Factors::new(a?, b?).map_err(|error| error.tensor(&target.shown))?;
            let pair = match self.config.correction(&target.module, pair.rank())? {
                Some(factor) => pair.scaled(factor)?,
                None => pair,
            };
            let is_transposed =
                target.is_embedding || self.config.is_transposed && is_stored_transposed(source);
            factors.push(if is_transposed { pair.transposed()? } else { pair });
        }
        let product =
            apply_with(source, factors, &|operation: &Operation, factors: &[Factors]| {
                Factors::apply(operation, factors, self.adapter)
            })?;
        let dimensions = product.dimensions();
        if dimensions != spec.shape.dimensions() {
            let message = format!(
                "{:?} results in factors for shape {}, but the configuration requires {}",
                source.names.first().map_or("", |name| name),
                Shape::new(&dimensions)
                    .map_or_else(|error| error.to_string(), |shape| shape.to_string()),
                spec.shape
            );
            return Err(Error::new(ErrorKind::Checkpoint, message));
        }
        // Programs look up embeddings by rows of the first factor.
        let (a, b) = if spec.name.ends_with("token_embd.weight") {
            (product.b, product.a.transpose()?)
        } else {
            (product.a, product.b)
        };
        for (ending, factor) in [(".lora_a", a), (".lora_b", b)] {
            let name = format!("{}{ending}", spec.name);
            let wanted = if fits(self.target, factor.shape()) { self.target } else { FALLBACK };
            tensors.push(RecipeTensor::new(name, encoded(&factor, wanted)?));
        }
        Ok(())
    }

    /// Returns a norm, which adapters contain in full.
    fn norm(
        &self,
        spec: &TensorSpec,
        source: &Source,
        positions: &[usize],
    ) -> Result<RecipeTensor> {
        let inputs: Vec<Expression> = positions
            .iter()
            .map(|&position| self.elements(self.targets.norms[position]))
            .collect::<Result<_>>()?;
        let norm = apply(source, inputs)?;
        if *norm.shape() != spec.shape
            || spec.shape.dimensions().len() != 1
            || !spec.name.contains("_norm")
        {
            let message = format!(
                "the adapter contains the whole tensor, with shape {}, expected a norm with shape \
                 {}",
                norm.shape(),
                spec.shape
            );
            return Err(Error::new(ErrorKind::Checkpoint, message));
        }
        Ok(RecipeTensor::new(&*spec.name, encoded(&norm, GgmlType::F32)?))
    }

    /// Returns the elements of a tensor of the adapter. Fails if they are not floating-point
    /// numbers.
    fn elements(&self, number: usize) -> Result<Expression> {
        let tensor = &self.adapter.tensors()[number];
        if !is_float(tensor.ggml_type) {
            let message = format!(
                "has elements of type {}, expected floating-point numbers",
                tensor.type_name()
            );
            return Err(Error::new(ErrorKind::Unsupported, message).tensor(&tensor.name));
        }
        Expression::tensor(self.adapter, number)
    }
}

/// Returns `true` if the checkpoint stores a weight transposed, according to its description.
fn is_stored_transposed(source: &Source) -> bool {
    let of_parts = source.parts.iter().flat_map(|part| &part.operations);
    source.operations.iter().chain(of_parts).any(|operation| *operation == Operation::Transpose)
}

/// Encodes elements in the type of the file. Elements that are encoded again must be finite in that
/// type.
fn encoded(factor: &Expression, ggml_type: GgmlType) -> Result<Expression> {
    let finite = factor.computes() || factor.ggml_type() != ggml_type;
    factor.encode(ggml_type, Encoding::new(None, finite))
}

/// Prefix of an adapter's tensor names: the class that PEFT wraps a model in.
const WRAPPER: &str = "base_model.model.";

/// Suffixes of the names of factors, with the factor that they mark.
const FACTORS: [(&str, Half); 4] = [
    (".lora_A.weight", Half::A),
    (".lora_B.weight", Half::B),
    (".lora_embedding_A", Half::A),
    (".lora_embedding_B", Half::B),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    A,
    B,
}

/// A weight of the base that an adapter changes.
#[derive(Clone, Debug)]
struct Target {
    /// Indices of its factors in the adapter.
    factors: [Option<usize>; 2],
    /// `true` for an embedding, whose factors are those of the transposed weight.
    is_embedding: bool,
    /// The name of the module in the base, before renaming by the description.
    module: String,
    /// The name of one of its factors, for messages.
    shown: String,
}

impl Target {
    /// Returns the indices of both factors. Fails if one is missing.
    fn factors(&self) -> Result<[usize; 2]> {
        match self.factors {
            [Some(a), Some(b)] => Ok([a, b]),
            [a, _] => {
                let missing = if a.is_none() { "A" } else { "B" };
                let message = format!("the adapter has no factor {missing} for it");
                Err(Error::new(ErrorKind::Checkpoint, message).tensor(&self.shown))
            }
        }
    }
}

/// The tensors of a PEFT adapter, by the names of the description.
#[derive(Debug, Default)]
struct Targets {
    /// Names in the reference's order: norms, then weights.
    names: Vec<String>,
    /// Indices of the norms in the adapter; the first of `names` are theirs.
    norms: Vec<usize>,
    weights: Vec<Target>,
    /// Names of tensors that the conversion of the base ignores.
    ignored: Vec<String>,
}

impl Targets {
    /// Classifies the tensors of an adapter. Fails for a tensor that is neither a factor nor a
    /// norm.
    fn of(adapter: &dyn Checkpoint, rules: &NameRules) -> Result<Self> {
        let mut this = Self::default();
        let mut norm_names = Vec::new();
        let mut target_names: Vec<String> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (number, tensor) in adapter.tensors().iter().enumerate() {
            let stored = String::from_utf8_lossy(&tensor.name).into_owned();
            let name = rules.renamed(&base_name(&stored));
            if rules.ignores(&name) {
                refuse_output(&name, &stored)?;
                this.ignored.push(stored);
                continue;
            }
            let half = FACTORS.iter().find(|(part, _)| stored.contains(part));
            let Some(&(part, half)) = half else {
                if stored.contains(".base_layer.weight") {
                    continue;
                }
                if stored.contains("_layernorm") || stored.contains(".norm") {
                    norm_names.push(name);
                    this.norms.push(number);
                    continue;
                }
                return Err(unsupported_tensor(&stored));
            };
            let place = *places.entry(name).or_insert_with_key(|name| {
                target_names.push(name.clone());
                this.weights.push(Target {
                    factors: [None; 2],
                    is_embedding: part.contains("embedding"),
                    module: stored.replace(WRAPPER, "").replace(part, ""),
                    shown: stored.clone(),
                });
                this.weights.len() - 1
            });
            let factor = &mut this.weights[place].factors[usize::from(half == Half::B)];
            if factor.replace(number).is_some() {
                let message = "two factors of the adapter have this name after renaming by the \
                               description";
                return Err(Error::new(ErrorKind::Checkpoint, message).tensor(&stored));
            }
        }
        if this.weights.is_empty() {
            let why = if this.ignored.is_empty() { "" } else { " of the language model" };
            let message = format!("the adapter has no factors{why}");
            return Err(Error::new(ErrorKind::Checkpoint, message));
        }
        norm_names.append(&mut target_names);
        this.names = norm_names;
        Ok(this)
    }
}

/// Returns the name of the weight in the base.
fn base_name(stored: &str) -> String {
    let mut name = stored.replace(WRAPPER, "");
    for (part, _) in FACTORS {
        name = name.replace(part, ".weight");
    }
    name
}

/// Fails for an adapter of the output matrix if the base has none (tied embeddings).
fn refuse_output(name: &str, stored: &str) -> Result<()> {
    if name != "lm_head.weight" {
        return Ok(());
    }
    let message = "the base has no output matrix of its own: it uses its token embeddings";
    Err(Error::new(ErrorKind::Unsupported, message).tensor(stored))
}

/// Returns an error that says why a GGUF adapter cannot contain a tensor.
fn unsupported_tensor(stored: &str) -> Error {
    let message = if stored.contains(".lora_magnitude_vector") {
        "is a DoRA magnitude, which a GGUF adapter cannot contain; merge the adapter into its base"
    } else if stored.contains(".lora_") {
        "is not a factor that a GGUF adapter can contain, expected lora_A and lora_B of a weight"
    } else if stored.contains("trainable_tokens") {
        "contains trained tokens (trainable_tokens), which a GGUF adapter cannot contain; merge \
         the adapter into its base"
    } else if stored.ends_with(".weight") {
        "was saved in full (modules_to_save, or embeddings for new tokens), which a GGUF adapter \
         cannot contain; merge the adapter into its base"
    } else {
        "is neither a factor of an adapter (lora_A, lora_B) nor a norm"
    };
    Error::new(ErrorKind::Unsupported, message).tensor(stored)
}
