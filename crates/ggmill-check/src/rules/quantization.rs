//! The quantization according to the metadata and according to the tensors.

use std::collections::BTreeMap;

use ggmill_core::{FileType, GgmlType, ValueType, keys};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Fix, Input, Options};

rules! { Quantization;
    NO_VERSION = "GG1401" Warning Must {
        summary: "Missing general.quantization_version",
        clause: "Reported when a tensor is quantized and the file has no `general.quantization_version`. The specification says: \"If any tensors are quantized, this _must_ be present.\"",
        why: "If the layout of a type changes again, readers will not be able to tell which layout the file uses.",
        remedy: "Set general.quantization_version to 2 (u32).",
        fixed: "general.quantization_version = 2",
        automatic: "sets general.quantization_version to 2",
    }
    VERSION = "GG1402" Warning Practice {
        summary: "Outdated or unknown quantization version",
        clause: "Reported when the value of `general.quantization_version` is not 2, the current version (`GGML_QNT_VERSION`). Version 2 was introduced before GGUF, so a GGUF file should not need an earlier one.",
        why: "Readers decode the tensor data as version 2, regardless of this key, so data in any other version is decoded incorrectly.",
        remedy: "Set general.quantization_version to 2, unless the tensor data was copied unchanged from a GGML file that uses an earlier quantization version; in that case, quantize the model again.",
        fixed: "general.quantization_version = 2",
    }
    UNKNOWN_FILE_TYPE = "GG1403" Warning Both {
        summary: "general.file_type is unknown or obsolete",
        clause: "Reported when the value of `general.file_type` is unknown, or is the number of a removed file type. According to the specification, general.file_type is \"an enumerated value describing the type of the majority of the tensors\"; llama.cpp displays a number that it does not know as \"unknown, may not work\".",
        why: "Programs show no quantization name, or a wrong one.",
        remedy: "Set general.file_type to the `llama_ftype` number for the file's quantization (not to a `ggml_type` number), for example 7 for Q8_0 or 15 for Q4_K_M, or remove the key.",
        fixed: "general.file_type = 0 (all F32)",
        automatic: "sets general.file_type if exactly one file type matches the tensor types",
    }
    FILE_TYPE_DIFFERS = "GG1404" Warning Specification {
        summary: "general.file_type does not match the tensors",
        clause: "Reported when no matrix has the tensor type that `general.file_type` names. According to the specification, general.file_type describes \"the type of the majority of the tensors in the file\".",
        why: "Programs that show a model's quantization, or sort or name models by it, get the wrong quantization for this file.",
        remedy: "Set general.file_type to the `llama_ftype` number for the file's quantization (not to a `ggml_type` number), for example 7 for Q8_0 or 15 for Q4_K_M.",
        fixed: "general.file_type = 0 (all F32)",
        automatic: "sets general.file_type if exactly one file type matches the tensor types",
    }
    NOT_FOR_STORAGE = "GG1405" Warning Practice {
        summary: "Tensor type is for intermediate results only",
        clause: "Reported when a tensor has the type Q8_1 or Q8_K. ggml uses these types only for activations that it quantizes at run time, and no file type uses them.",
        why: "ggml does not implement most operations for weights of this type.",
        remedy: "Quantize the tensor to Q8_0.",
        fixed: "tensor \"x.weight\": Q8_0",
    }
    NO_COMPANION = "GG1406" Note Practice {
        summary: "NVFP4 tensor has no scale tensor",
        clause: "Reported when the file has an NVFP4 tensor `X.weight` but no tensor `X.scale`. \
                 `X.scale` would contain one scale factor for the whole of `X.weight` (for a stacked \
                 expert tensor, one for each expert); llama.cpp's converter writes it if the checkpoint has such a factor and its value is not 1.",
        why: "If the checkpoint had such a scale, the weights have the wrong magnitude without it, because the stored values must be multiplied by it. Tensors that `llama-quantize` created from 16-bit weights neither have nor need this scale.",
        remedy: "Convert the model again if its checkpoint contains a `weight_scale_2` or `weight_global_scale` other than 1 for this tensor; otherwise, no change is needed.",
        fixed: "tensors \"x.weight\" and \"x.scale\"",
    }
    NO_FILE_TYPE = "GG1407" Note Letter {
        summary: "Missing general.file_type",
        clause: "Reported when the file has no `general.file_type`. According to the specification, the key is \"optional; can be inferred from the tensor types\", but the standard keys \"are all recommended\".",
        why: "Without it, programs that display or sort models by quantization have to inspect every tensor.",
        remedy: "Set general.file_type to the `llama_ftype` number for the file's quantization (not to a `ggml_type` number), for example 7 for Q8_0 or 15 for Q4_K_M.",
        fixed: "general.file_type = 0 (all F32)",
        automatic: "sets general.file_type if exactly one file type matches the tensor types",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    // The metadata is in the first shard, the tensors are in all.
    let quantized = input
        .model_tensors()
        .filter(|(_, tensor)| input.is_first() && tensor.ggml_type().is_quantized())
        .count();
    match (
        input.metadata().get(keys::GENERAL_QUANTIZATION_VERSION),
        input.number(keys::GENERAL_QUANTIZATION_VERSION),
    ) {
        (None, _) if quantized > 0 && input.is_whole() => {
            out.add_fixable(
                &NO_VERSION,
                Place::missing(keys::GENERAL_QUANTIZATION_VERSION),
                || {
                    let fix = Fix::set(keys::GENERAL_QUANTIZATION_VERSION, ValueType::U32, 2u32);
                    (
                        format!(
                            "the key is missing; quantized tensors: {quantized} of {}",
                            input.model_tensors().count()
                        ),
                        Some(fix),
                    )
                },
            );
        }
        (Some(entry), Some(version)) if version != 2 => {
            out.add(&VERSION, Place::value(&entry), || {
                format!("version {version}, but the current version is 2")
            });
        }
        _ => {}
    }
    for tensor in input
        .tensors()
        .iter()
        .filter(|tensor| matches!(tensor.ggml_type(), GgmlType::Q8_1 | GgmlType::Q8_K))
    {
        out.add(&NOT_FOR_STORAGE, Place::info(&tensor), || format!("is {}", tensor.ggml_type()));
    }
    companions(input, out);
    file_type(input, out);
}

fn companions(input: &Input<'_>, out: &mut Findings<'_>) {
    // Another shard can have the type.
    if !input.is_complete() {
        return;
    }
    for tensor in input.tensors().iter().filter(|tensor| tensor.ggml_type() == GgmlType::NVFP4) {
        if let Some(stem) = tensor.name().as_bytes().strip_suffix(b".weight")
            && input.model_tensor(&[stem, b".scale"].concat()).is_none()
        {
            out.add(&NO_COMPANION, Place::info(&tensor), || "its .scale tensor is missing".into());
        }
    }
}

/// Returns the fix of `general.file_type`: the type with the most elements in matrices, if a file type
/// has its name.
fn majority(input: &Input<'_>) -> Option<Fix> {
    let mut elements: BTreeMap<GgmlType, u64> = BTreeMap::new();
    for (_, tensor) in
        input.model_tensors().filter(|(_, tensor)| tensor.shape().dimensions().len() > 1)
    {
        let sum = elements.entry(tensor.ggml_type()).or_default();
        *sum = sum.saturating_add(tensor.shape().elements());
    }
    let (most, _) = elements.into_iter().max_by_key(|(_, count)| *count)?;
    let file_type = most.name()?.parse::<FileType>().ok().filter(|_| !most.is_retired())?;
    let named_so = base_type(file_type.name()?) == Some(most);
    // File types such as Q2_K are mixtures with other types.
    let plain = !most.name()?.contains("_K") || most == GgmlType::Q6_K;
    (named_so && plain).then(|| Fix::set(keys::GENERAL_FILE_TYPE, ValueType::U32, file_type.0))
}

fn file_type(input: &Input<'_>, out: &mut Findings<'_>) {
    let Some(entry) = input.metadata().get(keys::GENERAL_FILE_TYPE) else {
        if input.is_whole()
            && input.is_first()
            && input.model_tensors().next().is_some()
            && input.kind() == "model"
        {
            out.add_fixable(&NO_FILE_TYPE, Place::missing(keys::GENERAL_FILE_TYPE), || {
                ("the key is missing".into(), majority(input))
            });
        }
        return;
    };
    let Some(number) = entry.value().ok().and_then(|value| value.as_u32()) else { return };
    let file_type = FileType(number).without_guess();
    let removed = matches!(number, 4..=6 | 33..=35);
    let Some(name) = file_type.name().filter(|_| !removed) else {
        return out.add_fixable(&UNKNOWN_FILE_TYPE, Place::value(&entry), || {
            let found = if removed {
                format!("file type {number} ({file_type}) was removed")
            } else {
                format!("{number} is not a file type")
            };
            (found, majority(input))
        });
    };
    let Some(base) = base_type(name) else { return };
    let block = base.layout().map_or(1, |layout| u64::from(layout.elements));
    // Only matrices whose row length is a multiple of the block size can have the type; for others the
    // reference falls back to another type.
    let mut matrices = input
        .model_tensors()
        .map(|(_, tensor)| tensor)
        .filter(|tensor| {
            tensor.shape().dimensions().len() > 1 && tensor.shape().row_len().is_multiple_of(block)
        })
        .peekable();
    if input.is_whole()
        && input.is_complete()
        && matrices.peek().is_some()
        && !matrices.any(|tensor| tensor.ggml_type() == base)
    {
        out.add_fixable(&FILE_TYPE_DIFFERS, Place::value(&entry), || {
            (
                format!("file type {name} means that most tensors are {base}, but no matrix is"),
                majority(input),
            )
        });
    }
}

/// Returns the type of most tensors for a file type: the longest prefix of its name that is a type, except
/// for mixtures of other types.
fn base_type(name: &str) -> Option<GgmlType> {
    match name {
        "IQ2_S" => return Some(GgmlType::IQ2_XS),
        "IQ2_M" => return Some(GgmlType::IQ2_S),
        "IQ3_XS" | "IQ3_M" => return Some(GgmlType::IQ3_S),
        "MXFP4_MOE" => return Some(GgmlType::MXFP4),
        _ => {}
    }
    (1..=name.len()).rev().find_map(|end| name.get(..end)?.parse::<GgmlType>().ok())
}
