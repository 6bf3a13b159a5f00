//! Metadata values that are truncated, too long, too deep, or contradictory.

use ggmill_core::{Endian, ErrorKind, Limits, ValueType};

use crate::bytes::{FileBytes, Value};
use crate::corpus::{About, Case};

const KEY: About = About::Key("key");
const ALIGNMENT: &str = "general.alignment";

/// Creates a file with one entry with the key `key`, whose value is at offset 39.
fn one(value_type: ValueType, value: impl FnOnce(&mut FileBytes)) -> Vec<u8> {
    let mut file = FileBytes::v3(0, 1);
    file.string("key").u32(value_type.0);
    value(&mut file);
    file.into_bytes()
}

/// Creates a file with one array, whose element type is at offset 39, its length at 43, and its elements
/// at 51.
fn array(element: u32, length: u64, elements: &[u8]) -> Vec<u8> {
    one(ValueType::ARRAY, |file| {
        file.array(element, length).raw(elements);
    })
}

/// Creates a file with `depth` nested arrays, of which the innermost is empty.
pub(super) fn nested(depth: usize) -> Vec<u8> {
    one(ValueType::ARRAY, |file| {
        for _ in 1..depth {
            file.array(ValueType::ARRAY.0, 1);
        }
        file.array(ValueType::U8.0, 0);
    })
}

pub(super) fn cases() -> Vec<Case> {
    [scalars(), arrays(), alignments(), limits()].concat()
}

fn scalars() -> Vec<Case> {
    use ErrorKind::Truncated;

    let string = |length: u64| {
        one(ValueType::STRING, |file| {
            file.u64(length).raw(b"text");
        })
    };
    let number_cut = one(ValueType::U64, |file| {
        file.raw(&[1; 7]);
    });
    let no_bool = {
        let mut file = FileBytes::v3(0, 2);
        file.pair("a longer key than most", &Value::U8(0)).string("key").u32(ValueType::BOOL.0);
        file.into_bytes()
    };
    let no_bool_at = no_bool.len() as u64;
    vec![
        Case::fails("value-cut", "ends within a 64-bit number", Truncated, 39, KEY, number_cut),
        Case::fails(
            "bool-missing",
            "ends where a bool's byte belongs",
            Truncated,
            no_bool_at,
            KEY,
            no_bool,
        ),
        Case::fails("string-length-cut", "ends within a string's length", Truncated, 39, KEY, {
            let mut bytes = string(4);
            bytes.truncate(45);
            bytes
        }),
        Case::fails(
            "string-one-too-long",
            "a string one byte longer than the file",
            Truncated,
            47,
            KEY,
            string(5),
        ),
        Case::fails(
            "string-length-max",
            "a string of 2^64 - 1 bytes",
            Truncated,
            47,
            KEY,
            string(u64::MAX),
        ),
        Case::fails(
            "string-length-negative",
            "a string of 2^63 bytes, negative where lengths are signed",
            Truncated,
            47,
            KEY,
            string(1 << 63),
        ),
    ]
}

fn arrays() -> Vec<Case> {
    use ErrorKind::{Limit, Malformed, Truncated};

    let strings = |lengths: &[u64]| {
        one(ValueType::ARRAY, |file| {
            file.array(ValueType::STRING.0, lengths.len() as u64);
            for &length in lengths {
                file.u64(length).raw(b"tok");
            }
        })
    };
    let inner = |element: u32, length: u64| {
        one(ValueType::ARRAY, |file| {
            file.array(ValueType::ARRAY.0, 2)
                .array(ValueType::U8.0, 3)
                .raw(b"abc")
                .array(element, length)
                .raw(b"abc");
        })
    };
    let v1 = {
        let mut file = FileBytes::new(1, Endian::Little);
        file.head(0, 1)
            .string("key")
            .u32(ValueType::ARRAY.0)
            .array(ValueType::F64.0, 1 << 29)
            .u64(0);
        file.into_bytes()
    };
    vec![
        Case::fails("array-head-cut", "ends within an array's length", Truncated, 43, KEY, {
            let mut bytes = array(0, 0, &[]);
            bytes.truncate(50);
            bytes
        }),
        Case::fails(
            "element-type-13",
            "an array of a type that is none",
            Malformed,
            39,
            KEY,
            array(13, 0, &[0; 8]),
        ),
        Case::fails(
            "array-length-max",
            "an array of 2^64 - 1 bytes",
            Truncated,
            39,
            KEY,
            array(0, u64::MAX, &[0; 8]),
        ),
        Case::fails(
            "array-size-wraps",
            "an array of 2^61 64-bit numbers, whose size wraps around to 0",
            Truncated,
            39,
            KEY,
            array(10, 1 << 61, &[0; 8]),
        ),
        Case::fails(
            "array-one-too-long",
            "an array one element longer than the file",
            Truncated,
            39,
            KEY,
            array(4, 3, &[0; 8]),
        ),
        Case::fails(
            "array-size-wraps-v1",
            "an array of 2^29 64-bit numbers in version 1: 2^32 bytes",
            Truncated,
            27,
            KEY,
            v1,
        ),
        Case::fails(
            "strings-length-max",
            "an array of 2^64 - 1 strings",
            Truncated,
            39,
            KEY,
            array(8, u64::MAX, &[0; 64]),
        ),
        Case::fails(
            "strings-short-of-lengths",
            "more strings than the rest has room for their lengths",
            Truncated,
            59,
            KEY,
            array(8, 3, &[0; 12]),
        ),
        Case::fails(
            "second-string-too-long",
            "the second of three strings reaches behind the end",
            Truncated,
            70,
            KEY,
            strings(&[3, 1 << 40, 3]),
        ),
        Case::fails(
            "second-string-wraps",
            "the second string is so long that its end wraps around",
            Truncated,
            70,
            KEY,
            strings(&[3, u64::MAX - 60, 3]),
        ),
        Case::fails(
            "inner-array-too-long",
            "the second inner array reaches behind the end",
            Truncated,
            66,
            KEY,
            inner(0, 4),
        ),
        Case::fails(
            "inner-element-type-13",
            "the second inner array is of a type that is none",
            Malformed,
            66,
            KEY,
            inner(13, 3),
        ),
        Case::fails(
            "array-depth-9",
            "one array within another more than the limit",
            Limit,
            39 + 8 * 12,
            KEY,
            nested(9),
        ),
        Case::fails(
            "array-depth-bomb",
            "ten thousand arrays, each within the other",
            Limit,
            39 + 8 * 12,
            KEY,
            nested(10_000),
        ),
        Case::fails(
            "arrays-length-max",
            "an array of 2^62 arrays",
            Truncated,
            39,
            KEY,
            array(9, 1 << 62, &[0; 64]),
        ),
    ]
}

