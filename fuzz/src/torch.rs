//! Any bytes as a PyTorch file, or as the pickle of one.

use ggmill_formats::TorchFile;
use ggmill_pipeline::Checkpoint as _;

use crate::allocations::bounded;
use crate::scratch::scratch;

/// Bytes that are read of each tensor, which may be larger than its storage.
const READ: u64 = 1 << 16;

/// Opens the bytes, once as they are and once as the pickle of an archive with a storage; what
/// opens is read.
pub fn torch(data: &[u8]) {
    open(data);
    if !data.starts_with(b"PK") {
        let data = &data[..data.len().min(1 << 20)];
        open(&archive(&[("x/data.pkl", data), ("x/data/0", &[1; 256])]));
    }
}

fn open(data: &[u8]) {
    let path = scratch("input.pt", data);
    let Ok(file) = bounded(data.len(), 1 << 20, 200, || TorchFile::open(&path)) else { return };
    for (number, tensor) in file.tensors().iter().enumerate() {
        let layout = tensor.ggml_type.layout().expect("a type with a size");
        let size = layout.bytes_for(tensor.shape.elements()).expect("checked when it was opened");
        let mut bytes = vec![0; usize::try_from(size.min(READ)).expect("few")];
        bounded(bytes.len(), 3 << 20, 2, || file.read(number, 0, &mut bytes))
            .expect("what is listed can be read");
        let end = size - bytes.len() as u64;
        file.read(number, end, &mut bytes).expect("to its end");
    }
}

/// A zip archive of entries that are stored as they are.
pub(crate) fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let short = |number: usize| u32::try_from(number).expect("small").to_le_bytes();
    for (name, data) in entries {
        let offset = short(out.len());
        let name_len = u16::try_from(name.len()).expect("short").to_le_bytes();
        let size = short(data.len());
        let numbers = [&[0; 12], &size[..], &size, &name_len, &[0; 2]].concat();
        out.extend([b"PK\x03\x04\x14\0", &*numbers, name.as_bytes(), data].concat());
        let head = [b"PK\x01\x02\x14\0\x14\0", &*numbers, &[0; 10], &offset];
        directory.extend([&head.concat(), name.as_bytes()].concat());
    }
    let count = u16::try_from(entries.len()).expect("few").to_le_bytes();
    let start = short(out.len());
    let end = [b"PK\x05\x06\0\0\0\0", &count[..], &count, &short(directory.len()), &start, &[0; 2]];
    [out, directory, end.concat()].concat()
}
