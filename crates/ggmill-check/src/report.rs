//! The findings.

use std::borrow::Cow;
use std::fmt;

use ggmill_core::{Entry, Error, RawStr, Subject, Tensor};

use crate::fix::ProposedFix;
use crate::{Authority, Fix, Options, Profile, Rule, Severity};

/// The subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnedSubject {
    /// The file as a whole.
    File,
    /// The metadata entry with this key, escaped.
    Key(String),
    /// The tensor with this name, escaped.
    Tensor(String),
}

impl fmt::Display for OwnedSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Key(key) => write!(f, "key {key}"),
            Self::Tensor(name) => write!(f, "tensor {name}"),
        }
    }
}

/// One finding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The rule that is broken.
    pub rule: &'static Rule,
    /// How bad it is.
    pub severity: Severity,
    /// Where in the file, in bytes from its start.
    pub offset: Option<u64>,
    /// The subject.
    pub subject: OwnedSubject,
    /// The message, in one line without control characters.
    pub message: String,
    /// How to fix it.
    pub help: Cow<'static, str>,
    /// The fix, where a program can do that and lose nothing.
    pub fix: Option<Fix>,
}

/// Everything that was found in one file: at most so many findings of a rule, and how many more
/// there were.
#[derive(Clone, Debug, Default)]
pub struct Report {
    diagnostics: Vec<Diagnostic>,
    counts: Vec<(&'static Rule, u64)>,
    /// Whether what the specification says must be is an error.
    strict: bool,
}

impl Report {
    /// How bad it is to break the rule, in the profile that the report was made by.
    pub fn severity(&self, rule: &Rule) -> Severity {
        if self.strict && rule.authority == Authority::Must {
            Severity::Error
        } else {
            rule.severity
        }
    }

    /// The findings, worst first, then in the order of the rules.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The fixes of the findings, each once: one rewrite fixes all that a rewrite can fix, and of
    /// two values for a key the later one counts.
    pub fn fixes(&self) -> Vec<ProposedFix> {
        let mut fixes: Vec<ProposedFix> = Vec::new();
        for diagnostic in &self.diagnostics {
            let Some(fix) = &diagnostic.fix else { continue };
            let same = |known: &Fix| match (known, fix) {
                (Fix::Set { key: known, .. }, Fix::Set { key, .. }) => known == key,
                _ => known == fix,
            };
            match fixes.iter_mut().find(|known| same(&known.fix)) {
                Some(known) => {
                    known.codes.push(diagnostic.rule.code);
                    known.fix = fix.clone();
                }
                None => {
                    fixes.push(ProposedFix { codes: vec![diagnostic.rule.code], fix: fix.clone() });
                }
            }
        }
        fixes
    }

    /// Every broken rule with how often it is broken, those that are not told one by one counted
    /// too; in the order of the findings.
    pub fn counts(&self) -> &[(&'static Rule, u64)] {
        &self.counts
    }

    /// How many findings have this severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts
            .iter()
            .filter(|(rule, _)| self.severity(rule) == severity)
            .map(|(_, count)| count)
            .sum()
    }

    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// The findings without the places of what was made for the check.
    pub(crate) fn without_offsets(mut self) -> Self {
        for diagnostic in &mut self.diagnostics {
            diagnostic.offset = None;
        }
        self
    }

    /// Whether there is nothing to say.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }
}

/// Where a finding lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) offset: Option<u64>,
    pub(crate) subject: Option<Subject<'a>>,
    /// The place of another shard of the set, where it does not lie in the file that is being
    /// checked.
    pub(crate) shard: Option<usize>,
}

impl<'a> Place<'a> {
    pub(crate) const FILE: Place<'static> = Place { offset: None, subject: None, shard: None };

    pub(crate) fn at(offset: u64) -> Self {
        Self { offset: Some(offset), ..Self::FILE }
    }

    pub(crate) fn key(entry: &Entry<'a>) -> Self {
        Self { offset: Some(entry.offset()), subject: Some(Subject::Key(entry.key())), shard: None }
    }

    pub(crate) fn value(entry: &Entry<'a>) -> Self {
        Self {
            offset: Some(entry.value_offset()),
            subject: Some(Subject::Key(entry.key())),
            shard: None,
        }
    }

    /// A key that does not exist.
    pub(crate) fn missing(key: &'a str) -> Self {
        Self { subject: Some(Subject::Key(RawStr::from(key))), ..Self::FILE }
    }

    /// A tensor that does not exist.
    pub(crate) fn absent(name: &'a str) -> Self {
        Self { subject: Some(Subject::Tensor(RawStr::from(name))), ..Self::FILE }
    }

