//! Low-rank adapters (LoRA): the content of a GGUF adapter, and models with adapters merged into
//! their weights.

use std::collections::BTreeMap;
use std::path::Path;

use ggmill_core::{GgmlType, RawStr, Shape, Value, keys};
use ggmill_pipeline::{
    Checkpoint, Encoding, Error, ErrorKind, Expression, GgufCheckpoint, Joined, Recipe,
    RecipeTensor, Result, SourceTensor,
};
use ggmill_quant::BlockCodec;

use crate::reshape::whole;

/// A LoRA adapter in GGUF: two factors of the change of each tensor of a base model that it adapts.
///
/// The factors of tensor `NAME`, of shape (*columns*, *rows*), are `NAME.lora_a` of shape
/// (*columns*, *rank*) and `NAME.lora_b` of shape (*rank*, *rows*); those of stacked experts have
/// the experts as a third dimension. The factors of token embeddings are exchanged: `lora_a` has
/// shape (*rank*, *rows*) and `lora_b` (*rank*, *columns*). The change is their product times alpha
/// over the rank.
#[derive(Debug)]
pub struct LoraAdapter<'a> {
    file: &'a GgufCheckpoint,
    architecture: Vec<u8>,
    alpha: f32,
    /// Tensors of the base by name, with the numbers of their two factors.
    pairs: BTreeMap<Vec<u8>, [usize; 2]>,
    /// The numbers of the norms, which no program applies.
    others: Vec<usize>,
}

/// A tensor of the base model that an adapter changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoraTarget<'a> {
    /// The name in the base model.
    pub name: RawStr<'a>,
    /// The rank of the change: the inner dimension of the product.
    pub rank: u64,
}

impl<'a> LoraAdapter<'a> {
    /// Reads a GGUF file as an adapter. Fails if its metadata is not that of an adapter, if a factor is
    /// missing, if two factors cannot be multiplied, and for a tensor that llama.cpp rejects.
    pub fn new(file: &'a GgufCheckpoint) -> Result<Self> {
        Self::read(file).map_err(|error| match path_of(file) {
            Some(path) => error.file(path),
            None => error,
        })
    }

