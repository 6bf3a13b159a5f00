//! Pages about rules.

use std::fmt::Write as _;

use crate::advisory::advisories_section;
use crate::source::sources_section;
use crate::{AutomaticFix, Group, Rule, rules};

/// Returns the page of a rule (by code) or of a group of rules, as Markdown; `None` for another topic.
///
/// ```
/// let page = ggmill_check::explain("gg1302").ok_or("known")?;
/// assert!(page.starts_with("# GG1302: ") && ggmill_check::explain("Q4_K").is_none());
/// # Ok::<(), &str>(())
/// ```
pub fn explain(topic: &str) -> Option<String> {
    if let Some(rule) = rules().find(|rule| rule.code.eq_ignore_ascii_case(topic)) {
        return Some(rule_page(rule));
    }
    let is_meant = |group: &Group| {
        group.name().eq_ignore_ascii_case(topic)
            || format!("GG{}", *group as u8).eq_ignore_ascii_case(topic)
    };
    let group = Group::ALL.into_iter().find(is_meant)?;
    let mut page = format!("# Rules about {}\n", group.name());
    group_table(group, &mut page, false);
    Some(page)
}

/// Returns the section about the rules that mention a key, for the page of the key; empty if there are
/// none.
pub fn rules_about(key: &str) -> String {
    let mut section = String::new();
    for rule in rules().filter(|rule| {
        [rule.clause, rule.remedy, rule.summary].iter().any(|text| mentions(text, key))
    }) {
        if section.is_empty() {
            section.push_str("\n## Related rules\n\n");
        }
        // Writing to a string cannot fail.
        let _ = writeln!(section, "- {}: {}.", rule.code, rule.summary);
    }
    section
}

/// Returns at most three rules, groups and other topics with a similar spelling, nearest first.
pub fn near(topic: &str, others: impl Iterator<Item = String>) -> Vec<String> {
    const MAX_LEN: usize = 64;
    if topic.len() > MAX_LEN {
        return Vec::new();
    }
    let wanted = topic.to_ascii_lowercase();
    let codes = rules()
        .map(|rule| rule.code.to_owned())
        .chain(Group::ALL.iter().map(|group| group.name().to_owned()));
    let mut found: Vec<(usize, String)> = others
        .chain(codes)
        .map(|known| {
            (ggmill_arch::distance(known.to_ascii_lowercase().as_bytes(), wanted.as_bytes()), known)
        })
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .collect();
    found.sort();
    found.into_iter().map(|(_, known)| known).take(3).collect()
}

/// Returns the known keys that are similar to `key` or contain it, ordered by edit distance, and at equal
/// distance those that contain it first.
///
/// ```
/// let keys = ["general.basename", "general.name", "llama.context_length"];
/// assert_eq!(ggmill_check::near_keys("name", &keys), ["general.name", "general.basename"]);
/// assert_eq!(ggmill_check::near_keys("context_lenght", &keys), ["llama.context_length"]);
/// assert_eq!(ggmill_check::near_keys("xyz", &keys), [""; 0]);
/// ```
pub fn near_keys<'a>(key: &str, known: &[&'a str]) -> Vec<&'a str> {
    const MAX_LEN: usize = 64;
    if key.is_empty() || key.len() > MAX_LEN {
        return Vec::new();
    }
    let wanted = key.to_ascii_lowercase();
    let distance = |other: &str| ggmill_arch::distance(other.as_bytes(), wanted.as_bytes());
    let mut found: Vec<(usize, bool, &str)> = Vec::new();
    for &known in known.iter().filter(|known| known.len() <= 2 * MAX_LEN) {
        let lower = known.to_ascii_lowercase();
        // The key and its suffixes without the first segments.
        let dots = lower.match_indices('.').map(|(dot, _)| dot + 1);
        let ends: Vec<&str> =
            core::iter::once(0).chain(dots).filter_map(|start| lower.get(start..)).collect();
        let contains = lower.contains(&wanted);
        let nearest = ends.iter().map(|end| distance(end)).min().unwrap_or(usize::MAX);
        if contains || ends.iter().any(|end| distance(end) <= end.len() / 3) {
            found.push((nearest, !contains, known));
        }
    }
    found.sort_by_key(|&(distance, is_other, _)| (distance, is_other));
    found.into_iter().map(|(.., known)| known).collect()
}

/// Returns the page of a rule, as Markdown.
pub fn rule_page(rule: &Rule) -> String {
    let Rule { code, group, severity, summary, clause, why, remedy, fixed, automatic, .. } = rule;
    let (requirement, sources) = (rule.requirement_with(" (see below)"), sources_section(rule));
    let advisories = advisories_section(rule);
    let when = checked_when(*group).map_or_else(String::new, |when| format!("\n\n{when}"));
    let group = group.name();
    let example = example(rule);
    let automatic = automatic.map_or_else(
        || "`ggmill check --fix` does not fix this.".to_owned(),
        |automatic| {
            let condition = if matches!(automatic, AutomaticFix::Rewrite(_)) {
                " `check --fix` does not rewrite shards of a split model, files with trailing data, or files \
                 that have nonzero bytes in the gap between two tensors, beyond the alignment \
                 padding (GG1013)."
            } else {
                ""
            };
            let effect = automatic.effect();
            format!(
                "`ggmill check --fix` {effect}. This is safe: it neither changes tensor data nor \
                 discards anything that a reader uses.{condition}"
            )
        },
    );
    format!(
        "# {code}: {summary}\n\nGroup: {group}. Severity: {severity}. {requirement}{when}\n\n## What it \
         checks\n\n{clause}\n\n## Why\n\n{why}\n\n## \
         Example\n\nFailing:\n\n```text\n{example}```\n\n\
         Fixed:\n\n```text\n{fixed}\n```\n\n## How to fix\n\n{remedy}\n\n{automatic}\n{advisories}{sources}"
    )
}

