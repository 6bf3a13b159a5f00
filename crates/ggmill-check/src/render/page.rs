//! Pages as a terminal shows them.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::wrap::wrap;

/// Writes a page in Markdown for people: headings are emphasised, text fits the width where one is
/// given, drawings and tables stay as they are.
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
    for line in markdown.lines() {
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
