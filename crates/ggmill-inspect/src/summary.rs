//! The summary of a model.

use std::collections::BTreeMap;
use std::fmt;

use ggmill_arch::ModelView;
use ggmill_core::{FileType, GgmlType, Model, RawStr, Shape, Tensor, Value, is_digits, keys};
use ggmill_text::LosslessStr;
use serde::Serialize;
use serde::ser::{SerializeMap as _, SerializeStruct as _, Serializer};

use crate::human::grouped;

/// The summary of a model. A value that is missing in the file or has an unexpected type is `None`,
/// and `null` in JSON.
///
/// ```
/// use ggmill_core::{Builder, MetadataBuf, Model};
/// use ggmill_inspect::{PerBlock, Summary};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.architecture", "llama");
/// metadata.set("llama.attention.head_count", 32u32);
/// let model = Model::open(Builder::new().metadata(metadata).plan()?.header().to_vec())?;
/// assert_eq!(Summary::of(&model).head_count, Some(PerBlock::Same(32)));
/// # Ok::<(), ggmill_core::Error>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Summary<'a> {
    /// `general.architecture`.
    pub architecture: Option<LosslessStr<'a>>,
    /// `general.name`.
    pub name: Option<LosslessStr<'a>>,
    /// `general.type`: `model`, `adapter`, `imatrix`, `mmproj`, ….
    #[serde(rename = "type")]
    pub kind: Option<LosslessStr<'a>>,
    /// `general.license`.
    pub license: Option<LosslessStr<'a>>,
    /// `true` if the header could be read only in part, so that missing values may be in the rest.
    #[serde(skip)]
    pub is_partial: bool,
    /// Elements of all tensors.
    pub parameters: u128,
    /// Number of tensors.
    pub tensors: u64,
    /// Bytes of all tensors of known types, without padding.
    pub tensor_bytes: u128,
    /// Bits per element over the tensors of known types; `None` if there are no elements.
    pub bits_per_weight: Option<f64>,
    /// `general.file_type`.
    #[serde(serialize_with = "serialize_file_type")]
    pub file_type: Option<FileType>,
    /// `general.quantization_version`.
    pub quantization_version: Option<u64>,
    /// `<architecture>.context_length`.
    pub context_length: Option<u64>,
    /// `<architecture>.embedding_length`.
    pub embedding_length: Option<u64>,
    /// `<architecture>.block_count`.
    pub block_count: Option<u64>,
    /// `<architecture>.feed_forward_length`.
    pub feed_forward_length: Option<PerBlock>,
    /// `<architecture>.attention.head_count`.
    pub head_count: Option<PerBlock>,
    /// `<architecture>.attention.head_count_kv`.
    pub head_count_kv: Option<PerBlock>,
    /// `<architecture>.expert_count`.
    pub expert_count: Option<u64>,
    /// `<architecture>.expert_used_count`.
    pub expert_used_count: Option<u64>,
    /// `tokenizer.ggml.model`.
    pub tokenizer_model: Option<LosslessStr<'a>>,
    /// `tokenizer.ggml.pre`.
    pub tokenizer_pre: Option<LosslessStr<'a>>,
    /// Number of `tokenizer.ggml.tokens`; without them `<architecture>.vocab_size`.
    pub vocabulary_size: Option<u64>,
    /// `true` if the tokens themselves are included.
    #[serde(skip)]
    pub has_tokens: bool,
    /// Bytes of `tokenizer.chat_template`; `None` if there is none.
    pub chat_template_bytes: Option<u64>,
    /// The facts of an adapter; `None`, and absent in JSON, for another file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterSummary<'a>>,
    /// Number of files.
    pub shards: u64,
    /// The tensor types in use, ordered by type number.
    #[serde(serialize_with = "serialize_types")]
    pub types: Vec<TypeUse>,
}

/// The tensors of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeUse {
    /// The type.
    pub ggml_type: GgmlType,
    /// Tensors of this type.
    pub tensors: u64,
    /// Their elements.
    pub elements: u128,
    /// Their bytes; `None` for an unknown type.
    pub bytes: Option<u128>,
}

