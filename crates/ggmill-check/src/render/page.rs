//! Pages as a terminal shows them.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::wrap::wrap;

/// Writes a page in Markdown for people: headings are emphasised, text fits the width where one is
/// given, examples, drawings and tables stay as they are.
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
            // On a terminal an example is told by its place.
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

#[cfg(test)]
mod tests {
    use super::page;

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
        // Prose is wrapped, at a width that no terminal goes below.
        let text = shown(true);
        assert!(text.starts_with("Some words here,"), "{text}");
        assert!(text.lines().next().is_some_and(|line| line.len() < 42), "{text}");
    }
}
