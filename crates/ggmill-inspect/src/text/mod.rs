//! The report as text for people: a summary, the metadata, the tensors.

use std::io::{self, Write};

use ggmill_core::Model;

use crate::{Selection, Summary};

pub(crate) mod layout;
mod metadata;
pub(crate) mod summary;
pub(crate) mod table;
mod tensors;
pub(crate) mod value;

use layout::Styles;
pub use layout::lines_of;
pub use summary::{Candidate, write_comparison, write_size};
pub use table::{Column, Table};

/// Options of text output.
///
/// ```
/// use ggmill_inspect::text::Options;
/// let terminal = Options::default().with_width(80).with_styled(true);
/// assert!(!terminal.full);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Options {
    /// The columns of the terminal. Without a terminal, keys and names are not cut.
    pub width: Option<usize>,
    /// If true, uses colors, as ANSI escape sequences.
    pub styled: bool,
    /// `true` if long strings and arrays are written in full.
    pub full: bool,
    /// The maximum number of listed tensors; a line counts the others.
    pub tensor_rows: Option<usize>,
    /// The end of that line, such as the option that lists all of them.
    pub rest_hint: Option<&'static str>,
}

impl Options {
    /// Sets the columns of the terminal; `None` without a terminal.
    #[must_use]
    pub fn with_width(mut self, columns: impl Into<Option<usize>>) -> Self {
        self.width = columns.into();
        self
    }

    /// Enables or disables colors.
    #[must_use]
    pub fn with_styled(mut self, styled: bool) -> Self {
        self.styled = styled;
        self
    }

    /// Writes long strings and arrays in full, or cut.
    #[must_use]
    pub fn with_full(mut self, full: bool) -> Self {
        self.full = full;
        self
    }

    /// Limits the number of listed tensors; `None` for all.
    #[must_use]
    pub fn with_tensor_rows(mut self, rows: impl Into<Option<usize>>) -> Self {
        self.tensor_rows = rows.into();
        self
    }

    /// Sets the text after the number of omitted tensors.
    #[must_use]
    pub fn with_rest_hint(mut self, hint: &'static str) -> Self {
        self.rest_hint = Some(hint);
        self
    }
}

/// Writes the selected sections. Fails if `out` fails or the file changed since it was opened.
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

/// Writes a paragraph wrapped to `width`, the only option that it uses. Fails if `out` fails.
pub fn write_paragraph(out: &mut dyn Write, text: &str, options: &Options) -> io::Result<()> {
    let lines = lines_of(text, options.width.unwrap_or(usize::MAX));
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The context of all sections.
struct Page<'a> {
    model: &'a Model,
    selection: &'a Selection,
    options: &'a Options,
    styles: Styles,
}

impl Page<'_> {
    /// Writes the heading of a section: its name and a note, such as a count.
    fn title(&self, out: &mut dyn Write, name: &str, note: &str) -> io::Result<()> {
        let Styles { title, faint, .. } = self.styles;
        writeln!(out, "{title}{name}{title:#} {faint}· {note}{faint:#}")
    }
}
