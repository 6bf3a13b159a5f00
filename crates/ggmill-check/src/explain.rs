//! Pages about rules, types, keys and architectures.

use std::fmt::Write as _;

use ggmill_arch::{Catalogue, StandardKey, TensorNames};
use ggmill_core::{FileType, GgmlType, ValueType};

use crate::block::block;
use crate::drawing::{Part, draw};
use crate::{Group, Rule, architecture_page, rules};

/// The page of a rule (by code), a group of rules, a tensor type, a metadata type, a standard key, or an architecture of the catalogue, as Markdown; `None` for
/// anything else.
///
/// ```
/// use ggmill_arch::Catalogue;
/// let page = ggmill_check::explain("q4_k", &Catalogue::new()).ok_or("known")?;
/// assert!(page.contains("256 elements in 144 bytes"));
/// # Ok::<(), &str>(())
/// ```
pub fn explain(topic: &str, catalogue: &Catalogue) -> Option<String> {
    if let Some(rule) = rules().find(|rule| rule.code.eq_ignore_ascii_case(topic)) {
        return Some(rule_page(rule));
    }
    // I8 is a tensor type, i8 a metadata type.
    let value_type = ValueType::from_name(topic).or_else(|| specified_type(topic));
    if let Some(ggml_type) = GgmlType::from_name(topic).filter(|_| value_type.is_none()) {
        return Some(type_page(ggml_type));
    }
    if let Some(value_type) = value_type.or_else(|| ValueType::from_name(&topic.to_ascii_lowercase())) {
        return Some(value_type_page(value_type));
    }
    if let Some(architecture) = catalogue.by_name(topic) {
        return Some(architecture_page::described(architecture));
    }
    if let Some(names) = TensorNames::of(topic) {
        return Some(architecture_page::named(topic, names));
    }
    if let Some(group) =
        Group::ALL.into_iter().find(|group| group.name().eq_ignore_ascii_case(topic) || format!("GG{}", *group as u8).eq_ignore_ascii_case(topic))
    {
        let mut page = format!("# Rules about {}\n", group.name());
        group_table(group, &mut page, false);
        return Some(page);
    }
    if let Some(file_type) = FileType::from_name(&topic.to_ascii_uppercase()) {
        return Some(file_type_page(file_type));
    }
    // A model that has another's architecture: mistral is the llama of files.
    let class = format!("{}forcausallm", topic.to_ascii_lowercase());
    if let Some(architecture) =
        catalogue.architectures().find(|architecture| architecture.checkpoint_classes().any(|known| known.to_ascii_lowercase() == class))
    {
        return Some(architecture_page::described(architecture));
    }
    key_page(topic, catalogue)
}

/// A metadata type by the name that the specification gives it.
fn specified_type(name: &str) -> Option<ValueType> {
    let name = name.to_ascii_lowercase();
    let start = [("uint", "u"), ("int", "i"), ("float", "f")].into_iter().find_map(|(long, short)| Some((short, name.strip_prefix(long)?)));
    start.and_then(|(short, bits)| ValueType::from_name(&format!("{short}{bits}")))
}

fn file_type_page(file_type: FileType) -> String {
    format!(
        "# {file_type}\n\nFile type number {}: what general.file_type says of a file that was made as {file_type}, and what `ggmill quantize` takes as a type. It is a mixture: which type each tensor has, `ggmill quantize --dry-run` shows.\n",
        file_type.0
    )
}

/// What [`explain`] knows that is spelt much like this: at most three topics, the nearest first.
pub fn near(topic: &str, catalogue: &Catalogue) -> Vec<String> {
    const LONGEST: usize = 64;
    if topic.len() > LONGEST {
        return Vec::new();
    }
    let wanted = topic.to_ascii_lowercase();
    let types = GgmlType::all().map(|ggml_type| ggml_type.to_string());
    let keys = StandardKey::all().map(|key| key.pattern.to_owned());
    let names = catalogue.architectures().map(|architecture| architecture.name().to_owned());
    let codes = rules().map(|rule| rule.code.to_owned()).chain(Group::ALL.iter().map(|group| group.name().to_owned()));
    let mut found: Vec<(usize, String)> = types
        .chain(keys)
        .chain(names)
        .chain(codes)
        .map(|known| (crate::distance::distance(known.to_ascii_lowercase().as_bytes(), wanted.as_bytes()), known))
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .collect();
    found.sort();
    found.into_iter().map(|(_, known)| known).take(3).collect()
}