    fn read(file: &'a GgufCheckpoint) -> Result<Self> {
        for (key, expected) in [(keys::GENERAL_TYPE, "adapter"), (keys::ADAPTER_TYPE, "lora")] {
            let found = file.metadata().raw_str(key).ok();
            if found.is_none_or(|found| found.as_bytes() != expected.as_bytes()) {
                let found = found.map_or_else(|| "none".to_owned(), |found| format!("{found:?}"));
                let message =
                    format!("is not a LoRA adapter: {key} is {found}, expected {expected:?}");
                return Err(fault(message));
            }
        }
        if file.metadata().get(keys::ADAPTER_ALORA_INVOCATION_TOKENS).is_some() {
            let message = format!(
                "has {}: the adapter is active only after these tokens, so it cannot be merged",
                keys::ADAPTER_ALORA_INVOCATION_TOKENS
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let architecture = file.metadata().raw_str(keys::GENERAL_ARCHITECTURE);
        let architecture =
            architecture.map_err(|error| Error::caused(ErrorKind::Checkpoint, error))?;
        let alpha = match file.metadata().get(keys::ADAPTER_LORA_ALPHA).map(|entry| entry.value()) {
            Some(Ok(Value::F32(alpha))) if alpha.is_finite() => alpha,
            None => 0.0,
            Some(_) => {
                return Err(fault(format!(
                    "{} is not a finite F32 number",
                    keys::ADAPTER_LORA_ALPHA
                )));
            }
        };
        let mut this = Self {
            file,
            architecture: architecture.as_bytes().to_vec(),
            alpha,
            pairs: BTreeMap::new(),
            others: Vec::new(),
        };
        this.add_factors()?;
        Ok(this)
    }

    fn add_factors(&mut self) -> Result<()> {
        let mut halves: BTreeMap<&[u8], [Option<usize>; 2]> = BTreeMap::new();
        for (number, tensor) in self.file.tensors().iter().enumerate() {
            let half = [&b".lora_a"[..], b".lora_b"]
                .iter()
                .enumerate()
                .find_map(|(half, ending)| Some((half, tensor.name.strip_suffix(*ending)?)));
            match half {
                Some((half, name)) => halves.entry(name).or_default()[half] = Some(number),
                None if tensor.name.ends_with(b"_norm.weight") => self.others.push(number),
                None => {
                    let message = format!(
                        "tensor {:?} is neither a factor (.lora_a, .lora_b) nor a norm",
                        tensor.name()
                    );
                    return Err(fault(message));
                }
            }
        }
        for (name, factors) in halves {
            let [Some(a), Some(b)] = factors else {
                let missing = if factors[0].is_none() { "lora_a" } else { "lora_b" };
                let message = format!(
                    "there is no {:?}",
                    RawStr::new(&[name, b".", missing.as_bytes()].concat())
                );
                return Err(fault(message));
            };
            self.pairs.insert(name.to_vec(), [a, b]);
            self.check_factors(name, [a, b])?;
        }
        if self.pairs.is_empty() {
            return Err(fault("has no factors, so there is nothing to merge"));
        }
        Ok(())
    }

    /// Checks that the factors of a tensor are matrices, or stacks of matrices, with the same inner
    /// dimension.
    fn check_factors(&self, name: &[u8], factors: [usize; 2]) -> Result<()> {
        let [a, b] = factors.map(|number| &self.file.tensors()[number]);
        let inner = usize::from(!is_flipped(name));
        let (of_a, of_b) = (a.shape.dimensions(), b.shape.dimensions());
        let experts = |dimensions: &[u64]| dimensions.get(2).copied().unwrap_or(1);
        let is_rank = |dimensions: &[u64]| matches!(dimensions.len(), 2 | 3);
        let fits = is_rank(of_a)
            && is_rank(of_b)
            && of_a.get(inner) == of_b.first()
            && (experts(of_a) == 1 || experts(of_a) == experts(of_b));
        if fits {
            return Ok(());
        }
        let message = format!(
            "tensor {:?}: factors of shapes {} and {} cannot be multiplied",
            RawStr::new(name),
            a.shape,
            b.shape
        );
        Err(fault(message))
    }

    /// Returns the architecture of the base model (`general.architecture`).
    pub fn architecture(&self) -> RawStr<'_> {
        RawStr::new(&self.architecture)
    }

    /// Returns `adapter.lora.alpha`; 0 if the file has none, which means that the adapter is not
    /// scaled by its rank.
    pub fn alpha(&self) -> f32 {
        self.alpha
    }

    /// Returns the tensors that the adapter changes, sorted by name.
    pub fn targets(&self) -> impl ExactSizeIterator<Item = LoraTarget<'_>> {
        self.pairs.iter().map(|(name, factors)| LoraTarget {
            name: RawStr::new(name),
            rank: self.rank(*factors),
        })
    }

    /// Returns the inner dimension of a product.
    fn rank(&self, factors: [usize; 2]) -> u64 {
        self.factor(factors[1]).shape.dimensions().first().copied().unwrap_or(1)
    }

    fn factor(&self, number: usize) -> &SourceTensor {
        &self.file.tensors()[number]
    }
}

/// Returns `true` if the factors of a tensor are swapped, as llama.cpp expects for embeddings.
fn is_flipped(name: &[u8]) -> bool {
    name.ends_with(b"token_embd.weight")
}

fn path_of(file: &GgufCheckpoint) -> Option<&Path> {
    ggmill_io::files(file.model()).next().map(ggmill_io::RandomAccess::path)
}

fn fault(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Checkpoint, message)
}

/// The maximum number of experts in a stack.
const MAX_EXPERTS: u64 = 4096;

