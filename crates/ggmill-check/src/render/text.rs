//! For people: by file, then by rule, the worst first.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use ggmill_core::RawStr;
use unicode_width::UnicodeWidthStr as _;

use super::wrap::wrap;
use super::{Checked, counted};
use crate::{Report, Rule, Severity};

#[derive(Debug)]
struct Styles {
    title: Style,
    faint: Style,
    key: Style,
    severity: fn(Severity) -> Style,
}

impl Styles {
    fn new(styled: bool) -> Self {
        if !styled {
            return Self {
                title: Style::new(),
                faint: Style::new(),
                key: Style::new(),
                severity: |_| Style::new(),
            };
        }
        let severity = |severity| match severity {
            Severity::Error => AnsiColor::Red.on_default().bold(),
            Severity::Warning => AnsiColor::Yellow.on_default().bold(),
            Severity::Note => AnsiColor::Cyan.on_default().bold(),
        };
        Self {
            title: Style::new().bold(),
            faint: Style::new().dimmed(),
            key: AnsiColor::Blue.on_default(),
            severity,
        }
    }
}

/// Writes reports for people, one file after the other: why a rule matters and what to do is said
/// the first time it is broken.
#[derive(Debug)]
pub struct Text {
    styles: Styles,
    width: Option<usize>,
    explained: Vec<&'static str>,
}

impl Text {
    /// A writer with or without colors, for lines of at most `width` columns where that is given.
    pub fn new(styled: bool, width: Option<usize>) -> Self {
        Self { styles: Styles::new(styled), width, explained: Vec::new() }
    }

    /// Writes what was found in one file: for each rule the places with what was found there, why
    /// it matters, who requires it, and what to do.
    pub fn file(&mut self, out: &mut dyn Write, checked: &Checked<'_>) -> io::Result<()> {
        let Styles { title, faint, .. } = self.styles;
        let report = checked.report;
        writeln!(
            out,
            "{title}{}{title:#} {faint}· {}{faint:#}",
            RawStr::from(checked.path),
            totals(report)
        )?;
        for &(rule, count) in report.counts() {
            writeln!(out)?;
            self.rule(out, report, rule, count)?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        out: &mut dyn Write,
        report: &Report,
        rule: &'static Rule,
        count: u64,
    ) -> io::Result<()> {
        const LEFT: usize = 4;
        let Styles { title, faint, key, severity: style_of } = self.styles;
        let style = style_of(report.severity(rule));
        let severity = report.severity(rule).to_string();
        let summary = wrap(
            rule.summary,
            self.width.map(|width| width.saturating_sub(" · GG0000".len())),
            3 + severity.len(),
            LEFT,
        );
        writeln!(
            out,
            "  {style}{severity}{style:#} {title}{summary}{title:#} {faint}· {}{faint:#}",
            rule.code
        )?;
        let (mut told, mut help) = (0, rule.remedy);
        for diagnostic in
            report.diagnostics().iter().filter(|diagnostic| diagnostic.rule.code == rule.code)
        {
            let subject = diagnostic.subject.to_string();
            let place = diagnostic.offset.map(|offset| format!("{offset:#x} ")).unwrap_or_default();
            let used = LEFT + place.len() + subject.width() + 2;
            let message = wrap(&diagnostic.message, self.width, used, LEFT + 2);
            writeln!(out, "    {faint}{place}{faint:#}{key}{subject}{key:#}: {message}")?;
            told += 1;
            help = &diagnostic.help;
        }
        if count > told {
            writeln!(out, "    {faint}and {} more{faint:#}", count - told)?;
        }
        if self.explained.contains(&rule.code) {
            return Ok(());
        }
        self.explained.push(rule.code);
        let why = format!("{} {}", rule.why, rule.requirement());
        writeln!(out, "    {faint}why:{faint:#} {}", wrap(&why, self.width, LEFT + 5, LEFT + 5))?;
        writeln!(out, "    {faint}do:{faint:#}  {}", wrap(help, self.width, LEFT + 5, LEFT + 5))
    }

    /// Writes what sums several files up: the rules that are broken, in how many files, and how
    /// many files there are, those that could not be read too.
    pub fn summary(
        &self,
        out: &mut dyn Write,
        reports: &[&Report],
        unreadable: usize,
    ) -> io::Result<()> {
        let Styles { title, faint, severity: style_of, .. } = self.styles;
        let mut rules: Vec<(Severity, &'static Rule, u64, usize)> = Vec::new();
        for report in reports {
            for &(rule, count) in report.counts() {
                match rules.iter_mut().find(|(_, known, ..)| known.code == rule.code) {
                    Some((.., all, files)) => (*all, *files) = (*all + count, *files + 1),
                    None => rules.push((report.severity(rule), rule, count, 1)),
                }
            }
        }
        rules.sort_by_key(|(severity, rule, ..)| (*severity, rule.code));
        writeln!(out)?;
        for (severity, rule, count, files) in rules {
            let style = style_of(severity);
            let times =
                if count == files as u64 { String::new() } else { format!(", {count} times") };
            writeln!(
                out,
                "{style}{}{style:#} {:<7} in {}{times} {faint}· {}{faint:#}",
                rule.code,
                severity,
                counted(files as u64, "file"),
                rule.summary
            )?;
        }
        let clean = reports.iter().filter(|report| report.is_clean()).count();
        let bad = reports.iter().filter(|report| report.has_errors()).count();
        let all = counted((reports.len() + unreadable) as u64, "file");
        let unread =
            if unreadable > 0 { format!(", {unreadable} unreadable") } else { String::new() };
        writeln!(
            out,
            "{title}{all}{title:#}: {bad} with errors, {clean} without findings{unread}; `ggmill \
             explain CODE` explains a rule"
        )
    }
}

fn totals(report: &Report) -> String {
    let count = |severity: Severity| {
        Some(report.count(severity))
            .filter(|&count| count > 0)
            .map(|count| counted(count, &severity.to_string()))
    };
    let parts: Vec<String> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .filter_map(count)
        .collect();
    if parts.is_empty() { "nothing found".into() } else { parts.join(", ") }
}
