//! What the file says of its quantization, and what its tensors are.

use std::collections::BTreeMap;

use ggmill_core::{FileType, GgmlType, ValueType, keys};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Fix, Input, Options};

rules! { Quantization;
    NO_VERSION = "GG1401" Warning Must {
        summary: "Quantized tensors without general.quantization_version",
        clause: "Specification: \"if any tensors are quantized, this _must_ be present\".",
        why: "Should the layout of a type change once more, no reader could tell which layout this file has.",
        remedy: "Set general.quantization_version to 2 as u32: `ggmill check --fix` does.",
    }
    VERSION = "GG1402" Warning Practice {
        summary: "An unknown quantization version",
        clause: "The current version is 2 (`GGML_QNT_VERSION`); 1 is from the spring of 2023.",
        why: "Readers take the data for version 2 whatever is said here.",
        remedy: "Set general.quantization_version to 2 when the file was made since June 2023.",
    }
    UNKNOWN_FILE_TYPE = "GG1403" Warning Both {
        summary: "general.file_type is unknown or was removed",
        clause: "Specification: general.file_type is \"an enumerated value describing the type of the majority of the tensors\"; llama.cpp calls any other unknown.",
        why: "Programs show a wrong or no name for the quantization.",
        remedy: "Set general.file_type to the number of the type most tensors have, or remove it; `ggmill check --fix` sets it where one number fits.",
    }
    FILE_TYPE_DIFFERS = "GG1404" Warning Specification {
        summary: "general.file_type names a type that no large tensor has",
        clause: "Specification: general.file_type describes \"the type of the majority of the tensors in the file\".",
        why: "The model is shown, sorted and named as what it is not.",
        remedy: "Set general.file_type to the number of the type most tensors have; `ggmill check --fix` does where one number fits.",
    }
    NOT_FOR_STORAGE = "GG1405" Warning Practice {
        summary: "A tensor has a type that is meant for computing only",
        clause: "ggml makes Q8_1 and Q8_K on the fly from activations; no file type has them.",
        why: "Many operations have no code for weights of this type.",
        remedy: "Quantize the tensor to Q8_0.",
    }
    NO_COMPANION = "GG1406" Note Practice {
        summary: "An NVFP4 tensor without the scale that goes with it",
        clause: "The reference's converter writes beside each `X.weight` of NVFP4 an `X.scale`, the scale of the tensor as a whole.",
        why: "NVFP4 blocks reach numbers up to 448 times 6 only; what the tensor's own scale is, is then lost.",
        remedy: "Convert the model again if its checkpoint has such scales; a tensor quantized by `llama-quantize` needs none.",
    }
    NO_FILE_TYPE = "GG1407" Note Letter {
        summary: "general.file_type is missing",
        clause: "Specification: general.file_type is standard, \"optional; can be inferred from the tensor types\"; the standard keys \"are all recommended\".",
        why: "Programs that show or sort models by it have to look at every tensor.",
        remedy: "Set general.file_type to the number of the type most tensors have; `ggmill check --fix` does where one number fits.",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    // The first shard of a set says it for all.
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
                            "{quantized} of {} tensors quantized, and there is no such key",
                            input.model_tensors().count()
                        ),
                        Some(fix),
                    )
                },
            );
        }
        (Some(pair), Some(version)) if version != 2 => {
            out.add(&VERSION, Place::value(&pair), || format!("version {version}, expected 2"));
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
    // Another shard may have it.
    if !input.is_complete() {
        return;
    }
    for tensor in input.tensors().iter().filter(|tensor| tensor.ggml_type() == GgmlType::NVFP4) {
        if let Some(stem) = tensor.name().as_bytes().strip_suffix(b".weight")
            && input.model_tensor(&[stem, b".scale"].concat()).is_none()
        {
            out.add(&NO_COMPANION, Place::info(&tensor), || {
                "there is no tensor .scale to this one".into()
            });
        }
    }
}

/// What `general.file_type` should say: the type with the most elements in matrices, where one
/// number stands for it.
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
    // Q2_K and the like are mixtures with other types.
    let plain = !most.name()?.contains("_K") || most == GgmlType::Q6_K;
    (named_so && plain).then(|| Fix::set(keys::GENERAL_FILE_TYPE, ValueType::U32, file_type.0))
}

fn file_type(input: &Input<'_>, out: &mut Findings<'_>) {
    let Some(pair) = input.metadata().get(keys::GENERAL_FILE_TYPE) else {
        if input.is_whole()
            && input.is_first()
            && input.model_tensors().next().is_some()
            && input.kind() == "model"
        {
            out.add_fixable(&NO_FILE_TYPE, Place::missing(keys::GENERAL_FILE_TYPE), || {
                ("there is no such key".into(), majority(input))
            });
        }
        return;
    };
    let Some(number) = pair.value().ok().and_then(|value| value.as_u32()) else { return };
    let file_type = FileType(number).without_guess();
    let removed = matches!(number, 4..=6 | 33..=35);
    let Some(name) = file_type.name().filter(|_| !removed) else {
        return out.add_fixable(&UNKNOWN_FILE_TYPE, Place::value(&pair), || {
            let found = if removed {
                format!("{file_type} was removed")
            } else {
                format!("{number} is the number of no file type")
            };
            (found, majority(input))
        });
    };
    let Some(base) = base_type(name) else { return };
    let block = base.layout().map_or(1, |layout| u64::from(layout.elements));
    // Matrices that could have the type: where rows are no whole blocks the reference falls back to
    // another one.
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
        out.add_fixable(&FILE_TYPE_DIFFERS, Place::value(&pair), || {
            (format!("{name} means mostly {base}, and no matrix is {base}"), majority(input))
        });
    }
}

/// The type most tensors have under a file type: the longest beginning of its name that is a type,
/// but for those the reference mixes from others.
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