impl<'a> Summary<'a> {
    /// Summarizes the metadata and the tensors of a model.
    pub fn of(model: &'a Model) -> Self {
        let metadata = model.metadata();
        let view = ModelView::of_metadata(metadata);
        let text = |key: &str| metadata.raw_str(key).ok().map(LosslessStr);
        let types = TypeUse::tally(
            model
                .tensors()
                .iter()
                .map(|tensor| (tensor.ggml_type(), tensor.shape(), tensor.size())),
        );
        let parameters = types.iter().map(|used| used.elements).sum();
        let tensor_bytes = types.iter().filter_map(|used| used.bytes).sum();
        let bits_per_weight = TypeUse::bits_per_weight(&types);
        let tokens = metadata.array(keys::TOKENIZER_TOKENS).ok();
        Self {
            architecture: text(keys::GENERAL_ARCHITECTURE),
            name: text(keys::GENERAL_NAME),
            kind: text(keys::GENERAL_TYPE),
            license: text(keys::GENERAL_LICENSE),
            is_partial: model.header_fault().is_some(),
            parameters,
            tensors: model.tensors().len() as u64,
            tensor_bytes,
            bits_per_weight,
            file_type: metadata.u32(keys::GENERAL_FILE_TYPE).ok().map(FileType),
            quantization_version: metadata.u64(keys::GENERAL_QUANTIZATION_VERSION).ok(),
            context_length: view.integer("context_length"),
            embedding_length: view.integer("embedding_length"),
            block_count: view.integer("block_count"),
            feed_forward_length: PerBlock::of(&view, "feed_forward_length"),
            head_count: PerBlock::of(&view, "attention.head_count"),
            head_count_kv: PerBlock::of(&view, "attention.head_count_kv"),
            expert_count: view.integer("expert_count"),
            expert_used_count: view.integer("expert_used_count"),
            tokenizer_model: text(keys::TOKENIZER_MODEL),
            tokenizer_pre: text(keys::TOKENIZER_PRE),
            has_tokens: tokens.is_some(),
            vocabulary_size: tokens
                .map(|tokens| tokens.len())
                .or_else(|| view.integer("vocab_size")),
            chat_template_bytes: text(keys::TOKENIZER_CHAT_TEMPLATE)
                .map(|template| template.0.len() as u64),
            adapter: AdapterSummary::of(model),
            shards: model.parts().len() as u64,
            types,
        }
    }
}

impl TypeUse {
    /// Counts tensors by type, ordered by type number. Each tensor is its type, shape and size in bytes.
    ///
    /// ```
    /// use ggmill_core::{GgmlType, Shape};
    /// use ggmill_inspect::TypeUse;
    /// let shape = Shape::new(&[256, 8])?;
    /// let types = TypeUse::tally([(GgmlType::Q8_0, &shape, Some(2176)), (GgmlType::F32, &shape, Some(8192))]);
    /// assert_eq!(TypeUse::bits_per_weight(&types), Some((8.5 + 32.0) / 2.0));
    /// # Ok::<(), ggmill_core::Error>(())
    /// ```
    pub fn tally<'a>(
        tensors: impl IntoIterator<Item = (GgmlType, &'a Shape, Option<u64>)>,
    ) -> Vec<Self> {
        let mut types: BTreeMap<GgmlType, Self> = BTreeMap::new();
        for (ggml_type, shape, size) in tensors {
            let used = types.entry(ggml_type).or_insert_with(|| Self {
                ggml_type,
                tensors: 0,
                elements: 0,
                bytes: ggml_type.layout().map(|_| 0),
            });
            used.tensors += 1;
            used.elements += u128::from(shape.elements());
            used.bytes = used.bytes.map(|bytes| bytes + u128::from(size.unwrap_or(0)));
        }
        types.into_values().collect()
    }

    /// Returns the bits per element over the types of known size; `None` if there are no elements.
    pub fn bits_per_weight(types: &[Self]) -> Option<f64> {
        let known = || types.iter().filter_map(|used| Some((used.elements, used.bytes?)));
        let weights: u128 = known().map(|(elements, _)| elements).sum();
        let bytes: u128 = known().map(|(_, bytes)| bytes).sum();
        #[expect(clippy::cast_precision_loss, reason = "a mean; 53 bits are plenty")]
        (weights > 0).then(|| bytes as f64 * 8.0 / weights as f64)
    }
}

impl Serialize for TypeUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("TypeUse", 2)?;
        object.serialize_field("tensors", &self.tensors)?;
        object.serialize_field("bytes", &self.bytes)?;
        object.end()
    }
}

fn serialize_types<S: Serializer>(types: &[TypeUse], serializer: S) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(types.len()))?;
    for used in types {
        object.serialize_entry(&format_args!("{}", used.ggml_type), used)?;
    }
    object.end()
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn serialize_file_type<S: Serializer>(
    file_type: &Option<FileType>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match file_type {
        Some(file_type) => serializer.collect_str(file_type),
        None => serializer.serialize_none(),
    }
}

/// A hyperparameter that some models have once and others once per block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "one value or several")]
pub enum PerBlock {
    /// Equal in all blocks. JSON has the number.
    Same(u64),
    /// Different between blocks. JSON has `{"min":…,"max":…}`.
    Varying {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
}

impl PerBlock {
    fn of(model: &ModelView<'_>, name: &str) -> Option<Self> {
        let numbers = model.integers(name)?;
        Some(Self::spanning(*numbers.iter().min()?, *numbers.iter().max()?))
    }

