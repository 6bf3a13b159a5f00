//! The tensors and layers of a file, compared with those that its architecture expects.

use ggmill_arch::{
    Architecture, Difference, ModelView, Resolved, SpecifiedKey, TensorNames, block_of,
    kind_of_architecture,
};
use ggmill_core::Tensor;

use super::{
    BLOCKS, MISSING_TENSOR, NOT_AS_DESCRIBED, TENSOR_NAME, TENSOR_SHAPE, UNEXPECTED_TENSOR,
};
use crate::report::{Findings, Place};
use crate::{Input, Rule};

/// Compares the tensors with those that the description resolves to.
pub(super) fn tensors(
    input: &Input<'_>,
    architecture: &Architecture,
    model: &Resolved<'_>,
    out: &mut Findings<'_>,
) {
    // Without a loader that enforces the description, it is not an error.
    let rule = |rule: &'static Rule| {
        if architecture.loader().is_some() { rule } else { &NOT_AS_DESCRIBED }
    };
    let names = loaded_names(architecture.name());
    let is_refused = |tensor: Option<&Tensor<'_>>| {
        let name = tensor.and_then(|tensor| tensor.name().to_str().ok());
        names.is_some_and(|names| !name.is_some_and(|name| names.contains(name)))
    };
    let mut unexpected = Vec::new();
    let (shards, all): (Vec<usize>, Vec<Tensor<'_>>) = input.model_tensors().unzip();
    let place = |number: usize| {
        let found = all.get(number).zip(shards.get(number));
        found.map_or(Place::FILE, |(tensor, &shard)| Place::info(tensor).in_shard(shard))
    };
    for difference in model.compare(&all) {
        match difference {
            Difference::Missing(spec) => {
                out.add(rule(&MISSING_TENSOR), Place::absent(&spec.name), || {
                    format!("the tensor is missing; expected shape {}", spec.shape)
                });
            }
            Difference::Unexpected(number) => {
                let rule = if is_refused(all.get(number)) {
                    &UNEXPECTED_TENSOR
                } else {
                    rule(&UNEXPECTED_TENSOR)
                };
                unexpected.extend(all.get(number));
                out.add(rule, place(number), || {
                    format!("not a tensor of the architecture \"{}\"", architecture.name())
                });
            }
            Difference::Excluded { spec, place: number } => {
                out.add(rule(&UNEXPECTED_TENSOR), place(number), || {
                    format!(
                        "cannot be combined with {}",
                        spec.unless.as_deref().unwrap_or("another")
                    )
                });
            }
            Difference::Shape { expected, place: number } => {
                out.add(rule(&TENSOR_SHAPE), place(number), || {
                    let found = all
                        .get(number)
                        .map(|tensor| tensor.shape().to_string())
                        .unwrap_or_default();
                    format!("shape {found}, expected {}", expected.shape)
                });
            }
            _ => {}
        }
    }
    drop_command(input, &unexpected, &all, out);
}

/// Returns the tensor names that llama.cpp can load for an architecture; `None` for architectures that only
/// the specification describes, such as gptj.
fn loaded_names(architecture: &str) -> Option<&'static TensorNames> {
    let is_specified = SpecifiedKey::all().any(|key| key.architecture() == architecture);
    let has_loader = Architecture::builtin(architecture).is_some_and(|it| it.loader().is_some());
    TensorNames::of(architecture).filter(|_| has_loader || !is_specified)
}

