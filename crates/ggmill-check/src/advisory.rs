//! Published flaws of programs that read GGUF files.

use std::fmt::Write as _;

use crate::Rule;

/// Lines of `id|product|affected|rules|effect|trigger|address`.
static ADVISORIES: &str = include_str!("../data/advisories.txt");

/// A published flaw of a program that a file can trigger.
///
/// ```
/// use ggmill_check::Advisory;
/// let advisory = Advisory::all().find(|it| it.id == "CVE-2026-7482").ok_or("known")?;
/// assert_eq!((advisory.product, advisory.affected), ("Ollama", "before 0.17.1"));
/// assert!(advisory.is_recognized_by("GG1302"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advisory {
    /// The CVE or GHSA number, or the repository and number of the issue, or the name of a limit.
    pub id: &'static str,
    /// The affected programs.
    pub product: &'static str,
    /// The affected versions, as published.
    pub affected: &'static str,
    /// The codes of the rules that recognize a file able to trigger it, separated by commas.
    rules: &'static str,
    /// The effect on the program.
    pub effect: &'static str,
    /// The property of a file that triggers it.
    pub trigger: &'static str,
    /// The address of the advisory.
    pub address: &'static str,
}

impl Advisory {
    fn parse(line: &'static str) -> Option<Self> {
        let mut fields = line.splitn(7, '|');
        let mut field = || fields.next();
        Some(Self {
            id: field()?,
            product: field()?,
            affected: field()?,
            rules: field()?,
            effect: field()?,
            trigger: field()?,
            address: field()?,
        })
    }

    /// Returns every advisory, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        ADVISORIES.lines().filter(|line| !line.starts_with('#')).filter_map(Self::parse)
    }

    /// Returns the codes of the rules that recognize a file able to trigger it.
    pub fn rules(&self) -> impl Iterator<Item = &'static str> {
        self.rules.split(',')
    }

    /// Returns `true` if the rule with this code recognizes a file able to trigger it.
    pub fn is_recognized_by(&self, code: &str) -> bool {
        self.rules().any(|known| known == code)
    }
}

/// The codes of the rules that advisories cite, sorted. A program that does not list advisories, such as a
/// WebAssembly module, is linked without their table.
static CITED: [&str; 47] = [
    "GG1001", "GG1002", "GG1003", "GG1008", "GG1009", "GG1107", "GG1201", "GG1202", "GG1206",
    "GG1302", "GG1304", "GG1308", "GG1309", "GG1312", "GG1313", "GG1314", "GG1511", "GG1530",
    "GG1531", "GG1602", "GG1603", "GG1619", "GG1701", "GG1702", "GG1703", "GG1705", "GG1706",
    "GG1707", "GG1708", "GG2215", "GG2216", "GG2217", "GG2218", "GG2219", "GG2220", "GG2401",
    "GG2402", "GG2403", "GG2404", "GG2405", "GG2406", "GG2407", "GG2409", "GG2410", "GG2411",
    "GG2412", "GG2413",
];

impl Rule {
    /// Returns the published flaws that a file violating the rule can trigger.
    pub fn advisories(&self) -> impl Iterator<Item = Advisory> {
        Advisory::all().filter(|advisory| advisory.is_recognized_by(self.code))
    }

    /// Returns `true` if a published flaw needs a file that violates the rule.
    pub(crate) fn is_threat(&self) -> bool {
        CITED.binary_search(&self.code).is_ok()
    }
}

/// Returns the section about the advisories of a rule, for its page; empty if there are none.
pub(crate) fn advisories_section(rule: &Rule) -> String {
    let mut section = String::new();
    for Advisory { id, product, affected, effect, trigger, address, .. } in rule.advisories() {
        if section.is_empty() {
            section.push_str("\n## Advisories\n\nA file that violates this rule can trigger:\n\n");
        }
        // Writing to a string cannot fail.
        let _ = writeln!(
            section,
            "- [{id}]({address}): {product}, {affected}. Effect: {effect}. Trigger: {trigger}."
        );
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, rules};

    #[test]
    fn every_line_is_complete() {
        let lines = ADVISORIES.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.count(), Advisory::all().count());
        for advisory in Advisory::all() {
            let Advisory { id, product, affected, effect, trigger, address, .. } = advisory;
            assert!(address.starts_with("https://"), "{id}");
            for field in [id, product, affected, effect, trigger] {
                assert!(!field.is_empty() && !field.ends_with('.'), "{id}: {field}");
            }
            for code in advisory.rules() {
                assert!(rules().any(|rule| rule.code == code), "{id}: {code}");
            }
        }
        let mut ids: Vec<_> = Advisory::all().map(|advisory| advisory.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn the_cited_rules_are_those_of_the_table() {
        let mut codes: Vec<_> =
            Advisory::all().flat_map(|advisory| advisory.rules.split(',')).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes, CITED);
    }

    #[test]
    fn every_rule_about_threats_has_an_advisory() {
        for rule in rules().filter(|rule| rule.group == Group::Threat) {
            assert!(rule.is_threat(), "{}", rule.code);
        }
    }
}
