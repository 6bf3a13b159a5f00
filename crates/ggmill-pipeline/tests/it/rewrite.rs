//! A model that is GGUF already, through the same pipeline.

use std::ops::ControlFlow;

use ggmill_pipeline::{GgufCheckpoint, Recipe, RunOptions, run};
use ggmill_testdata::real;

/// A recipe that changes nothing changes no byte of a canonical file.
#[test]
fn a_copy_is_the_file() {
    for name in
        ["mobilenetv3_3class_v3_fp16.gguf", "ggml-vocab-phi-3.gguf", "ggml-vocab-bert-bge.gguf"]
    {
        let path = real(name);
        let checkpoint = GgufCheckpoint::open(&path).unwrap();
        let plan = Recipe::copy_of(&checkpoint).unwrap().plan(&checkpoint).unwrap();
        let copy = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(copy == std::fs::read(&path).unwrap(), "{name}");
    }
}
