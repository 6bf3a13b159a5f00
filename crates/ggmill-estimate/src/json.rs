//! Estimates as JSON.

use serde::Serialize;
use serde_json::{Value, json};

use crate::estimate::Estimate;
use crate::options::{Options, device_name};

/// The name and version of the JSON of [`document`].
pub const SCHEMA: &str = "ggmill.estimate/1";

/// Returns the JSON document of estimates of a model with several options, as `ggmill estimate --json`
/// writes it (`docs/formats/estimate.md`). All sizes are in bytes.
pub fn document<'a>(
    architecture: Option<&str>,
    cases: impl IntoIterator<Item = (&'a Options, &'a Estimate)>,
) -> impl Serialize {
    let estimates: Vec<Value> =
        cases.into_iter().map(|(options, estimate)| one(options, estimate)).collect();
    json!({ "schema": SCHEMA, "architecture": architecture, "estimates": estimates })
}

fn one(options: &Options, estimate: &Estimate) -> Value {
    let is_computed = estimate.unknown.iter().all(|unknown| unknown.part() != "compute");
    let devices = estimate.devices.iter().enumerate().map(|(number, device)| {
        json!({
            "name": device_name(number),
            "weights": device.weights,
            "context": device.context(),
            "keys": device.keys,
            "values": device.values,
            "states": device.states,
            "output": device.output,
            "compute": is_computed.then_some(device.compute),
            "total": device.total(),
        })
    });
    let unknown = estimate
        .unknown
        .iter()
        .map(|unknown| json!({ "part": unknown.part(), "message": unknown.to_string() }));
    json!({
        "context": estimate.context_length(),
        "trained_context": estimate.trained_context,
        "sequences": options.sequences,
        "key_type": options.key_type.to_string(),
        "value_type": options.value_type.to_string(),
        "flash_attention": estimate.flash_attention,
        "compute_from": estimate.lowered.map(|lowered| if lowered { "graph" } else { "list" }),
        "layers": estimate.layers_on_devices(),
        "layer_count": estimate.layer_count(),
        "devices": devices.collect::<Vec<_>>(),
        "total": estimate.total(),
        "unknown": unknown.collect::<Vec<_>>(),
        "notes": estimate.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
