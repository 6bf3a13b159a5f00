//! The page of an architecture: its keys and its tensors.

use std::fmt::Write as _;

use ggmill_arch::{
    Architecture, Demand, KeySpec, LOADER_REVISION, LoaderKey, SPECIFICATION_REVISION,
    SpecifiedKey, TensorNames, TensorOutline,
};

/// The page of an architecture that is described.
pub(super) fn described(architecture: &Architecture) -> String {
    let (name, title) = (architecture.name(), architecture.title());
    let mut page = format!(
        "# {name}: {title}\n\nFiles have `general.architecture = {name}`; architecture keys begin \
         with `{name}.`."
    );
    // Writing to a String cannot fail.
    let _ = match architecture.loader() {
        Some(loader) => {
            write!(page, " {loader} checks files against this description when it loads them.")
        }
        None => write!(page, " llama.cpp does not check files against this description."),
    };
    let classes: Vec<_> =
        architecture.checkpoint_classes().map(|class| format!("`{class}`")).collect();
    if !classes.is_empty() {
        let _ = write!(page, "\n\nCheckpoint classes: {}.", classes.join(", "));
    }
    page.push_str("\n\n## Keys\n\n| key | type | required by |\n|---|---|---|\n");
    for key in architecture.keys() {
        let required = required_by(name, &key);
        let _ = writeln!(page, "| `{}` | {} | {required} |", key.name, key_type(&key));
    }
    let is_described = |key: &SpecifiedKey| architecture.keys().any(|known| known.name == key.name);
    for key in SpecifiedKey::all().filter(|key| key.architecture() == name && !is_described(key)) {
        let other = key.definition.map(|other| format!(", or `{other}`")).unwrap_or_default();
        let _ = writeln!(page, "| `{}`{other} | {} | {} |", key.name, key.type_name, place(&key));
    }
    let _ = write!(
        page,
        "\nLine numbers refer to {SPECIFICATION_REVISION}; function names refer to \
         {LOADER_REVISION}.\n"
    );
    page.push_str(
        "\n## Hyperparameters\n\nUsed in shapes and conditions below.\n\n| hyperparameter | key | \
         default |\n|---|---|---|\n",
    );
    // What neither a key nor a number gives, only a checkpoint has.
    for number in architecture
        .outline_parameters()
        .filter(|number| !number.keys.is_empty() || number.default.is_some())
    {
        let keys: Vec<_> = number.keys.iter().map(|key| format!("`{key}`")).collect();
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            number.name,
            keys.join(", "),
            number.default.unwrap_or_default()
        );
    }
    page.push_str(
        "\n## Tensors\n\nDimensions in stored order: elements along the first one are contiguous.\n",
    );
    let mut repeat = None;
    for tensor in architecture.outline() {
        if repeat.as_ref() != Some(&tensor.repeat) {
            let heading = tensor
                .repeat
                .as_ref()
                .map_or_else(|| "Global tensors".to_owned(), |repeat| format!("For each {repeat}"));
            let _ =
                write!(page, "\n### {heading}\n\n| tensor | shape | role | |\n|---|---|---|---|\n");
        }
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            tensor.name,
            tensor.shape.join(" × "),
            tensor.role,
            remark(&tensor)
        );
        repeat = Some(tensor.repeat);
    }
    page
}

/// The page of an architecture that is known by name alone.
pub(super) fn named(name: &str, names: &TensorNames) -> String {
    let mut page = format!(
        "# {name}\n\nFiles have `general.architecture = {name}`; architecture keys begin with \
         `{name}.`. Only its tensor names are known, from {}.\n\n## Tensors\n\n",
        TensorNames::sources().join(" and ")
    );
    for pattern in names.patterns() {
        let _ = writeln!(page, "- `{pattern}`");
    }
    page
}

/// Who requires the key, with the place that says so.
fn required_by(architecture: &str, key: &KeySpec<'_>) -> String {
    let specified = SpecifiedKey::of(key.name).map(|key| place(&key));
    let loader = key.demand.filter(|demand| demand.is_by_loader()).map(|_| {
        LoaderKey::of(architecture, key.name)
            .map_or_else(|| "the loader".to_owned(), |key| format!("llama.cpp ({})", key.function))
    });
    let stated = (key.demand == Some(Demand::Specification) && specified.is_none())
        .then(|| "the description".to_owned());
    [specified, loader, stated].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// The section and line of the specification that require the key.
fn place(key: &SpecifiedKey) -> String {
    format!("the specification ({}, line {})", key.section, key.line)
}

fn key_type(key: &KeySpec<'_>) -> String {
    match (key.single, key.element) {
        (Some(single), Some(element)) => {
            format!("{single}, or an array of {element} with one element per layer")
        }
        (Some(single), None) => single.to_string(),
        (None, Some(element)) => format!("array of {element}"),
        (None, None) => String::new(),
    }
}

fn remark(tensor: &TensorOutline<'_>) -> String {
    let mut parts = Vec::new();
    match (tensor.required, tensor.tied) {
        ("true", Some(tied)) => parts.push(format!("or `{tied}` instead")),
        ("true", None) => {}
        ("false", _) => parts.push("optional".to_owned()),
        (when, _) => parts.push(format!("required if {when}")),
    }
    if let Some(unless) = tensor.unless {
        parts.push(format!("not together with `{unless}`"));
    }
    parts.extend(tensor.conditions.iter().map(|condition| format!("if {condition}")));
    parts.join("; ")
}
