//! Quantized checkpoints: any `quantization_config` over packed tensors of any shape.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use ggmill_arch::Architecture;
use ggmill_convert::{ConvertOptions, convert};
use ggmill_core::{FileType, GgmlType, Shape};
use ggmill_pipeline::{Checkpoint, Pretrained, Result, RunOptions, SideFiles, SourceTensor, run};
use serde_json::Value;

/// Limit of the elements of all packed tensors.
const MOST_ELEMENTS: u64 = 1 << 14;

/// Types of safetensors, and the corresponding types here.
const TYPES: [(&str, GgmlType, Option<&str>); 9] = [
    ("F32", GgmlType::F32, None),
    ("F16", GgmlType::F16, None),
    ("BF16", GgmlType::BF16, None),
    ("I64", GgmlType::I64, None),
    ("I32", GgmlType::I32, None),
    ("I8", GgmlType::I8, None),
    ("U8", GgmlType::I8, Some("U8")),
    ("F8_E4M3", GgmlType::I8, Some("F8_E4M3")),
    ("F8_E8M0", GgmlType::I8, Some("F8_E8M0")),
];

/// Tensors whose bytes repeat those of the input.
#[derive(Debug)]
struct Given {
    config: Value,
    tensors: Vec<SourceTensor>,
    bytes: Vec<Vec<u8>>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Checkpoint for Given {
    fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    fn read(&self, number: usize, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = &self.bytes[number];
        for (place, out) in (usize::try_from(offset).expect("small")..).zip(out) {
            *out = bytes[place % bytes.len()];
        }
        Ok(())
    }
}

impl Pretrained for Given {
    fn config(&self) -> &Value {
        &self.config
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn side_files(&self) -> &dyn SideFiles {
        &self.files
    }
}

/// Converts a checkpoint of these tensors. The tensors that `packed` in the configuration has are
/// replaced by its parts: `{"NAME": ["TYPE", [SHAPE], [BYTES]]}`, shapes in stored order, bytes
/// repeated. The result is a file or an error.
pub(crate) fn packed(config: Value, architecture: &Architecture, unpacked: Vec<SourceTensor>) {
    let Some(given) = config["packed"].as_object() else { return };
    let bases: BTreeSet<&str> =
        given.keys().filter_map(|name| name.rsplit_once('.')).map(|(base, _)| base).collect();
    let (mut tensors, mut bytes, mut elements) = (Vec::new(), Vec::new(), 0u64);
    for tensor in unpacked {
        let name = String::from_utf8_lossy(&tensor.name);
        if !bases.contains(name.strip_suffix(".weight").unwrap_or(&name)) {
            tensors.push(tensor);
            bytes.push(vec![0]);
        }
    }
    for (name, value) in given {
        let Some((_, ggml_type, stored)) = TYPES.iter().find(|known| value[0] == known.0).copied()
        else {
            return;
        };
        let list = |value: &Value| -> Option<Vec<u64>> {
            value.as_array()?.iter().map(Value::as_u64).collect()
        };
        let Some(shape) = list(&value[1]).and_then(|shape| Shape::new(&shape).ok()) else { return };
        elements = elements.saturating_add(shape.elements());
        let own: Vec<u8> =
            list(&value[2]).into_iter().flatten().map(|byte| byte.to_le_bytes()[0]).collect();
        let tensor = SourceTensor::new(name.as_bytes(), ggml_type, shape);
        tensors.push(match stored {
            Some(stored) => tensor.with_stored_type(stored),
            None => tensor,
        });
        bytes.push(if own.is_empty() { vec![0x55, 0x3a] } else { own });
    }
    if elements > MOST_ELEMENTS {
        return;
    }
    let checkpoint = Given { config, tensors, bytes, files: BTreeMap::new() };
    let own = ggmill_convert::own_type(&checkpoint);
    for file_type in [own, FileType::Q8_0] {
        let options = ConvertOptions::new(file_type);
        let Ok(recipe) = convert(&checkpoint, architecture, &options) else { continue };
        let plan = recipe.plan(&checkpoint).expect("a recipe that was made is planned");
        // Values that a type cannot represent are an error.
        let _ = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        });
    }
}
