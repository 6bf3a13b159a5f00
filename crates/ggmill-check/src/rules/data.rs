//! Tensor data, if it was examined.

use ggmill_core::GgmlType;

use crate::data::Anomaly;
use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::{Input, Options};

rules! { Data;
    NOT_FINITE = "GG2101" Error Reference {
        summary: "Weights are NaN or infinite",
        clause: "Reported when a weight is NaN or infinite. Checked only with `--data`. In llama.cpp, a row with such a weight fails `ggml_validate_row_data`. llama-quantize runs this check on every tensor; the model loader does so if `--check-tensors` is given.",
        why: "Results computed from such a weight are NaN or infinite, and usually the output of the model becomes NaN.",
        remedy: "Convert the model again from its checkpoint. If the checkpoint contains the same values, the model itself is faulty: report it to its publisher.",
        fixed: "all weights are finite",
    }
    SCALE = "GG2102" Error Reference {
        summary: "Block scales are NaN or infinite",
        clause: "Reported when the scale of a block is NaN or infinite. Checked only with `--data`. In llama.cpp, such a block fails `ggml_validate_row_data`. llama-quantize runs this check on every tensor; the model loader does so if `--check-tensors` is given.",
        why: "All weights of the block are lost, and usually the output of the model becomes NaN. A typical cause is data corruption on disk or in transfer.",
        remedy: "Compare the hash of the file with the hash published by its source. If they differ, download the file again; otherwise, quantize the model again.",
        fixed: "all block scales are finite",
    }
    ZERO = "GG2103" Warning Practice {
        summary: "Matrix is all zeros",
        clause: "Reported when all weights of a matrix are 0. Checked only with `--data`. Training practically never produces such a matrix; a typical cause is an incomplete download, in which part of the file was never written.",
        why: "Multiplying by the matrix always gives zero, so this part of the model has no effect.",
        remedy: "Compare the hash of the file with the hash published by its source. If they differ, download the file again; otherwise, convert the model again from its checkpoint.",
        fixed: "a matrix with nonzero weights",
    }
    TOO_LARGE = "GG2104" Warning Practice {
        summary: "Weights exceed the range of F16",
        clause: "Reported when the largest absolute value in a tensor exceeds 65504, the largest finite F16 value. Checked only with `--data`. Trained weights are usually thousands of times smaller.",
        why: "When converted to F16, weights with an absolute value of 65520 or more become infinite; those between 65504 and 65520 are rounded to 65504.",
        remedy: "Compare the tensor with the checkpoint. If the values differ, convert the model again. If they are the same, no change is needed, but do not convert the tensor to F16.",
        fixed: "all weights within ±65504",
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
                        let all = tensor.shape().elements();
                        let verb = if count == 1 { "is" } else { "are" };
                        format!("{count} of {all} weights {verb} NaN or infinite")
                    });
                }
                Anomaly::NotFinite { count, first, in_blocks: true } => {
                    let all = ggml_type
                        .layout()
                        .map_or(0, |layout| tensor.shape().elements() / u64::from(layout.elements));
                    out.add(&SCALE, place(first), || {
                        let verb = if count == 1 { "has" } else { "have" };
                        format!(
                            "{count} of {all} {ggml_type} blocks {verb} a scale that is NaN or \
                             infinite"
                        )
                    });
                }
                // A single element is a counter or the like.
                Anomaly::TooLarge(_) if tensor.shape().elements() == 1 => {}
                // F64 is examined as F32.
                Anomaly::TooLarge(f32::MAX) if ggml_type == GgmlType::F64 => {
                    out.add(&TOO_LARGE, place(tensor.offset()), || {
                        format!("the largest magnitude is {:e} or more", f32::MAX)
                    });
                }
                Anomaly::TooLarge(largest) => out.add(&TOO_LARGE, place(tensor.offset()), || {
                    format!("the largest magnitude is {largest:e}")
                }),
                // A bias can be zero.
                Anomaly::Zero if tensor.shape().rows() > 1 => {
                    out.add(&ZERO, place(tensor.offset()), || {
                        format!("all weights are zero ({ggml_type}, dimensions {})", tensor.shape())
                    });
                }
                Anomaly::Zero => {}
            }
        }
    }
}
