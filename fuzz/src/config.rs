//! Any configuration: converts a checkpoint with the tensors that it asks for, some of them packed,
//! and an adapter of all of them, with any configuration after a zero byte.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ggmill_arch::{Architecture, Catalogue, Origin};
use ggmill_convert::{ConvertOptions, convert, convert_lora};
use ggmill_core::{FileType, GgmlType, Header, Shape};
use ggmill_pipeline::{RunOptions, SourceTensor, run};
use serde_json::Value;

use crate::packed::packed;
use crate::zeros::Zeros;

/// Limit of the elements of all tensors of a checkpoint.
const MOST_ELEMENTS: u64 = 1 << 14;

/// Converts a checkpoint with this configuration, and its projector, if the architecture is known
/// and the checkpoint small enough.
pub fn config(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let config = serde_json::from_slice::<Value>(parts.next().unwrap_or_default());
    let Ok(config) = config else { return };
    let of_adapter = serde_json::from_slice::<Value>(parts.next().unwrap_or_default());
    let of_adapter = of_adapter.unwrap_or_else(|_| serde_json::json!({ "lora_alpha": 1 }));
    let catalogue = Catalogue::new();
    let found = [catalogue.for_checkpoint(&config), catalogue.for_projector(&config)];
    for architecture in found.into_iter().flatten() {
        converted(&config, &of_adapter, architecture);
    }
}

/// Converts a checkpoint of an architecture with this configuration.
fn converted(config: &Value, of_adapter: &Value, architecture: &Architecture) {
    let Ok(resolved) = architecture.resolve(config) else { return };
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
    let tensors = tensors.into_values().collect();
    if config.get("packed").is_some() {
        return packed(config.clone(), architecture, tensors);
    }
    let checkpoint = Zeros { config: config.clone(), tensors, files: BTreeMap::new() };
    if !architecture.is_projector() {
        adapter(&checkpoint, of_adapter.clone(), architecture);
    }
    let Ok(recipe) = convert(&checkpoint, architecture, &ConvertOptions::new(FileType::F16)) else {
        return;
    };
    let plan = recipe.plan(&checkpoint).expect("a recipe that was made is planned");
    let made = run(&plan, &checkpoint, Vec::new(), &RunOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })
    .expect("zeros fit every type");
    let file = Header::parse(made).expect("what is written is read");
    for tensor in file.tensors() {
        let name = tensor.name().to_string();
        assert_eq!(resolved.tensor(&name).map(|spec| spec.shape), Some(*tensor.shape()), "{name}");
    }
}

/// Converts an adapter of every matrix of a checkpoint: the product of its factors has the shape of
/// the weight.
fn adapter(base: &Zeros, config: Value, architecture: &Architecture) {
    let mut tensors = Vec::new();
    for tensor in &base.tensors {
        let name = tensor.name().to_string();
        let (Some(name), &[columns, rows]) =
            (name.strip_suffix(".weight"), tensor.shape.dimensions())
        else {
            continue;
        };
        for (half, dimensions) in [("A", [columns, 2]), ("B", [2, rows])] {
            let shape = Shape::new(&dimensions).expect("the shape of a factor");
            let name = format!("base_model.model.{name}.lora_{half}.weight");
            tensors.push(SourceTensor::new(name, GgmlType::F16, shape));
        }
    }
    let adapter = Zeros { config, tensors, files: BTreeMap::new() };
    let options = ConvertOptions::new(FileType::Q8_0);
    let Ok(recipe) = convert_lora(&adapter, base, architecture, &options) else { return };
    let plan = recipe.plan(&adapter).expect("a recipe that was made is planned");
    let made =
        run(
            &plan,
            &adapter,
            Vec::new(),
            &RunOptions::default(),
            &mut |_| ControlFlow::Continue(()),
        )
        .expect("zeros fit every type");
    let file = Header::parse(made).expect("what is written is read");
    let resolved = architecture.resolve(&base.config).expect("as before");
    for second in file.tensors() {
        let name = second.name().to_string();
        let Some(target) = name.strip_suffix(".lora_b") else { continue };
        let first = file.tensor(format!("{target}.lora_a")).expect("the other factor");
        let (a, b) = (first.shape().dimensions(), second.shape().dimensions());
        let spec = resolved.tensor(target).expect("a tensor of the base").shape;
        if target.ends_with("token_embd.weight") {
            assert_eq!(spec.dimensions(), [b[1], a[1]], "{name}");
        } else {
            assert_eq!(spec.dimensions(), [&a[..1], &b[1..]].concat(), "{name}");
        }
    }
}
