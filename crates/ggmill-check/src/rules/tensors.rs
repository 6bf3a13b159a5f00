//! The tensor directory: names, shapes, types and offsets.

use ggmill_arch::TensorNames;
use ggmill_core::{Error, ErrorKind, Subject, Tensor};

use crate::report::{Findings, Place};
use crate::rule::rules;
use crate::rules::structure::rewrite;
use crate::{Input, Options, Profile};

rules! { Tensors;
    DUPLICATE = "GG1301" Error Reference {
        summary: "Duplicate tensor name",
        clause: "Reported when a tensor name occurs more than once. llama.cpp rejects the file with a \"duplicate tensor name\" error.",
        why: "llama.cpp rejects the file. Some other readers also reject the file; others use only one of the tensors, and not always the same one.",
        remedy: "Regenerate the file, for example by converting the model again. The usual cause is a program that joined two files.",
        fixed: "one tensor \"output.weight\"",
    }
    OUTSIDE = "GG1302" Error Both {
        summary: "Tensor data is outside the file",
        clause: "Reported when the data of a tensor is not entirely within the file. According to the specification, \"each tensor's data must be stored within this array\" (`tensor_data`); llama.cpp rejects the file: \"data is not within the file bounds, model is corrupted or incomplete\".",
        why: "Weights are missing. The usual cause is an interrupted download.",
        remedy: "Resume the download, or download the file again.",
        fixed: "the file contains the data of every tensor",
    }
    NOT_BLOCKS = "GG1303" Error Reference {
        summary: "Row length is not a multiple of the block size",
        clause: "Reported when the row length of a tensor is not a multiple of the block size of its type. llama.cpp rejects such a tensor; the specification does not define partial blocks.",
        why: "The size of the tensor data is undefined, so llama.cpp and most other readers reject the file.",
        remedy: "Store the tensor in a type whose block size divides the row length. F16 has a block size of 1 and can be used with any row length.",
        fixed: "tensor \"x.weight\": F16, row length 33",
    }
    BAD_PLACE = "GG1304" Error Both {
        summary: "Tensor data overlaps or ends beyond 2^64",
        clause: "Reported when the data of two tensors overlaps, or when the data of a tensor would end beyond byte 2^64. llama.cpp requires each offset to be the sum of the padded sizes of the preceding tensors, so tensors cannot share data.",
        why: "With overlapping tensors, a small file can declare a huge model, and a change to one tensor also changes the other.",
        remedy: "Download the file from a source that you trust, or convert the model again.",
        fixed: "tensor \"a.c\": offset 32 (data from 128)",
    }
    NAME_TOO_LONG = "GG1305" Error Both {
        summary: "Tensor name is longer than 64 bytes",
        clause: "Reported when a tensor name is longer than 64 bytes. According to the specification, a tensor name \"must be at most 64 bytes long\".",
        why: "llama.cpp rejects the file. It also rejects names of exactly 64 bytes, which the specification allows (GG1306).",
        remedy: "Regenerate the file with a shorter tensor name, and adapt programs that expect the long name.",
        fixed: "a tensor name of at most 63 bytes",
    }
    NAME_64 = "GG1306" Error Reference {
        summary: "Tensor name is exactly 64 bytes long",
        clause: "Reported when a tensor name is exactly 64 bytes long. In llama.cpp a name and its terminating NUL must fit in 64 bytes, so a name can have at most 63 bytes. The specification allows 64.",
        why: "Programs based on llama.cpp cannot load the file.",
        remedy: "Shorten the name by at least one byte.",
        fixed: "a tensor name of at most 63 bytes",
    }
    NAME_ODD = "GG1307" Warning Practice {
        summary: "Tensor name is empty or has unusual characters",
        clause: "Reported when a tensor name is empty, or contains spaces, control characters, quotes, non-ASCII characters, or shell metacharacters such as `$`, `*` and `|`. Standard tensor names consist of letters, digits, `_`, `-` and `.`.",
        why: "Such names are easily misread, and can break programs that use them in file names or command lines.",
        remedy: "Rename the tensor.",
        fixed: "tensor \"a.b\"",
    }
    UNKNOWN_TYPE = "GG1308" Error Both {
        summary: "Unknown tensor type",
        clause: "Reported when the type number of a tensor is not one that the specification or llama.cpp defines. The specification lists tensor types in `ggml_type`; llama.cpp has added others, and rejects files with any type number that it does not define.",
        why: "Neither the size nor the content of the tensor data can be determined. Some forks of llama.cpp define type numbers of their own.",
        remedy: "Use the fork that created the file, or quantize the model to a type that llama.cpp supports.",
        fixed: "tensor \"x.weight\": F32",
    }
    RETIRED_TYPE = "GG1309" Error Both {
        summary: "Removed tensor type",
        clause: "Reported when a tensor has a type that was removed: Q4_2, Q4_3 or an interleaved type such as Q4_0_4_4. The specification says of Q4_2 and Q4_3: \"support has been removed\"; llama.cpp has also removed the interleaved types. It gives every removed type a block size of 0, and therefore rejects the file with the error \"not a multiple of block size\".",
        why: "Current readers reject the file.",
        remedy: "Quantize the model again to a current type.",
        fixed: "tensor \"x.weight\": Q4_0",
    }
    NOT_ALIGNED = "GG1310" Error Both {
        summary: "Tensor offset is not aligned",
        clause: "Reported when the offset of a tensor is not a multiple of the alignment. According to the specification, the offset \"must be a multiple of `ALIGNMENT`\"; llama.cpp rejects files with any other offset.",
        why: "llama.cpp rejects the file. In programs that accept it and map the data into memory, unaligned access can be slower, or can fault on some CPUs.",
        remedy: "Align the tensor data.",
        fixed: "tensor \"a.b\": offset 0",
        rewrite: "rewrites the file with aligned offsets",
    }
    NOT_CONTIGUOUS = "GG1311" Error Reference {
        summary: "Tensor data has gaps or is out of order",
        clause: "Reported when the offset of a tensor differs from the end of the tensor that is listed before it in the header, padded to the alignment, or when the offset of the first tensor is not 0. Misaligned offsets (GG1310) and offsets after a tensor of unknown size are not reported. llama.cpp requires each offset to be the sum of the padded sizes of all tensors listed before; the specification requires only that each offset be a multiple of the alignment.",
        why: "Programs based on llama.cpp cannot load the file.",
        remedy: "Store the tensor data in the order of the tensor infos, without gaps.",
        fixed: "tensor \"a.b\": offset 0",
        rewrite: "rewrites the file in this order",
    }
    TOO_MANY_ELEMENTS = "GG1312" Error Reference {
        summary: "Number of elements does not fit in int64",
        clause: "Reported when a dimension of a tensor, or the product of the tensor's dimensions, does not fit in int64. llama.cpp requires both to fit; in the specification, dimensions are uint64.",
        why: "Programs based on llama.cpp cannot load the file.",
        remedy: "Regenerate the file, for example by converting the model again. The dimensions in the file must be wrong, because no real tensor is that large.",
        fixed: "tensor \"a.b\": dimensions [8]",
    }
    NO_ELEMENTS = "GG1313" Note Practice {
        summary: "Tensor has no elements",
        clause: "Reported when a tensor has a dimension of size 0, which llama.cpp accepts.",
        why: "The tensor contains no data, so it cannot be used in a computation. Part of the \
              model may be missing.",
        remedy: "Remove the tensor, or convert the model again if the tensor should have data.",
        fixed: "tensor \"a.b\": dimensions [8]",
    }
    TOO_MANY_DIMENSIONS = "GG1314" Error Both {
        summary: "Tensor has more than 4 dimensions",
        clause: "Reported when a tensor has more than 4 dimensions (`GGML_MAX_DIMS`). llama.cpp rejects the file. The profile `threat` does not report it for architectures that llama.cpp does not have, such as those of video models. The specification says of the number of dimensions: \"Currently at most 4, but this may change in the future\".",
        why: "Programs based on llama.cpp cannot load the file. Programs for image and video models load such tensors.",
        remedy: "Load the model with a program that supports it. For llama.cpp, store the tensor with at most 4 dimensions.",
        fixed: "tensor \"a.b\": dimensions [8, 1, 1, 1]",
    }
}

