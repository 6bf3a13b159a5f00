//! Counts the allocations of opening a file. A separate binary, because the allocator is global.

#![allow(clippy::unwrap_used, reason = "a test stops where something is missing")]
#![expect(unsafe_code, reason = "the one way to count allocations is to be the allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;

use ggmill_core::{Decoder, ErrorKind, Header, Limits, Progress, ValueType};
use ggmill_testdata::bytes::FileBytes;
use ggmill_testdata::{corpus, every_gguf};

/// The system's allocator, with counts for each thread.
struct Counting;

/// The number of allocations, the allocated bytes, and their peak.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    allocations: u64,
    held: i64,
    peak: i64,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { allocations: 0, held: 0, peak: 0 }) };
    /// The largest block that can be allocated.
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn too_large(size: usize) -> bool {
    LARGEST.try_with(|largest| size > largest.get()).unwrap_or(false)
}

fn note(allocations: u64, bytes: i64) {
    // A thread that is ending has no counts any more.
    let _ = COUNT.try_with(|count| {
        let Count { allocations: before, held, peak } = count.get();
        let held = held + bytes;
        count.set(Count { allocations: before + allocations, held, peak: peak.max(held) });
    });
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting does not access the
// caller's memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if too_large(layout.size()) {
            return std::ptr::null_mut();
        }
        note(1, signed(layout.size()));
        // SAFETY: the caller fulfills the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, -signed(layout.size()));
        // SAFETY: the caller fulfills the contract of `dealloc`, and `pointer` came from the system's
        // allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if too_large(new_size) {
            return std::ptr::null_mut();
        }
        // Both blocks can exist at the same time: count the new one before the old one is gone.
        note(1, signed(new_size));
        note(0, -signed(layout.size()));
        // SAFETY: the caller fulfills the contract of `realloc`, and `pointer` came from the system's
        // allocator.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the result of `work`, the number of its allocations, and the peak of its allocated bytes.
fn counted<T>(work: impl FnOnce() -> T) -> (T, u64, u64) {
    let before = COUNT.get();
    COUNT.set(Count { peak: before.held, ..before });
    let result = work();
    let after = COUNT.get();
    (
        result,
        after.allocations - before.allocations,
        u64::try_from(after.peak - before.held).unwrap_or(0),
    )
}

/// Creates a file with a vocabulary of `tokens` tokens, their scores and types.
fn vocabulary(tokens: u32) -> Vec<u8> {
    let mut file = FileBytes::v3(0, 4);
    file.pair("general.architecture", &"llama".into());
    file.string("tokenizer.ggml.tokens")
        .u32(ValueType::ARRAY.0)
        .array(ValueType::STRING.0, tokens.into());
    for number in 0..tokens {
        file.string(number.to_string());
    }
    for (key, element) in
        [("tokenizer.ggml.scores", ValueType::F32), ("tokenizer.ggml.token_type", ValueType::I32)]
    {
        file.string(key).u32(ValueType::ARRAY.0).array(element.0, tokens.into());
        for number in 0..tokens {
            file.u32(number);
        }
    }
    file.into_bytes()
}

#[test]
fn opening_a_vocabulary_copies_nothing() {
    let file = vocabulary(500_000);
    let (model, allocations, peak) = counted(|| Header::parse(file.as_slice()).unwrap());
    assert!(peak < 4096, "{peak} bytes");
    assert!(allocations < 20, "{allocations} allocations");

    let (strings, allocations, peak) = counted(|| {
        let tokens = model.metadata().array("tokenizer.ggml.tokens").unwrap();
        let strings = tokens
            .strings()
            .unwrap()
            .filter(|token| token.as_ref().is_ok_and(|token| token.to_str().is_ok()))
            .count();
        let scores =
            model.metadata().array("tokenizer.ggml.scores").unwrap().floats().unwrap().count();
        let types = model
            .metadata()
            .array("tokenizer.ggml.token_type")
            .unwrap()
            .integers()
            .unwrap()
            .count();
        (strings, scores, types, tokens.get(499_999).unwrap().unwrap().as_str().map(str::len))
    });
    assert_eq!(strings, (500_000, 500_000, 500_000, Some(6)));
    assert_eq!((allocations, peak), (0, 0), "a walk allocates nothing");
}

#[test]
fn opening_a_real_file_needs_less_than_a_mebibyte() {
    for path in every_gguf() {
        let bytes = fs::read(&path).unwrap();
        let (header, allocations, peak) = counted(|| Header::parse(&bytes).unwrap());
        let entries = header.metadata().len() + header.tensors().len();
        assert!(peak < 1 << 20, "{}: {peak} bytes", path.display());
        assert!(
            allocations < 40,
            "{}: {allocations} allocations for {entries} entries",
            path.display()
        );
    }
}

