//! The rules, in a file for each group.

mod architecture;
mod behavior;
mod data;
mod keys;
mod kinds;
mod license;
mod metadata;
mod naming;
mod provenance;
mod quantization;
mod rendering;
mod segmentation;
mod set;
mod shards;
mod structure;
mod template;
mod tensors;
mod threat;
mod tokenizer;

use ggmill_core::{Array, Error, RawStr};

pub use keys::meant_key;
#[cfg(test)]
pub(crate) use metadata::{expected_type, known_general};
pub use naming::name_fault;
pub use set::{RuleSet, concerns_text};
pub use template::template_fault;

use crate::report::{Findings, Place};
use crate::{Input, Options, Report, Rule};

/// The rules of every group, in the order of the groups. Not derived from [`RuleSet::ALL`], so that a
/// program that only lists rules is not linked with the code that checks them.
static RULES: &[&[&Rule]] = &[
    structure::RULES,
    metadata::RULES,
    keys::RULES,
    tensors::RULES,
    quantization::RULES,
    architecture::RULES,
    kinds::RULES,
    tokenizer::RULES,
    template::RULES,
    naming::RULES,
    shards::RULES,
    provenance::RULES,
    data::RULES,
    rendering::RULES,
    behavior::RULES,
    segmentation::RULES,
    threat::RULES,
];

/// Returns every rule, ordered by group and code.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().flat_map(|rules| rules.iter().copied())
}

/// Checks a file against the rules.
///
/// Takes n log n time and linear memory in the size of the header. The number of findings of each rule is
/// limited.
pub fn check(input: &Input<'_>, options: &Options) -> Report {
    RuleSet::ALL.check(input, options)
}

/// Checks all shards of a set, in order and with whole headers, as one model. Returns a report for each
/// file.
///
/// Rules about the model as a whole use the metadata of the first shard and the tensors of all, and report
/// once, for the file that contains the subject.
pub fn check_set(shards: &[Input<'_>], options: &Options) -> Vec<Report> {
    RuleSet::ALL.check_set(shards, options)
}

/// Checks the files of a model against [all rules](RuleSet::ALL), like [`RuleSet::check_files`].
pub fn check_files(files: &[Input<'_>], set_fault: Option<&str>, options: &Options) -> Vec<Report> {
    RuleSet::ALL.check_files(files, set_fault, options)
}

/// Returns the report on bytes that are not GGUF.
pub fn unreadable(error: &Error, options: &Options) -> Report {
    let mut findings = Findings::new(options, 1);
    let place = error.offset().map_or(Place::FILE, Place::at);
    findings.add(structure::not_gguf(), place, || error.message().to_string());
    findings.into_reports().pop().unwrap_or_default()
}

/// Returns the strings of an array; none for other element types.
fn texts<'a>(array: &Array<'a>) -> impl Iterator<Item = RawStr<'a>> {
    // `flatten` would cost several times the iteration.
    let mut strings = array.strings();
    std::iter::from_fn(move || strings.as_mut()?.next()?.ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_ordered_within_their_group() {
        let codes: Vec<_> = rules().map(|rule| rule.code).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), codes.len());
        for rule in rules() {
            assert!(
                rule.code.len() == 6 && rule.code.starts_with(&format!("GG{}", rule.group as u8)),
                "{}",
                rule.code
            );
        }
    }

    #[test]
    fn clauses_are_sentences_and_summaries_are_not() {
        for rule in rules() {
            assert!(!rule.summary.ends_with('.'), "{}", rule.code);
            for text in [rule.clause, rule.why, rule.remedy] {
                let ends = text.ends_with('.') || text.ends_with(".\"");
                assert!(ends && text.len() > 10, "{}: {text}", rule.code);
            }
        }
    }
}
