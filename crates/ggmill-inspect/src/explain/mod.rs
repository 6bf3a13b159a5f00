//! Pages about types, keys and architectures, as Markdown.

mod architecture;
mod graph_svg;
mod types;

pub use self::graph_svg::graph_svg;

use ggmill_arch::{Architecture, Catalogue, StandardKey, TensorNames};
use ggmill_core::{GgmlType, ValueType};

/// Returns the page of a tensor type, a metadata type, an architecture of the catalogue or known by
/// name, or a file type, or the list of all `types`, `standard-keys` or `architectures`; `None` for any
/// other topic.
///
/// ```
/// use ggmill_arch::Catalogue;
/// let page = ggmill_inspect::explain::page("q4_k", &Catalogue::new()).ok_or("known")?;
/// assert!(page.contains("256 elements in 144 bytes"));
/// # Ok::<(), &str>(())
/// ```
pub fn page(topic: &str, catalogue: &Catalogue) -> Option<String> {
    let described = || catalogue.by_name(topic).map(architecture::described);
    let named = || TensorNames::of(topic).map(|names| architecture::named(topic, names));
    let class = || of_class(topic, catalogue).map(architecture::described);
    types::page(topic)
        .or_else(described)
        .or_else(named)
        .or_else(|| types::file_type_page(topic))
        .or_else(class)
        .or_else(|| list(topic, catalogue))
}

/// Returns the page of a standard metadata key, with or without the architecture before it, or of a key
/// that only the description of its architecture has; `None` for another key.
///
/// ```
/// use ggmill_arch::Catalogue;
/// let page = ggmill_inspect::explain::key_page("llama.context_length", &Catalogue::new()).ok_or("known")?;
/// assert!(page.contains("Standard metadata key of type"));
/// # Ok::<(), &str>(())
/// ```
pub fn key_page(key: &str, catalogue: &Catalogue) -> Option<String> {
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

/// Returns the architecture with this name or with a checkpoint class of this name: `mistral` and
/// `MistralForCausalLM` are `llama`.
///
/// ```
/// use ggmill_arch::Catalogue;
/// let catalogue = Catalogue::new();
/// let found = ggmill_inspect::explain::architecture("mistral", &catalogue).ok_or("known")?;
/// assert_eq!(found.name(), "llama");
/// # Ok::<(), &str>(())
/// ```
pub fn architecture<'a>(topic: &str, catalogue: &'a Catalogue) -> Option<&'a Architecture> {
    catalogue.by_name(topic).or_else(|| of_class(topic, catalogue))
}

fn of_class<'a>(topic: &str, catalogue: &'a Catalogue) -> Option<&'a Architecture> {
    let class = topic.to_ascii_lowercase();
    let names = &[format!("{class}forcausallm"), class];
    let is_class = |class: &str| names.contains(&class.to_ascii_lowercase());
    let (first, class) = catalogue.by_class(is_class).next()?;
    // Several architectures can have a class: a draft model can have that of its target model.
    let config = serde_json::json!({ "architectures": [class] });
    Some(catalogue.for_checkpoint(&config).unwrap_or(first))
}

/// Returns the topics that have pages: types, mixtures, standard keys, lists, and the architectures of
/// the catalogue, without those of which only tensor names are known.
pub fn names(catalogue: &Catalogue) -> impl Iterator<Item = String> {
    let types = GgmlType::all().map(|ggml_type| ggml_type.to_string());
    let keys = StandardKey::all().map(|key| key.pattern.to_owned());
    let lists = LISTS.iter().map(|list| list.name.to_owned());
    types
        .chain(types::mixture_names().map(str::to_owned))
        .chain(keys)
        .chain(lists)
        .chain(catalogue.names().map(str::to_owned))
}

/// Returns the topics that have pages, as sections with a line for each topic.
pub fn topics(catalogue: &Catalogue) -> String {
    LISTS.iter().map(|list| (list.sections)(catalogue)).collect::<Vec<_>>().join("\n")
}

/// A list of topics.
struct List {
    name: &'static str,
    title: &'static str,
    sections: fn(&Catalogue) -> String,
}

const LISTS: [List; 3] = [
    List { name: "types", title: "Types", sections: types_listed },
    List { name: "standard-keys", title: "Keys", sections: keys_listed },
    List { name: "architectures", title: "Architectures", sections: architectures_listed },
];

/// Returns the page of the list of this name.
fn list(topic: &str, catalogue: &Catalogue) -> Option<String> {
    let list = LISTS.iter().find(|list| list.name.eq_ignore_ascii_case(topic))?;
    Some(format!("# {}\n\n{}", list.title, (list.sections)(catalogue)))
}

fn types_listed(_: &Catalogue) -> String {
    let types = GgmlType::all().map(|ggml_type| {
        let bits = ggml_type.layout().map_or_else(String::new, |layout| {
            format!("{} bits per weight", layout.bits_per_weight())
        });
        (ggml_type.to_string(), bits)
    });
    let mixtures =
        types::mixture_names().map(|name| (name.to_owned(), types::mixture_summary(name)));
    let values = (0..13).map(|number| (ValueType(number).to_string(), String::new()));
    [
        section("Tensor types", types),
        section(
            "Mixtures (arguments of ggmill quantize), with their size for Llama 3.1 8B",
            mixtures,
        ),
        section("Metadata types", values),
    ]
    .join("\n")
}

fn keys_listed(_: &Catalogue) -> String {
    let keys = StandardKey::all().map(|key| {
        let (meaning, _) = key.meaning.split_once(". ").unwrap_or((key.meaning, ""));
        (key.pattern.to_owned(), format!("{}: {}", key.type_name, meaning.trim_end_matches('.')))
    });
    section("Standard metadata keys", keys)
}