/// The decoder has little memory besides the header.
#[test]
fn a_decoder_holds_the_header_once() {
    let file = vocabulary(100_000);
    let ((), _, peak) = counted(|| {
        let mut decoder = Decoder::new(Some(file.len() as u64), &Limits::default());
        for piece in file.chunks(64 * 1024) {
            if decoder.feed(piece).unwrap() == Progress::Complete {
                break;
            }
        }
        decoder.finish().unwrap();
    });
    // The peak is while a vector is reallocated: its old capacity and twice that.
    assert!(peak < 4 * file.len() as u64, "{peak} bytes for a header of {}", file.len());
}

#[test]
fn hostile_counts_do_not_allocate_more_than_the_file_can_hold() {
    for case in corpus::all() {
        let (_, _, peak) = counted(|| {
            Header::parse_with(case.bytes.as_slice(), &case.limits)
                .map_err(|error| error.to_string())
        });
        let most = 4096 + 32 * case.bytes.len() as u64;
        assert!(peak <= most, "{}: {peak} bytes for a file of {}", case.name, case.bytes.len());
    }
}

/// With the smallest possible entries and tensor infos, the memory of each is a small multiple of its
/// bytes in the file.
#[test]
fn memory_of_small_entries_is_a_small_multiple() {
    for version in [1, 3] {
        let mut pairs = FileBytes::new(version, ggmill_core::Endian::Little);
        pairs.head(0, 100_000);
        let mut tensors = FileBytes::new(version, ggmill_core::Endian::Little);
        tensors.head(100_000, 0);
        for _ in 0..100_000 {
            pairs.length(0).u32(0).u8(0);
            tensors.length(0).u32(0).u32(24).u64(0);
        }
        let pairs = pairs.into_bytes();
        let (opened, _, peak) = counted(|| Header::parse(pairs.as_slice()).map(|_| ()));
        assert!(
            opened.is_ok() && peak < 32 * pairs.len() as u64,
            "version {version}: {peak} bytes for {}",
            pairs.len()
        );
        let tensors = tensors.into_bytes();
        let (opened, _, peak) = counted(|| Header::parse(tensors.as_slice()).map(|_| ()));
        assert!(
            opened.is_err() && peak < 32 * tensors.len() as u64,
            "version {version}: {peak} bytes for {}",
            tensors.len()
        );
    }
}

/// Deeply nested arrays, with a limit that allows them, need heap but no stack.
#[test]
fn nesting_uses_heap_and_not_stack() {
    const DEPTH: u32 = 200_000;
    let mut file = FileBytes::v3(0, 1);
    file.string("deep").u32(ValueType::ARRAY.0);
    for _ in 1..DEPTH {
        file.array(ValueType::ARRAY.0, 1);
    }
    file.array(ValueType::U8.0, 0);
    let file = file.into_bytes();
    let limits = Limits::default().with_array_depth(DEPTH);
    let (opened, _, peak) = counted(|| Header::parse_with(&file, &limits).map(|_| ()));
    assert!(opened.is_ok() && peak < 8 * file.len() as u64, "{peak} bytes for {}", file.len());
    let (refused, _, peak) = counted(|| Header::parse(&file).map(|_| ()));
    assert!(refused.is_err() && peak < 4096, "{peak} bytes");
}

/// A failed allocation is an error and does not abort the process.
#[test]
fn a_failed_allocation_is_an_error() {
    let mut directory = FileBytes::v3(20_000, 0);
    for number in 0..20_000u64 {
        directory.string("t").u32(1).u64(1).u32(0).u64(32 * number);
    }
    let mut file = directory.into_bytes();
    file.resize(file.len() + 32 * 20_001, 0);
    for (file, least) in [(file, 3_000_000), (vocabulary(100_000), 0)] {
        for shift in 9..26 {
            LARGEST.set(1 << shift);
            let parsed = Header::parse(&file).map(|_| ());
            let mut decoder = Decoder::new(None, &Limits::default());
            let mut fed = Ok(Progress::Needs(0));
            for piece in file.chunks(64 * 1024) {
                if fed.is_ok() {
                    fed = decoder.feed(piece);
                }
            }
            let answer = fed.and_then(|_| decoder.finish()).map(|_| ());
            LARGEST.set(usize::MAX);
            assert_eq!(
                parsed.is_ok(),
                1 << shift > least,
                "{parsed:?} with blocks of 2^{shift} bytes"
            );
            assert!(answer.is_ok() || shift < 24, "{answer:?} with blocks of 2^{shift} bytes");
            for error in [parsed.err(), answer.err()].into_iter().flatten() {
                assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
            }
        }
    }
}
