//! The tensor directory: names, shapes, types and places.

use ggmill_core::{Error, ErrorKind, Subject, Tensor};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::rules::structure::anew;
use crate::{Input, Options};

rules! { Tensors;
    DUPLICATE = "GG1301" Error Reference {
        summary: "Two tensors have one name",
        clause: "llama.cpp: \"duplicate tensor name\" is refused.",
        why: "llama.cpp refuses the file; other readers take either.",
        remedy: "Make the file again; a program that joined two files left this.",
    }
    OUTSIDE = "GG1302" Error Both {
        summary: "Tensor data lie outside the file",
        clause: "Specification: \"each tensor's data must be stored within this array\"; llama.cpp: \"tensor data is not within the file bounds, model is corrupted or incomplete\".",
        why: "Weights are missing. Usually a download was cut off.",
        remedy: "Fetch the rest of the file, or all of it again.",
    }
    NOT_BLOCKS = "GG1303" Error Reference {
        summary: "Rows are not whole blocks",
        clause: "llama.cpp: the first dimension must be a multiple of the block size of the type; the specification defines no partial blocks.",
        why: "The size of the data is not defined, and every reader refuses the file.",
        remedy: "Quantize the tensor to a type whose block divides its rows; F16 has no blocks and fits all.",
    }
    BAD_PLACE = "GG1304" Error Both {
        summary: "Tensor data overlap, or end beyond 64 bits",
        clause: "llama.cpp: each offset must be the sum of the padded sizes before it. The specification gives each tensor data of its own.",
        why: "A small file can stand for a huge model, and a change to one tensor changes another.",
        remedy: "Do not use the file unless you trust its source; make it again.",
    }
    NAME_TOO_LONG = "GG1305" Error Both {
        summary: "A tensor's name is longer than 64 bytes",
        clause: "Specification: a tensor's name \"must be at most 64 bytes long\".",
        why: "llama.cpp refuses the file.",
        remedy: "Rename the tensor.",
    }
    NAME_64 = "GG1306" Error Reference {
        summary: "A tensor's name is 64 bytes long",
        clause: "llama.cpp: a name and its terminating NUL must fit 64 bytes, so it has at most 63. The specification allows 64.",
        why: "llama.cpp refuses the file.",
        remedy: "Shorten the name by a byte.",
    }
    NAME_ODD = "GG1307" Warning Practice {
        summary: "A tensor's name is empty or has odd characters",
        clause: "Specification: the standard names are made of letters, digits, `_`, `-` and `.`.",
        why: "Such names deceive people, and programs that make file names or command lines of them.",
        remedy: "Rename the tensor.",
    }
    UNKNOWN_TYPE = "GG1308" Error Both {
        summary: "A tensor has a type nobody has published",
        clause: "Specification: `ggml_type` lists the types; llama.cpp refuses a number beyond its list.",
        why: "Neither the size nor the content of the data is known. Forks of llama.cpp use such numbers.",
        remedy: "Use the fork the file was made with, or quantize the model to a published type.",
    }
    RETIRED_TYPE = "GG1309" Error Both {
        summary: "A tensor has a type that was removed",
        clause: "Specification: \"support has been removed\" for Q4_2 and Q4_3; llama.cpp has removed the interleaved forms too.",
        why: "Current readers refuse the file.",
        remedy: "Quantize the model anew to a current type.",
    }
    NOT_ALIGNED = "GG1310" Error Both {
        summary: "A tensor's offset is not aligned",
        clause: "Specification: the offset \"must be a multiple of `ALIGNMENT`\"; llama.cpp refuses any other.",
        why: "llama.cpp refuses the file; where it is mapped, access to the data is slow or faults.",
        remedy: "Write the file anew, as `ggmill check --fix` does: offsets are then aligned.",
    }
    NOT_CONTIGUOUS = "GG1311" Error Reference {
        summary: "Tensor data have gaps or another order",
        clause: "llama.cpp: each offset must be exactly the sum of the padded sizes of the tensors before it. The specification asks for alignment only.",
        why: "llama.cpp refuses the file.",
        remedy: "Write the file anew, as `ggmill check --fix` does: data then follow each other in the order of the directory.",
    }
    TOO_MANY_ELEMENTS = "GG1312" Error Reference {
        summary: "A tensor has more elements than a signed 64-bit number counts",
        clause: "llama.cpp: dimensions and their product must fit int64. The specification has unsigned dimensions.",
        why: "llama.cpp refuses the file.",
        remedy: "Make the file again; no real tensor is that large.",
    }
    NO_ELEMENTS = "GG1313" Note Practice {
        summary: "A tensor has no elements",
        clause: "A dimension of 0 is allowed; llama.cpp loads such tensors.",
        why: "Nothing can be computed with it. Some converters leave it where a part of a model is absent.",
        remedy: "Leave the tensor out unless a program expects it.",
    }
}

pub(super) fn check(input: &Input<'_>, _: &Options, out: &mut Findings<'_>) {
    for tensor in input.tensors().iter() {
        name(&tensor, out);
        content(&tensor, out);
    }
    duplicates(input, out);
    faults(input, out);
    if input.is_whole() {
        aligned(input, out);
    }
    if input.faults().is_empty() {
        places(input, out);
    }
}

fn name(tensor: &Tensor<'_>, out: &mut Findings<'_>) {
    let name = tensor.name();
    match name.len() {
        64 => out.add(&NAME_64, Place::info(tensor), || {
            "the name has 64 bytes, llama.cpp takes 63".into()
        }),
        65.. => out.add(&NAME_TOO_LONG, Place::info(tensor), || {
            format!("the name has {} bytes", name.len())
        }),
        _ => {}
    }
    let plain = |byte: &u8| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'\'' | b'\\' | b'`' | b'$' | b'*' | b'?' | b'<' | b'>' | b'|' | b';'
            )
    };
    if name.is_empty() || !name.as_bytes().iter().all(plain) {
        out.add(&NAME_ODD, Place::info(tensor), || {
            if name.is_empty() {
                "the name is empty".into()
            } else {
                "the name has odd characters".into()
            }
        });
    }
}

