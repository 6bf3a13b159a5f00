//! Any configuration: a checkpoint in memory that has the tensors it asks for, some of them packed,
//! converted.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ggmill_arch::{Catalogue, Origin};
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, GgmlType, Gguf};
use ggmill_pipeline::{RunOptions, SourceTensor, run};
use serde_json::Value;

use crate::packed::packed;
use crate::zeros::Zeros;

/// Elements of all tensors of a checkpoint that is converted.
const MOST_ELEMENTS: u64 = 1 << 14;

/// Converts a checkpoint with this configuration, where it is one of an architecture that is known
/// and of few enough weights.
pub fn config(data: &[u8]) {
    let Ok(config) = serde_json::from_slice::<Value>(data) else { return };
    let catalogue = Catalogue::new();
    let Ok(architecture) = catalogue.for_checkpoint(&config) else { return };
    let Ok(resolved) = architecture.resolve(&config) else { return };
    let mut tensors = BTreeMap::new();
    let mut elements = 0u64;
    for tensor in resolved.tensors() {
        let Origin::Checkpoint(sources) = &tensor.origin else { continue };
        for name in sources.first().iter().flat_map(|source| &source.names) {
            elements = elements.saturating_add(tensor.shape.elements());
            tensors.insert(
                name.clone(),
                SourceTensor::new(name.as_bytes(), GgmlType::F32, tensor.shape),
            );
        }
    }
    if elements > MOST_ELEMENTS {
        return;
    }
    if config.get("packed").is_some() {
        return packed(config, architecture, tensors.into_values().collect());
    }
    let checkpoint =
        Zeros { config, tensors: tensors.into_values().collect(), files: BTreeMap::new() };
    let Ok(recipe) = convert(&checkpoint, architecture, &ConvertOptions::new(FileType::F16)) else {
        return;
    };
    let plan = recipe.plan(&checkpoint).expect("a recipe that was made is planned");
    let made = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .expect("zeros fit every type");
    let file = Gguf::parse(made).expect("what is written is read");
    for tensor in file.tensors() {
        let name = tensor.name().to_string();
        assert_eq!(resolved.tensor(&name).map(|spec| spec.shape), Some(*tensor.shape()), "{name}");
    }
}
