//! Magic, version, counts.

use ggmill_core::{Endian, ErrorKind, Limits};

use crate::bytes::{FileBytes, Value};
use crate::corpus::{About, Case};

/// Creates a case whose fault is in the first 24 bytes.
fn bad(name: &'static str, why: &'static str, kind: ErrorKind, offset: u64, bytes: &[u8]) -> Case {
    Case::fails(name, why, kind, offset, About::File, bytes.to_vec())
}

fn versioned(version: u32, endian: Endian) -> Vec<u8> {
    let mut file = FileBytes::new(3, endian);
    file.raw(b"GGUF").u32(version).u64(0).u64(0);
    file.into_bytes()
}

fn counted(version: u32, tensors: u64, pairs: u64) -> Vec<u8> {
    let mut file = FileBytes::new(version, Endian::Little);
    file.head(tensors, pairs).raw(&[0; 24]);
    file.into_bytes()
}

pub(super) fn cases() -> Vec<Case> {
    use ErrorKind::{Limit, NotGguf, Truncated, Version};

    let two_pairs = {
        let mut file = FileBytes::v3(0, 2);
        file.pair("a", &Value::U8(1)).pair("b", &Value::U8(2));
        file.into_bytes()
    };
    let two_tensors = {
        let mut file = FileBytes::v3(2, 0);
        file.tensor("a", &[0], 0, 0).tensor("b", &[0], 0, 0);
        file.into_bytes()
    };
    let limits = |entries, tensors| Limits::default().with_entries(entries).with_tensors(tensors);
    vec![
        bad("no-bytes", "there is nothing", Truncated, 0, b""),
        bad("magic-cut", "ends within the magic", Truncated, 0, b"GGU"),
        bad(
            "web-page",
            "an HTML page saved under the model's name",
            NotGguf,
            0,
            b"<!DOCTYPE html><html><body>not found</body></html>",
        ),
        bad(
            "ggjt",
            "a GGJT file, an ancestor of GGUF",
            NotGguf,
            0,
            b"tjgg\x01\0\0\0\0\x7d\0\0\0\x10\0\0\0\x01\0\0",
        ),
        bad(
            "pickle",
            "a PyTorch checkpoint, which is a zip archive",
            NotGguf,
            0,
            b"PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ),
        bad(
            "magic-lower-case",
            "the magic in lower case",
            NotGguf,
            0,
            b"gguf\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ),
        bad("version-cut", "ends within the version", Truncated, 4, b"GGUF\x03\0"),
        bad("version-0", "version 0", Version, 4, &versioned(0, Endian::Little)),
        bad("version-4", "a version not made yet", Version, 4, &versioned(4, Endian::Little)),
        bad(
            "version-4-big-endian",
            "a version not made yet, big-endian",
            Version,
            4,
            &versioned(4, Endian::Big),
        ),
        bad(
            "version-256",
            "256, of which the first byte is 0: no sign of big-endian order",
            Version,
            4,
            &versioned(256, Endian::Little),
        ),
        bad(
            "version-65536",
            "65,536, which looks like big-endian order and is no version there either",
            Version,
            4,
            &versioned(1 << 16, Endian::Little),
        ),
        bad(
            "version-huge",
            "every bit of the version set",
            Version,
            4,
            &versioned(u32::MAX, Endian::Little),
        ),
        bad(
            "tensor-count-cut",
            "ends within the tensor count",
            Truncated,
            8,
            b"GGUF\x03\0\0\0\0\0\0\0",
        ),
        bad(
            "pair-count-cut",
            "ends within the metadata count",
            Truncated,
            16,
            b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ),
        bad(
            "counts-cut-v1",
            "version 1 ends within the metadata count",
            Truncated,
            12,
            b"GGUF\x01\0\0\0\0\0\0\0\0",
        ),
        bad("tensor-count-max", "2^64 - 1 tensors", Truncated, 8, &counted(3, u64::MAX, 0)),
        bad(
            "tensor-count-wraps",
            "so many tensors that their least size wraps around to 0",
            Truncated,
            8,
            &counted(3, 1 << 61, 0),
        ),
        bad(
            "tensor-count-2-in-24-bytes",
            "one tensor more than the bytes that remain could hold",
            Truncated,
            8,
            &counted(3, 2, 0),
        ),
        bad("pair-count-max", "2^64 - 1 metadata pairs", Truncated, 16, &counted(3, 0, u64::MAX)),
        bad(
            "pair-count-2-in-24-bytes",
            "one pair more than the bytes that remain could hold",
            Truncated,
            16,
            &counted(3, 0, 2),
        ),
        bad(
            "tensor-count-max-v1",
            "2^32 - 1 tensors in version 1",
            Truncated,
            8,
            &counted(1, u64::MAX, 0),
        ),
        bad(
            "pair-count-max-v1",
            "2^32 - 1 metadata pairs in version 1",
            Truncated,
            12,
            &counted(1, 0, u64::MAX),
        ),
        bad("pairs-above-limit", "two pairs where one is the limit", Limit, 16, &two_pairs)
            .under(limits(1, 1)),
        bad("tensors-above-limit", "two tensors where one is the limit", Limit, 8, &two_tensors)
            .under(limits(1, 1)),
    ]
}
