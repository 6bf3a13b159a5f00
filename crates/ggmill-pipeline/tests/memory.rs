//! Peak memory is bounded for any composition and size.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ggmill_core::{GgmlType, MetadataBuf, Shape, Sink};
use ggmill_pipeline::{
    Checkpoint, Encoding, ErrorKind, Expression, Recipe, RecipeTensor, Result, RunOptions,
    SourceTensor, run,
};

/// Counts the allocations of all threads of this test program, and fails allocations above
/// [`LARGEST`].
struct Counting;

/// Limit for a single allocation in bytes.
const LARGEST: usize = 64 << 20;
/// Serializes the tests, because the counters are global.
static ALONE: Mutex<()> = Mutex::new(());

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]
// SAFETY: every call is forwarded to the system allocator unchanged, or returns null.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        PEAK.fetch_max(
            NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(),
            Ordering::Relaxed,
        );
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A source of zeros, which needs no memory.
#[derive(Debug)]
struct Zeros(Vec<SourceTensor>);

impl Checkpoint for Zeros {
    fn tensors(&self) -> &[SourceTensor] {
        &self.0
    }
    fn read(&self, _: usize, _: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        Ok(())
    }
}

struct Count(u64);

impl Sink for Count {
    type Error = Infallible;
    fn append(&mut self, bytes: &[u8]) -> std::result::Result<(), Infallible> {
        self.0 += bytes.len() as u64;
        Ok(())
    }
}

impl ggmill_io::RangeSink for Count {}

fn tensor(name: &str, ggml_type: GgmlType, dimensions: &[u64]) -> SourceTensor {
    SourceTensor::new(name, ggml_type, Shape::new(dimensions).unwrap())
}

#[test]
fn compositions_of_large_tensors_take_little_memory() -> Result<()> {
    let _alone = ALONE.lock().unwrap();
    let source = Zeros(vec![
        tensor("half", GgmlType::F16, &[4096, 24_576]),
        tensor("blocks", GgmlType::Q4_K, &[4096, 24_576]),
        tensor("a", GgmlType::F32, &[4096, 16]),
        tensor("b", GgmlType::F32, &[16, 24_576]),
        tensor("many columns", GgmlType::F32, &[64, 1 << 20]),
        tensor("their weights", GgmlType::F32, &[1 << 20, 2]),
    ]);
    let [half, blocks, a, b, columns, weights] =
        [0, 1, 2, 3, 4, 5].map(|number| Expression::tensor(&source, number));
    let (half, blocks) = (half?, blocks?);
    let changed = half.within(1, 1000, 5000, |part| part.mul(2.0))?.product(&half.permute(64)?)?;
    let compositions = [
        ("turned", half.transpose()?),
        ("blocks turned", blocks.transpose()?.encode(GgmlType::Q8_0, Encoding::finite())?),
        (
            "merged",
            blocks.sum(&a?.matmul(&b?)?.mul(0.5)?)?.encode(GgmlType::Q8_0, Encoding::finite())?,
        ),
        ("changed", changed.encode(GgmlType::Q8_0, Encoding::finite())?),
        ("product over much", columns?.matmul(&weights?)?),
        ("centered", half.center()?.resize(1, 0, 8)?.encode(GgmlType::BF16, Encoding::finite())?),
    ];
    for (name, expression) in compositions {
        let bytes = expression.size();
        let plan = Recipe::new(MetadataBuf::new(), vec![RecipeTensor::new(name, expression)])
            .plan(&source)?;
        let before = NOW.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let written = run(&plan, &source, Count(0), &RunOptions::with_threads(2), &mut |_| {
            ControlFlow::Continue(())
        })?
        .0;
        let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
        assert_eq!(written, plan.layout().total_len());
        // A hundred million elements were processed. This is a separate test program, so that
        // nothing else is counted.
        assert!(peak < 96 << 20, "{name}: {peak} bytes at once for {bytes}");
    }
    Ok(())
}

/// A row of billions of elements is an error, not an abort.
#[test]
fn rows_longer_than_memory_are_errors() -> Result<()> {
    let _alone = ALONE.lock().unwrap();
    let source = Zeros(vec![
        tensor("long", GgmlType::F16, &[1 << 32, 2]),
        // Fits in memory quantized, but not as `f32`.
        tensor("half as long", GgmlType::F16, &[1 << 25, 2]),
        tensor("blocks", GgmlType::Q4_0, &[1 << 32, 2]),
    ]);
    let [long, half, blocks] = [0, 1, 2].map(|number| Expression::tensor(&source, number));
    let (long, half, blocks) = (long?, half?, blocks?);
    let encoded = |this: &Expression| this.encode(GgmlType::Q4_0, Encoding::finite());
    for (name, expression) in [
        ("long", encoded(&long)?),
        ("half as long", encoded(&half)?),
        ("blocks", blocks.encode(GgmlType::Q8_0, Encoding::finite())?),
        ("blocks as they are", encoded(&blocks)?),
        ("lengths of columns", long.normalize_columns()?),
    ] {
        let plan = Recipe::new(MetadataBuf::new(), vec![RecipeTensor::new(name, expression)])
            .plan(&source)?;
        let options = RunOptions::with_threads(1);
        let made =
            run(&plan, &source, Count(0), &options, &mut |_| ControlFlow::Continue(())).map(drop);
        let error = made.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{name}: {error}");
        assert!(error.to_string().starts_with(&format!("tensor {name:?}: not enough memory for")));
    }
    Ok(())
}
