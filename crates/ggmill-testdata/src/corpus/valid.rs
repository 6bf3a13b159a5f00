//! Files that a reader must accept: every type, every version, and unusual but valid features.

use ggmill_core::{Endian, GgmlType, Limits, ValueType};

use crate::bytes::{FileBytes, Value};
use crate::corpus::{Case, values};

pub(super) fn cases() -> Vec<Case> {
    [forms(), metadata(), text(), alignments(), shards(), types(), layouts()].concat()
}

/// Creates a file of version 3 with metadata and no tensors.
fn pairs(pairs: &[(&[u8], Value)]) -> Vec<u8> {
    let mut file = FileBytes::v3(0, pairs.len() as u64);
    for (key, value) in pairs {
        file.pair(key, value);
    }
    file.into_bytes()
}

/// Creates a file with one value of each type, one tensor, and data: the same content in every version
/// and byte order.
fn whole(version: u32, endian: Endian, magic: &[u8]) -> Vec<u8> {
    let mut file = FileBytes::new(version, endian);
    let values = Value::one_of_each();
    file.head_with(magic, 1, values.len() as u64);
    for (number, value) in values.iter().enumerate() {
        file.pair(format!("test.value.{number}"), value);
    }
    file.tensor("weight", &[2, 3], GgmlType::F32.0, 0).pad(32);
    for number in 0u8..6 {
        file.f32(f32::from(number) / 2.0);
    }
    file.into_bytes()
}

fn forms() -> Vec<Case> {
    use Endian::{Big, Little};

    let empty = |version, endian| {
        let mut file = FileBytes::new(version, endian);
        file.head(0, 0);
        file.into_bytes()
    };
    vec![
        Case::opens("empty-v1", "version 1 with nothing in it: 16 bytes", empty(1, Little)),
        Case::opens("empty-v2", "version 2 with nothing in it", empty(2, Little)),
        Case::opens("empty-v3", "version 3 with nothing in it: 24 bytes", empty(3, Little)),
        Case::opens(
            "empty-v3-big-endian",
            "version 3 with nothing in it, big-endian",
            empty(3, Big),
        ),
        Case::opens(
            "whole-v1",
            "every value type and a tensor, version 1",
            whole(1, Little, b"GGUF"),
        ),
        Case::opens(
            "whole-v2",
            "every value type and a tensor, version 2",
            whole(2, Little, b"GGUF"),
        ),
        Case::opens(
            "whole-v3",
            "every value type and a tensor, version 3",
            whole(3, Little, b"GGUF"),
        ),
        Case::opens(
            "whole-v1-big-endian",
            "every value type and a tensor, version 1, big-endian",
            whole(1, Big, b"GGUF"),
        ),
        Case::opens(
            "whole-v2-big-endian",
            "every value type and a tensor, version 2, big-endian",
            whole(2, Big, b"GGUF"),
        ),
        Case::opens(
            "whole-v3-big-endian",
            "every value type and a tensor, version 3, big-endian",
            whole(3, Big, b"GGUF"),
        ),
        Case::opens(
            "whole-v3-fugg",
            "big-endian, and the magic swapped too",
            whole(3, Big, b"FUGG"),
        ),
        Case::opens(
            "whole-v3-fugg-little",
            "the magic swapped, and little-endian all the same: the version tells",
            whole(3, Little, b"FUGG"),
        ),
    ]
}

fn metadata() -> Vec<Case> {
    let empty_arrays: Vec<(Vec<u8>, Value)> = ValueType::ALL
        .into_iter()
        .map(|element| (element.to_string().into_bytes(), Value::Array(element.0, Vec::new())))
        .collect();
    let empty_arrays: Vec<(&[u8], Value)> =
        empty_arrays.iter().map(|(key, value)| (key.as_slice(), value.clone())).collect();
    let arrays: Vec<(&[u8], Value)> = Value::one_of_each()
        .into_iter()
        .map(|value| (&b"array"[..], Value::Array(value.value_type(), vec![value.clone(), value])))
        .collect();
    let odd_bools = Value::Array(ValueType::BOOL.0, [0, 1, 2, 255].map(Value::Bool).to_vec());
    let heads = Value::Array(ValueType::I32.0, [32, 8, 0].map(Value::I32).to_vec());
    let deep = values::nested(9);
    vec![
        Case::opens(
            "empty-arrays",
            "an array of each type with no elements: the element type must survive",
            pairs(&empty_arrays),
        ),
        Case::opens(
            "arrays",
            "an array of each type with two elements, arrays of arrays of arrays included",
            pairs(&arrays),
        ),
        Case::opens(
            "array-depth-8",
            "arrays within arrays as deep as the limit allows",
            values::nested(8),
        ),
        Case::opens("array-depth-9-allowed", "one deeper, and a limit that allows it", deep)
            .under(Limits::default().with_array_depth(9)),
        Case::opens(
            "odd-bools",
            "bools whose byte is neither 0 nor 1, alone and in an array",
            pairs(&[(b"alone", Value::Bool(2)), (b"array", odd_bools)]),
        ),
        Case::opens("duplicate-keys", "one key three times, with three types", {
            pairs(&[
                (b"key", Value::U8(1)),
                (b"other", Value::U8(0)),
                (b"key", Value::from("two")),
                (b"key", Value::F64(3.0)),
            ])
        }),
        Case::opens(
            "per-layer-heads",
            "an array where most models have a number",
            pairs(&[(b"llama.attention.head_count_kv", heads)]),
        ),
        Case::opens(
            "separator-both-ways",
            "the key as the code spells it beside the key as the specification does",
            {
                pairs(&[
                    (b"tokenizer.ggml.seperator_token_id", Value::U32(102)),
                    (b"tokenizer.ggml.separator_token_id", Value::U32(103)),
                ])
            },
        ),
    ]
}