fn content(tensor: &Tensor<'_>, out: &mut Findings<'_>) {
    let (ggml_type, shape) = (tensor.ggml_type(), tensor.shape());
    let signed = |number: u64| i64::try_from(number).is_ok();
    match ggml_type.layout() {
        None => out.add(&UNKNOWN_TYPE, Place::info(tensor), || format!("is of {ggml_type}")),
        Some(_) if ggml_type.is_retired() => out.add(&RETIRED_TYPE, Place::info(tensor), || {
            format!("is {ggml_type}, number {}", ggml_type.0)
        }),
        Some(layout) => {
            if shape.elements() > 0 && !shape.row_len().is_multiple_of(layout.elements.into()) {
                out.add(&NOT_BLOCKS, Place::info(tensor), || {
                    format!(
                        "rows of {} elements, expected a multiple of {}, the block of {ggml_type}",
                        shape.row_len(),
                        layout.elements
                    )
                });
            }
        }
    }
    if !signed(shape.elements()) || !shape.dimensions().iter().all(|&dimension| signed(dimension)) {
        out.add(&TOO_MANY_ELEMENTS, Place::info(tensor), || format!("dimensions {shape}"));
    } else if shape.elements() == 0 {
        out.add(&NO_ELEMENTS, Place::info(tensor), || format!("dimensions {shape}"));
    }
}

fn duplicates(input: &Input<'_>, out: &mut Findings<'_>) {
    let mut tensors: Vec<Tensor<'_>> = input.tensors().iter().collect();
    tensors.sort_by(|a, b| a.name().cmp(&b.name()));
    for same in tensors.chunk_by(|a, b| a.name() == b.name()) {
        if let [_, second, ..] = same {
            out.add(&DUPLICATE, Place::info(second), || format!("stands {} times", same.len()));
        }
    }
}

/// What the reader refused: data outside the file, overlaps, sizes beyond 64 bits.
fn faults(input: &Input<'_>, out: &mut Findings<'_>) {
    let of_tensor =
        |fault: &&Error| input.is_whole() && matches!(fault.subject(), Some(Subject::Tensor(_)));
    let missing: Vec<&Error> = input
        .faults()
        .iter()
        .filter(of_tensor)
        .filter(|fault| fault.kind() == ErrorKind::Truncated)
        .collect();
    // However many tensors a file that was cut short lacks, that is one thing.
    if let ([first, _, ..], Some(len), Some(needed)) =
        (&*missing, input.index().file_len(), input.part.needed_len())
    {
        out.add(&OUTSIDE, Place::fault(first), || {
            let (tensors, percent) =
                (input.tensors().len(), u128::from(len) * 100 / u128::from(needed.max(1)));
            format!(
                "the file ends at {len} of at least {needed} bytes ({percent} %): data of {} of \
                 {tensors} tensors are missing, of this one first",
                missing.len()
            )
        });
    }
    let is_told = |fault: &&Error| missing.len() > 1 && fault.kind() == ErrorKind::Truncated;
    for fault in input.faults().iter().filter(of_tensor).filter(|fault| !is_told(fault)) {
        let rule = if fault.kind() == ErrorKind::Truncated { &OUTSIDE } else { &BAD_PLACE };
        // Rows that are no whole blocks were told above.
        let Some(Subject::Tensor(name)) = fault.subject() else { continue };
        let block_fault = |tensor: Tensor<'_>| {
            tensor.ggml_type().layout().is_some_and(|layout| {
                !tensor.shape().row_len().is_multiple_of(layout.elements.into())
            }) && tensor.shape().elements() > 0
        };
        if fault.kind() == ErrorKind::Malformed
            && input.tensors().get(name.as_bytes()).is_some_and(block_fault)
        {
            continue;
        }
        out.add(rule, Place::fault(fault), || fault.message().to_string());
    }
}

/// Where the tensor's data begin, counted as the file counts.
fn own_offset(input: &Input<'_>, tensor: &Tensor<'_>) -> u64 {
    tensor.offset().saturating_sub(input.index().data_offset())
}

/// Asked though data overlap: an offset that is not aligned may be why.
fn aligned(input: &Input<'_>, out: &mut Findings<'_>) {
    let alignment = input.index().alignment();
    for tensor in input.tensors().iter() {
        let offset = own_offset(input, &tensor);
        if !offset.is_multiple_of(alignment.get().into()) {
            out.add_fixable(&NOT_ALIGNED, Place::info(&tensor), || {
                (format!("offset {offset}, expected a multiple of {alignment}"), anew(input))
            });
        }
    }
}

fn places(input: &Input<'_>, out: &mut Findings<'_>) {
    let index = input.index();
    let (alignment, data) = (index.alignment(), index.data_offset());
    // Where the next tensor should begin; unknown behind a tensor of unknown size.
    let mut expected = Some(data);
    for tensor in input.tensors().iter() {
        let offset = own_offset(input, &tensor);
        let is_aligned = offset.is_multiple_of(alignment.get().into());
        if let Some(expected) =
            expected.filter(|&expected| is_aligned && expected != tensor.offset())
        {
            out.add_fixable(&NOT_CONTIGUOUS, Place::info(&tensor), || {
                (format!("offset {offset}, expected {}", expected - data), anew(input))
            });
        }
        expected =
            tensor.size().and_then(|size| alignment.align(tensor.offset().checked_add(size)?));
    }
}