/// Words the command that removes unexpected tensors, if their names can be written in a shell.
fn drop_command(
    input: &Input<'_>,
    unexpected: &[&Tensor<'_>],
    all: &[Tensor<'_>],
    out: &mut Findings<'_>,
) {
    const MAX_GLOBS: usize = 8;
    let is_plain = |name: &&str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
    };
    let names: Option<Vec<&str>> =
        unexpected.iter().map(|tensor| tensor.name().to_str().ok().filter(is_plain)).collect();
    // If no tensor is expected, the architecture is wrong, not the tensors.
    let Some(mut names) = names.filter(|names| !names.is_empty() && names.len() < all.len()) else {
        return;
    };
    names.sort_unstable();
    let is_unexpected = |name: &str| names.binary_search(&name).is_ok();
    let mut globs: Vec<String> = Vec::new();
    for name in &names {
        // All tensors of another part, such as v.* of an encoder, or else each tensor.
        let prefix = name.split_once('.').map(|(first, _)| format!("{first}."));
        let prefix = prefix.filter(|prefix| {
            all.iter().all(|tensor| {
                let name = tensor.name().to_str().unwrap_or_default();
                !name.starts_with(prefix.as_str()) || is_unexpected(name)
            })
        });
        let glob = prefix.map_or_else(|| (*name).to_owned(), |prefix| format!("{prefix}*"));
        if !globs.contains(&glob) {
            globs.push(glob);
        }
        if globs.len() > MAX_GLOBS {
            return;
        }
    }
    let options: Vec<String> = globs.iter().map(|glob| format!("--drop '{glob}'")).collect();
    let file = input.name.filter(is_plain).unwrap_or("FILE");
    let remedy = UNEXPECTED_TENSOR.remedy;
    let help =
        format!("{remedy} `ggmill graft {file} {} -o NEW.gguf` removes them.", options.join(" "));
    out.advise(&UNEXPECTED_TENSOR, &help);
}

/// Checks the tensor names of an architecture of which only these are known. llama.cpp cannot load a
/// tensor whose name no architecture has.
pub(super) fn tensor_names(input: &Input<'_>, names: &TensorNames, out: &mut Findings<'_>) {
    /// Names are compared with those of all architectures.
    const MAX_COMPARED: usize = 256;
    // Encoders are in separate files.
    let others = || {
        let all = TensorNames::all();
        all.filter(|(name, _)| kind_of_architecture(name) != Some("mmproj"))
    };
    let is_known = |name: &str| others().any(|(_, names)| names.contains(name));
    let (shards, all): (Vec<usize>, Vec<Tensor<'_>>) = input.model_tensors().unzip();
    let mut unexpected = Vec::new();
    let mut compared = 0;
    for (tensor, shard) in all.iter().zip(shards) {
        let name = tensor.name().to_str().ok();
        if name.is_some_and(|name| names.contains(name)) {
            continue;
        }
        compared += 1;
        let is_refused = compared <= MAX_COMPARED && !name.is_some_and(is_known);
        if is_refused {
            unexpected.push(tensor);
        }
        let rule = if is_refused { &UNEXPECTED_TENSOR } else { &TENSOR_NAME };
        out.add(rule, Place::info(tensor).in_shard(shard), || {
            "not a tensor name of this architecture".into()
        });
    }
    drop_command(input, &unexpected, &all, out);
}

/// Returns `true` if the model requires a tensor in this block.
pub(super) fn needs(model: &Resolved<'_>, block: u64) -> bool {
    let prefix = format!("blk.{block}.");
    model.tensors().iter().any(|tensor| tensor.required && tensor.name.starts_with(&prefix))
}

/// Checks the number of blocks, and returns `true` if it is that of the metadata.
pub(super) fn blocks(
    input: &Input<'_>,
    model: &ModelView<'_>,
    needed: impl Fn(u64) -> bool,
    out: &mut Findings<'_>,
) -> bool {
    let (Some(entry), Some(count)) =
        (input.metadata().get(model.key("block_count")), model.integer("block_count"))
    else {
        return true;
    };
    let number = |tensor: ggmill_core::Tensor<'_>| -> Option<u64> {
        block_of(tensor.name().to_str().ok()?).map(|(number, _)| number)
    };
    let mut numbers: Vec<u64> =
        input.model_tensors().filter_map(|(_, tensor)| number(tensor)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    // Encoders have other names of blocks.
    let Some(&last) = numbers.last() else { return true };
    if last >= count {
        out.add(&BLOCKS, Place::value(&entry), || {
            format!("block_count is {count}, but there are tensors of layer {last}")
        });
        // All layers are there: only the number is wrong.
        if numbers.len() as u64 == last + 1 {
            count_command(input, model, last + 1, out);
        }
        return false;
    }
    let gap = numbers
        .iter()
        .zip(0..)
        .find(|(number, place)| *number != place)
        .map(|(_, place)| place)
        .or((last + 1 < count).then_some(last + 1))
        .filter(|&gap| needed(gap));
    if let Some(gap) = gap {
        out.add(&BLOCKS, Place::value(&entry), || {
            format!(
                "block_count is {count}, but the file has no tensors for layer {gap} (blk.{gap}.*)"
            )
        });
    }
    // All layers up to the gap are there, and none after it.
    if let Some(gap) = gap.filter(|&gap| gap == last + 1) {
        count_command(input, model, gap, out);
    }
    gap.is_none()
}

/// Words the command that sets the number of layers to those in the file.
fn count_command(input: &Input<'_>, model: &ModelView<'_>, count: u64, out: &mut Findings<'_>) {
    let key = model.key("block_count");
    let is_plain = |text: &&str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
    };
    let Some(key) = Some(&*key).filter(is_plain) else { return };
    let file = input.name.filter(is_plain).unwrap_or("FILE");
    let remedy = BLOCKS.remedy;
    let help = format!(
        "{remedy} `ggmill edit {file} --set {key}={count}` sets it to the layers in the file."
    );
    out.advise(&BLOCKS, &help);
}

/// Reports tensors that the architecture cannot have, by name. Used when the hyperparameters do not resolve
/// to a list of tensors.
pub(super) fn foreign_tensors(
    input: &Input<'_>,
    names: &TensorNames,
    described: Option<&Architecture>,
    by_loader: bool,
    out: &mut Findings<'_>,
) {
    // The list of names is that of gguf-py, which lacks some names of descriptions.
    let is_known = |name: &str| {
        names.contains(name)
            || described.is_some_and(|architecture| architecture.may_have_tensor(name))
    };
    let is_refused = by_loader || input.architecture().and_then(loaded_names).is_some();
    let rule = if is_refused { &UNEXPECTED_TENSOR } else { &NOT_AS_DESCRIBED };
    let (shards, all): (Vec<usize>, Vec<Tensor<'_>>) = input.model_tensors().unzip();
    let mut unexpected = Vec::new();
    for (tensor, shard) in all.iter().zip(shards) {
        if !tensor.name().to_str().is_ok_and(is_known) {
            unexpected.push(tensor);
            out.add(rule, Place::info(tensor).in_shard(shard), || {
                "not a tensor name of this architecture".into()
            });
        }
    }
    drop_command(input, &unexpected, &all, out);
}
