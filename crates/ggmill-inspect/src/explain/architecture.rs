//! The page of an architecture: its keys and its tensors.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ggmill_arch::{
    Architecture, KeySpec, LOADER_REVISION, LoaderKey, ParameterOutline, RequiredBy,
    SPECIFICATION_REVISION, SpecifiedKey, TensorNames, TensorOutline,
};

/// Returns the page of an architecture with a description.
pub(super) fn described(architecture: &Architecture) -> String {
    let (name, title) = (architecture.name(), architecture.title());
    let mut page = format!(
        "# {name}: {title}\n\nFiles have `general.architecture = {name}`; architecture keys begin \
         with `{name}.`."
    );
    // Writing to a string cannot fail.
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
    if !architecture.has_graph() {
        let why = architecture.without_graph().unwrap_or("the description has none");
        let _ = write!(page, "\n\nThere is no computation graph: {why}.");
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
    let (numbers, tensors) = (architecture.outline_parameters().collect(), architecture.outline());
    write_hyperparameters(&mut page, numbers, &tensors.collect::<Vec<_>>());
    page.push_str(
        "\n## Tensors\n\nDimensions in stored order: elements along the first one are contiguous.\n",
    );
    for (repeat, tensors) in by_repeat(architecture.outline()) {
        let heading = repeat
            .map_or_else(|| "Global tensors".to_owned(), |repeat| format!("For each {repeat}"));
        let _ = write!(page, "\n### {heading}\n\n| tensor | shape | role | |\n|---|---|---|---|\n");
        for tensor in tensors {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                tensor.name,
                tensor.shape.join(" × "),
                tensor.role,
                remark(&tensor)
            );
        }
    }
    page
}

/// Writes the hyperparameters of a GGUF file, and those of checkpoints that defaults or tensors refer
/// to.
fn write_hyperparameters(
    page: &mut String,
    numbers: Vec<ParameterOutline<'_>>,
    tensors: &[TensorOutline<'_>],
) {
    let (numbers, others): (Vec<_>, Vec<_>) =
        numbers.into_iter().partition(|number| !number.keys.is_empty() || number.default.is_some());
    let defaults = numbers.iter().filter_map(|number| number.default);
    let of_tensors = tensors.iter().flat_map(|tensor| {
        let conditions = tensor.conditions.iter().chain(&tensor.shape);
        conditions.copied().chain([tensor.required]).chain(tensor.repeat.as_deref())
    });
    let named: BTreeSet<&str> = defaults.chain(of_tensors).flat_map(names).collect();
    page.push_str(
        "\n## Hyperparameters\n\nUsed in shapes and conditions below.\n\n| hyperparameter | key | \
         default |\n|---|---|---|\n",
    );
    let quoted = |places: &mut dyn Iterator<Item = &str>| {
        places.map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ")
    };
    for number in &numbers {
        let keys = quoted(&mut number.keys.iter().map(String::as_str));
        let _ =
            writeln!(page, "| {} | {keys} | {} |", number.name, number.default.unwrap_or_default());
    }
    let others = others.iter().filter(|number| named.contains(number.name));
    for number in others {
        let places = quoted(&mut number.in_checkpoint.iter().copied());
        let places = if places.is_empty() { places } else { format!(": {places}") };
        let _ = writeln!(page, "| {} | only in checkpoints{places} | |", number.name);
    }
}

/// Returns the identifiers in an expression.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Groups tensors by loop, in the order of the first tensor of each loop.
fn by_repeat<'a>(
    tensors: impl Iterator<Item = TensorOutline<'a>>,
) -> Vec<(Option<String>, Vec<TensorOutline<'a>>)> {
    let mut groups: Vec<(Option<String>, Vec<TensorOutline<'_>>)> = Vec::new();
    for tensor in tensors {
        match groups.iter_mut().find(|(repeat, _)| *repeat == tensor.repeat) {
            Some((_, group)) => group.push(tensor),
            None => groups.push((tensor.repeat.clone(), vec![tensor])),
        }
    }
    groups
}

/// Returns the page of an architecture of which only tensor names are known.
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

/// Returns who requires the key, with the location in the source.
fn required_by(architecture: &str, key: &KeySpec<'_>) -> String {
    let specified = SpecifiedKey::of(key.name).map(|key| place(&key));
    let loader = key.required_by.filter(|required_by| required_by.includes_loader()).map(|_| {
        LoaderKey::of(architecture, key.name)
            .map_or_else(|| "the loader".to_owned(), |key| format!("llama.cpp ({})", key.function))
    });
    let stated = (key.required_by == Some(RequiredBy::Specification) && specified.is_none())
        .then(|| "the description".to_owned());
    [specified, loader, stated].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Returns the section and line of the specification that require the key.
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
