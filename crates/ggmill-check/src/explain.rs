//! Pages about rules, types, keys and architectures.

use std::fmt::Write as _;

use ggmill_arch::{Catalogue, TensorNames};
use ggmill_core::{GgmlType, ValueType};

use crate::{Group, Rule, architecture_page, rules};

/// The page of a rule (by code), a tensor type, a metadata type, or an architecture of the catalogue, as Markdown; `None` for anything else.
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
    if let Some(ggml_type) = GgmlType::from_name(topic) {
        return Some(type_page(ggml_type));
    }
    if let Some(value_type) = ValueType::from_name(&topic.to_ascii_lowercase()) {
        return Some(value_type_page(value_type));
    }
    if let Some(architecture) = catalogue.by_name(topic) {
        return Some(architecture_page::described(architecture));
    }
    if let Some(names) = TensorNames::of(topic) {
        return Some(architecture_page::named(topic, names));
    }
    crate::rules::key_page(topic)
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
        let mut rows = rules().filter(|rule| rule.group == group).peekable();
        if rows.peek().is_none() {
            continue;
        }
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {}\n\n| code | severity | what is wrong |\n|---|---|---|\n", group.name());
        for rule in rows {
            let _ = writeln!(page, "| [{0}]({0}.md) | {1} | {2} |", rule.code, rule.severity, rule.summary);
        }
    }
    page
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
    page
}

fn value_type_page(value_type: ValueType) -> String {
    let size = match value_type.fixed_size() {
        Some(1) => "one byte".to_owned(),
        Some(size) => format!("{size} bytes"),
        None if value_type == ValueType::STRING => "its length in bytes as u64, then the bytes: UTF-8, without a NUL at the end".to_owned(),
        None => "the type of the elements as u32, their count as u64, then the elements".to_owned(),
    };
    format!("# {value_type}\n\nMetadata value type number {}.\n\nIn the file: {size}.\n", value_type.0)
}
