//! Names of tensors as wrappers of a module save them.
//!
//! `torch.compile`, data parallelism and activation checkpointing wrap a module in another one whose
//! name becomes a part of the names in its state dictionary. Trainers save a model as their attribute
//! `model`.

use crate::SourceTensor;

/// Components of names that wrappers insert anywhere, with what inserts them.
const INSERTED: [(&str, &str); 3] = [
    ("_orig_mod", "torch.compile"),
    ("_fsdp_wrapped_module", "FSDP"),
    ("_checkpoint_wrapped_module", "activation checkpointing"),
];

/// The first component of all names of a module in `DistributedDataParallel` or `DataParallel`.
const PARALLEL: &str = "module.";
/// The first component of all names of a model that is an attribute of a trainer.
const ATTRIBUTE: &str = "model.";

/// Removes the components that wrappers added to the names of a model's tensors. Returns a note that
/// says which, or `None` if there were none.
pub(crate) fn unwrap_names(tensors: &mut [SourceTensor]) -> Option<String> {
    let mut names: Vec<String> = Vec::with_capacity(tensors.len());
    for tensor in tensors.iter() {
        // No wrapper makes a name that is not UTF-8.
        names.push(std::str::from_utf8(&tensor.name).ok()?.to_owned());
    }
    let mut removed: Vec<String> = Vec::new();
    for (component, wrapper) in INSERTED {
        if names.iter().any(|name| name.split('.').any(|part| part == component)) {
            for name in &mut names {
                let kept: Vec<&str> = name.split('.').filter(|part| *part != component).collect();
                *name = kept.join(".");
            }
            removed.push(format!("{component:?} of {wrapper}"));
        }
    }
    if remove_prefix(&mut names, PARALLEL, |_| true) {
        removed.push(format!("{PARALLEL:?} of DistributedDataParallel"));
    }
    // A causal language model is `model.…` and `lm_head.…`; inside an attribute, both have one more.
    let is_inner = |rest: &str| rest.starts_with("model.") || rest.starts_with("lm_head.");
    if remove_prefix(&mut names, ATTRIBUTE, is_inner) {
        removed.push(format!("a second {ATTRIBUTE:?}"));
    }
    if removed.is_empty() {
        return None;
    }
    for (tensor, name) in tensors.iter_mut().zip(names) {
        tensor.name = name.into_bytes();
    }
    Some(format!("removed from the names of tensors: {}", removed.join(", ")))
}

/// Removes a prefix that all names have, if the rest of every name is as expected.
fn remove_prefix(names: &mut [String], prefix: &str, is_expected: impl Fn(&str) -> bool) -> bool {
    let rests: Option<Vec<String>> = names
        .iter()
        .map(|name| name.strip_prefix(prefix).filter(|rest| is_expected(rest)).map(str::to_owned))
        .collect();
    match rests.filter(|rests| !rests.is_empty()) {
        Some(rests) => {
            names.clone_from_slice(&rests);
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use ggmill_core::{GgmlType, Shape};

    use super::unwrap_names;
    use crate::SourceTensor;

    fn unwrapped(names: &[&str]) -> (Vec<String>, Option<String>) {
        let shape = Shape::new(&[1]).unwrap();
        let tensor =
            |name: &&str| SourceTensor::new(name.as_bytes().to_vec(), GgmlType::F32, shape);
        let mut tensors: Vec<SourceTensor> = names.iter().map(tensor).collect();
        let note = unwrap_names(&mut tensors);
        let name = |tensor: &SourceTensor| String::from_utf8(tensor.name.clone()).unwrap();
        (tensors.iter().map(name).collect(), note)
    }

    #[test]
    fn wrappers_are_removed() {
        let plain = ["model.embed_tokens.weight", "lm_head.weight"];
        for wrapped in [
            ["_orig_mod.model.embed_tokens.weight", "_orig_mod.lm_head.weight"],
            ["module.model.embed_tokens.weight", "module.lm_head.weight"],
            ["module._orig_mod.model.embed_tokens.weight", "module._orig_mod.lm_head.weight"],
            ["model.model.embed_tokens.weight", "model.lm_head.weight"],
            ["model._orig_mod.embed_tokens.weight", "lm_head._fsdp_wrapped_module.weight"],
            [
                "_orig_mod.module.model.model.embed_tokens.weight",
                "_orig_mod.module.model.lm_head.weight",
            ],
        ] {
            let (names, note) = unwrapped(&wrapped);
            assert_eq!(names, plain, "{wrapped:?}");
            assert!(note.is_some(), "{wrapped:?}");
        }
    }

    #[test]
    fn other_names_are_kept() {
        for names in [
            &["model.embed_tokens.weight", "lm_head.weight"] as &[&str],
            &["model.layers.0.mlp.weight", "model.norm.weight"],
            &["module.a", "model.b"],
            &["model.model.a", "model.vision.b"],
            &[],
        ] {
            assert_eq!(
                unwrapped(names),
                (names.iter().map(|&name| name.to_owned()).collect(), None)
            );
        }
    }
}