/// The page of a rule, as Markdown.
pub fn rule_page(rule: &Rule) -> String {
    let Rule { code, group, severity, authority, summary, clause, why, remedy } = rule;
    let authority = authority.sentence();
    format!(
        "# {code}: {summary}\n\nGroup {}, severity {severity}. {authority}\n\n## What it enforces\n\n{clause}\n\n## Why it matters\n\n{why}\n\n## What to do\n\n{remedy}\n",
        group.name()
    )
}

/// The list of all rules, as Markdown: for the folder of their pages.
pub fn rules_index() -> String {
    let mut page = String::from("# Rules of `ggmill check`\n\nGenerated from the rules themselves; `ggmill explain CODE` shows the same pages.\n");
    for group in Group::ALL {
        if rules().any(|rule| rule.group == group) {
            // Writing to a String cannot fail.
            let _ = write!(page, "\n## {}\n", group.name());
            group_table(group, &mut page, true);
        }
    }
    page
}

fn group_table(group: Group, page: &mut String, links: bool) {
    page.push_str("\n| code | severity | what is wrong |\n|---|---|---|\n");
    for rule in rules().filter(|rule| rule.group == group) {
        let code = if links { format!("[{0}]({0}.md)", rule.code) } else { rule.code.to_owned() };
        let _ = writeln!(page, "| {code} | {} | {} |", rule.severity, rule.summary);
    }
}

/// What there is to be explained, as Markdown.
pub fn topics(catalogue: &Catalogue) -> String {
    let list = |names: Vec<String>| names.join(", ");
    let groups = Group::ALL.map(|group| format!("{} (GG{}…)", group.name(), group as u8));
    let names = catalogue.architectures().map(|architecture| architecture.name().to_owned()).collect();
    let by_name = TensorNames::all().map(|(name, _)| name).filter(|name| catalogue.by_name(name).is_none()).map(str::to_owned).collect();
    format!(
        "# What `ggmill explain` knows\n\n## Groups of rules, and each rule by its code\n\n{}\n\n## Tensor types\n\n{}\n\n## Metadata types\n\n{}\n\n## Architectures\n\n{}\n\n## Architectures of which the names of tensors are known\n\n{}\n\n## Standard keys\n\n{}\n",
        list(groups.to_vec()),
        list(GgmlType::all().map(|ggml_type| ggml_type.to_string()).collect()),
        list((0..13).map(|number| ValueType(number).to_string()).collect()),
        list(names),
        list(by_name),
        list(StandardKey::all().map(|key| key.pattern.to_owned()).collect()),
    )
}

fn type_page(ggml_type: GgmlType) -> String {
    let mut page = format!("# {ggml_type}\n\nTensor type number {}.", ggml_type.0);
    if let Some(layout) = ggml_type.layout() {
        let (elements, bytes) = (layout.elements, layout.bytes);
        let plural = |number: u32| if number == 1 { "" } else { "s" };
        let _ = write!(page, "\n\n{elements} element{} in {bytes} byte{}: {} bits per weight.", plural(elements), plural(bytes), layout.bits_per_weight());
        if elements > 1 {
            let _ = write!(page, " Rows must be a multiple of {elements} elements.");
        }
    }
    if ggml_type.is_retired() {
        page.push_str("\n\nSupport has been removed: current readers refuse it.");
    }
    page.push('\n');
    if let Some(block) = block(ggml_type) {
        let parts: Vec<_> = block.fields.iter().map(|field| Part { name: field.name, size: field.bytes }).collect();
        let _ = write!(page, "\n## A block, byte by byte\n\n{}\n", draw(&parts));
        let widest = block.fields.iter().map(|field| field.name.len()).max().unwrap_or(0);
        for field in block.fields {
            let bytes = if field.bytes == 1 { format!("{}", field.start) } else { format!("{}–{}", field.start, field.start + field.bytes - 1) };
            let _ = writeln!(page, "    {bytes:>7}  {:<widest$}  {}", field.name, field.what);
        }
        let _ = write!(page, "\nA weight is {}. Numbers of several bytes are in the byte order of the file.\n", block.formula);
    } else if let Some(bits) = bits(ggml_type) {
        let parts = bits.map(|(name, size)| Part { name, size });
        let _ = write!(page, "\n## A number, bit by bit from the highest\n\n{}", draw(&parts));
    }
    page
}

