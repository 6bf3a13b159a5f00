//! Adapters merged into a model.

use std::collections::BTreeMap;

use ggmill_core::{GgmlType, RawStr, Shape, Value, keys};
use ggmill_pipeline::{Encoding, Expression, Joined, Recipe, RecipeTensor};
use ggmill_pipeline::{Error, ErrorKind, GgufCheckpoint, Result};
use ggmill_quant::BlockCodec;

use super::{LoraAdapter, fault, is_flipped, path_of};
use crate::merge::whole;

/// Experts of a stack: far more than any model has.
const MAX_EXPERTS: u64 = 4096;

/// A model with adapters merged into it, each with a factor of its own: the recipe, and the sources
/// that it is planned and run with. A set of shards becomes one file.
///
/// Tensor *W* becomes *W* + Σ *scale* · alpha / rank · *B* · *A*, calculated in F32 and encoded once
/// in the type that the tensor has; a tensor that no adapter changes is copied. Fails when an
/// adapter is for another architecture, when it changes a tensor that the model lacks or has in
/// another shape, and when that has a type that is not encoded without importance weights.
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
        let added = add(adapter, *scale, &recipe, &mut sources, &mut changes);
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

/// Adds what an adapter changes to the changes of each tensor, and says what it has besides.
fn add<'n, 'a: 'n>(
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
        if ggmill_quant::codec(tensor.ggml_type()).is_ok_and(BlockCodec::needs_weights) {
            let message = format!(
                "tensor {shown:?} of the base is {}, which cannot be encoded without importance \
                 weights: merge into a different base and quantize the result",
                tensor.ggml_type()
            );
            return Err(Error::new(ErrorKind::Importance, message));
        }
        // A change of nothing leaves the tensor as it is.
        if scale == 0.0 {
            continue;
        }
        let [a, b] = factors.map(|number| Expression::tensor(&*sources, first + number));
        let product = product(&a?, &b?, is_flipped(name)).map_err(about)?;
        #[expect(clippy::cast_precision_loss, reason = "a rank has a few digits")]
        let rank = adapter.rank(*factors) as f32;
        // As the reference: in single precision, in this order.
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

/// Whether a tensor of this type has weights, and no indices.
fn is_weight(found: GgmlType) -> bool {
    let is_float = matches!(found, GgmlType::F64 | GgmlType::F32 | GgmlType::F16 | GgmlType::BF16);
    is_float || found.is_quantized()
}

/// Names every tensor that the base lacks, or the first of them.
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

/// The first names of a list.
fn first_names(names: &[String]) -> String {
    const NAMED: usize = 3;
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.get(..NAMED).unwrap_or(names).join(", "))
}

/// The product of the factors must have the shape of the tensor.
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

/// The product of two factors, of the shape of the tensor that it is added to.
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

/// One matrix of a stack; of a stack of one, that one.
fn matrix(stack: &Expression, number: u64) -> Result<Expression> {
    let dimensions = stack.shape().dimensions();
    let &[columns, rows, count] = dimensions else { return Ok(stack.clone()) };
    let shape =
        Shape::new(&[columns, rows]).map_err(|error| Error::caused(ErrorKind::Misuse, error))?;
    stack.slice(2, number.min(count.saturating_sub(1)), 1, 1)?.reshape(shape)
}

/// A tensor with its changes, in its own type.
fn merged(tensor: &RecipeTensor, changes: &[Expression]) -> Result<Expression> {
    let mut sum = tensor.expression.to_f32()?;
    for change in changes {
        sum = sum.sum(&change.reshape(*sum.shape())?)?;
    }
    sum.encode(tensor.ggml_type(), Encoding::finite())
}
