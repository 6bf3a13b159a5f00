//! The 34 handcrafted files of llama.cpp's test (`tests/test-gguf.cpp`), reduced in size, with their
//! names there and the outcome in this library.
//!
//! `why` mentions differences between the two readers. The reference checks tensors against the end of
//! the file only when it loads their data; this library checks them on opening, so files with valid
//! tensors have data here.

use ggmill_core::{Endian, ErrorKind, Limits};

use crate::bytes::{FileBytes, Value};
use crate::corpus::{About, Case};

const ALIGNMENT: &str = "general.alignment";
const I8: u32 = 24;
const I64: u32 = 27;

pub(super) fn cases() -> Vec<Case> {
    [heads(), pairs(), tensors(), data()].concat()
}

fn heads() -> Vec<Case> {
    use ErrorKind::{Truncated, Version};

    let empty = |magic: &[u8], version: u32, tensors: u64, pairs: u64| {
        let mut file = FileBytes::new(3, Endian::Little);
        file.raw(magic).u32(version).u64(tensors).u64(pairs).pad(32);
        file.into_bytes()
    };
    let fails =
        |name, why, kind, offset, bytes| Case::fails(name, why, kind, offset, About::File, bytes);
    let gguf = b"GGUF";
    vec![
        Case::opens(
            "HEADER_BAD_MAGIC",
            "the magic is FUGG; the reference refuses it, here it opens, since real big-endian \
             files have it",
            empty(b"FUGG", 3, 0, 0),
        ),
        fails("HEADER_BAD_VERSION_0", "version 0", Version, 4, empty(gguf, 0, 0, 0)),
        Case::opens(
            "HEADER_BAD_VERSION_1",
            "version 1, which the reference does not read any more",
            empty(gguf, 1, 0, 0),
        ),
        fails("HEADER_BAD_VERSION_FUTURE", "version 4", Version, 4, empty(gguf, 4, 0, 0)),
        fails("HEADER_BAD_N_TENSORS", "-1 tensors", Truncated, 8, empty(gguf, 3, u64::MAX, 0)),
        fails("HEADER_BAD_N_KV", "-1 metadata pairs", Truncated, 16, empty(gguf, 3, 0, u64::MAX)),
        Case::opens("HEADER_EMPTY", "no tensors, no metadata", empty(gguf, 3, 0, 0)),
    ]
}

fn pairs() -> Vec<Case> {
    use ErrorKind::{Malformed, Truncated};

    let two = |first: &str, second: &str| {
        let mut file = FileBytes::v3(0, 2);
        file.pair(first, &Value::U32(1)).pair(second, &Value::from("two")).pad(32);
        file.into_bytes()
    };
    let key_size = {
        let mut file = FileBytes::v3(0, 1);
        file.u64(u64::MAX).raw(b"my_key_0").u32(4).u32(1).pad(32);
        file.into_bytes()
    };
    let value_type = {
        let mut file = FileBytes::v3(0, 1);
        file.string("my_key_0").u32(13).u8(0).pad(32);
        file.into_bytes()
    };
    let aligned = |value: Value| {
        let mut file = FileBytes::v3(0, 1);
        file.pair(ALIGNMENT, &value);
        file.into_bytes()
    };
    let alignment = |name, why, value| {
        Case::fails(name, why, Malformed, 53, About::Key(ALIGNMENT), aligned(value))
    };
    vec![
        Case::fails("KV_BAD_KEY_SIZE", "a key of -1 bytes", Truncated, 32, About::File, key_size),
        Case::opens(
            "KV_EMPTY_KEY",
            "a key of no bytes; the reference refuses it, here it is shown",
            two("", "my_key_1"),
        ),
        Case::fails(
            "KV_BAD_TYPE",
            "value type 13",
            Malformed,
            40,
            About::Key("my_key_0"),
            value_type,
        ),
        Case::opens(
            "KV_DUPLICATE_KEY",
            "one key twice; the reference refuses it, here both are shown",
            two("my_key_0", "my_key_0"),
        ),
        alignment("KV_BAD_ALIGN", "alignment 13", Value::U32(13)),
        alignment(
            "KV_WRONG_TYPE_ALIGN",
            "alignment 13 as i32; the reference refuses the type, here it is the number",
            Value::I32(13),
        ),
        Case::opens("KV_SUCCESS", "two pairs", two("my_key_0", "my_key_1")),
    ]
}

/// Creates a file with two tensors and data, at offsets that follow from their size and `alignment`.
fn two_tensors(alignment: Option<u32>, names: [&str; 2], padded_to: u64, data: usize) -> Vec<u8> {
    let mut file = FileBytes::v3(2, u64::from(alignment.is_some()));
    if let Some(alignment) = alignment {
        file.pair(ALIGNMENT, &Value::U32(alignment));
    }
    file.tensor(names[0], &[3, 2], I8, 0).tensor(
        names[1],
        &[40],
        I8,
        6u64.next_multiple_of(padded_to),
    );
    file.pad(32).raw(&vec![7; data]);
    file.into_bytes()
}

/// Creates a file with one tensor info, whose name is at offset 24 and whose rest `rest` writes, and 64
/// bytes of data.
fn one_tensor(rest: impl FnOnce(&mut FileBytes)) -> Vec<u8> {
    let mut file = FileBytes::v3(1, 0);
    file.string("my_tensor_0");
    rest(&mut file);
    file.pad(32).raw(&[7; 64]);
    file.into_bytes()
}

