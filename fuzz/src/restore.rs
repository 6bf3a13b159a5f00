//! Any GGUF file, converted back to a checkpoint.

use ggmill_arch::Architecture;
use ggmill_convert::{RestoreOptions, restore_checkpoint};
use ggmill_core::{GgmlType, Model};
use ggmill_pipeline::{Checkpoint as _, Derived, GgufCheckpoint, ShardLimit};

/// The largest number of elements of a tensor that is computed.
const ELEMENTS: u64 = 1 << 10;

/// Converts the file back with the description of its architecture, and computes one of its first
/// tensors. The sum of the bytes selects the type and the vocabulary.
pub fn restore(data: &[u8]) {
    let Ok(model) = Model::open(data.to_vec()) else { return };
    let Ok(checkpoint) = GgufCheckpoint::new(model) else { return };
    let Ok(name) = checkpoint.metadata().str("general.architecture") else { return };
    let Some(architecture) = Architecture::builtin(name) else { return };
    let mut options = RestoreOptions::default();
    let chosen = data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    options.ggml_type = (chosen & 1 == 0).then_some(GgmlType::F32);
    options.no_vocab = chosen & 2 == 0;
    let Ok(restored) = restore_checkpoint(&checkpoint, architecture, &options) else { return };
    assert!(restored.config.is_object());
    let shards = restored.shards(ShardLimit::Bytes(1 << 10));
    let count: usize = shards.iter().map(|(_, tensors)| tensors.len()).sum();
    assert_eq!(count, restored.tensors.len());
    let derived = Derived::new(&checkpoint, restored.tensors).expect("tensors of the file");
    for (number, tensor) in derived.tensors().iter().enumerate().take(4) {
        assert!(std::str::from_utf8(&tensor.name).is_ok());
        let size = tensor.shape.elements().min(ELEMENTS);
        let bytes = tensor.ggml_type.layout().and_then(|layout| layout.bytes_for(size));
        let mut bytes = vec![0; usize::try_from(bytes.unwrap_or(0)).unwrap_or(0)];
        // Values that the type cannot represent are refused.
        let _ = derived.read(number, 0, &mut bytes);
    }
}
