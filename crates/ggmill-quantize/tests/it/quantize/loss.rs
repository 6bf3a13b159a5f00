//! What a run lost, of the tensors that have one tensor to be compared with.

use std::ops::ControlFlow;

use ggmill_core::{GgmlType, MetadataBuf, Shape};
use ggmill_pipeline::{
    Encoding, Expression, GgufCheckpoint, MemorySource, Recipe, RecipeTensor, RunOptions, run,
};
use ggmill_quantize::loss;

/// A sum of two tensors is none that was there before: it is not measured, and named.
#[test]
fn tensors_made_of_several_are_named() {
    let mut source = MemorySource::new();
    let shape = Shape::new(&[32, 2]).unwrap();
    for name in ["a", "b"] {
        let bytes: Vec<u8> = (0..64u8).flat_map(|place| f32::from(place).to_le_bytes()).collect();
        source.add(name, GgmlType::F32, shape, bytes).unwrap();
    }
    let [a, b] = ["a", "b"].map(|name| Expression::named(&source, name).unwrap());
    let encoded = |this: &Expression| this.encode(GgmlType::Q8_0, Encoding::finite()).unwrap();
    let numbers = Expression::integers(Shape::new(&[2]).unwrap(), vec![1, 2]).unwrap();
    let tensors = vec![
        RecipeTensor::new("sum", encoded(&a.sum(&b).unwrap())),
        RecipeTensor::new("numbers", numbers),
        RecipeTensor::new("a", encoded(&a)),
    ];
    let plan = Recipe::new(MetadataBuf::new(), tensors).plan(&source).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made.gguf");
    let options = RunOptions::with_threads(1);
    let file =
        run(&plan, &source, Vec::new(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
    std::fs::write(&path, file).unwrap();
    let written = GgufCheckpoint::open(&path).unwrap();
    let losses =
        loss(&[&plan], &source, &written, None, &options, &mut |_| ControlFlow::Continue(()))
            .unwrap();
    assert_eq!(losses.unmeasured, [b"sum"]);
    let names: Vec<&[u8]> = losses.tensors.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, [b"a"]);
    assert!(losses.tensors[0].rmse > 0.0);
}