pub(super) fn check(input: &Input<'_>, options: &Options, out: &mut Findings<'_>) {
    // Convolutions of video models have five dimensions, and programs for these load them.
    let is_for_others =
        input.architecture().is_some_and(|architecture| TensorNames::of(architecture).is_none());
    let most = if is_for_others && options.profile == Profile::Threat { 8 } else { 4 };
    for tensor in input.tensors() {
        name(&tensor, out);
        let count = tensor.shape().dimensions().len();
        if count > most {
            out.add(&TOO_MANY_DIMENSIONS, Place::info(&tensor), || {
                format!("{count} dimensions {}", tensor.shape())
            });
        }
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
            "the name is 64 bytes long, but llama.cpp allows at most 63".into()
        }),
        65.. => out.add(&NAME_TOO_LONG, Place::info(tensor), || {
            format!("the name is {} bytes long", name.len())
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
                "the name has unusual characters".into()
            }
        });
    }
}

fn content(tensor: &Tensor<'_>, out: &mut Findings<'_>) {
    let (ggml_type, shape) = (tensor.ggml_type(), tensor.shape());
    let signed = |number: u64| i64::try_from(number).is_ok();
    match ggml_type.layout() {
        None => out.add(&UNKNOWN_TYPE, Place::info(tensor), || format!("{ggml_type} is unknown")),
        Some(_) if ggml_type.is_retired() => out.add(&RETIRED_TYPE, Place::info(tensor), || {
            format!("is {ggml_type} (type number {})", ggml_type.0)
        }),
        Some(layout) => {
            if shape.elements() > 0 && !shape.row_len().is_multiple_of(layout.elements.into()) {
                out.add(&NOT_BLOCKS, Place::info(tensor), || {
                    format!(
                        "row length {}, expected a multiple of {}, the block size of {ggml_type}",
                        shape.row_len(),
                        layout.elements
                    )
                });
            }
        }
    }
    if !signed(shape.elements()) || !shape.dimensions().iter().all(|&dimension| signed(dimension)) {
        out.add(&TOO_MANY_ELEMENTS, Place::info(tensor), || format!("dimensions {shape:?}"));
    } else if shape.elements() == 0 {
        out.add(&NO_ELEMENTS, Place::info(tensor), || format!("dimensions {shape:?}"));
    }
}

