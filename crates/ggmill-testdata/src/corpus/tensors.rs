//! Tensors whose data has an invalid size or offset.

use ggmill_core::{ErrorKind, GgmlType, Limits};

use crate::bytes::FileBytes;
use crate::corpus::{About, Case};

/// Creates a file with tensors and `data` bytes of data. The first tensor info is at offset 24.
fn file(tensors: &[(&str, &[u64], GgmlType, u64)], data: usize) -> Vec<u8> {
    let mut file = FileBytes::v3(tensors.len() as u64, 0);
    for &(name, dimensions, ggml_type, offset) in tensors {
        file.tensor(name, dimensions, ggml_type.0, offset);
    }
    file.pad(32).raw(&vec![0x55; data]);
    file.into_bytes()
}

fn one(dimensions: &[u64], ggml_type: GgmlType, offset: u64, data: usize) -> Vec<u8> {
    file(&[("t", dimensions, ggml_type, offset)], data)
}

pub(super) fn cases() -> Vec<Case> {
    [sizes(), places(), overlaps()].concat()
}

fn sizes() -> Vec<Case> {
    use ErrorKind::Malformed;

    let fails = |name, why, bytes| Case::fails(name, why, Malformed, 24, About::Tensor("t"), bytes);
    vec![
        fails("bytes-overflow", "2^62 elements of 8 bytes", one(&[1 << 62], GgmlType::F64, 0, 64)),
        fails(
            "bytes-wrap",
            "2^61 elements of 8 bytes: 2^64, which wraps around to 0",
            one(&[1 << 61], GgmlType::I64, 0, 64),
        ),
        fails(
            "row-no-block-q4-0",
            "rows of 33 elements in blocks of 32",
            one(&[33], GgmlType::Q4_0, 0, 64),
        ),
        fails(
            "row-no-block-q4-k",
            "rows of 32 elements in blocks of 256; the product of the dimensions is whole blocks",
            one(&[32, 8], GgmlType::Q4_K, 0, 256),
        ),
        fails(
            "row-no-block-q1-0",
            "rows of 64 elements in blocks of 128",
            one(&[64, 2], GgmlType::Q1_0, 0, 64),
        ),
        fails(
            "row-no-block-nvfp4",
            "rows of 32 elements in blocks of 64",
            one(&[32, 2], GgmlType::NVFP4, 0, 64),
        ),
        fails(
            "scalar-no-block",
            "no dimensions, so one element, in blocks of 32",
            one(&[], GgmlType::Q8_0, 0, 64),
        ),
    ]
}

fn places() -> Vec<Case> {
    use ErrorKind::{Malformed, Truncated};

    let fails =
        |name, why, kind, bytes| Case::fails(name, why, kind, 24, About::Tensor("t"), bytes);
    let header_only = {
        let mut file = FileBytes::v3(1, 0);
        file.tensor("t", &[8], 0, 0);
        file.into_bytes()
    };
    vec![
        fails("offset-max", "data at 2^64 - 1", Malformed, one(&[8], GgmlType::F32, u64::MAX, 32)),
        fails(
            "end-wraps",
            "data whose end wraps around to the middle of the file",
            Malformed,
            one(&[8], GgmlType::F32, u64::MAX - 80, 32),
        ),
        fails(
            "size-wraps-when-padded",
            "2^64 - 16 bytes, which padding to 32 wraps around",
            Malformed,
            one(&[4, (1 << 30) - 1, (1 << 30) + 1], GgmlType::F32, 0, 32),
        ),
        fails(
            "data-cut-by-a-byte",
            "the last byte of the data is missing",
            Truncated,
            one(&[8], GgmlType::F32, 0, 31),
        ),
        fails(
            "data-behind-the-end",
            "data that begin behind the end",
            Truncated,
            one(&[8], GgmlType::F32, 1 << 40, 32),
        ),
        fails("data-missing", "a header and not a byte more", Truncated, header_only),
        fails(
            "data-8-exbibytes",
            "one tensor of 2^63 - 64 bytes",
            Truncated,
            one(&[(1 << 63) - 64], GgmlType::I8, 0, 32),
        ),
        fails(
            "unknown-type-at-the-end",
            "of an unknown type, so of unknown size, but no byte is left for it",
            Truncated,
            one(&[8], GgmlType(57), 32, 32),
        ),
        fails(
            "unknown-type-behind-the-end",
            "of an unknown type, behind the end",
            Truncated,
            one(&[8], GgmlType(57), 33, 32),
        ),
    ]
}

fn overlaps() -> Vec<Case> {
    const EIGHT: &[u64] = &[8];
    let fails = |name, why, tensors: &[(&str, &[u64], GgmlType, u64)], data| {
        // Each tensor info has 8 + 1 + 4 + 8 + 4 + 8 bytes.
        Case::fails(
            name,
            why,
            ErrorKind::Malformed,
            24 + 33,
            About::Tensor("b"),
            file(tensors, data),
        )
    };
    let (f32, unknown) = (GgmlType::F32, GgmlType(57));
    let many: Vec<(&str, &[u64], GgmlType, u64)> =
        (0..1000).map(|_| ("b", EIGHT, f32, 0)).collect();
    vec![
        fails(
            "same-data-twice",
            "two tensors with the same data",
            &[("a", EIGHT, f32, 0), ("b", EIGHT, f32, 0)],
            32,
        ),
        fails(
            "overlap-by-a-byte",
            "the second tensor begins on the last byte of the first",
            &[("a", EIGHT, f32, 0), ("b", EIGHT, f32, 31)],
            64,
        ),
        fails(
            "one-within-the-other",
            "the second tensor lies within the first",
            &[("a", &[64], f32, 0), ("b", EIGHT, f32, 96)],
            256,
        ),
        fails(
            "unknown-type-within",
            "a tensor of unknown type begins within another",
            &[("a", EIGHT, f32, 0), ("b", EIGHT, unknown, 16)],
            64,
        ),
        fails(
            "two-unknown-at-one-place",
            "two tensors of unknown type begin at one place",
            &[("a", EIGHT, unknown, 0), ("b", EIGHT, unknown, 0)],
            64,
        ),
        fails(
            "thousand-at-one-place",
            "a thousand tensors with the same 32 bytes: a small file that stands for a large model",
            &many,
            32,
        ),
        Case::fails(
            "overlap-out-of-order",
            "the first tensor of the directory begins within the second",
            ErrorKind::Malformed,
            24,
            About::Tensor("a"),
            file(&[("a", EIGHT, f32, 16), ("b", EIGHT, f32, 0)], 64),
        ),
        Case::fails(
            "overlap-in-six-dimensions",
            "two tensors of six dimensions, where the limit allows them, with the same data",
            ErrorKind::Malformed,
            24 + 73,
            About::Tensor("b"),
            file(&[("a", &[1, 1, 1, 2, 1, 4], f32, 0), ("b", &[1, 1, 1, 2, 1, 4], f32, 0)], 64),
        )
        .under(Limits::default().with_dimensions(6)),
    ]
}
