//! Any bytes as a file of NumPy.

use std::ops::ControlFlow;

use ggmill_core::{GgmlType, Shape};
use ggmill_pipeline::formats::{Numpy, extract_npy};
use ggmill_pipeline::{Checkpoint as _, RunOptions};

use crate::allocations::bounded;
use crate::scratch::scratch;
use crate::tensors::{read_all, same};

/// Opens the bytes; an array that opens is equal after writing and reading it.
pub fn npy(data: &[u8]) {
    let blocks = (GgmlType::Q8_0, Shape::new(&[32, 2]).expect("small"));
    let open = |name: &str, bytes: &[u8]| Numpy::open(scratch(name, bytes), "a", |_| Some(blocks));
    let Ok(file) = bounded(data.len(), 1 << 20, 64, || open("input.npy", data)) else { return };
    read_all(&file);
    if file.tensors()[0].shape.elements() == 0 {
        return;
    }
    let written =
        extract_npy(&file, 0, true, Vec::new(), &RunOptions::with_threads(1), &mut |_| {
            ControlFlow::Continue(())
        })
        .expect("an array becomes one");
    assert!(
        same(&file, &open("again.npy", &written).expect("what is written is read")),
        "the same array"
    );
}