fn text() -> Vec<Case> {
    let hostile: &[u8] = b"\x1b[2J\x1b]0;title\x07\xe2\x80\xae\xff\xfe\0\r\n";
    let value = || Value::Str(hostile.to_vec());
    let strings = Value::Array(
        ValueType::STRING.0,
        vec![Value::from(""), value(), Value::Str(vec![0xc3]), Value::Str(vec![0; 3])],
    );
    let names = {
        let mut file = FileBytes::v3(3, 0);
        file.tensor(hostile, &[0], 0, 0).tensor("", &[0], 0, 0).tensor("x".repeat(300), &[0], 0, 0);
        file.into_bytes()
    };
    let long = "k".repeat(70_000);
    vec![
        Case::opens(
            "hostile-text",
            "escape sequences, reordering marks, NULs and broken UTF-8 in keys, values and \
             elements",
            {
                pairs(&[
                    (hostile, value()),
                    (b"strings", strings),
                    (b"cut", Value::Str(vec![0xe2, 0x82])),
                ])
            },
        ),
        Case::opens("odd-keys", "an empty key, capitals, dashes, spaces, a key of 70,000 bytes", {
            pairs(&[
                (b"", Value::U8(0)),
                (b"General.Name-2", Value::U8(1)),
                (b"with space", Value::U8(2)),
                (long.as_bytes(), Value::U8(3)),
            ])
        }),
        Case::opens("odd-names", "tensor names: hostile, empty, and longer than 64 bytes", names),
    ]
}

fn alignments() -> Vec<Case> {
    let aligned = |value: Value, alignment: u64| {
        let mut file = FileBytes::v3(2, 1);
        file.pair("general.alignment", &value).tensor("a", &[3], GgmlType::I8.0, 0).tensor(
            "b",
            &[5],
            GgmlType::I8.0,
            alignment,
        );
        let alignment = usize::try_from(alignment).unwrap_or(1);
        file.pad(alignment).raw(b"aaa").pad(alignment).raw(b"bbbbb").pad(alignment);
        file.into_bytes()
    };
    vec![
        Case::opens("alignment-8", "alignment 8", aligned(Value::U32(8), 8)),
        Case::opens("alignment-16", "alignment 16", aligned(Value::U32(16), 16)),
        Case::opens(
            "alignment-24",
            "alignment 24, no power of two: the specification allows it, the C reader does not",
            aligned(Value::U32(24), 24),
        ),
        Case::opens("alignment-64", "alignment 64", aligned(Value::U32(64), 64)),
        Case::opens("alignment-64k", "alignment 65,536", aligned(Value::U32(1 << 16), 1 << 16)),
        Case::opens("alignment-u8", "an alignment as u8", aligned(Value::U8(64), 64)),
        Case::opens("alignment-i32", "an alignment as i32", aligned(Value::I32(64), 64)),
        Case::opens("alignment-u64", "an alignment as u64", aligned(Value::U64(64), 64)),
        Case::opens("alignment-twice-the-same", "an alignment twice, and they agree", {
            pairs(&[(b"general.alignment", Value::U32(64)), (b"general.alignment", Value::U16(64))])
        }),
    ]
}

fn shards() -> Vec<Case> {
    let split = |number: Value, count: Value, tensors: Value| {
        pairs(&[(b"split.no", number), (b"split.count", count), (b"split.tensors.count", tensors)])
    };
    vec![
        Case::opens(
            "split-u16",
            "the keys of a shard as the reference writes them",
            split(Value::U16(1), Value::U16(3), Value::I32(201)),
        ),
        Case::opens(
            "split-u32",
            "the keys of a shard as u32",
            split(Value::U32(1), Value::U32(3), Value::U32(201)),
        ),
        Case::opens(
            "split-i32",
            "the keys of a shard as i32",
            split(Value::I32(1), Value::I32(3), Value::I32(201)),
        ),
        Case::opens(
            "split-merged",
            "what merging leaves: a count of 0",
            split(Value::U16(0), Value::U16(0), Value::I32(201)),
        ),
    ]
}

