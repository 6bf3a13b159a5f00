//! The tensors that an adapter changes, and its strength.

use ggmill_core::{Model, Tensor, Value, is_digits, keys};
use ggmill_text::LosslessStr;
use serde::Serialize;

use crate::per_block::PerBlock;

/// The most sorts of tensors that are listed: more than a model has.
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
    /// The rank of the changes: the inner dimension of the products.
    pub rank: Option<PerBlock>,
    /// `adapter.lora.alpha`, which is divided by the rank.
    pub alpha: Option<f32>,
    /// The name of the base model: `general.base_model.0.name`.
    pub base: Option<LosslessStr<'a>>,
    /// How many tensors of the base it changes.
    pub changed: u64,
    /// The names of these tensors, each once, with `N` for the number of a block: at most 64 of
    /// them.
    pub targets: Vec<String>,
}

impl<'a> AdapterSummary<'a> {
    /// The facts of an adapter; `None` for a file that is none.
    pub(crate) fn of(model: &'a Model) -> Option<Self> {
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
            let Some((name, rank)) = change(&tensor) else { continue };
            changed += 1;
            let (min, max) = ranks.unwrap_or((rank, rank));
            ranks = Some((rank.min(min), rank.max(max)));
            let sort = without_block(name);
            if targets.len() < MAX_TARGETS && !targets.contains(&sort) {
                targets.push(sort);
            }
        }
        let rank = ranks.map(|(min, max)| PerBlock::spanning(min, max));
        let base = text("general.base_model.0.name");
        Some(Self { kind: text(keys::ADAPTER_TYPE), rank, alpha, base, changed, targets })
    }
}

/// The tensor of the base that a second factor is for, and the rank.
fn change<'t>(tensor: &'t Tensor<'_>) -> Option<(&'t [u8], u64)> {
    let name = tensor.name().as_bytes().strip_suffix(b".lora_b")?;
    Some((name, tensor.shape().dimensions().first().copied()?))
}

/// A name with `N` in the place of the number of a block.
fn without_block(name: &[u8]) -> String {
    let name = ggmill_core::RawStr::new(name).to_string();
    let parts = name.split('.').map(|part| if is_digits(part) { "N" } else { part });
    parts.collect::<Vec<_>>().join(".")
}