/// The parts of a floating-point number, and how many bits each has.
fn bits(ggml_type: GgmlType) -> Option<[(&'static str, u32); 3]> {
    let (exponent, fraction) = match ggml_type {
        GgmlType::F16 => (5, 10),
        GgmlType::BF16 => (8, 7),
        GgmlType::F32 => (8, 23),
        GgmlType::F64 => (11, 52),
        _ => return None,
    };
    Some([("sign", 1), ("exponent", exponent), ("fraction", fraction)])
}

fn value_type_page(value_type: ValueType) -> String {
    let size = match value_type.fixed_size() {
        Some(1) if value_type == ValueType::BOOL => "one byte: 0 is false and 1 is true".to_owned(),
        Some(1) => "one byte".to_owned(),
        Some(size) => format!("{size} bytes"),
        None if value_type == ValueType::STRING => "its length in bytes as u64, then the bytes: UTF-8, without a NUL at the end".to_owned(),
        None => "the type of the elements as u32, their count as u64, then the elements".to_owned(),
    };
    let picture = match value_type {
        ValueType::STRING => draw(&[Part { name: "length", size: 8 }, Part { name: "the bytes of the text …", size: 24 }]),
        ValueType::ARRAY => draw(&[Part { name: "type", size: 4 }, Part { name: "count", size: 8 }, Part { name: "the elements …", size: 24 }]),
        _ => String::new(),
    };
    // Where such a value ends nobody knows.
    let picture = picture.lines().enumerate().fold(String::new(), |out, (number, line)| {
        let line = if number == 0 { line.rsplit_once(' ').map_or(line, |(line, _)| line.trim_end()) } else { line };
        out + line + "\n"
    });
    let gap = if picture.is_empty() { "" } else { "\n" };
    let width = if value_type.fixed_size().is_none() { " Version 1 has lengths and counts of 32 bits." } else { "" };
    format!("# {value_type}\n\nMetadata value type number {}.\n\nIn the file: {size}.{width}\n{gap}{picture}", value_type.0)
}

/// The standard key that this is, of an architecture that somebody knows.
fn standard_key(key: &str, catalogue: &Catalogue) -> Option<StandardKey> {
    let (first, _) = key.split_once('.')?;
    let is_architecture = || catalogue.by_name(first).is_some() || TensorNames::of(first).is_some() || matches!(first, "{arch}" | "[llm]");
    StandardKey::of(key).filter(|standard| !standard.is_of_architecture() || is_architecture())
}

/// The page of a standard key, as Markdown.
fn key_page(key: &str, catalogue: &Catalogue) -> Option<String> {
    let Some(StandardKey { type_name, meaning, .. }) = standard_key(key, catalogue) else { return own_key_page(key, catalogue) };
    let mut page = format!("# {key}\n\n{meaning}\n\nStandard metadata key of type {type_name}.\n");
    let mut about = rules().filter(|rule| [rule.clause, rule.remedy, rule.summary].iter().any(|text| mentions(text, key))).peekable();
    if about.peek().is_some() {
        page.push_str("\n## Rules about it\n\n");
    }
    for rule in about {
        let _ = writeln!(page, "- {}: {}.", rule.code, rule.summary);
    }
    Some(page)
}

/// The page of a key that only the description of its architecture knows.
fn own_key_page(key: &str, catalogue: &Catalogue) -> Option<String> {
    let (name, _) = key.split_once('.')?;
    let (single, element) = catalogue.by_name(name)?.key_types(key)?;
    let types = [single.map(|single| single.to_string()), element.map(|element| format!("array of {element}"))];
    let types = types.into_iter().flatten().collect::<Vec<_>>().join(", or ");
    Some(format!("# {key}\n\nMetadata key of the architecture {name}, of type {types}.\n"))
}

/// Whether a text names a key, and not one that begins with it.
fn mentions(text: &str, key: &str) -> bool {
    text.match_indices(key).any(|(at, _)| {
        let after = text.get(at + key.len()..).unwrap_or_default();
        let mut rest = after.chars();
        match rest.next() {
            Some('.') => rest.next().is_none_or(|c| !c.is_ascii_alphanumeric()),
            Some(c) => !c.is_ascii_alphanumeric() && c != '_',
            None => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standard_key_has_a_page_and_the_type_that_the_rules_hold_it_to() {
        for StandardKey { pattern, type_name, meaning, .. } in StandardKey::all() {
            assert!(meaning.ends_with('.') && !meaning.contains('|'), "{pattern}");
            let key = pattern.replace("{n}", "0").replace("{arch}", "llama");
            let page = key_page(&key, &Catalogue::new()).unwrap();
            assert!(page.contains(meaning), "{key}");
            if let Some(expected) = crate::rules::expected_type(&key).filter(|expected| expected != "array") {
                assert_eq!(expected, type_name, "{key}");
            }
        }
        assert!(key_page("rwkv7.wkv.head_size", &Catalogue::new()).unwrap().contains("of the architecture rwkv7, of type u32"));
        assert!(key_page("nobody.context_length", &Catalogue::new()).is_none());
        assert!(key_page("general.base_model.0.colour", &Catalogue::new()).is_none());
    }

    #[test]
    fn every_known_general_key_is_listed() {
        for name in crate::rules::known_general() {
            let key = format!("general.{name}");
            assert!(standard_key(&key, &Catalogue::new()).is_some() || name.starts_with("tensor_extra."), "{key}");
        }
    }

    #[test]
    fn what_other_pages_call_things_is_known() {
        let page = |topic: &str| explain(topic, &Catalogue::new()).unwrap_or_default();
        for (topic, expected) in [
            ("GG13", "# Rules about tensors"),
            ("uint32", "# u32"),
            ("float32", "# f32"),
            ("Q4_K_M", "# Q4_K_M"),
            ("mistral", "# llama:"),
            ("mixtral", "# llama:"),
            ("adapter.type", "# adapter.type"),
            ("clip.has_vision_encoder", "# clip.has_vision_encoder"),
            ("imatrix.datasets", "# imatrix.datasets"),
            ("mpt.attention.alibi_bias_max", "# mpt.attention.alibi_bias_max"),
        ] {
            assert!(page(topic).starts_with(expected), "{topic}: {}", page(topic));
        }
        assert!(topics(&Catalogue::new()).contains("plamo"));
    }

    #[test]
    fn a_key_is_not_mentioned_by_a_longer_one() {
        assert!(mentions("Set general.license as it is.", "general.license"));
        assert!(mentions("with general.license.", "general.license"));
        assert!(!mentions("with general.license.link", "general.license"));
        assert!(!mentions("general.license_text", "general.license"));
    }

    #[test]
    fn what_is_misspelt_is_found_nearby() {
        assert_eq!(near("Q4_L", &Catalogue::new()).first().map(String::as_str), Some("Q4_0"));
        assert!(near("general.licence", &Catalogue::new()).contains(&"general.license".to_owned()));
        assert!(near("xyzzy plugh", &Catalogue::new()).is_empty());
    }
}