    /// Where a reader met a fault.
    pub(crate) fn fault(fault: &'a Error) -> Self {
        Self { offset: fault.offset(), subject: fault.subject(), shard: None }
    }

    pub(crate) fn info(tensor: &Tensor<'a>) -> Self {
        Self {
            offset: Some(tensor.info_offset()),
            subject: Some(Subject::Tensor(tensor.name())),
            shard: None,
        }
    }

    /// The same in this shard of the set.
    pub(crate) fn in_shard(self, shard: usize) -> Self {
        Self { shard: Some(shard), ..self }
    }
}

/// Text from the file as a message shows it: escaped, and cut where it is long.
pub(crate) fn shown(text: RawStr<'_>) -> String {
    const MAX_LEN: usize = 120;
    let bytes = text.as_bytes();
    match bytes.get(..MAX_LEN) {
        Some(start) if bytes.len() > MAX_LEN => {
            format!("{:?}… ({} bytes)", RawStr::new(start), bytes.len())
        }
        _ => format!("{text:?}"),
    }
}

/// Gathers findings, most of which a hostile file repeats: what is beyond the cap is counted and
/// not written.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    options: &'a Options,
    /// One for each shard of the set; one for a file by itself.
    reports: Vec<Report>,
    /// The place of the shard that is being checked.
    shard: usize,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(options: &'a Options, shards: usize) -> Self {
        let report = Report { strict: options.profile == Profile::Spec, ..Report::default() };
        Self { options, reports: vec![report; shards], shard: 0 }
    }

    /// From here on this shard is checked.
    pub(crate) fn turn_to(&mut self, shard: usize) {
        self.shard = shard;
    }

    /// Whether the rule is selected: asked before work that only serves it.
    pub(crate) fn wants(&self, rule: &'static Rule) -> bool {
        self.options.applies(rule)
    }

    pub(crate) fn add(
        &mut self,
        rule: &'static Rule,
        place: Place<'_>,
        message: impl FnOnce() -> String,
    ) {
        self.add_fixable(rule, place, || (message(), None));
    }

    /// Adds a finding with the fix.
    pub(crate) fn add_fixable(
        &mut self,
        rule: &'static Rule,
        place: Place<'_>,
        message: impl FnOnce() -> (String, Option<Fix>),
    ) {
        let Some(Report { diagnostics, counts, .. }) =
            self.reports.get_mut(place.shard.unwrap_or(self.shard))
        else {
            return;
        };
        let position = counts.iter().position(|(known, _)| known.code == rule.code);
        let Some(position) = position.or_else(|| {
            self.options.applies(rule).then(|| {
                counts.push((rule, 0));
                counts.len() - 1
            })
        }) else {
            return;
        };
        let Some((_, count)) = counts.get_mut(position) else { return };
        *count += 1;
        if *count > self.options.findings_per_rule as u64 {
            return;
        }
        let subject = match place.subject {
            Some(Subject::Key(key)) => OwnedSubject::Key(shown(key)),
            Some(Subject::Tensor(name)) => OwnedSubject::Tensor(shown(name)),
            _ => OwnedSubject::File,
        };
        let (message, fix) = message();
        let severity = self.options.severity(rule);
        diagnostics.push(Diagnostic {
            rule,
            severity,
            offset: place.offset,
            subject,
            message,
            help: rule.help(fix.is_some()),
            fix,
        });
    }

    /// Whether anything in the shard that is being checked would be fixed by rewriting it.
    pub(crate) fn has_rewrite(&self) -> bool {
        self.reports.get(self.shard).is_some_and(|report| {
            report.diagnostics.iter().any(|diagnostic| diagnostic.fix == Some(Fix::Rewrite))
        })
    }

    /// Takes that back.
    pub(crate) fn drop_rewrites(&mut self) {
        let Some(report) = self.reports.get_mut(self.shard) else { return };
        for diagnostic in
            report.diagnostics.iter_mut().filter(|diagnostic| diagnostic.fix == Some(Fix::Rewrite))
        {
            diagnostic.fix = None;
            diagnostic.help = diagnostic.rule.help(false);
        }
    }

    pub(crate) fn into_reports(mut self) -> Vec<Report> {
        for report in &mut self.reports {
            report
                .diagnostics
                .sort_by_key(|diagnostic| (diagnostic.severity, diagnostic.rule.code));
            let mut counts = std::mem::take(&mut report.counts);
            counts.sort_by_key(|(rule, _)| (report.severity(rule), rule.code));
            report.counts = counts;
        }
        self.reports
    }
}
