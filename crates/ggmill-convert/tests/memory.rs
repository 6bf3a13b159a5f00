//! Memory stays bounded, whatever the size of the model.

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use ggmill_arch::Architecture;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, GgmlType, Shape, Sink};
use ggmill_pipeline::{Checkpoint, Result, RunOptions, SourceTensor, WithConfig, run};
use serde_json::json;

/// Counts the allocated bytes of all threads.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator that counts is unsafe by its signature")]
// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(
            NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(),
            Ordering::Relaxed,
        );
        // SAFETY: the caller guarantees the same conditions.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees the same conditions.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A checkpoint that needs no memory: every element is zero.
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
fn a_large_tensor_needs_little_memory() {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "vocab_size": 65536, "num_hidden_layers": 0, "hidden_size": 1024, "intermediate_size": 32,
        "num_attention_heads": 8, "tie_word_embeddings": true,
    });
    let tensor = |name: &str, shape: &[u64]| {
        SourceTensor::new(name, GgmlType::F32, Shape::new(shape).unwrap())
    };
    let tensors = vec![
        tensor("model.embed_tokens.weight", &[1024, 65536]),
        tensor("model.norm.weight", &[1024]),
    ];
    let checkpoint = WithConfig::new(Zeros(tensors), config);
    let llama = Architecture::builtin("llama").unwrap();
    let plan = convert(&checkpoint, llama, &ConvertOptions::new(FileType::F16))
        .unwrap()
        .plan(&checkpoint)
        .unwrap();

    let before = NOW.load(Ordering::Relaxed);
    let written = run(&plan, &checkpoint, Count(0), &RunOptions::with_threads(2), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
    .0;
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    assert_eq!(written, plan.layout().total_len());
    // 256 MiB of weights were converted. This is a separate test binary, so that no other test is
    // counted.
    assert!(peak < 96 << 20, "{peak} bytes at once");
}