fn duplicates(input: &Input<'_>, out: &mut Findings<'_>) {
    let mut tensors: Vec<Tensor<'_>> = input.tensors().iter().collect();
    tensors.sort_by(|a, b| a.name().cmp(&b.name()));
    for same in tensors.chunk_by(|a, b| a.name() == b.name()) {
        if let [_, second, ..] = same {
            out.add(&DUPLICATE, Place::info(second), || format!("occurs {} times", same.len()));
        }
    }
}

/// Reports the faults of the reader: data outside the file, overlaps, sizes beyond 64 bits.
fn faults(input: &Input<'_>, out: &mut Findings<'_>) {
    let of_tensor =
        |fault: &&Error| input.is_whole() && matches!(fault.subject(), Some(Subject::Tensor(_)));
    let missing: Vec<&Error> = input
        .faults()
        .iter()
        .filter(of_tensor)
        .filter(|fault| fault.kind() == ErrorKind::Truncated)
        .collect();
    // A truncated file is one finding, however many tensors it lacks.
    if let ([first, _, ..], Some(len), Some(needed)) =
        (&*missing, input.part.file_len(), input.part.needed_len())
    {
        out.add(&OUTSIDE, Place::fault(first), || {
            let (tensors, percent) =
                (input.tensors().len(), u128::from(len) * 100 / u128::from(needed.max(1)));
            format!(
                "the file is truncated: {len} of at least {needed} bytes ({percent}%); the data of {} \
                 of {tensors} tensors is missing, starting with this one",
                missing.len()
            )
        });
    }
    let is_told = |fault: &&Error| missing.len() > 1 && fault.kind() == ErrorKind::Truncated;
    for fault in input.faults().iter().filter(of_tensor).filter(|fault| !is_told(fault)) {
        let rule = if fault.kind() == ErrorKind::Truncated { &OUTSIDE } else { &BAD_PLACE };
        // Row lengths that are not multiples of the block size were reported above.
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

/// Returns the offset of the tensor data, relative to the data section as in the file.
fn own_offset(input: &Input<'_>, tensor: &Tensor<'_>) -> u64 {
    tensor.offset().saturating_sub(input.part.data_offset())
}

/// Checks alignment, even if data overlaps, as a misaligned offset can be the cause.
fn aligned(input: &Input<'_>, out: &mut Findings<'_>) {
    let alignment = input.part.alignment();
    for tensor in input.tensors() {
        let offset = own_offset(input, &tensor);
        if !offset.is_multiple_of(alignment.get().into()) {
            out.add_fixable(&NOT_ALIGNED, Place::info(&tensor), || {
                (format!("offset {offset}, expected a multiple of {alignment}"), rewrite(input))
            });
        }
    }
}

fn places(input: &Input<'_>, out: &mut Findings<'_>) {
    let header = input.part;
    let (alignment, data) = (header.alignment(), header.data_offset());
    // The expected offset of the next tensor; unknown after a tensor of unknown size.
    let mut expected = Some(data);
    for tensor in input.tensors() {
        let offset = own_offset(input, &tensor);
        let is_aligned = offset.is_multiple_of(alignment.get().into());
        if let Some(expected) =
            expected.filter(|&expected| is_aligned && expected != tensor.offset())
        {
            out.add_fixable(&NOT_CONTIGUOUS, Place::info(&tensor), || {
                (format!("offset {offset}, expected {}", expected - data), rewrite(input))
            });
        }
        expected =
            tensor.size().and_then(|size| alignment.align(tensor.offset().checked_add(size)?));
    }
}
