//! Laws of every source of tensors.

use ggmill_pipeline::Checkpoint;

/// Larger tensors are read in part.
const READ: u64 = 1 << 16;

/// Reads every tensor: it has exactly the bytes that its type and shape state, and reading in
/// pieces gives the same bytes.
pub(crate) fn read_all(checkpoint: &dyn Checkpoint) {
    for (number, tensor) in checkpoint.tensors().iter().enumerate() {
        let size =
            tensor.ggml_type.layout().and_then(|layout| layout.bytes_for(tensor.shape.elements()));
        let size =
            size.unwrap_or_else(|| panic!("{}: whole blocks of a known type", tensor.name()));
        let len = usize::try_from(size.min(READ)).expect("small");
        let mut whole = vec![0; len];
        let Ok(()) = checkpoint.read(number, 0, &mut whole) else { continue };
        let (mut front, mut back) = (vec![0; len / 3], vec![0; len - len / 3]);
        checkpoint.read(number, 0, &mut front).expect("the front of what was read");
        checkpoint.read(number, front.len() as u64, &mut back).expect("the back of what was read");
        assert!([front, back].concat() == whole, "{}: the same in pieces", tensor.name());
        assert!(
            checkpoint.read(number, size, &mut [0]).is_err(),
            "{}: nothing beyond the end",
            tensor.name()
        );
    }
    assert!(checkpoint.read(checkpoint.tensors().len(), 0, &mut []).is_err(), "no such tensor");
}

/// Returns `true` if two sources have the same tensors with the same bytes.
pub(crate) fn same(a: &dyn Checkpoint, b: &dyn Checkpoint) -> bool {
    let bytes = |checkpoint: &dyn Checkpoint, number: usize| {
        let tensor = &checkpoint.tensors()[number];
        let size = tensor
            .ggml_type
            .layout()
            .and_then(|layout| layout.bytes_for(tensor.shape.elements()))?;
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        checkpoint.read(number, 0, &mut bytes).ok()?;
        Some(bytes)
    };
    a.tensors() == b.tensors()
        && (0..a.tensors().len())
            .all(|number| bytes(a, number).is_some_and(|found| Some(found) == bytes(b, number)))
}