    fn spanning(min: u64, max: u64) -> Self {
        if min == max { Self::Same(min) } else { Self::Varying { min, max } }
    }
}

impl Serialize for PerBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Same(number) => serializer.serialize_u64(number),
            Self::Varying { min, max } => {
                let mut object = serializer.serialize_struct("PerBlock", 2)?;
                object.serialize_field("min", &min)?;
                object.serialize_field("max", &max)?;
                object.end()
            }
        }
    }
}

impl fmt::Display for PerBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same(number) => write!(f, "{}", grouped(*number)),
            Self::Varying { min, max } => {
                write!(f, "{} to {}", grouped(*min), grouped(*max))
            }
        }
    }
}

/// The maximum number of listed targets, more than a model has.
const MAX_TARGETS: usize = 64;

/// The facts of a LoRA adapter.
///
/// ```
/// use ggmill_core::{Builder, GgmlType, MetadataBuf, Model, Shape, Writer};
/// use ggmill_inspect::{PerBlock, Summary};
/// let mut metadata = MetadataBuf::new();
/// metadata.set("general.type", "adapter");
/// metadata.set("adapter.lora.alpha", 16.0f32);
/// let plan = Builder::new()
///     .metadata(metadata)
///     .tensor("blk.0.attn_q.weight.lora_a", GgmlType::F32, Shape::new(&[32, 4])?)
///     .tensor("blk.0.attn_q.weight.lora_b", GgmlType::F32, Shape::new(&[4, 64])?)
///     .plan()?;
/// let mut writer = Writer::start(&plan, Vec::new())?;
/// for (number, tensor) in plan.tensors().iter().enumerate() {
///     writer.write(number, &vec![0; tensor.size() as usize])?;
/// }
/// let model = Model::open(writer.finish()?)?;
/// let adapter = Summary::of(&model).adapter.ok_or("an adapter")?;
/// assert_eq!((adapter.rank, adapter.alpha), (Some(PerBlock::Same(4)), Some(16.0)));
/// assert_eq!(adapter.targets, ["blk.N.attn_q.weight"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AdapterSummary<'a> {
    /// `adapter.type`: `lora`.
    #[serde(rename = "type")]
    pub kind: Option<LosslessStr<'a>>,
    /// The rank: the inner dimension of the products.
    pub rank: Option<PerBlock>,
    /// `adapter.lora.alpha`, which is divided by the rank.
    pub alpha: Option<f32>,
    /// The name of the base model: `general.base_model.0.name`.
    pub base: Option<LosslessStr<'a>>,
    /// The number of tensors of the base model that it changes.
    pub changed: u64,
    /// The distinct names of these tensors with `N` for the number of a block, at most 64.
    pub targets: Vec<String>,
}

impl<'a> AdapterSummary<'a> {
    /// Returns the facts of an adapter; `None` for another file.
    fn of(model: &'a Model) -> Option<Self> {
        let metadata = model.metadata();
        let text = |key: &str| metadata.raw_str(key).ok().map(LosslessStr);
        text(keys::GENERAL_TYPE).filter(|kind| kind.0 == "adapter")?;
        let alpha = match metadata.get(keys::ADAPTER_LORA_ALPHA).map(|entry| entry.value()) {
            Some(Ok(Value::F32(alpha))) => Some(alpha),
            _ => None,
        };
        let (mut changed, mut ranks) = (0u64, None);
        let mut targets: Vec<String> = Vec::new();
        for tensor in model.tensors() {
            let Some((name, rank)) = changed_tensor(&tensor) else { continue };
            changed += 1;
            let (min, max) = ranks.unwrap_or((rank, rank));
            ranks = Some((rank.min(min), rank.max(max)));
            let target = without_block(name);
            if targets.len() < MAX_TARGETS && !targets.contains(&target) {
                targets.push(target);
            }
        }
        let rank = ranks.map(|(min, max)| PerBlock::spanning(min, max));
        let base = text("general.base_model.0.name");
        Some(Self { kind: text(keys::ADAPTER_TYPE), rank, alpha, base, changed, targets })
    }
}

/// Returns the name of the base tensor of a second factor (`lora_b`), and the rank.
fn changed_tensor<'t>(tensor: &'t Tensor<'_>) -> Option<(&'t [u8], u64)> {
    let name = tensor.name().as_bytes().strip_suffix(b".lora_b")?;
    Some((name, tensor.shape().dimensions().first().copied()?))
}

/// Replaces the number of a block in a name by `N`.
fn without_block(name: &[u8]) -> String {
    let name = RawStr::new(name).to_string();
    let parts = name.split('.').map(|part| if is_digits(part) { "N" } else { part });
    parts.collect::<Vec<_>>().join(".")
}
