//! Findings, fixes and reports.

use std::borrow::Cow;
use std::fmt;

use ggmill_core::{Entry, Error, RawStr, Subject, Tensor, ValueType, printable};

use crate::subject::{Names, OwnedSubject};
use crate::{Authority, Options, Profile, Rule, Severity};

/// A finding.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The violated rule.
    pub rule: &'static Rule,
    /// The severity.
    pub severity: Severity,
    /// The position in the file, in bytes from its start.
    pub offset: Option<u64>,
    /// The subject.
    pub subject: OwnedSubject,
    /// The message, in one line without control characters.
    pub message: String,
    /// How to fix it.
    pub help: Cow<'static, str>,
    /// The automatic fix, if there is one.
    pub fix: Option<Fix>,
}

/// The findings in a file: for each rule those up to the limit, and the count of all.
#[derive(Clone, Debug, Default)]
pub struct Report {
    diagnostics: Vec<Diagnostic>,
    counts: Vec<(&'static Rule, u64)>,
    /// `true` if violations of [`Authority::Must`] are errors.
    strict: bool,
}

impl Report {
    /// Returns the severity of a rule in the profile of the report.
    pub fn severity(&self, rule: &Rule) -> Severity {
        if self.strict && rule.authority == Authority::Must {
            Severity::Error
        } else {
            rule.severity
        }
    }

    /// Returns the findings, ordered by severity and then by code.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the distinct fixes of the findings. One rewrite covers all findings that a rewrite fixes;
    /// of two values for a key, the later one is used.
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

    /// Returns each violated rule with the number of its findings, including those beyond the limit, in
    /// the order of the findings.
    pub fn counts(&self) -> &[(&'static Rule, u64)] {
        &self.counts
    }

    /// Returns the number of findings of this severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts
            .iter()
            .filter(|(rule, _)| self.severity(rule) == severity)
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns `true` if any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Removes the offsets, which are meaningless for a header that exists only in memory.
    pub(crate) fn without_offsets(mut self) -> Self {
        for diagnostic in &mut self.diagnostics {
            diagnostic.offset = None;
        }
        self
    }

    /// Returns `true` if there are no findings.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }
}

/// The location of a finding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) offset: Option<u64>,
    pub(crate) subject: Option<Subject<'a>>,
    /// The index of the shard, if it is not the one that is being checked.
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

    /// Returns the location of a missing key.
    pub(crate) fn missing(key: &'a str) -> Self {
        Self { subject: Some(Subject::Key(RawStr::from(key))), ..Self::FILE }
    }

    /// Returns the location of a missing tensor.
    pub(crate) fn absent(name: &'a str) -> Self {
        Self { subject: Some(Subject::Tensor(RawStr::from(name))), ..Self::FILE }
    }

    /// Returns the location of a reader's fault.
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

    /// Moves the location to another shard of the set.
    pub(crate) fn in_shard(self, shard: usize) -> Self {
        Self { shard: Some(shard), ..self }
    }
}

/// Quotes text from a file for a message: escaped, and cut if it is long.
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

/// Collects findings. Those beyond the limit of a rule are counted but not formatted, as a hostile file
/// can repeat one without end.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    options: &'a Options,
    /// One report for each shard, or one for a single file.
    reports: Vec<Report>,
    names: Names,
    /// The index of the shard that is being checked.
    shard: usize,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(options: &'a Options, shards: usize) -> Self {
        let report = Report { strict: options.profile == Profile::Spec, ..Report::default() };
        Self { options, reports: vec![report; shards], names: Names::default(), shard: 0 }
    }

    /// Sets the shard that is checked next.
    pub(crate) fn set_shard(&mut self, shard: usize) {
        self.shard = shard;
    }

    /// Returns `true` if the rule is checked, to skip work that only it needs.
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

    /// Adds a finding that can have a fix.
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
        let subject = self.names.owned(place.subject);
        let (message, fix) = message();
        let severity = self.options.severity(rule);
        diagnostics.push(Diagnostic {
            rule,
            severity,
            offset: place.offset,
            subject,
            // Rules quote text of the file; nothing else reaches a message even if one does not.
            message: printable(&message).into_owned(),
            help: rule.help(fix.is_some()),
            fix,
        });
    }

    /// Sets how to fix the findings of a rule in all shards: a command for this file.
    pub(crate) fn advise(&mut self, rule: &'static Rule, help: &str) {
        let diagnostics = self.reports.iter_mut().flat_map(|report| &mut report.diagnostics);
        for diagnostic in diagnostics.filter(|diagnostic| diagnostic.rule.code == rule.code) {
            diagnostic.help = Cow::Owned(help.to_owned());
        }
    }

    /// Returns `true` if a finding in the current shard has the fix of rewriting the file.
    pub(crate) fn has_rewrite(&self) -> bool {
        self.reports.get(self.shard).is_some_and(|report| {
            report.diagnostics.iter().any(|diagnostic| diagnostic.fix == Some(Fix::Rewrite))
        })
    }

    /// Removes the fix of rewriting from all findings in the current shard.
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

/// A change to a file that fixes a finding without changing tensor data or removing anything that a
/// reader uses.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fix {
    /// Sets the value of a key, at its position or at the end. Duplicate entries are merged into one.
    Set {
        /// The key.
        key: String,
        /// The type of the value.
        value_type: ValueType,
        /// The value.
        value: FixValue,
    },
    /// Renames a key, at its position.
    Rename {
        /// The current key.
        from: String,
        /// The new key.
        to: String,
    },
    /// Removes a key.
    Unset {
        /// The key.
        key: String,
    },
    /// Writes the file again as version 3, with tensors in order, aligned, and padded with zeros.
    Rewrite,
}

impl Fix {
    pub(crate) fn set(
        key: impl Into<String>,
        value_type: ValueType,
        value: impl Into<FixValue>,
    ) -> Self {
        Self::Set { key: key.into(), value_type, value: value.into() }
    }
}

/// The value that a fix sets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FixValue {
    /// A bool.
    Bool(bool),
    /// An integer within the range of the type.
    Integer(i128),
    /// A string.
    String(String),
}

impl From<bool> for FixValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i128> for FixValue {
    fn from(value: i128) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for FixValue {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u64> for FixValue {
    fn from(value: u64) -> Self {
        Self::Integer(value.into())
    }
}

impl From<&str> for FixValue {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl fmt::Display for FixValue {
    /// Formats the value as JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::String(text) => serde_json::Value::from(text.as_str()).fmt(f),
        }
    }
}

/// A fix and the findings that it fixes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProposedFix {
    /// The code of the rule of each finding that is fixed, with repetitions.
    pub codes: Vec<&'static str>,
    /// The change that fixes them.
    pub fix: Fix,
}

impl fmt::Display for Fix {
    /// Formats the fix in one line, without control characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |key: &str| RawStr::from(key).to_string();
        match self {
            Self::Set { key, value_type, value } => write!(
                f,
                "set {} = {} ({value_type})",
                shown(key),
                RawStr::from(value.to_string().as_str())
            ),
            Self::Rename { from, to } => write!(f, "rename {} to {}", shown(from), shown(to)),
            Self::Unset { key } => write!(f, "remove {}", shown(key)),
            Self::Rewrite => f.write_str("rewrite the file"),
        }
    }
}