fn alignments() -> Vec<Case> {
    use ErrorKind::{Limit, Malformed, WrongType};

    let about = About::Key(ALIGNMENT);
    // The key is at offset 24, the value's type at 49, the value at 53.
    let aligned = |value: Value| {
        let mut file = FileBytes::v3(0, 1);
        file.pair(ALIGNMENT, &value);
        file.into_bytes()
    };
    let twice = {
        let mut file = FileBytes::v3(0, 2);
        file.pair(ALIGNMENT, &Value::U32(32)).pair(ALIGNMENT, &Value::U32(64));
        file.into_bytes()
    };
    let fails = |name, why, kind, value| Case::fails(name, why, kind, 53, about, aligned(value));
    vec![
        fails("alignment-0", "alignment 0, by which readers divide", Malformed, Value::U32(0)),
        fails("alignment-13", "alignment 13, no multiple of 8", Malformed, Value::U32(13)),
        fails("alignment-4", "alignment 4, no multiple of 8", Malformed, Value::U32(4)),
        fails("alignment-negative", "alignment -32", Malformed, Value::I32(-32)),
        fails("alignment-above-32-bits", "alignment 2^32", Malformed, Value::U64(1 << 32)),
        fails(
            "alignment-max",
            "alignment 2^64 - 8, close to where rounding up wraps around",
            Malformed,
            Value::U64(u64::MAX - 7),
        ),
        fails(
            "alignment-above-limit",
            "an alignment of 2 GiB: a file of a few bytes that asks for that much padding",
            Limit,
            Value::U32(1 << 31),
        ),
        fails("alignment-string", "an alignment that is text", WrongType, Value::from("32")),
        fails("alignment-float", "an alignment that is a float", WrongType, Value::F32(32.0)),
        fails("alignment-bool", "an alignment that is a bool", WrongType, Value::Bool(1)),
        Case::fails(
            "alignments-differ",
            "two alignments: two readings of one file",
            Malformed,
            86,
            about,
            twice,
        ),
    ]
}

fn limits() -> Vec<Case> {
    use ErrorKind::Limit;

    let text = one(ValueType::STRING, |file| {
        file.string("four");
    });
    let tokens = one(ValueType::ARRAY, |file| {
        file.array(ValueType::STRING.0, 2).string("a").string("four");
    });
    let three = array(0, 3, b"abc");
    let short = |string_bytes| Limits::default().with_string_bytes(string_bytes);
    let few = |array_elements| Limits::default().with_array_elements(array_elements);
    let flat = |array_depth| Limits::default().with_array_depth(array_depth);
    vec![
        Case::fails(
            "string-above-limit",
            "a string of four bytes where three are the limit",
            Limit,
            39,
            KEY,
            text,
        )
        .under(short(3)),
        Case::fails(
            "element-above-limit",
            "an array's second string has four bytes where three are the limit",
            Limit,
            60,
            KEY,
            tokens,
        )
        .under(short(3)),
        Case::fails(
            "array-above-limit",
            "an array of three where two are the limit",
            Limit,
            39,
            KEY,
            three.clone(),
        )
        .under(few(2)),
        Case::fails(
            "array-where-none-may-be",
            "an array where the limit of depth is 0",
            Limit,
            39,
            KEY,
            three,
        )
        .under(flat(0)),
        Case::fails(
            "nested-where-flat",
            "an array within an array where the limit of depth is 1",
            Limit,
            51,
            KEY,
            nested(2),
        )
        .under(flat(1)),
    ]
}
