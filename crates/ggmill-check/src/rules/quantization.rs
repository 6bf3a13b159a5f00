//! What the file says of its quantization, and what its tensors are.

use ggmill_core::{FileType, GgmlType, keys};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Quantization;
    NO_VERSION = "GG1401" Warning Specification {
        summary: "Quantized tensors without general.quantization_version",
        clause: "Specification: \"if any tensors are quantized, this _must_ be present\".",
        why: "Should the layout of a type change once more, no reader could tell which layout this file has.",
        remedy: "Set general.quantization_version to 2 as u32.",
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
        remedy: "Set general.file_type to the number of the type most tensors have, or remove it.",
    }
    FILE_TYPE_DIFFERS = "GG1404" Warning Specification {
        summary: "general.file_type names a type that no large tensor has",
        clause: "Specification: general.file_type describes \"the type of the majority of the tensors in the file\".",
        why: "The model is shown, sorted and named as what it is not.",
        remedy: "Set general.file_type to the number of the type most tensors have.",
    }
    NOT_FOR_STORAGE = "GG1405" Warning Practice {
        summary: "A tensor has a type that is meant for computing only",
        clause: "ggml makes Q8_1 and Q8_K on the fly from activations; no file type has them.",
        why: "Many operations have no code for weights of this type.",
        remedy: "Quantize the tensor to Q8_0.",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let quantized = input.tensors().iter().filter(|tensor| tensor.ggml_type().is_quantized()).count();
    match (input.metadata().get(keys::GENERAL_QUANTIZATION_VERSION), input.number(keys::GENERAL_QUANTIZATION_VERSION)) {
        (None, _) if quantized > 0 && input.is_whole() => {
            out.add(&NO_VERSION, Place::missing(keys::GENERAL_QUANTIZATION_VERSION), || format!("{quantized} tensors are quantized and the key is missing"));
        }
        (Some(pair), Some(version)) if version != 2 => out.add(&VERSION, Place::value(&pair), || format!("version {version}, expected 2")),
        _ => {}
    }
    for tensor in input.tensors().iter().filter(|tensor| matches!(tensor.ggml_type(), GgmlType::Q8_1 | GgmlType::Q8_K)) {
        out.add(&NOT_FOR_STORAGE, Place::info(&tensor), || format!("is {}", tensor.ggml_type()));
    }
    file_type(input, out);
}

fn file_type(input: &Input<'_>, out: &mut Findings<'_>) {
    let (Some(pair), Some(number)) = (input.metadata().get(keys::GENERAL_FILE_TYPE), input.value(keys::GENERAL_FILE_TYPE).and_then(|value| value.as_u32()))
    else {
        return;
    };
    let file_type = FileType(number).without_guess();
    let removed = matches!(number, 4..=6 | 33..=35);
    let Some(name) = file_type.name().filter(|_| !removed) else {
        return out.add(&UNKNOWN_FILE_TYPE, Place::value(&pair), || {
            if removed { format!("{file_type} was removed") } else { format!("{number} is the number of no file type") }
        });
    };
    let Some(base) = base_type(name) else { return };
    let block = base.layout().map_or(1, |layout| u64::from(layout.elements));
    // Matrices that could have the type: where rows are no whole blocks the reference falls back to another one.
    let mut matrices =
        input.tensors().iter().filter(|tensor| tensor.shape().dimensions().len() > 1 && tensor.shape().row_len().is_multiple_of(block)).peekable();
    if input.is_whole() && matrices.peek().is_some() && !matrices.any(|tensor| tensor.ggml_type() == base) {
        out.add(&FILE_TYPE_DIFFERS, Place::value(&pair), || format!("{name} means mostly {base}, and no matrix is {base}"));
    }
}

/// The type most tensors have under a file type: the longest beginning of its name that is a type, but for those the reference mixes from others.
fn base_type(name: &str) -> Option<GgmlType> {
    match name {
        "IQ2_S" => return Some(GgmlType::IQ2_XS),
        "IQ2_M" => return Some(GgmlType::IQ2_S),
        "IQ3_XS" | "IQ3_M" => return Some(GgmlType::IQ3_S),
        "MXFP4_MOE" => return Some(GgmlType::MXFP4),
        _ => {}
    }
    (1..=name.len()).rev().find_map(|end| GgmlType::from_name(name.get(..end)?))
}