/// Returns the recipe of a model with adapters merged into it, each multiplied by its scale, and the
/// sources that it is planned and run with. A set of shards becomes one file.
///
/// Tensor *W* becomes *W* + Σ *scale* · alpha / rank · *B* · *A*, calculated in F32 and encoded once
/// in the type of the tensor; a tensor that no adapter changes is copied. Fails if an adapter is for
/// another architecture, if it changes a tensor that the model lacks or has in another shape, and if
/// the tensor has a type that cannot be encoded without importance weights.
///
/// ```no_run
/// use ggmill_edit::{LoraAdapter, merge_adapters};
/// use ggmill_pipeline::GgufCheckpoint;
/// let (base, file) = (GgufCheckpoint::open("base.gguf")?, GgufCheckpoint::open("adapter.gguf")?);
/// let adapter = LoraAdapter::new(&file)?;
/// let (recipe, sources) = merge_adapters(&base, &[(&adapter, 0.5)])?;
/// let plan = recipe.plan(&sources)?;
/// # Ok::<(), ggmill_pipeline::Error>(())
/// ```
pub fn merge_adapters<'a>(
    base: &'a GgufCheckpoint,
    adapters: &[(&LoraAdapter<'a>, f32)],
) -> Result<(Recipe, Joined<'a>)> {
    let mut recipe = whole(base)?;
    let mut sources = Joined::new();
    sources.add(base);
    let mut changes: BTreeMap<&[u8], Vec<Expression>> = BTreeMap::new();
    for (adapter, scale) in adapters {
        let added = add_changes(adapter, *scale, &recipe, &mut sources, &mut changes);
        let note = added.map_err(|error| match path_of(adapter.file) {
            Some(path) => error.file(path),
            None => error,
        })?;
        recipe.notes.extend(note);
    }
    let mut again: BTreeMap<GgmlType, usize> = BTreeMap::new();
    for tensor in &mut recipe.tensors {
        let Some(changes) = changes.get(&*tensor.name) else { continue };
        tensor.expression = merged(tensor, changes).map_err(|error| error.tensor(&tensor.name))?;
        if tensor.ggml_type().is_quantized() {
            *again.entry(tensor.ggml_type()).or_default() += 1;
        }
    }
    if !again.is_empty() {
        let types: Vec<String> =
            again.iter().map(|(ggml_type, count)| format!("{count} {ggml_type}")).collect();
        recipe.notes.push(format!("quantized again after merging: {} tensors", types.join(", ")));
    }
    Ok((recipe, sources))
}

/// Adds the changes of an adapter to the changes of each tensor. Returns a note about its norms.
fn add_changes<'n, 'a: 'n>(
    adapter: &'n LoraAdapter<'a>,
    scale: f32,
    recipe: &Recipe,
    sources: &mut Joined<'a>,
    changes: &mut BTreeMap<&'n [u8], Vec<Expression>>,
) -> Result<Option<String>> {
    if !scale.is_finite() {
        return Err(Error::new(ErrorKind::Misuse, format!("the scale {scale} is not finite")));
    }
    let found = match recipe.metadata.get(keys::GENERAL_ARCHITECTURE) {
        Some(Value::Str(found)) => Some(found),
        _ => None,
    };
    if found.is_none_or(|found| found.as_bytes() != adapter.architecture) {
        let found = found.map_or_else(|| "none".to_owned(), |found| format!("{found:?}"));
        let message = format!(
            "is an adapter for the architecture {:?}, but the architecture of the base is {found}",
            adapter.architecture()
        );
        return Err(fault(message));
    }
    let places: BTreeMap<&[u8], &RecipeTensor> =
        recipe.tensors.iter().map(|tensor| (&*tensor.name, tensor)).collect();
    refuse_missing(adapter, &places)?;
    let first = sources.add(adapter.file);
    for (name, factors) in &adapter.pairs {
        let shown = RawStr::new(name);
        let Some(tensor) = places.get(&**name) else { continue };
        check_shape(adapter, name, *factors, tensor.shape())?;
        let about = |error: Error| Error::new(error.kind(), format!("tensor {shown:?}: {error}"));
        if !is_weight(tensor.ggml_type()) {
            let message = format!(
                "tensor {shown:?} of the base is {}, expected floating-point numbers or blocks",
                tensor.ggml_type()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let scale_of = |stem: &[u8]| [stem, b".scale"].concat();
        if let Some(stem) = name.strip_suffix(b".weight")
            && places.contains_key(&*scale_of(stem))
        {
            // Programs multiply by the scale before they add the change.
            let message = format!(
                "tensor {shown:?} of the base has the scale {:?}, which would multiply the change too: \
                 merge into the original base, and quantize the result",
                RawStr::new(&scale_of(stem))
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if ggmill_quant::codec(tensor.ggml_type()).is_ok_and(BlockCodec::needs_weights) {
            let message = format!(
                "tensor {shown:?} of the base is {}, which cannot be encoded without importance \
                 weights: merge into a different base and quantize the result",
                tensor.ggml_type()
            );
            return Err(Error::new(ErrorKind::Importance, message));
        }
        // With scale 0 the tensor is copied, not encoded again.
        if scale == 0.0 {
            continue;
        }
        let [a, b] = factors.map(|number| Expression::tensor(&*sources, first + number));
        let product = product(&a?, &b?, is_flipped(name)).map_err(about)?;
        #[expect(clippy::cast_precision_loss, reason = "a rank has a few digits")]
        let rank = adapter.rank(*factors) as f32;
        // In single precision and in this order, like the reference.
        let factor = if adapter.alpha == 0.0 { scale } else { scale * adapter.alpha / rank };
        let change = product.mul(f64::from(factor)).map_err(about)?;
        changes.entry(name).or_default().push(change);
    }
    let others: Vec<String> =
        adapter.others.iter().map(|&number| adapter.factor(number).name().to_string()).collect();
    Ok((!others.is_empty()).then(|| {
        format!(
            "{} norms of an adapter were not merged, as llama.cpp does not apply them: {}",
            others.len(),
            first_names(&others)
        )
    }))
}

/// Returns `true` for the types of weights, `false` for integers.
fn is_weight(found: GgmlType) -> bool {
    let is_float = matches!(found, GgmlType::F64 | GgmlType::F32 | GgmlType::F16 | GgmlType::BF16);
    is_float || found.is_quantized()
}

/// Fails if the base lacks tensors, and names the first of them.
fn refuse_missing(
    adapter: &LoraAdapter<'_>,
    places: &BTreeMap<&[u8], &RecipeTensor>,
) -> Result<()> {
    let missing: Vec<String> = adapter
        .pairs
        .keys()
        .filter(|name| !places.contains_key(&***name))
        .map(|name| RawStr::new(name).to_string())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "changes tensors that the base does not have ({} of {}): {}",
        missing.len(),
        adapter.pairs.len(),
        first_names(&missing)
    );
    Err(fault(message))
}

/// Joins the first names of a list.
fn first_names(names: &[String]) -> String {
    const NAMED: usize = 3;
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.get(..NAMED).unwrap_or(names).join(", "))
}

/// Checks that the product of the factors has the shape of the tensor.
fn check_shape(
    adapter: &LoraAdapter<'_>,
    name: &[u8],
    factors: [usize; 2],
    of_base: &Shape,
) -> Result<()> {
    let [a, b] = factors.map(|number| &adapter.factor(number).shape);
    let at =
        |shape: &Shape, dimension: usize| shape.dimensions().get(dimension).copied().unwrap_or(1);
    let product = if is_flipped(name) {
        [at(b, 1), at(a, 1), 1, 1]
    } else {
        [at(a, 0), at(b, 1), at(b, 2), 1]
    };
    if (0..4).all(|dimension| at(of_base, dimension) == product[dimension]) {
        return Ok(());
    }
    let experts = usize::from(product[2] > 1);
    let product: Vec<String> = product[..2 + experts].iter().map(ToString::to_string).collect();
    let message = format!(
        "tensor {:?}: the factors {a} and {b} are for shape {}, but the tensor of the base has \
         shape {of_base}",
        RawStr::new(name),
        product.join(" × ")
    );
    Err(fault(message))
}

/// Returns the product of two factors, in the shape of the tensor that it is added to.
fn product(a: &Expression, b: &Expression, is_flipped: bool) -> Result<Expression> {
    if is_flipped {
        return b.transpose()?.matmul(a);
    }
    let experts = b.shape().dimensions().get(2).copied();
    let Some(experts) = experts else { return matrix(a, 0)?.matmul(b) };
    if experts > MAX_EXPERTS {
        let message = format!("{experts} experts, the limit is {MAX_EXPERTS}");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let products: Vec<Expression> = (0..experts)
        .map(|expert| matrix(a, expert)?.matmul(&matrix(b, expert)?))
        .collect::<Result<_>>()?;
    Expression::stack(&products)
}

/// Returns matrix `number` of a stack, or the only matrix of a stack of one.
fn matrix(stack: &Expression, number: u64) -> Result<Expression> {
    let dimensions = stack.shape().dimensions();
    let &[columns, rows, count] = dimensions else { return Ok(stack.clone()) };
    let shape =
        Shape::new(&[columns, rows]).map_err(|error| Error::caused(ErrorKind::Misuse, error))?;
    stack.slice(2, number.min(count.saturating_sub(1)), 1, 1)?.reshape(shape)
}

/// Returns a tensor plus its changes, in the type of the tensor.
fn merged(tensor: &RecipeTensor, changes: &[Expression]) -> Result<Expression> {
    let mut sum = tensor.expression.to_f32()?;
    for change in changes {
        sum = sum.sum(&change.reshape(*sum.shape())?)?;
    }
    sum.encode(tensor.ggml_type(), Encoding::finite())
}
