//! Sets of rules, and the check of files against them.

use std::fmt;

use ggmill_core::keys;

use super::{
    architecture, behavior, data, keys as key_rules, kinds, metadata, naming, provenance,
    quantization, rendering, segmentation, shards, structure, template, tensors, threat, tokenizer,
};
use crate::report::Findings;
use crate::{Input, Options, Report, Rule};

/// The rules of a group and the function that checks them.
struct Part {
    rules: &'static [&'static Rule],
    check: fn(&Input<'_>, &Options, &mut Findings<'_>),
}

const WITHOUT_TEXT: &[Part] = &[
    Part { rules: structure::RULES, check: structure::check },
    Part { rules: metadata::RULES, check: metadata::check },
    Part { rules: key_rules::RULES, check: key_rules::check },
    Part { rules: tensors::RULES, check: tensors::check },
    Part { rules: quantization::RULES, check: quantization::check },
    Part { rules: architecture::RULES, check: architecture::check },
    Part { rules: kinds::RULES, check: kinds::check },
    Part { rules: tokenizer::RULES, check: tokenizer::check },
    Part { rules: naming::RULES, check: naming::check },
    Part { rules: shards::RULES, check: shards::check },
    Part { rules: provenance::RULES, check: provenance::check },
    Part { rules: data::RULES, check: data::check },
    Part { rules: threat::RULES, check: threat::check },
];

const TEXT: &[Part] = &[
    Part { rules: template::RULES, check: template::check },
    Part { rules: rendering::RULES, check: rendering::check },
    Part { rules: behavior::RULES, check: behavior::check },
    Part { rules: segmentation::RULES, check: segmentation::check },
];

/// All rules, or one of two complementary sets.
///
/// The rules about text parse and render chat templates and run the tokenizer, which takes more
/// code than all others. A program that uses only the other set is linked without it, as the
/// WebAssembly modules are.
///
/// ```
/// use ggmill_check::{Input, Options, RuleSet, concerns_text};
/// # use ggmill_core::{Builder, MetadataBuf, Model};
/// # let mut metadata = MetadataBuf::new();
/// # metadata.set("tokenizer.chat_template", "{% if %}");
/// # let file = Builder::new().metadata(metadata).plan()?.header().to_vec();
/// let model = Model::open_damaged(file)?;
/// let (files, options) = ([Input::new(&model.parts()[0])], Options::default());
/// let count = |set: RuleSet| set.check_files(&files, None, &options)[0].counts().len();
/// assert!(concerns_text(&files, &options) && count(RuleSet::TEXT) == 1);
/// assert_eq!(count(RuleSet::TEXT) + count(RuleSet::WITHOUT_TEXT), count(RuleSet::ALL));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct RuleSet(&'static [&'static [Part]]);

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.parts().flat_map(|part| part.rules);
        f.debug_list().entries(rules.map(|rule| rule.code)).finish()
    }
}

impl RuleSet {
    /// Every rule.
    pub const ALL: Self = Self(&[WITHOUT_TEXT, TEXT]);
    /// The rules that parse or render chat templates, and those that run the tokenizer: the groups
    /// [`Template`](crate::Group::Template), [`Rendering`](crate::Group::Rendering) and
    /// [`Segmentation`](crate::Group::Segmentation).
    pub const TEXT: Self = Self(&[TEXT]);
    /// All other rules.
    pub const WITHOUT_TEXT: Self = Self(&[WITHOUT_TEXT]);

    /// Checks the files of a model against the rules of the set that `options` selects: as one model if
    /// they are all shards of a set with whole headers, otherwise separately. Returns a report for each
    /// file.
    ///
    /// `set_fault`, in one line without control characters, describes a fault of the shard set, which is
    /// reported for the first file.
    pub fn check_files(
        self,
        files: &[Input<'_>],
        set_fault: Option<&str>,
        options: &Options,
    ) -> Vec<Report> {
        if files.len() > 1 && set_fault.is_none() && files.iter().all(Input::is_whole) {
            return self.check_set(files, options);
        }
        let one = |(place, input): (usize, &Input<'_>)| match set_fault.filter(|_| place == 0) {
            Some(fault) => self.check(&input.with_set_fault(fault), options),
            None => self.check(input, options),
        };
        files.iter().enumerate().map(one).collect()
    }

    pub(super) fn check(self, input: &Input<'_>, options: &Options) -> Report {
        let mut findings = Findings::new(options, 1);
        self.check_parts(input, options, &mut findings);
        findings.into_reports().pop().unwrap_or_default()
    }

    pub(super) fn check_set(self, shards: &[Input<'_>], options: &Options) -> Vec<Report> {
        let mut findings = Findings::new(options, shards.len());
        for (shard, input) in shards.iter().enumerate() {
            findings.set_shard(shard);
            self.check_parts(&input.among(shards, shard), options, &mut findings);
        }
        findings.into_reports()
    }

    fn parts(self) -> impl Iterator<Item = &'static Part> {
        self.0.iter().flat_map(|parts| parts.iter())
    }

    fn check_parts(self, input: &Input<'_>, options: &Options, findings: &mut Findings<'_>) {
        for part in self.parts() {
            if part.rules.iter().any(|rule| options.applies(rule)) {
                (part.check)(input, options, findings);
            }
        }
        // Rewriting would break the layout of a set, and would drop bytes that belong to no tensor.
        if findings.has_rewrite() && (input.is_shard() || !structure::has_only_known_bytes(input)) {
            findings.drop_rewrites();
        }
    }
}

/// Returns `true` if a selected [rule about text](RuleSet::TEXT) can apply to these files: they have a
/// chat template, or a vocabulary for the rules that run the tokenizer. It does not link these rules.
pub fn concerns_text(files: &[Input<'_>], options: &Options) -> bool {
    let wants = |rules: &[&Rule]| rules.iter().any(|rule| options.applies(rule));
    let has = |name: &str| {
        let mut keys = files.iter().flat_map(|input| input.metadata().iter());
        keys.any(|entry| entry.key().as_bytes().starts_with(name.as_bytes()))
    };
    let templates = [template::RULES, rendering::RULES, behavior::RULES];
    (has(keys::TOKENIZER_CHAT_TEMPLATE) && templates.into_iter().any(wants))
        || (has(keys::TOKENIZER_TOKENS) && wants(segmentation::RULES))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_two_sets_are_complementary() {
        let codes = |set: RuleSet| -> Vec<&str> {
            set.parts().flat_map(|part| part.rules).map(|rule| rule.code).collect()
        };
        let all = codes(RuleSet::ALL);
        assert_eq!(all, [codes(RuleSet::WITHOUT_TEXT), codes(RuleSet::TEXT)].concat());
        let once: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(once.len(), all.len());
        assert_eq!(once, crate::rules().map(|rule| rule.code).collect());
    }
}
