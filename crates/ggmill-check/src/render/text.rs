//! Reports and pages as text for a terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use ggmill_core::RawStr;
use unicode_width::UnicodeWidthStr as _;

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

/// Writes reports as text, one file after the other. The reason and the remedy of a rule are written at
/// its first finding.
#[derive(Debug)]
pub struct Text {
    styles: Styles,
    width: Option<usize>,
    explained: Vec<&'static str>,
}

impl Text {
    /// Creates a writer with or without colors, for lines of at most `width` columns.
    pub fn new(styled: bool, width: Option<usize>) -> Self {
        Self { styles: Styles::new(styled), width, explained: Vec::new() }
    }

    /// Writes the findings in a file: for each rule the locations and messages, why it matters, who
    /// requires it, and how to fix it.
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
        const INDENT: usize = 4;
        let Styles { title, faint, key, severity: style_of } = self.styles;
        let style = style_of(report.severity(rule));
        let severity = report.severity(rule).to_string();
        let summary = wrap(
            rule.summary,
            self.width.map(|width| width.saturating_sub(" · GG0000".len())),
            3 + severity.len(),
            INDENT,
        );
        writeln!(
            out,
            "  {style}{severity}{style:#} {title}{summary}{title:#} {faint}· {}{faint:#}",
            rule.code
        )?;
        let (mut listed, mut help) = (0, rule.remedy);
        for diagnostic in
            report.diagnostics().iter().filter(|diagnostic| diagnostic.rule.code == rule.code)
        {
            let subject = diagnostic.subject.to_string();
            let place = diagnostic.offset.map(|offset| format!("{offset:#x} ")).unwrap_or_default();
            let used = INDENT + place.len() + subject.width() + 2;
            let message = wrap(&diagnostic.message, self.width, used, INDENT + 2);
            writeln!(out, "    {faint}{place}{faint:#}{key}{subject}{key:#}: {message}")?;
            listed += 1;
            help = &diagnostic.help;
        }
        if count > listed {
            writeln!(out, "    {faint}and {} more{faint:#}", count - listed)?;
        }
        if self.explained.contains(&rule.code) {
            return Ok(());
        }
        self.explained.push(rule.code);
        let why = format!("{} {}", rule.why, rule.requirement());
        writeln!(
            out,
            "    {faint}why:{faint:#} {}",
            wrap(&why, self.width, INDENT + 5, INDENT + 5)
        )?;
        writeln!(out, "    {faint}do:{faint:#}  {}", wrap(help, self.width, INDENT + 5, INDENT + 5))
    }

    /// Writes the summary of several files: the violated rules with their numbers of files, and the number
    /// of files, including `unreadable` ones.
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

/// Writes a Markdown page for a terminal: headings are styled, text is wrapped to `width`, and examples,
/// drawings and tables are unchanged.
pub fn page(
    out: &mut dyn Write,
    markdown: &str,
    styled: bool,
    width: Option<usize>,
) -> io::Result<()> {
    let (title, heading) = if styled {
        (Style::new().bold(), AnsiColor::Blue.on_default().bold())
    } else {
        (Style::new(), Style::new())
    };
    let mut is_code = false;
    for line in markdown.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_fence || is_code {
            // With styles, the fences of examples are left out.
            if !(is_fence && styled) {
                writeln!(out, "{line}")?;
            }
            continue;
        }
        let style = match line {
            _ if line.starts_with("# ") => title,
            _ if line.starts_with("## ") => heading,
            _ if line.starts_with("    ") || line.starts_with('|') => {
                writeln!(out, "{line}")?;
                continue;
            }
            _ => Style::new(),
        };
        let text = if styled { line.trim_start_matches(['#', ' ']) } else { line };
        writeln!(
            out,
            "{style}{}{style:#}",
            wrap(text, width, 0, if line.starts_with("- ") { 2 } else { 0 })
        )?;
    }
    Ok(())
}

/// The minimum width; narrower terminals are treated like this.
const MIN_WIDTH: usize = 24;

/// Wraps `text` at spaces into lines of at most `width` columns, with `used` columns before the first
/// line and `indent` spaces before the others. A longer word gets a separate line.
fn wrap(text: &str, width: Option<usize>, used: usize, indent: usize) -> Cow<'_, str> {
    let Some(width) =
        width.map(|width| width.max(MIN_WIDTH)).filter(|&width| used + text.width() > width)
    else {
        return Cow::Borrowed(text);
    };
    // A large indent would leave no columns on a narrow terminal.
    let indent = indent.min(width / 4);
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut column = used;
    // There is no space to break at before the first word.
    let mut words = text.split(' ');
    if let Some(word) = words.next() {
        column += word.width();
        out.push_str(word);
    }
    for word in words {
        if column + 1 + word.width() > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            out.push(' ');
            column += 1;
        }
        column += word.width();
        out.push_str(word);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stay_as_they_are() {
        let markdown = "Some words here, more than fit on one line.\n\n```text\nerror of a rule\n  0x715 tensor and more\n```\n";
        let shown = |styled| {
            let mut out = Vec::new();
            page(&mut out, markdown, styled, Some(10)).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(shown(false).ends_with("```text\nerror of a rule\n  0x715 tensor and more\n```\n"));
        assert!(
            shown(true).ends_with("\n\nerror of a rule\n  0x715 tensor and more\n"),
            "{}",
            shown(true)
        );
        // Prose is wrapped at the minimum width.
        let text = shown(true);
        assert!(text.starts_with("Some words here,"), "{text}");
        assert!(text.lines().next().is_some_and(|line| line.len() < 42), "{text}");
    }

    #[test]
    fn lines_fit_and_words_stay_whole() {
        assert_eq!(wrap("one two", None, 0, 2), "one two");
        assert_eq!(
            wrap("alpha beta gamma delta epsilon zeta", Some(24), 4, 2),
            "alpha beta gamma\n  delta epsilon zeta"
        );
        let long = "x".repeat(40);
        assert_eq!(wrap(&format!("a {long} b"), Some(24), 0, 2), format!("a\n  {long}\n  b"));
        // Characters of two columns.
        assert_eq!(wrap("你好你好你好 你好你好你好", Some(24), 0, 0), "你好你好你好\n你好你好你好");
    }
}
