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
        "# {name}: {title}\n\nFiles of it say `general.architecture = {name}`; keys of its own \
         begin with `{name}.`."
    );
    // Writing to a String cannot fail.
    let _ = match architecture.loader() {
        Some(loader) => write!(page, " The loader of {loader} holds files to what is said here."),
        None => write!(page, " No loader holds files to what is said here."),
    };
    let classes: Vec<_> =
        architecture.checkpoint_classes().map(|class| format!("`{class}`")).collect();
    if !classes.is_empty() {
        let _ = write!(page, "\n\nMade from checkpoints of class {}.", classes.join(", "));
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
        "\nLines are those of the specification, {SPECIFICATION_REVISION}; functions those of \
         {LOADER_REVISION}.\n"
    );
    page.push_str(
        "\n## Numbers\n\nWhat shapes and conditions are made of.\n\n| number | read from | or \
         else |\n|---|---|---|\n",
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
    page.push_str("\n## Tensors\n\nDimensions in stored order, the fastest first.\n");
    let mut repeat = None;
    for tensor in architecture.outline() {
        if repeat.as_ref() != Some(&tensor.repeat) {
            let heading = tensor.repeat.as_ref().map_or_else(
                || "Of the whole model".to_owned(),
                |repeat| format!("For each {repeat}"),
            );
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
        "# {name}\n\nFiles of it say `general.architecture = {name}`; keys of its own begin with \
         `{name}.`. It is known by name, as {} has it: what its tensors are called.\n\n## \
         Tensors\n\n",
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
            format!("{single}, or an array of {element} with one for each block")
        }
        (Some(single), None) => single.to_string(),
        (None, Some(element)) => format!("array of {element}"),
        (None, None) => String::new(),
    }
}

fn remark(tensor: &TensorOutline<'_>) -> String {
    let mut parts = Vec::new();
    match (tensor.required, tensor.tied) {
        ("true", Some(tied)) => parts.push(format!("or `{tied}` in its place")),
        ("true", None) => {}
        ("false", _) => parts.push("optional".to_owned()),
        (when, _) => parts.push(format!("required when {when}")),
    }
    if let Some(unless) = tensor.unless {
        parts.push(format!("not beside `{unless}`"));
    }
    parts.extend(tensor.conditions.iter().map(|condition| format!("when {condition}")));
    parts.join("; ")
}
