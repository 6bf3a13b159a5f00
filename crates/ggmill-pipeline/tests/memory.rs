//! Memory stays bounded, whatever is composed of how much.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use ggmill_core::{GgmlType, MetadataBuf, Shape, Sink};
use ggmill_pipeline::{
    Checkpoint, Encoding, Expression, Recipe, RecipeTensor, Result, RunOptions, SourceTensor, run,
};

/// Counts what is allocated by every thread of this test program.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator that counts is unsafe by its signature")]
// SAFETY: every call is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
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

/// Tensors that take no room: every number is zero.
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

#[test]
fn compositions_of_large_tensors_take_little_memory() -> Result<()> {
    let shape = |dimensions: &[u64]| Shape::new(dimensions).unwrap();
    let tensor = |name: &str, ggml_type, dimensions: &[u64]| {
        SourceTensor::new(name, ggml_type, shape(dimensions))
    };
    let source = Zeros(vec![
        tensor("half", GgmlType::F16, &[4096, 24_576]),
        tensor("blocks", GgmlType::Q4_K, &[4096, 24_576]),
        tensor("a", GgmlType::F32, &[4096, 16]),
        tensor("b", GgmlType::F32, &[16, 24_576]),
    ]);
    let [half, blocks, a, b] = [0, 1, 2, 3].map(|number| Expression::tensor(&source, number));
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
        ("centered", half.center()?.resize(1, 0, 8)?.encode(GgmlType::BF16, Encoding::finite())?),
    ];
    for (name, expression) in compositions {
        let bytes = expression.size();
        let plan = Recipe::new(MetadataBuf::new(), vec![RecipeTensor::new(name, expression)])
            .plan(&source)?;
        let before = NOW.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let written =
            run(&plan, &source, Count(0), &RunOptions::on(2), &mut |_| ControlFlow::Continue(()))?
                .0;
        let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
        assert_eq!(written, plan.layout().total_len());
        // A hundred million elements went through. A program of its own, so that nothing else is
        // counted.
        assert!(peak < 96 << 20, "{name}: {peak} bytes at once for {bytes}");
    }
    Ok(())
}
