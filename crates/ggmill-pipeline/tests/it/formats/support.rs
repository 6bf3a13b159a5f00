//! Archives and pickles made by hand.

use std::path::{Path, PathBuf};

/// A file of the fixtures that `xtask/peers/torch_files.py` writes.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/torch").join(name)
}

/// A zip archive of entries that are stored as they are.
pub(crate) fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let offset = u32::try_from(out.len()).unwrap();
        let numbers = numbers(name, data, 0);
        out.extend_from_slice(b"PK\x03\x04\x14\0");
        out.extend_from_slice(&numbers);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(data);
        directory.extend_from_slice(b"PK\x01\x02\x14\0\x14\0");
        directory.extend_from_slice(&numbers);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let start = u32::try_from(out.len()).unwrap();
    let count = u16::try_from(entries.len()).unwrap();
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    for _ in 0..2 {
        out.extend_from_slice(&count.to_le_bytes());
    }
    out.extend_from_slice(&u32::try_from(directory.len()).unwrap().to_le_bytes());
    out.extend_from_slice(&start.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out
}

/// The same in the form for large files: with numbers of 64 bits.
pub(crate) fn zip64(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let offset = out.len() as u64;
        out.extend_from_slice(b"PK\x03\x04\x14\0");
        out.extend_from_slice(&numbers(name, data, 0));
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(data);
        let mut numbers = numbers(name, data, 4 + 24);
        numbers[12..20].fill(0xff);
        directory.extend_from_slice(b"PK\x01\x02\x2d\0\x2d\0");
        directory.extend_from_slice(&numbers);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&[0xff; 4]);
        directory.extend_from_slice(name.as_bytes());
        directory.extend_from_slice(&[1, 0, 24, 0]);
        for number in [data.len() as u64, data.len() as u64, offset] {
            directory.extend_from_slice(&number.to_le_bytes());
        }
    }
    let start = out.len() as u64;
    out.extend_from_slice(&directory);
    let end = out.len() as u64;
    out.extend_from_slice(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    for number in [entries.len(), entries.len(), directory.len()] {
        out.extend_from_slice(&(number as u64).to_le_bytes());
    }
    out.extend_from_slice(&start.to_le_bytes());
    out.extend_from_slice(b"PK\x06\x07\0\0\0\0");
    out.extend_from_slice(&end.to_le_bytes());
    out.extend_from_slice(&[1, 0, 0, 0]);
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend_from_slice(&[0xff; 12]);
    out.extend_from_slice(&[0; 2]);
    out
}

/// What the header and the directory have in common: flags, method, time, checksum (not looked at),
/// both sizes, the lengths of the name and of further fields.
fn numbers(name: &str, data: &[u8], extra: u16) -> Vec<u8> {
    let size = u32::try_from(data.len()).unwrap().to_le_bytes();
    let name = u16::try_from(name.len()).unwrap().to_le_bytes();
    [&[0; 12][..], &size, &size, &name, &extra.to_le_bytes()].concat()
}

/// A pickle: the protocol, these opcodes, the end.
pub(crate) fn pickle(opcodes: &[&[u8]]) -> Vec<u8> {
    [b"\x80\x02", &*opcodes.concat(), b"."].concat()
}

/// A text.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat()
}

/// An integer.
pub(crate) fn int(number: i64) -> Vec<u8> {
    [&b"\x8a\x08"[..], &number.to_le_bytes()].concat()
}

/// A tuple of integers.
pub(crate) fn ints(numbers: &[i64]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|&number| int(number));
    [&b"("[..], &numbers.collect::<Vec<u8>>(), b"t"].concat()
}

/// A storage of elements of a class.
pub(crate) fn storage(class: &str, key: &str, len: i64) -> Vec<u8> {
    let class = format!("ctorch\n{class}\n");
    let parts =
        [&b"("[..], &text("storage"), class.as_bytes(), &text(key), &text("cpu"), &int(len)];
    [&parts.concat(), &b"tQ"[..]].concat()
}

/// A tensor of a storage.
pub(crate) fn tensor(storage: &[u8], offset: i64, size: &[i64], stride: &[i64]) -> Vec<u8> {
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n(",
        storage,
        &int(offset),
        &ints(size),
        &ints(stride),
        b"\x89ccollections\nOrderedDict\n)RtR",
    ]
    .concat()
}

/// A dictionary of one entry.
pub(crate) fn dict(name: &str, value: &[u8]) -> Vec<u8> {
    [&b"}"[..], &text(name), value, b"s"].concat()
}
