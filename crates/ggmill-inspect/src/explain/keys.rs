//! The pages of metadata keys.

use ggmill_arch::{Catalogue, StandardKey, TensorNames};

/// The standard key that this is, of a known architecture.
fn standard_key(key: &str, catalogue: &Catalogue) -> Option<StandardKey> {
    let (first, _) = key.split_once('.')?;
    let is_architecture = || {
        catalogue.by_name(first).is_some()
            || TensorNames::of(first).is_some()
            || matches!(first, "{arch}" | "[llm]")
    };
    StandardKey::of(key).filter(|standard| !standard.is_of_architecture() || is_architecture())
}

/// The page of a standard key, with or without the architecture before it, or of one that only the
/// description of its architecture knows.
pub(super) fn page(key: &str, catalogue: &Catalogue) -> Option<String> {
    let of_any = format!("{{arch}}.{key}");
    let is_standard = StandardKey::all().any(|standard| standard.pattern == of_any);
    let key = if is_standard { &*of_any } else { key };
    let Some(StandardKey { type_name, meaning, .. }) = standard_key(key, catalogue) else {
        return own_key_page(key, catalogue);
    };
    let kind = if key.starts_with("ggmill.") {
        format!("Metadata key of ggmill, of type {type_name}.")
    } else {
        format!("Standard metadata key of type {type_name}.")
    };
    Some(format!("# {key}\n\n{meaning}\n\n{kind}\n"))
}

/// The page of a key that only the description of its architecture knows.
fn own_key_page(key: &str, catalogue: &Catalogue) -> Option<String> {
    let (name, _) = key.split_once('.')?;
    let (single, element) = catalogue.by_name(name)?.key_types(key)?;
    let types = [
        single.map(|single| single.to_string()),
        element.map(|element| format!("array of {element}")),
    ];
    let types = types.into_iter().flatten().collect::<Vec<_>>().join(", or ");
    Some(format!("# {key}\n\nMetadata key of the architecture {name}, of type {types}.\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standard_key_has_a_page() {
        for StandardKey { pattern, meaning, .. } in StandardKey::all() {
            assert!(meaning.ends_with('.') && !meaning.contains('|'), "{pattern}");
            let key = pattern.replace("{n}", "0").replace("{arch}", "llama");
            assert!(page(&key, &Catalogue::new()).unwrap().contains(meaning), "{key}");
        }
        assert!(
            page("rwkv7.wkv.head_size", &Catalogue::new())
                .unwrap()
                .contains("of the architecture rwkv7, of type u32")
        );
        assert!(page("nobody.context_length", &Catalogue::new()).is_none());
        assert!(
            page("context_length", &Catalogue::new())
                .unwrap()
                .starts_with("# {arch}.context_length\n")
        );
        assert!(
            page("ggmill.graph", &Catalogue::new())
                .unwrap()
                .contains("Metadata key of ggmill, of type array of string.")
        );
        assert!(page("general.base_model.0.colour", &Catalogue::new()).is_none());
    }
}