fn types() -> Vec<Case> {
    // One row of four blocks for each type, with contiguous data.
    let every = {
        let types: Vec<GgmlType> = GgmlType::all().collect();
        let mut file = FileBytes::v3(types.len() as u64, 0);
        let mut offset = 0u64;
        for ggml_type in &types {
            let (elements, bytes) = ggml_type
                .layout()
                .map_or((1, 1), |layout| (u64::from(layout.elements), u64::from(layout.bytes)));
            file.tensor(ggml_type.to_string(), &[elements * 2, 2], ggml_type.0, offset);
            offset = (offset + bytes * 4).next_multiple_of(32);
        }
        file.pad(32).raw(&vec![0; usize::try_from(offset).unwrap_or(0)]);
        file.into_bytes()
    };
    let unknown = {
        let mut file = FileBytes::v3(6, 0);
        file.tensor("first-free", &[8], 43, 0)
            .tensor("fork", &[8], 137, 32)
            .tensor("thousand", &[8], 1000, 64)
            .tensor("max", &[8], u32::MAX, 96);
        file.tensor("known", &[8], GgmlType::F32.0, 128)
            .tensor("empty", &[0, 8], 57, 128)
            .pad(32)
            .raw(&[0; 160]);
        file.into_bytes()
    };
    let companions = {
        let mut file = FileBytes::v3(3, 0);
        file.tensor("ffn.weight", &[64], GgmlType::NVFP4.0, 0)
            .tensor("ffn.scale", &[], 0, 64)
            .tensor("ffn.input_scale", &[], 0, 96)
            .pad(32)
            .raw(&[0; 100]);
        file.into_bytes()
    };
    vec![
        Case::opens(
            "every-tensor-type",
            "a tensor of each type 0 to 42, retired ones included",
            every,
        ),
        Case::opens(
            "unknown-tensor-types",
            "tensors of types nobody has published: they are listed, only their data are refused",
            unknown,
        ),
        Case::opens(
            "nvfp4-companions",
            "a tensor in blocks of 64 with its two scales, which are scalars",
            companions,
        ),
    ]
}

fn layouts() -> Vec<Case> {
    let f32s = |tensors: &[(&str, &[u64], u64)], data: usize| {
        let mut file = FileBytes::v3(tensors.len() as u64, 0);
        for &(name, dimensions, offset) in tensors {
            file.tensor(name, dimensions, GgmlType::F32.0, offset);
        }
        file.pad(32).raw(&vec![1; data]);
        file.into_bytes()
    };
    let trailing = |mut bytes: Vec<u8>| {
        bytes.extend_from_slice(b"something behind the end");
        bytes
    };
    vec![
        Case::opens(
            "scalar",
            "a tensor of no dimensions: one element",
            f32s(&[("scalar", &[], 0)], 4),
        ),
        Case::opens(
            "zero-elements",
            "tensors of no elements, one of them at an offset far behind the end",
            {
                f32s(
                    &[
                        ("a", &[0], 0),
                        ("b", &[4, 0, 4], 1 << 40),
                        ("c", &[u64::MAX, 0, u64::MAX], 0),
                        ("d", &[8], 0),
                    ],
                    32,
                )
            },
        ),
        Case::opens(
            "gaps",
            "unused bytes before, between and behind the data",
            f32s(&[("a", &[2], 64), ("b", &[2], 256)], 512),
        ),
        Case::opens(
            "offsets-out-of-order",
            "the first tensor's data come last",
            f32s(&[("a", &[8], 64), ("b", &[8], 0), ("c", &[8], 32)], 96),
        ),
        Case::opens(
            "offsets-not-aligned",
            "data back to back, without padding",
            f32s(&[("a", &[3], 0), ("b", &[3], 12)], 24),
        ),
        Case::opens(
            "no-padding-behind-the-last",
            "the file ends with the last byte of the data",
            f32s(&[("a", &[8], 0), ("b", &[1], 32)], 36),
        ),
        Case::opens(
            "trailing-bytes",
            "bytes behind the last tensor",
            trailing(f32s(&[("a", &[8], 0)], 32)),
        ),
        Case::opens(
            "trailing-bytes-no-tensors",
            "bytes behind the metadata of a file without tensors",
            trailing(pairs(&[(b"key", Value::U8(1))])),
        ),
        Case::opens(
            "six-dimensions-allowed",
            "six dimensions, and a limit that allows them",
            f32s(&[("a", &[1, 2, 1, 2, 1, 2], 0)], 32),
        )
        .under(Limits::default().with_dimensions(6)),
        Case::opens(
            "duplicate-names",
            "one tensor name twice",
            f32s(&[("a", &[8], 0), ("a", &[4], 32)], 48),
        ),
    ]
}