fn architectures_listed(catalogue: &Catalogue) -> String {
    let described = catalogue
        .architectures()
        .map(|architecture| (architecture.name().to_owned(), architecture.title().to_owned()));
    let named = TensorNames::all()
        .filter(|(name, _)| catalogue.by_name(name).is_none())
        .map(|(name, _)| (name.to_owned(), String::new()));
    [
        section("Architectures", described),
        section("Architectures whose tensor names are known", named),
    ]
    .join("\n")
}

/// Formats a heading and a line for each topic, with the descriptions in a column.
fn section(heading: &str, topics: impl Iterator<Item = (String, String)>) -> String {
    const MAX_COLUMN: usize = 40;
    let topics: Vec<_> = topics.collect();
    let width = topics.iter().map(|(topic, _)| topic.len()).max().unwrap_or(0).min(MAX_COLUMN);
    topics.iter().fold(format!("## {heading}\n\n"), |page, (topic, description)| {
        page + format!("    {topic:<width$}  {description}").trim_end() + "\n"
    })
}

/// Returns the standard key of a known architecture.
fn standard_key(key: &str, catalogue: &Catalogue) -> Option<StandardKey> {
    let (first, _) = key.split_once('.')?;
    let is_architecture = || {
        catalogue.by_name(first).is_some()
            || TensorNames::of(first).is_some()
            || matches!(first, "{arch}" | "[llm]")
    };
    StandardKey::of(key).filter(|standard| !standard.is_of_architecture() || is_architecture())
}

/// Returns the page of a key that only the description of its architecture has.
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
    fn common_names_have_pages() {
        let page = |topic: &str| {
            page(topic, &Catalogue::new())
                .or_else(|| key_page(topic, &Catalogue::new()))
                .unwrap_or_default()
        };
        for (topic, expected) in [
            ("uint32", "# u32"),
            ("float32", "# f32"),
            ("Q4_K_M", "# Q4_K_M"),
            ("mistral", "# llama:"),
            ("mixtral", "# llama:"),
            ("MistralForCausalLM", "# llama:"),
            ("LlamaForCausalLM", "# llama:"),
            ("BertModel", "# bert:"),
            ("adapter.type", "# adapter.type"),
            ("clip.has_vision_encoder", "# clip.has_vision_encoder"),
            ("imatrix.datasets", "# imatrix.datasets"),
            ("mpt.attention.alibi_bias_max", "# mpt.attention.alibi_bias_max"),
        ] {
            assert!(page(topic).starts_with(expected), "{topic}: {}", page(topic));
        }
        assert!(topics(&Catalogue::new()).contains("plamo"));
    }

    /// Every name that a shape or condition uses is explained on the page, and no table is broken.
    #[test]
    fn every_architecture_has_a_page() {
        let catalogue = Catalogue::new();
        for (name, _) in TensorNames::all() {
            let page = page(name, &catalogue).unwrap();
            assert!(
                page.starts_with(&format!("# {name}")) && page.contains("\n## Tensors\n"),
                "{name}"
            );
        }
        for architecture in Architecture::builtins() {
            let page = page(architecture.name(), &catalogue).unwrap();
            for tensor in architecture.outline() {
                assert!(page.contains(&format!("| `{}` |", tensor.name)), "{page}");
                for dimension in tensor.shape.iter().filter(|dimension| {
                    dimension.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                }) {
                    assert!(
                        page.contains(&format!("\n| {dimension} |")),
                        "{}: {dimension}",
                        architecture.name()
                    );
                }
            }
            // What a default or a condition names, too.
            let rows = page.lines().filter(|line| line.starts_with("| "));
            // Keys and tensors are in backquotes.
            let texts = rows.flat_map(|row| row.split('`').step_by(2));
            let names =
                texts.flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
            let names: std::collections::BTreeSet<_> = names.collect();
            for number in architecture.outline_parameters().map(|number| number.name) {
                let is_listed = page.contains(&format!("\n| {number} | "));
                assert!(is_listed || !names.contains(number), "{}: {number}", architecture.name());
            }
            let mut headings: Vec<_> = page.lines().filter(|line| line.starts_with('#')).collect();
            headings.sort_unstable();
            assert!(headings.windows(2).all(|pair| pair[0] != pair[1]), "{headings:?}");
            let has_none = page.contains("There is no computation graph: ");
            assert_eq!(has_none, !architecture.has_graph(), "{}", architecture.name());
            for row in page.lines().filter(|line| line.starts_with('|')) {
                assert!((4..=5).contains(&row.matches('|').count()), "{row}");
            }
        }
    }

    #[test]
    fn every_standard_key_has_a_page() {
        for StandardKey { pattern, meaning, .. } in StandardKey::all() {
            assert!(meaning.ends_with('.') && !meaning.contains('|'), "{pattern}");
            let key = pattern.replace("{n}", "0").replace("{arch}", "llama");
            assert!(key_page(&key, &Catalogue::new()).unwrap().contains(meaning), "{key}");
        }
        assert!(
            key_page("rwkv7.wkv.head_size", &Catalogue::new())
                .unwrap()
                .contains("of the architecture rwkv7, of type u32")
        );
        assert!(key_page("nobody.context_length", &Catalogue::new()).is_none());
        assert!(
            key_page("context_length", &Catalogue::new())
                .unwrap()
                .starts_with("# {arch}.context_length\n")
        );
        assert!(
            key_page("ggmill.graph", &Catalogue::new())
                .unwrap()
                .contains("Metadata key of ggmill, of type array of string.")
        );
        assert!(key_page("general.base_model.0.colour", &Catalogue::new()).is_none());
    }
}
