//! The built-in names of the language of graphs.

use super::Callee;
use crate::language::expression::Function as Known;
use crate::language::steps::{Output, signature};

/// Operations whose names in sources differ from their names in files.
const OPERATION_NAMES: [(&str, &str); 19] = [
    ("embed", "rows"),
    ("hashed_embed", "hashed_rows"),
    ("expert_linear", "linear_of"),
    ("head_linear", "linear_heads"),
    ("split_heads", "split"),
    ("merge_heads", "merge"),
    ("split", "parts"),
    ("top_k", "top"),
    ("gather", "take"),
    ("weighted_sum", "mix"),
    ("causal_conv", "conv"),
    ("linear_recurrence", "recurrence"),
    ("select_tokens", "pick"),
    ("pool_runs", "pool"),
    ("expert_indices", "choice"),
    ("scale_by_position", "by_position"),
    ("sum", "total"),
    ("sqrt", "root"),
    ("round", "nearest"),
];

/// Options whose names in files are Python keywords: the operation, the name in sources, the name in
/// files.
const OPTION_NAMES: [(&str, &str, &str); 2] =
    [("recurrence", "read", "from"), ("recurrence", "write", "to")];

/// Functions of known values, with the minimum and maximum number of arguments, and operators that are
/// functions of expressions.
const VALUE_FUNCTIONS: [(&str, Known, usize, usize); 11] = [
    ("min", Known::Min, 1, 16),
    ("max", Known::Max, 1, 16),
    ("len", Known::Len, 1, 1),
    ("is_list", Known::IsList, 1, 1),
    ("sum", Known::Sum, 1, 1),
    ("count", Known::Count, 2, 2),
    ("sqrt", Known::Sqrt, 1, 1),
    ("exp", Known::Exp, 1, 1),
    ("log", Known::Log, 1, 1),
    (POWER, Known::Pow, 2, 2),
    (FLOOR_DIVIDE, Known::DivFloor, 2, 2),
];

/// Names of operators as functions, which no source can define.
pub(super) const POWER: &str = "**";
pub(super) const FLOOR_DIVIDE: &str = "//";

/// Operations that have the same name in sources and files.
const KEPT: [&str; 26] = [
    "linear",
    "rms_norm",
    "layer_norm",
    "rope",
    "attention",
    "concat",
    "silu",
    "gelu",
    "gelu_erf",
    "relu",
    "tanh",
    "sigmoid",
    "swiglu_oai",
    "clamp",
    "softmax",
    "normalize",
    "repeat",
    "exp",
    "softplus",
    "l2_norm",
    "shift",
    "constant",
    "source_vectors",
    "linear_taps",
    "sinkhorn",
    "is_token",
];

/// Returns the built-in function or operation with this name.
pub(super) fn builtin(name: &str) -> Option<Callee> {
    match name {
        "has" => return Some(Callee::Has),
        "first" => return Some(Callee::First),
        "range" => return Some(Callee::Range),
        "logits" => return Some(Callee::Output(Output::Logits)),
        "embedding" => return Some(Callee::Output(Output::Embedding)),
        _ => {}
    }
    let renamed = OPERATION_NAMES.iter().find(|(known, _)| *known == name).map(|(_, name)| *name);
    let operation = renamed.or_else(|| KEPT.into_iter().find(|known| *known == name));
    let operation = operation.and_then(signature).map(|signature| signature.name);
    let value = VALUE_FUNCTIONS.iter().find(|(known, ..)| *known == name).map(|found| found.1);
    match (operation, value) {
        (Some(operation), Some(value)) => Some(Callee::Either(operation, value)),
        (Some(operation), None) => Some(Callee::Operation(operation)),
        (None, Some(value)) => Some(Callee::Value(value)),
        (None, None) => None,
    }
}

/// Returns all built-in names.
pub(super) fn builtins() -> impl Iterator<Item = &'static str> {
    let renamed = OPERATION_NAMES.iter().map(|(name, _)| *name);
    let values = VALUE_FUNCTIONS.iter().map(|(name, ..)| *name);
    let others = ["has", "first", "range", "logits", "embedding", "tokens", "positions"];
    renamed.chain(KEPT).chain(values).chain(others)
}

/// Returns the minimum and maximum number of arguments of a builtin, and its options.
pub(super) fn arguments(callee: Callee) -> Option<((usize, usize), &'static [&'static str])> {
    let of_value = |value: Known| {
        let found = VALUE_FUNCTIONS.iter().find(|(_, known, ..)| *known == value);
        found.map(|&(_, _, least, most)| ((least, most), &[][..]))
    };
    match callee {
        Callee::Own(_) | Callee::Library(_) => None,
        Callee::Operation(name) => {
            signature(name).map(|signature| (signature.arguments, signature.options))
        }
        Callee::Value(value) | Callee::Either(_, value) => of_value(value),
        Callee::Has | Callee::Output(_) => Some(((1, 1), &[])),
        Callee::First => Some(((1, 16), &[])),
        Callee::Range => Some(((1, 2), &[])),
    }
}

/// Returns the name of an option in files.
pub(super) fn option_name(callee: Callee, option: &str) -> &str {
    let Callee::Operation(operation) = callee else { return option };
    let mut known = OPTION_NAMES.iter();
    let found = known.find(|(of, name, _)| *of == operation && *name == option);
    found.map_or(option, |(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::language::program::LIBRARY;

    /// The maximum number of names of operations and functions, without Python keywords.
    const MOST_NAMES: usize = 100;

    /// Returns the names in the first column of the tables in a section of the document, each with the
    /// text of its row.
    fn documented(section: &str) -> BTreeMap<&str, &str> {
        let mut names = BTreeMap::new();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let first = row.split(" | ").next().unwrap();
            for code in first.split('`').skip(1).step_by(2) {
                let name = code.split('(').next().unwrap();
                names.insert(name, row);
            }
        }
        names
    }

    #[test]
    fn the_document_lists_every_name() {
        let document = include_str!("../../../../../docs/formats/graph.md");
        assert!(document.lines().count() <= 250, "{}", document.lines().count());
        let (_, names) = document.split_once("\n## Names\n").unwrap();
        let (language, rest) = names.split_once("\n### Rotary").unwrap();
        let (details, library) = rest.split_once("\n### The library\n").unwrap();
        let (library, _) = library.split_once("\n## ").unwrap();

        let is_word = |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic());
        let known: BTreeSet<&str> = builtins().filter(is_word).collect();
        let mut found: BTreeSet<&str> = documented(language).into_keys().collect();
        // Functions of known values share the row of the operation with the same name.
        found.extend(["sqrt", "exp", "sum"]);
        assert_eq!(found, known);

        let of_library: BTreeSet<&str> =
            LIBRARY.functions.iter().map(|function| &*function.name).collect();
        assert_eq!(documented(library).into_keys().collect::<BTreeSet<_>>(), of_library);

        let count = known.len() + of_library.len();
        assert!(count <= MOST_NAMES, "{count} names");

        for name in known {
            let Some(Callee::Operation(operation)) = builtin(name) else { continue };
            let documented = documented(language)[name];
            for option in signature(operation).unwrap().options {
                let mut renamed = OPTION_NAMES.iter();
                let renamed = renamed.find(|(of, _, file)| *of == operation && file == option);
                let option = renamed.map_or(*option, |(_, source, _)| source);
                let is_in = |text: &str| {
                    let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                    text.split(is_end).any(|word| word == option)
                };
                assert!(is_in(documented) || is_in(details), "{name}: {option}");
            }
        }
    }
}
