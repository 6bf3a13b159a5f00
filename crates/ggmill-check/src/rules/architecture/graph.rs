//! The computation graph in a file: that it can be read, and is that of the description.

use std::collections::HashMap;

use ggmill_arch::Architecture;
use ggmill_arch::graph::{Graph, STEPS_KEY, Weight};

use super::GRAPH;
use crate::Input;
use crate::report::{Findings, Place};

pub(super) fn check(input: &Input<'_>, described: Option<&Architecture>, out: &mut Findings<'_>) {
    let Some(entry) = input.metadata().get(STEPS_KEY).filter(|_| input.is_complete()) else {
        return;
    };
    let tensors: HashMap<&str, Vec<u64>> = input
        .model_tensors()
        .filter_map(|(_, tensor)| {
            Some((tensor.name().to_str().ok()?, tensor.shape().dimensions().to_vec()))
        })
        .collect();
    let dimensions = |name: &str| tensors.get(name).cloned();
    let stored = match Graph::stored(input.metadata(), &dimensions) {
        None => return,
        Some(Ok(stored)) => stored,
        Some(Err(error)) => {
            return out.add(&GRAPH, Place::value(&entry), || error.to_string());
        }
    };
    // A model that the description is not for was reported by other rules.
    let of_description = described
        .filter(|described| described.has_graph())
        .and_then(|described| described.resolve_file(input.metadata()).ok())
        .and_then(|model| model.graph(&|name| tensors.contains_key(name)).ok());
    let Some(expected) = of_description else { return };
    let place = || expected.nodes().iter().zip(stored.nodes()).position(|(a, b)| a != b);
    // Shapes are compared with those of the description by another rule, which knows what may differ.
    let names = |(a, b): (&Weight, &Weight)| a.name == b.name;
    let (ours, theirs) = (expected.weights(), stored.weights());
    let is_same = expected.nodes() == stored.nodes()
        && ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(names);
    if !is_same {
        out.add(&GRAPH, Place::value(&entry), || match place() {
            Some(number) => {
                format!(
                    "differs from the description of the architecture, first in operation {number}"
                )
            }
            None => "differs from the description of the architecture".into(),
        });
    }
}
