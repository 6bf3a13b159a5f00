//! The weights themselves, where somebody has looked at them.

use ggmill_core::GgmlType;

use crate::data::Anomaly;
use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Data;
    NOT_FINITE = "GG2101" Error Reference {
        summary: "Weights are NaN or infinite",
        clause: "llama.cpp: a row with such a number fails `ggml_validate_row_data`, which llama-quantize asks of every tensor and `--check-tensors` when a model is loaded.",
        why: "Whatever is computed with one of them becomes NaN, and so does the model's answer.",
        remedy: "Convert the model again from its checkpoint; when the numbers stand there too, the training went wrong.",
    }
    SCALE = "GG2102" Error Reference {
        summary: "Scales of blocks are NaN or infinite",
        clause: "llama.cpp: a block whose scale is no number fails `ggml_validate_row_data`, which `--check-tensors` asks of every tensor when a model is loaded.",
        why: "All weights of such a block are lost, and with them the model's answer. Damage on the disk or in transfer looks like this too.",
        remedy: "Compare the file's hash with that of its source and fetch it again, or quantize the model again.",
    }
    ZERO = "GG2103" Warning Practice {
        summary: "A matrix has nothing but zeros",
        clause: "No trained matrix is all zero; a download that left a hole in the file is.",
        why: "Nothing goes through the matrix, so a part of the model is missing.",
        remedy: "Compare the file's hash with that of its source and fetch it again.",
    }
    TOO_LARGE = "GG2104" Warning Practice {
        summary: "Weights are larger than half precision holds",
        clause: "The largest number of IEEE half precision is 65504; trained weights are thousands of times smaller.",
        why: "Where the weight is computed with as F16 it is infinite.",
        remedy: "Compare the tensor with that of the checkpoint; if it is the same, keep it in F32 or BF16.",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    let Some(facts) = input.data else { return };
    for (number, tensor) in input.tensors().iter().enumerate() {
        let place = |offset| Place { offset: Some(offset), ..Place::info(&tensor) };
        let ggml_type = tensor.ggml_type();
        for anomaly in facts.anomalies(number, ggml_type) {
            match anomaly {
                Anomaly::NotFinite { count, first, in_blocks: false } => {
                    out.add(&NOT_FINITE, place(first), || {
                        format!(
                            "{count} of {} numbers are NaN or infinite",
                            tensor.shape().elements()
                        )
                    });
                }
                Anomaly::NotFinite { count, first, in_blocks: true } => {
                    let all = ggml_type
                        .layout()
                        .map_or(0, |layout| tensor.shape().elements() / u64::from(layout.elements));
                    out.add(&SCALE, place(first), || {
                        format!(
                            "{count} of {all} blocks of {ggml_type} have a scale that is NaN or \
                             infinite"
                        )
                    });
                }
                // A single number is a counter or the like.
                Anomaly::TooLarge(_) if tensor.shape().elements() == 1 => {}
                // Doubles are looked at as floats.
                Anomaly::TooLarge(f32::MAX) if ggml_type == GgmlType::F64 => {
                    out.add(&TOO_LARGE, place(tensor.offset()), || {
                        format!("the largest is {:e} or more", f32::MAX)
                    });
                }
                Anomaly::TooLarge(largest) => out.add(&TOO_LARGE, place(tensor.offset()), || {
                    format!("the largest is {largest:e}")
                }),
                // Biases are zero where a model was made to have them and never needed them.
                Anomaly::Zero if tensor.shape().rows() > 1 => {
                    out.add(&ZERO, place(tensor.offset()), || {
                        format!("{} of {ggml_type}, dimensions {}", "all zero", tensor.shape())
                    });
                }
                Anomaly::Zero => {}
            }
        }
    }
}
