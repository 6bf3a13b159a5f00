//! The report as text for people: a summary, the metadata, the tensors.

use std::io::{self, Write};

use ggmill_core::Model;

use crate::{Selection, Summary};

pub(crate) mod measure;
mod metadata;
mod sizes;
pub(crate) mod style;
pub(crate) mod summary;
pub(crate) mod table;
mod tensors;
pub(crate) mod value;

pub use measure::lines_of;
pub use sizes::{Candidate, write_comparison, write_size};
use style::Styles;
pub use table::{Column, Table};

/// How the text looks.
///
/// ```
/// use ggmill_inspect::text::Options;
/// let terminal = Options::default().with_width(80).with_styled(true);
/// assert!(!terminal.full);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Options {
    /// Columns of the terminal. Without a terminal there is nothing lines must fit: keys and names
    /// are never cut.
    pub width: Option<usize>,
    /// Whether to send colors, as ANSI escape sequences.
    pub styled: bool,
    /// Whether long strings and arrays are written whole.
    pub full: bool,
    /// The most tensors that are listed, with a line for those left out.
    pub tensor_rows: Option<usize>,
    /// The end of that line, such as the option that lists all of them.
    pub rest_hint: Option<&'static str>,
}

impl Options {
    /// For a terminal of so many columns; `None` without a terminal.
    #[must_use]
    pub fn with_width(mut self, columns: impl Into<Option<usize>>) -> Self {
        self.width = columns.into();
        self
    }

    /// With or without colors.
    #[must_use]
    pub fn with_styled(mut self, styled: bool) -> Self {
        self.styled = styled;
        self
    }

    /// With long strings and arrays in full, or cut.
    #[must_use]
    pub fn with_full(mut self, full: bool) -> Self {
        self.full = full;
        self
    }

    /// With at most this many tensors; `None` for all.
    #[must_use]
    pub fn with_tensor_rows(mut self, rows: impl Into<Option<usize>>) -> Self {
        self.tensor_rows = rows.into();
        self
    }

    /// With this text after the number of omitted tensors.
    #[must_use]
    pub fn with_rest_hint(mut self, hint: &'static str) -> Self {
        self.rest_hint = Some(hint);
        self
    }
}

/// Writes the sections that are selected. Fails when `out` does, and when the bytes of the file
/// changed meanwhile.
pub fn write(
    out: &mut dyn Write,
    model: &Model,
    selection: &Selection,
    options: &Options,
) -> io::Result<()> {
    let page = Page { model, selection, options, styles: Styles::new(options.styled) };
    let titled = [selection.summary, selection.metadata, selection.tensors]
        .into_iter()
        .filter(|&selected| selected)
        .count()
        > 1;
    if selection.summary {
        page.summary(out, &Summary::of(model))?;
    }
    if selection.metadata {
        if selection.summary {
            writeln!(out)?;
        }
        page.metadata(out, titled)?;
    }
    if selection.tensors && !(titled && model.tensors().is_empty()) {
        if titled {
            writeln!(out)?;
        }
        page.tensors(out, titled)?;
    }
    Ok(())
}

/// Writes a paragraph, in lines that fit the terminal where there is one. Of [`Options`] it heeds
/// `width`. Fails when `out` does.
pub fn write_paragraph(out: &mut dyn Write, text: &str, options: &Options) -> io::Result<()> {
    let lines = measure::lines_of(text, options.width.unwrap_or(usize::MAX));
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Common to all sections.
struct Page<'a> {
    model: &'a Model,
    selection: &'a Selection,
    options: &'a Options,
    styles: Styles,
}

impl Page<'_> {
    /// The heading of a section: its name, and how much is in it.
    fn title(&self, out: &mut dyn Write, name: &str, note: &str) -> io::Result<()> {
        let Styles { title, faint, .. } = self.styles;
        writeln!(out, "{title}{name}{title:#} {faint}· {note}{faint:#}")
    }
}
