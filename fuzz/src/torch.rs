//! Any bytes as a PyTorch file, as its pickle, or as a file of llama2.c.

use ggmill_pipeline::formats::{CheckpointDirectory, TorchFile};

use crate::allocations::bounded;
use crate::scratch::scratch;
use crate::tensors::read_all;

/// Opens the bytes, as a file and as the pickle of an archive with one storage; a file that opens
/// is read.
pub fn torch(data: &[u8]) {
    open(data);
    let path = scratch("model.bin", data);
    let whole = bounded(data.len(), 1 << 20, 400, || CheckpointDirectory::open(&path));
    if let Ok(checkpoint) = whole {
        read_all(&checkpoint);
    }
    if !data.starts_with(b"PK") {
        let data = &data[..data.len().min(1 << 20)];
        open(&archive(&[("x/data.pkl", data), ("x/data/0", &[1; 256])]));
    }
}

fn open(data: &[u8]) {
    let path = scratch("input.pt", data);
    let Ok(file) = bounded(data.len(), 1 << 20, 200, || TorchFile::open(&path)) else { return };
    bounded(0, 8 << 20, 0, || read_all(&file));
}

/// Returns a zip archive with uncompressed entries.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    let short = |number: usize| u32::try_from(number).expect("small").to_le_bytes();
    for (name, data) in entries {
        let offset = short(out.len());
        let name_len = u16::try_from(name.len()).expect("short").to_le_bytes();
        let size = short(data.len());
        let numbers = [&[0; 12][..], &size, &size, &name_len, &[0; 2]].concat();
        out.extend([&b"PK\x03\x04\x14\0"[..], &numbers, name.as_bytes(), data].concat());
        let head = [&b"PK\x01\x02\x14\0\x14\0"[..], &numbers, &[0; 10], &offset];
        directory.extend([&head.concat()[..], name.as_bytes()].concat());
    }
    let count = u16::try_from(entries.len()).expect("few").to_le_bytes();
    let start = short(out.len());
    let end = [b"PK\x05\x06\0\0\0\0", &count[..], &count, &short(directory.len()), &start, &[0; 2]];
    [out, directory, end.concat()].concat()
}
