//! The rules, a file for each group, and the walk through them.

mod architecture;
mod data;
mod keys;
mod kinds;
mod metadata;
mod naming;
mod provenance;
mod quantization;
mod rendering;
mod segmentation;
mod shards;
mod structure;
mod template;
mod tensors;
mod tokenizer;

use ggmill_core::{Array, Error, RawStr};

pub use keys::meant_key;
#[cfg(test)]
pub(crate) use metadata::{expected_type, known_general};
pub use naming::name_fault;
pub use template::template_fault;

use crate::report::{Findings, Place};
use crate::{Input, Options, Report, Rule};

/// A group's rules and what looks for breaches of them. What reads every string of a long
/// vocabulary is in one place only.
struct Part {
    rules: &'static [&'static Rule],
    check: fn(&Input<'_>, &Options, &mut Findings<'_>),
}

static PARTS: &[Part] = &[
    Part { rules: structure::RULES, check: structure::check },
    Part { rules: metadata::RULES, check: metadata::check },
    Part { rules: keys::RULES, check: keys::check },
    Part { rules: tensors::RULES, check: tensors::check },
    Part { rules: quantization::RULES, check: quantization::check },
    Part { rules: architecture::RULES, check: architecture::check },
    Part { rules: kinds::RULES, check: kinds::check },
    Part { rules: tokenizer::RULES, check: tokenizer::check },
    Part { rules: template::RULES, check: template::check },
    Part { rules: naming::RULES, check: naming::check },
    Part { rules: shards::RULES, check: shards::check },
    Part { rules: provenance::RULES, check: provenance::check },
    Part { rules: data::RULES, check: data::check },
    Part { rules: rendering::RULES, check: rendering::check },
    Part { rules: segmentation::RULES, check: segmentation::check },
];

/// Every rule, by group and then by code.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    PARTS.iter().flat_map(|part| part.rules.iter().copied())
}

/// Holds a file to the rules.
///
/// Time grows as n log n with the header, memory with the header; findings are capped by rule.
pub fn check(input: &Input<'_>, options: &Options) -> Report {
    let mut findings = Findings::new(options, 1);
    walk(input, options, &mut findings);
    findings.into_reports().pop().unwrap_or_default()
}

/// Holds all shards of a set, in order and each with its whole header, to the rules as the one
/// model they are: a report for each file.
///
/// Findings about the model as a whole occur once, with the metadata of the first shard and the
/// tensors of all, in the report of the file that they are in.
pub fn check_set(shards: &[Input<'_>], options: &Options) -> Vec<Report> {
    let mut findings = Findings::new(options, shards.len());
    for (shard, input) in shards.iter().enumerate() {
        findings.turn_to(shard);
        walk(&input.among(shards, shard), options, &mut findings);
    }
    findings.into_reports()
}

/// Holds the files of a model to the rules: as one model where they are all shards of a set and each
/// has its whole header, each by itself otherwise. A report for each file.
///
/// `set_fault`, in one line without control characters, describes what is wrong with their shard
/// set; it is reported for the first of the files.
pub fn check_files(files: &[Input<'_>], set_fault: Option<&str>, options: &Options) -> Vec<Report> {
    if files.len() > 1 && set_fault.is_none() && files.iter().all(Input::is_whole) {
        return check_set(files, options);
    }
    let one = |(place, input): (usize, &Input<'_>)| match set_fault.filter(|_| place == 0) {
        Some(fault) => check(&input.with_set_fault(fault), options),
        None => check(input, options),
    };
    files.iter().enumerate().map(one).collect()
}

fn walk(input: &Input<'_>, options: &Options, findings: &mut Findings<'_>) {
    for part in PARTS {
        if part.rules.iter().any(|rule| options.applies(rule)) {
            (part.check)(input, options, findings);
        }
    }
    // One shard of a set is laid out with the others, and nothing may be lost.
    if findings.has_rewrite() && (input.is_shard() || !structure::is_all_known(input)) {
        findings.drop_rewrites();
    }
}

/// The report on bytes that are not GGUF at all.
pub fn unreadable(error: &Error, options: &Options) -> Report {
    let mut findings = Findings::new(options, 1);
    let place = error.offset().map_or(Place::FILE, Place::at);
    findings.add(structure::not_gguf(), place, || error.message().to_string());
    findings.into_reports().pop().unwrap_or_default()
}

/// The strings of an array; none of one of something else.
fn texts<'a>(array: &Array<'a>) -> impl Iterator<Item = RawStr<'a>> {
    // Not flattened, which costs several times the walk itself.
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
    fn texts_are_sentences_and_summaries_are_not() {
        for rule in rules() {
            assert!(!rule.summary.ends_with('.'), "{}", rule.code);
            for text in [rule.clause, rule.why, rule.remedy] {
                let ends = text.ends_with('.') || text.ends_with(".\"");
                assert!(ends && text.len() > 10, "{}: {text}", rule.code);
            }
        }
    }
}
