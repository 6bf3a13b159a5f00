//! Benchmarks of the reader on the bundled files, to compare versions.

use divan::{Bencher, black_box, counter::BytesCount};
use ggmill_core::{Decoder, Header, Limits};
use ggmill_testdata::{REAL_GGUF, real};

fn main() {
    divan::main();
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(real(name)).expect("a bundled file")
}

/// Parses a file that is in memory.
#[divan::bench(args = REAL_GGUF)]
fn parse(bencher: Bencher<'_, '_>, name: &str) {
    let file = read(name);
    let header_len = Header::parse(file.as_slice()).expect("a good file").header_len();
    bencher
        .counter(BytesCount::new(header_len))
        .bench(|| Header::parse(black_box(file.as_slice())).is_ok());
}

/// Decodes a file in pieces of 64 KiB.
#[divan::bench(args = REAL_GGUF)]
fn decode(bencher: Bencher<'_, '_>, name: &str) {
    let file = read(name);
    bencher.bench(|| {
        let mut decoder = Decoder::new(Some(file.len() as u64), &Limits::default());
        for piece in file.chunks(64 << 10) {
            if decoder.feed(black_box(piece)).is_err() {
                break;
            }
        }
        decoder.finish().is_ok()
    });
}

/// Every string of every array, decoded.
#[divan::bench(args = REAL_GGUF)]
fn strings(bencher: Bencher<'_, '_>, name: &str) {
    let file = read(name);
    let model = Header::parse(file.as_slice()).expect("a good file");
    bencher.bench(|| {
        let arrays = model.metadata().iter().filter_map(|pair| pair.value().ok()?.as_array());
        arrays
            .filter_map(|array| array.strings())
            .flatten()
            .flatten()
            .map(|text| text.len() as u64)
            .sum::<u64>()
    });
}
