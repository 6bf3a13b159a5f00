//! Keys and tensor infos that are truncated, too long, or of unknown type.

use ggmill_core::{Endian, ErrorKind, Limits};

use crate::bytes::{FileBytes, Value};
use crate::corpus::{About, Case};

pub(super) fn cases() -> Vec<Case> {
    [keys(), infos()].concat()
}

fn keys() -> Vec<Case> {
    use ErrorKind::{Limit, Malformed, Truncated};

    let long_key = |length: u64| {
        let mut file = FileBytes::v3(0, 1);
        file.u64(length).raw(b"key").raw(&[0; 12]);
        file.into_bytes()
    };
    let typed = |value_type: u32| {
        let mut file = FileBytes::v3(0, 1);
        file.string("key").u32(value_type).u64(0);
        file.into_bytes()
    };
    let key_v1 = {
        let mut file = FileBytes::new(1, Endian::Little);
        file.head(0, 1).u32(u32::MAX).raw(&[0; 12]);
        file.into_bytes()
    };
    let second_missing = {
        let mut file = FileBytes::v3(0, 2);
        file.pair("key", &Value::from("a value long enough for two"));
        file.into_bytes()
    };
    let second_missing_at = second_missing.len() as u64;
    let value_type_cut = {
        let mut file = FileBytes::v3(0, 1);
        file.string("a key of some length").raw(&[4, 0]);
        file.into_bytes()
    };
    vec![
        Case::fails(
            "key-length-max",
            "a key of 2^64 - 1 bytes",
            Truncated,
            32,
            About::File,
            long_key(u64::MAX),
        ),
        Case::fails(
            "key-length-wraps",
            "a key so long that its end wraps around to its start",
            Truncated,
            32,
            About::File,
            long_key(0u64.wrapping_sub(32)),
        ),
        Case::fails(
            "key-one-too-long",
            "a key one byte longer than the file",
            Truncated,
            32,
            About::File,
            long_key(16),
        ),
        Case::fails(
            "key-length-max-v1",
            "a key of 2^32 - 1 bytes in version 1",
            Truncated,
            20,
            About::File,
            key_v1,
        ),
        Case::fails(
            "key-above-limit",
            "a key of three bytes where two are the limit",
            Limit,
            24,
            About::File,
            typed(0),
        )
        .under(Limits::default().with_string_bytes(2)),
        Case::fails(
            "second-pair-missing",
            "ends where the second of two pairs begins",
            Truncated,
            second_missing_at,
            About::File,
            second_missing,
        ),
        Case::fails(
            "value-type-cut",
            "ends within a value's type",
            Truncated,
            52,
            About::Key("a key of some length"),
            value_type_cut,
        ),
        Case::fails(
            "value-type-13",
            "the first number that is no value type",
            Malformed,
            35,
            About::Key("key"),
            typed(13),
        ),
        Case::fails(
            "value-type-max",
            "value type 2^32 - 1",
            Malformed,
            35,
            About::Key("key"),
            typed(u32::MAX),
        ),
        Case::fails(
            "header-above-limit",
            "a header of 47 bytes where 40 are the limit",
            Limit,
            39,
            About::Key("key"),
            typed(10),
        )
        .under(Limits::default().with_header_bytes(40)),
    ]
}

fn infos() -> Vec<Case> {
    use ErrorKind::{Limit, Malformed, Truncated};

    let cut = |keep: usize| {
        let mut file = FileBytes::v3(1, 0);
        file.tensor("tensor", &[2, 3], 0, 0);
        let mut bytes = file.into_bytes();
        bytes.truncate(keep);
        bytes
    };
    let named = |length: u64| {
        let mut file = FileBytes::v3(1, 0);
        file.u64(length).raw(&[b'x'; 40]);
        file.into_bytes()
    };
    let dimensions = |dimensions: &[u64]| {
        let mut file = FileBytes::v3(1, 0);
        file.tensor("tensor", dimensions, 0, 0).pad(32).raw(&[0; 64]);
        file.into_bytes()
    };
    let counted = |count: u32| {
        let mut file = FileBytes::v3(1, 0);
        file.string("tensor").u32(count).raw(&[1; 128]);
        file.into_bytes()
    };
    let tensor = About::Tensor("tensor");
    vec![
        Case::fails(
            "tensor-name-length-max",
            "a tensor name of 2^64 - 1 bytes",
            Truncated,
            32,
            About::File,
            named(u64::MAX),
        ),
        Case::fails(
            "tensor-name-one-too-long",
            "a tensor name one byte longer than the file",
            Truncated,
            32,
            About::File,
            named(41),
        ),
        Case::fails(
            "tensor-name-above-limit",
            "a tensor name of six bytes where five are the limit",
            Limit,
            24,
            About::File,
            dimensions(&[2]),
        )
        .under(Limits::default().with_string_bytes(5)),
        // Offsets: name 24, dimension count 38, dimensions 42 and 50, type 58, offset 62, end 70.
        Case::fails(
            "dimension-cut",
            "ends within a tensor's second dimension",
            Truncated,
            50,
            tensor,
            cut(57),
        ),
        Case::fails(
            "tensor-type-cut",
            "ends within a tensor's type",
            Truncated,
            58,
            tensor,
            cut(60),
        ),
        Case::fails(
            "tensor-offset-cut",
            "ends within a tensor's offset",
            Truncated,
            62,
            tensor,
            cut(69),
        ),
        Case::fails(
            "dimensions-5",
            "one dimension more than ggml has, and a limit of as many",
            Limit,
            38,
            tensor,
            counted(5),
        )
        .under(Limits::default().with_dimensions(4)),
        Case::fails(
            "dimensions-9",
            "one dimension more than this library can hold, whatever the limit",
            Limit,
            38,
            tensor,
            counted(9),
        )
        .under(Limits::default().with_dimensions(100)),
        Case::fails("dimensions-max", "2^32 - 1 dimensions", Limit, 38, tensor, counted(u32::MAX)),
        Case::fails(
            "elements-wrap",
            "dimensions whose product wraps around to 0",
            Malformed,
            38,
            tensor,
            dimensions(&[1 << 32, 1 << 32]),
        ),
        Case::fails(
            "elements-overflow",
            "dimensions whose product is just above 64 bits",
            Malformed,
            38,
            tensor,
            dimensions(&[u64::MAX, 2, 1, 1]),
        ),
    ]
}
