//! Any bytes as a model file from before GGUF.

use std::ops::ControlFlow;

use ggmill_convert::{LegacyOptions, convert_legacy};
use ggmill_core::Header;
use ggmill_pipeline::formats::Legacy;
use ggmill_pipeline::{Checkpoint as _, RunOptions, run};

use crate::allocations::bounded;
use crate::scratch::scratch;
use crate::tensors::read_all;

/// Opens the bytes; the converted model opens and has the stated blocks.
pub fn legacy(data: &[u8]) {
    let path = scratch("input.bin", data);
    // An empty token takes four bytes of the file.
    let Ok(file) = bounded(data.len(), 1 << 20, 200, || Legacy::open(&path)) else { return };
    for number in 0..file.tensors().len() {
        let (start, size) = file.place(number).expect("a place for each tensor");
        assert!(start + size <= data.len() as u64, "within the file");
    }
    read_all(&file);
    let Ok(recipe) = convert_legacy(&file, &LegacyOptions::default()) else { return };
    let Ok(plan) = recipe.plan(&file) else { return };
    let Ok(made) =
        run(&plan, &file, Vec::new(), &RunOptions::default(), &mut |_| ControlFlow::Continue(()))
    else {
        return;
    };
    let made = Header::parse(made).expect("what is written is read");
    let blocks = made.metadata().u32("llama.block_count").expect("a number of blocks");
    let has = |block: u32| made.tensor(format!("blk.{block}.attn_q.weight")).is_ok();
    assert!(made.tensors().is_empty() || (0..blocks).all(has), "{blocks} blocks");
}