fn tensors() -> Vec<Case> {
    use ErrorKind::{Limit, Malformed};

    const NAMES: [&str; 2] = ["my_tensor_0", "my_tensor_1"];
    let about = About::Tensor(NAMES[0]);
    let shaped = |dimensions: &[u64], ggml_type: u32, offset: u64| {
        one_tensor(|file| {
            file.u32(u32::try_from(dimensions.len()).unwrap_or(0));
            dimensions
                .iter()
                .fold(file, |file, &dimension| file.u64(dimension))
                .u32(ggml_type)
                .u64(offset);
        })
    };
    let five = one_tensor(|file| {
        file.u32(5).u64(1).u64(1).u64(1).u64(1).u32(0).u64(0);
    });
    let info = |name, why, bytes| Case::fails(name, why, Malformed, 24, about, bytes);
    let long =
        "my_tensor_0_with_a_very_long_name_which_is_longer_than_what_is_allowed_for_ggml_tensors";
    let big = 4 * u64::from(i32::MAX.unsigned_abs());
    vec![
        Case::opens(
            "TENSORS_BAD_NAME_SIZE",
            "a name of 87 bytes; the reference has room for 63, the format for more",
            two_tensors(None, [long, NAMES[1]], 32, 128),
        ),
        Case::fails("TENSORS_BAD_N_DIMS", "five dimensions", Limit, 43, about, five)
            .under(Limits::default().with_dimensions(4)),
        info(
            "TENSORS_BAD_SHAPE",
            "a dimension of -1, which is 2^64 - 1",
            shaped(&[u64::MAX], I8, 0),
        ),
        Case::opens("TENSORS_ZERO_DIM", "a dimension of 0", shaped(&[8, 0], 0, 0)),
        Case::fails(
            "TENSORS_NE_TOO_BIG",
            "dimensions whose product exceeds 64 bits",
            Malformed,
            43,
            about,
            shaped(&[big, big], I8, 0),
        ),
        info(
            "TENSORS_NBYTES_TOO_BIG",
            "a size in bytes that exceeds 64 bits",
            shaped(&[1_533_900_000, 1_533_900_000], I64, 0),
        ),
        info(
            "TENSORS_NBYTES_PAD_WRAP",
            "a size that padding to 32 wraps around to 0",
            shaped(&[4, (1 << 30) - 1, (1 << 30) + 1], 0, 0),
        ),
        Case::opens(
            "TENSORS_BAD_TYPE",
            "the first number that is no tensor type; the reference refuses it, here only its \
             data are",
            shaped(&[8], 43, 0),
        ),
        info("TENSORS_BAD_OFFSET", "an offset of -1", shaped(&[8], I8, u64::MAX)),
        Case::opens(
            "TENSORS_DUPLICATE_NAME",
            "one name twice; the reference refuses it, here both are shown",
            two_tensors(None, ["my_tensor", "my_tensor"], 32, 128),
        ),
        Case::fails(
            "TENSORS_BAD_ALIGN",
            "alignment 13",
            Malformed,
            53,
            About::Key(ALIGNMENT),
            two_tensors(Some(13), NAMES, 13, 128),
        ),
        Case::opens(
            "TENSORS_INCONSISTENT_ALIGN",
            "offsets that are not aligned; the reference refuses them, here they are where the \
             file says",
            two_tensors(None, NAMES, 1, 128),
        ),
        Case::opens("TENSORS_SUCCESS", "two tensors", two_tensors(None, NAMES, 32, 128)),
        Case::fails(
            "TENSORS_CUSTOM_ALIGN",
            "alignment 1; the reference takes any power of two, the specification multiples of 8",
            Malformed,
            53,
            About::Key(ALIGNMENT),
            two_tensors(Some(1), NAMES, 1, 128),
        ),
    ]
}

fn data() -> Vec<Case> {
    use ErrorKind::{Malformed, Truncated};

    const NAMES: [&str; 2] = ["my_tensor_0", "my_tensor_1"];
    let about = About::Key(ALIGNMENT);
    let second_info = 24 + 8 + 11 + 4 + 16 + 4 + 8;
    let huge = {
        let mut file = FileBytes::v3(2, 0);
        file.tensor(NAMES[0], &[0x7fff_ffff_ffff_ffc0], I8, 0)
            .tensor(NAMES[1], &[0x7fff_ffff_ffff_ffc0], I8, 0x7fff_ffff_ffff_ffc0)
            .pad(32);
        file.into_bytes()
    };
    vec![
        Case::fails(
            "DATA_NOT_ENOUGH_DATA",
            "the last byte is missing",
            Truncated,
            second_info,
            About::Tensor(NAMES[1]),
            two_tensors(None, NAMES, 32, 71),
        ),
        Case::fails(
            "DATA_BAD_ALIGN",
            "alignment 13, with data",
            Malformed,
            53,
            about,
            two_tensors(Some(13), NAMES, 13, 128),
        ),
        Case::opens(
            "DATA_INCONSISTENT_ALIGN",
            "offsets that are not aligned, with data for both",
            two_tensors(None, NAMES, 1, 46),
        ),
        Case::fails(
            "DATA_MEM_SIZE_OVERFLOW",
            "two tensors of nearly 2^63 bytes",
            Truncated,
            24,
            About::Tensor(NAMES[0]),
            huge,
        ),
        Case::opens(
            "DATA_SUCCESS",
            "two tensors with exactly their data, padded",
            two_tensors(None, NAMES, 32, 96),
        ),
        Case::fails(
            "DATA_CUSTOM_ALIGN",
            "alignment 1, with data",
            Malformed,
            53,
            about,
            two_tensors(Some(1), NAMES, 1, 46),
        ),
    ]
}