/// Returns the example of a rule: the chat template if the rule is about it, and the findings as
/// printed. A test generates `examples.txt` from files that violate the rules and compares it.
fn example(rule: &Rule) -> String {
    const EXAMPLES: &str = include_str!("../data/examples.txt");
    let Rule { code, severity, summary, .. } = rule;
    let lines = EXAMPLES.lines().filter_map(|line| line.strip_prefix(code)?.strip_prefix(' '));
    let (mut template, mut findings) = (String::new(), String::new());
    for line in lines {
        // Writing to a string cannot fail.
        let _ = match line.strip_prefix("| ") {
            Some(text) => writeln!(template, "tokenizer.chat_template: {text}\n"),
            None => writeln!(findings, "  {line}"),
        };
    }
    format!("{template}{severity} {summary} · {code}\n{findings}")
}

/// Returns the list of all rules as Markdown, for the directory of their pages.
pub fn rules_index() -> String {
    let mut page = String::from(
        "# Rules of `ggmill check`\n\nGenerated from the rules; `ggmill explain CODE` prints the same \
         pages.\n",
    );
    for group in Group::ALL {
        if rules().any(|rule| rule.group == group) {
            // Writing to a string cannot fail.
            let _ = write!(page, "\n## {}\n", group.name());
            group_table(group, &mut page, true);
        }
    }
    page
}

/// Returns when the rules of a group are checked, if not by default.
fn checked_when(group: Group) -> Option<&'static str> {
    Some(match group {
        Group::Naming => {
            "Rules in this group are off by default; to check them, use `--profile spec`, \
             `--select naming` or `--select all`."
        }
        Group::Rendering => {
            "Rules in this group render chat templates with test conversations. They are off by default; \
             to check them, use `--profile run`, `--select rendering` or `--select all`, or run \
             `ggmill template lint`. `--profile threat` checks those about hidden instructions."
        }
        Group::Segmentation => {
            "Rules in this group test a vocabulary by running its tokenizer. They are off by default; to \
             check them, use `--profile run`, `--select segmentation` or `--select all`."
        }
        Group::Threat => {
            "Rules in this group recognize values that some versions of some programs mishandle. They are \
             off by default; to check them, use `--profile threat`, `--select threat` or `--select all`."
        }
        _ => return None,
    })
}

fn group_table(group: Group, page: &mut String, links: bool) {
    if let Some(when) = checked_when(group) {
        let _ = write!(page, "\n{when}\n");
    }
    page.push_str("\n| code | severity | problem |\n|---|---|---|\n");
    for rule in rules().filter(|rule| rule.group == group) {
        let code = if links { format!("[{0}]({0}.md)", rule.code) } else { rule.code.to_owned() };
        let _ = writeln!(page, "| {code} | {} | {} |", rule.severity, rule.summary);
    }
}

/// Returns all rules by group, as sections with a line for each rule.
pub fn topics() -> String {
    let mut page = String::new();
    for group in Group::ALL {
        if rules().any(|rule| rule.group == group) {
            // Writing to a string cannot fail.
            let _ = write!(page, "## Rules about {0} (`{0}`)\n\n", group.name());
            for rule in rules().filter(|rule| rule.group == group) {
                let _ = writeln!(page, "    {}  {}", rule.code, rule.summary);
            }
            page.push('\n');
        }
    }
    page
}

/// Returns `true` if a text names this key, and not only a longer one.
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
    use ggmill_arch::StandardKey;

    use super::*;

    #[test]
    fn standard_keys_have_the_types_that_the_rules_expect() {
        for StandardKey { pattern, type_name, .. } in StandardKey::all() {
            let key = pattern.replace("{n}", "0").replace("{arch}", "llama");
            if let Some(expected) =
                crate::rules::expected_type(&key).filter(|expected| expected != "array")
            {
                assert_eq!(expected, type_name, "{key}");
            }
        }
    }

    #[test]
    fn every_known_general_key_is_listed() {
        for name in crate::rules::known_general() {
            let key = format!("general.{name}");
            assert!(StandardKey::of(&key).is_some() || name.starts_with("tensor_extra."), "{key}");
        }
    }

    #[test]
    fn groups_and_keys_lead_to_their_rules() {
        assert!(explain("GG13").unwrap().starts_with("# Rules about tensors"));
        assert!(rules_about("general.license").contains("\n- GG"));
        assert_eq!(rules_about("Q4_K"), "");
    }

    #[test]
    fn a_key_is_not_mentioned_by_a_longer_one() {
        assert!(mentions("Set general.license as it is.", "general.license"));
        assert!(mentions("with general.license.", "general.license"));
        assert!(!mentions("with general.license.link", "general.license"));
        assert!(!mentions("general.license_text", "general.license"));
    }

    #[test]
    fn misspelled_topics_are_found() {
        let others = || ["Q4_0", "Q4_1", "general.license"].into_iter().map(str::to_owned);
        assert_eq!(near("Q4_L", others()).first().map(String::as_str), Some("Q4_0"));
        assert!(near("general.licence", others()).contains(&"general.license".to_owned()));
        assert!(near("xyzzy plugh", others()).is_empty());
    }
}
